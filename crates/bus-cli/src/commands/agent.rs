//! `vakbus agent`: make and list agents.

use bus_core::Certificate;
use serde_json::json;

use crate::{
    args::{AgentCommand, Global},
    error::{CliError, Exit},
    home::Home,
    print,
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
        AgentCommand::Ls => {
            for certificate in Workspace::open(&home, &global.workspace)?.agents()? {
                show(&certificate, global)?;
            }
        }
    }
    Ok(Exit::Done)
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
        }));
    }
    let until = expires.map_or_else(String::new, |time| format!("  until {time}"));
    print::line(&format!("{agent}  {}  {nkey}{until}", roles.join(",")))
}
