//! `vakbus agent`: make, list and revoke agents.

use bus_core::{Certificate, Revocation};
use serde_json::json;

use super::confirm::confirm;
use crate::{
    args::{AgentCommand, Global},
    engine::{self, NatsPlace},
    error::{CliError, Exit},
    home::Home,
    print,
    secrets::Secrets,
    workspace::Workspace,
};

/// Runs the command.
pub(crate) fn run(command: AgentCommand, global: &Global) -> Result<Exit, CliError> {
    let home = Home::locate(global.data_dir.as_deref())?;
    match command {
        AgentCommand::Add { name, roles, valid_for } => {
            let workspace = Workspace::open_or_new(&home, &global.workspace)?;
            show(&workspace.add_agent(name, roles, valid_for)?, global)?;
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
            tell_bus(&home, &workspace, global)?;
        }
    }
    Ok(Exit::Done)
}

/// Tells the bus of a revocation where other machines hear of it only there.
fn tell_bus(home: &Home, workspace: &Workspace, global: &Global) -> Result<(), CliError> {
    let told =
        NatsPlace::find(global, home, &Secrets::new(&global.config, home)).and_then(|place| {
            let Some(place) = place else { return Ok(()) };
            engine::block_on(async { place.tell(workspace).await })
        });
    told.map_err(|error| {
        let what = "the key is revoked on this machine, and others are not told yet";
        CliError::new(error.code(), format!("{what}: {}", error.what()))
            .next("any command that reaches the bus tells them, such as: vakbus status")
    })
}

fn show(certificate: &Certificate, global: &Global) -> Result<(), CliError> {
    let roles: Vec<&str> = certificate.roles.iter().map(|role| role.as_str()).collect();
    let (agent, nkey) = (certificate.agent.as_str(), certificate.nkey.text());
    let expires = certificate.expires.map(|time| time.to_string());
    if global.json {
        return print::json(&json!({
            "agent": agent,
            "nkey": nkey,
            "roles": roles,
            "issued": certificate.issued.to_string(),
            "expires": expires,
            "revoked": null,
        }));
    }
    let until = expires.map_or_else(String::new, |time| format!("  until {time}"));
    print::line(&format!("{agent}  {}  {nkey}{until}", roles.join(",")))
}

fn show_revoked(revocation: &Revocation, global: &Global) -> Result<(), CliError> {
    let (agent, nkey) = (revocation.agent.as_str(), revocation.nkey.text());
    let at = revocation.at.to_string();
    if global.json {
        // The members of every agent, so that a script finds them in each line.
        return print::json(&json!({
            "agent": agent,
            "nkey": nkey,
            "roles": [],
            "issued": null,
            "expires": null,
            "revoked": at,
        }));
    }
    print::line(&format!("{agent}  revoked  {nkey}  since {at}"))
}
