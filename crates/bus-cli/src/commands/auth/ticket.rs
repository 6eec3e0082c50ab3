//! `vakbus auth ticket`: what lets its bearer in once.

use bus_core::{Clock, Issue, SystemClock};
use serde_json::json;

use crate::{
    args::{Global, TicketArgs},
    error::{CliError, Exit},
    home::Home,
    print,
    workspace::Workspace,
};

/// Makes one and prints it: it is kept nowhere.
pub(super) fn make(args: TicketArgs, home: &Home, global: &Global) -> Result<Exit, CliError> {
    let workspace = Workspace::open(home, &global.workspace)?;
    let TicketArgs { agent, roles, session, queue, valid_for } = args;
    let now = SystemClock::new().now();
    let issue = Issue {
        session,
        role_name: queue,
        valid_for: Some(valid_for),
        ..Issue::new(workspace.name().clone(), agent, roles, now)
    };
    let (ticket, text) = workspace.ticket(&issue)?;
    if global.json {
        let roles: Vec<&str> = ticket.roles.iter().map(|role| role.as_str()).collect();
        print::json(&json!({
            "ticket": text.as_str(),
            "workspace": ticket.workspace.as_str(),
            "agent": ticket.agent.as_str(),
            "roles": roles,
            "ends": ticket.end.to_string(),
        }))?;
    } else {
        print::line(&text)?;
    }
    print::remark(&format!("good once, until {}", ticket.end));
    Ok(Exit::Done)
}
