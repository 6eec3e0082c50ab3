//! `vakbus acl`: what an agent in a role may do, and which rule says so.

use bus_subjects::{AclPolicy, AclScope, Filter};
use serde_json::json;

use crate::{
    args::{AclAction, AclCommand, Global},
    error::{CliError, Exit},
    print,
};

/// Explains; the exit code is that of a refusal when the answer is no.
pub(crate) fn run(command: &AclCommand, global: &Global) -> Result<Exit, CliError> {
    let AclCommand::Explain { roles, agent, session, queue, action, subject } = command;
    let scope = AclScope {
        workspace: global.workspace.clone(),
        agent: agent.clone(),
        session: session.clone(),
        role_name: queue.clone(),
    };
    let policy = AclPolicy::union(roles.iter().map(|role| AclPolicy::for_role(*role, &scope)));
    match (action, subject) {
        (Some(action), Some(subject)) => explain(&policy, *action, subject, global),
        _ => {
            list(&policy, global)?;
            Ok(Exit::Done)
        }
    }
}

fn explain(
    policy: &AclPolicy,
    action: AclAction,
    subject: &str,
    global: &Global,
) -> Result<Exit, CliError> {
    let filter = Filter::parse(subject)?;
    let decision = match action {
        AclAction::Publish => policy.explain_publish(&filter),
        AclAction::Subscribe => policy.explain_subscribe(&filter),
    };
    if global.json {
        print::json(&json!({
            "allowed": decision.allowed,
            "rule": decision.rule.as_ref().map(ToString::to_string),
            "reason": decision.reason,
        }))?;
    } else {
        print::line(&decision.to_string())?;
    }
    Ok(if decision.allowed { Exit::Done } else { Exit::Refused })
}

fn list(policy: &AclPolicy, global: &Global) -> Result<(), CliError> {
    for rule in policy.rules() {
        if global.json {
            print::json(&json!({
                "effect": rule.effect.to_string(),
                "action": rule.action.to_string(),
                "filter": rule.filter.as_str(),
            }))?;
        } else {
            print::line(&rule.to_string())?;
        }
    }
    Ok(())
}
