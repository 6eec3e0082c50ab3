//! `vakbus auth server-config`: the whole configuration of a server that somebody else starts.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use bus_nats::server::{
    Authorization, Resolver, ServerConfig, ServerError, ServerTls, WebSocketDoor,
};
use serde_json::json;

use crate::{
    args::{Global, ServerConfigArgs},
    error::{CliError, Exit},
    home::Home,
    operator::{Operator, all_workspaces},
    print,
    workspace::Workspace,
};

/// Writes it.
pub(super) fn write(
    args: &ServerConfigArgs,
    home: &Home,
    global: &Global,
) -> Result<Exit, CliError> {
    drop(Workspace::open_or_new(home, &global.workspace)?);
    let operator = Operator::open_or_new(home)?;
    let out = absolute(&args.out)?;
    let dir = Home::locate(Some(&out))?;
    let config = config(args, &operator, home)?;
    let text = config.render(&out).map_err(|error| wrong(&error))?;
    dir.create()?;
    put(&dir, &text, args.force)?;
    let (file, accounts) = (out.join(FILE), accounts(&config));
    if global.json {
        let file = file.display().to_string();
        print::json(
            &json!({ "file": file, "operator": operator.claims().subject.text(), "accounts": accounts }),
        )?;
        return Ok(Exit::Done);
    }
    print::line(&format!("{}  ({accounts} accounts)", file.display()))?;
    print::remark(&format!("start it: nats-server -c {}", file.display()));
    Ok(Exit::Done)
}

fn config(
    args: &ServerConfigArgs,
    operator: &Operator,
    home: &Home,
) -> Result<ServerConfig, CliError> {
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(cert), Some(key)) => {
            let (cert, key) = (absolute(cert)?, absolute(key)?);
            Some(ServerTls { cert, key, ca: None, verify: false })
        }
        _ => None,
    };
    check_encrypted(args.listen, tls.is_some())?;
    let websocket = args.websocket.map(|listen| WebSocketDoor {
        listen,
        tls: tls.clone(),
        origins: args.origin.clone(),
    });
    let sentinel = args.callout.then(|| operator.sentinel()).transpose()?;
    let workspaces = all_workspaces(home)?;
    Ok(ServerConfig {
        name: args.name.clone(),
        listen: args.listen,
        domain: args.domain.clone(),
        tls,
        websocket,
        sentinel,
        ..operated(operator, &workspaces)?
    })
}

/// A server of `operator` that knows these workspaces from its start.
pub(in crate::commands) fn operated(
    operator: &Operator,
    workspaces: &[Workspace],
) -> Result<ServerConfig, CliError> {
    let accounts = operator.accounts(workspaces)?;
    let authorization = Authorization::Jwt {
        operator: operator.token().to_owned(),
        system_account: *operator.system(),
        accounts: accounts.into_iter().map(|one| (one.account, one.token)).collect(),
    };
    Ok(ServerConfig { authorization, resolver: Resolver::FULL, ..ServerConfig::default() })
}

/// Refuses to let what other machines say be read on the way.
pub(in crate::commands) fn check_encrypted(
    listen: SocketAddr,
    has_certificate: bool,
) -> Result<(), CliError> {
    if has_certificate || listen.ip().is_loopback() {
        return Ok(());
    }
    let what = format!("{} is reached by others, and nothing is encrypted", listen.ip());
    Err(CliError::usage(what).next("give --tls-cert FILE --tls-key FILE"))
}

fn accounts(config: &ServerConfig) -> usize {
    match &config.authorization {
        Authorization::Jwt { accounts, .. } => accounts.len(),
        Authorization::Open | Authorization::Nkeys(_) => 0,
    }
}

/// Writes the file; another one that is there goes only when that was asked for.
fn put(dir: &Home, text: &str, force: bool) -> Result<(), CliError> {
    if !dir.below(FILE).exists() {
        return dir.write_new(FILE, text);
    }
    if !force && dir.read_long(FILE)?.as_str() != text {
        let what = format!("{} says something else", dir.path().join(FILE).display());
        return Err(CliError::usage(what).next(
            "a running server is told of changes by vakbus auth push; --force puts this one in \
             its place",
        ));
    }
    dir.replace(FILE, text)
}

fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    std::path::absolute(path)
        .map_err(|error| CliError::usage(format!("cannot find {}: {error}", path.display())))
}

fn wrong(error: &ServerError) -> CliError {
    CliError::new(Exit::of(error.kind()), error.to_string())
        .next("vakbus auth server-config --help")
}

const FILE: &str = "server.conf";
