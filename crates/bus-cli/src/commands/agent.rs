//! `vakbus agent`: make, list and revoke agents.

use bus_core::{Certificate, Revocation};
use bus_subjects::{RoleName, SessionId};
use serde_json::json;

use super::{auth, confirm::confirm};
use crate::{
    args::{AgentCommand, Global},
    engine::{self, NatsPlace, Scope},
    error::{CliError, Exit},
    home::Home,
    operator::Operator,
    print,
    secrets::Secrets,
    workspace::{LoginFile, Workspace},
};

/// Runs the command.
pub(crate) fn run(command: AgentCommand, global: &Global) -> Result<Exit, CliError> {
    let home = Home::locate(global.data_dir.as_deref())?;
    match command {
        AgentCommand::Add { name, roles, valid_for, queue, session, out } => {
            let workspace = Workspace::open_or_new(&home, &global.workspace)?;
            let scope = Scope { session, queue };
            // An agent whose login cannot be written is not made.
            let out = out.as_deref().map(LoginFile::new).transpose()?;
            let certificate = workspace.add_agent(name, roles, valid_for, scope.clone())?;
            if let Some(file) = out {
                workspace.write_login(&certificate.agent, &scope, file)?;
            }
            show(&certificate, global)?;
        }
        AgentCommand::Ls { revocations: true } => {
            let workspace = Workspace::open(&home, &global.workspace)?;
            workspace.revocation_lines()?.iter().try_for_each(|line| print::line(line))?;
        }
        AgentCommand::Ls { revocations: false } => {
            let workspace = Workspace::open(&home, &global.workspace)?;
            workspace.agents()?.iter().try_for_each(|certificate| show(certificate, global))?;
            let revoked = workspace.revoked()?;
            revoked.iter().try_for_each(|revocation| show_revoked(revocation, global))?;
        }
        AgentCommand::Revoke { name, yes } => {
            let workspace = Workspace::open(&home, &global.workspace)?;
            confirm(yes, &format!("Revoke the key of agent {name} for ever?"))?;
            show_revoked(&workspace.revoke(&name)?, global)?;
            return tell_bus(&home, &workspace, global);
        }
    }
    Ok(Exit::Done)
}

/// Tells the servers of a revocation, and the bus where other machines hear of it only there.
fn tell_bus(home: &Home, workspace: &Workspace, global: &Global) -> Result<Exit, CliError> {
    let secrets = Secrets::new(&global.config, home);
    let place = NatsPlace::find(global, home, &secrets).map_err(|error| not_told(&error))?;
    let Some(place) = place else { return untold(home, workspace) };
    // Whoever logs in: what servers are told is the word of this data home's operator.
    let operator = Operator::open(home)?;
    let (pushed, told) = engine::block_on(async {
        let pushed = match &operator {
            Some(operator) => place.revoke(operator, workspace).await.map(Some),
            None => Ok(None),
        };
        Ok((pushed, place.tell(workspace).await))
    })?;
    // The one is told although the other went wrong.
    let pushed = pushed.map_err(|error| not_told(&error))?;
    pushed.iter().flatten().try_for_each(|pushed| auth::tell(pushed, global))?;
    told.map_err(|error| not_told(&error))?;
    match pushed {
        Some(pushed) => Ok(auth::exit_of(&pushed)),
        None => untold(home, workspace),
    }
}

/// The failure to tell servers of a revocation that is written down here.
pub(super) fn not_told(error: &CliError) -> CliError {
    let what = "the key is revoked on this machine, and others are not told yet";
    CliError::new(error.code(), format!("{what}: {}", error.what())).next(
        "vakbus auth push tells servers of this data directory's operator; any command that \
         reaches the bus tells the others, such as: vakbus status",
    )
}

/// No server was told: that is all where none knows the workspace, and else they let the key in.
fn untold(home: &Home, workspace: &Workspace) -> Result<Exit, CliError> {
    if Operator::open(home)?.is_none() && !Workspace::has_store(home, workspace.name()) {
        return Ok(Exit::Done);
    }
    let what = "the key is revoked on this machine, and servers that know the workspace are not \
                told: they let it in";
    Err(CliError::new(Exit::Unreachable, what).next(
        "vakbus auth push --nats-url URL, where their operator is; a keeper there that finds the \
         revocation on the bus pushes it by itself",
    ))
}

fn show(certificate: &Certificate, global: &Global) -> Result<(), CliError> {
    let roles: Vec<&str> = certificate.roles.iter().map(|role| role.as_str()).collect();
    let (agent, nkey) = (certificate.agent.as_str(), certificate.nkey.text());
    let expires = certificate.expires.map(|time| time.to_string());
    let session = certificate.session.as_ref().map(SessionId::as_str);
    let queue = certificate.queue.as_ref().map(RoleName::as_str);
    if global.json {
        return print::json(&json!({
            "agent": agent,
            "nkey": nkey,
            "roles": roles,
            "session": session,
            "queue": queue,
            "issued": certificate.issued.to_string(),
            "expires": expires,
            "revoked": null,
        }));
    }
    let bound = [("session", session), ("queue", queue)]
        .map(|(what, name)| name.map_or_else(String::new, |name| format!("  {what} {name}")));
    let until = expires.map_or_else(String::new, |time| format!("  until {time}"));
    print::line(&format!("{agent}  {}  {nkey}{}{until}", roles.join(","), bound.concat()))
}

/// Tells of an agent whose key was taken back.
pub(super) fn show_revoked(revocation: &Revocation, global: &Global) -> Result<(), CliError> {
    let (agent, nkey) = (revocation.agent.as_str(), revocation.nkey.text());
    let at = revocation.at.to_string();
    if global.json {
        // The members of every agent, so that a script finds them in each line.
        return print::json(&json!({
            "agent": agent,
            "nkey": nkey,
            "roles": [],
            "session": null,
            "queue": null,
            "issued": null,
            "expires": null,
            "revoked": at,
        }));
    }
    print::line(&format!("{agent}  revoked  {nkey}  since {at}"))
}
