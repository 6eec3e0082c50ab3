//! `vakbus auth`: the operator of this data home, and what its servers know of its accounts.

mod config;
mod serve;
mod status;
mod ticket;

use serde_json::json;

pub(super) use self::config::{check_encrypted, operated};
use crate::{
    args::{AuthCommand, Global},
    engine::{self, NatsPlace},
    error::{CliError, Exit},
    home::Home,
    operator::{Operator, PushedAccount, all_workspaces},
    print,
    secrets::Secrets,
};

/// Runs the command.
pub(crate) fn run(command: AuthCommand, global: &Global) -> Result<Exit, CliError> {
    let home = Home::locate(global.data_dir.as_deref())?;
    match command {
        AuthCommand::ServerConfig(args) => config::write(&args, &home, global),
        AuthCommand::Push => push(&home, global),
        AuthCommand::Serve => serve::run(&home, global),
        AuthCommand::Ticket(args) => ticket::make(args, &home, global),
        AuthCommand::Status => status::show(&home, global),
    }
}

fn push(home: &Home, global: &Global) -> Result<Exit, CliError> {
    let operator = Operator::needed(home)?;
    let workspaces = all_workspaces(home)?;
    let place = place(home, global)?;
    let all = engine::block_on(async {
        let servers = place.claims(&operator).await?;
        let pushed = operator.push_all(&servers, &workspaces).await;
        let closed = servers.close().await;
        let pushed = pushed?;
        closed?;
        Ok(pushed)
    })?;
    all.iter().try_for_each(|one| tell(one, global))?;
    Ok(exit_of(&all))
}

/// The servers that the commands speak to.
fn place(home: &Home, global: &Global) -> Result<NatsPlace, CliError> {
    let secrets = Secrets::new(&global.config, home);
    NatsPlace::find(global, home, &secrets)?.ok_or_else(|| {
        CliError::usage("no NATS server is named, and none of this data directory runs")
            .next("name it with --nats-url, or start one: vakbus up --nats")
    })
}

/// Tells what became of the token of one account.
pub(super) fn tell(
    PushedAccount { name, pushed }: &PushedAccount,
    global: &Global,
) -> Result<(), CliError> {
    if global.json {
        let refused =
            pushed.refused.iter().map(|(server, why)| json!({ "server": server, "why": why }));
        return print::json(&json!({
            "account": name,
            "taken": pushed.taken,
            "silent": pushed.silent,
            "refused": refused.collect::<Vec<_>>(),
        }));
    }
    let taken = match pushed.taken.is_empty() {
        true => "taken by no server".to_owned(),
        false => format!("taken by {}", pushed.taken.join(", ")),
    };
    print::line(&print::harmless(&format!("{name}  {taken}")))?;
    for server in &pushed.silent {
        print::remark(&format!(
            "{name}: {server} has not heard of it; it will within 10 s of its return"
        ));
    }
    for (server, why) in &pushed.refused {
        print::remark(&format!("{name}: {server} refused it: {why}"));
    }
    Ok(())
}

/// Unreachable when one server has not taken one token.
pub(in crate::commands) fn exit_of(all: &[PushedAccount]) -> Exit {
    match all.iter().all(|one| one.pushed.is_everywhere()) {
        true => Exit::Done,
        false => Exit::Unreachable,
    }
}
