//! `vakbus approvals resolve`: answers, after showing what the answer is for.

use bus_authority::{Approval, ApprovalName, Command, Refusal};
use bus_core::{Endpoint, ErrorKind};
use serde_json::json;

use super::{book, found, print, reader};
use crate::{
    args::{ApprovalsResolveArgs, Global},
    commands::confirm::confirm,
    engine::Session,
    error::{CliError, Exit},
    print as out,
};

pub(super) async fn run(
    args: &ApprovalsResolveArgs,
    session: &Session,
    global: &Global,
) -> Result<Exit, CliError> {
    let operator = reader(session).await?;
    let name = ApprovalName::new(&args.approval);
    let read = book(&operator, None).await?;
    let approval = found(&read, &name)?;
    check(approval, &operator, args)?;
    if !args.yes {
        for line in print::question(approval) {
            out::talk(&line);
        }
        confirm(false, &format!("resolve it with {:?}?", args.choice))?;
    }
    let (leaf, of) = (approval.leaf(), approval.session().clone());
    let resolved = operator.resolve_approval(&of, leaf, &args.choice, args.note.as_deref()).await;
    match resolved {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::Conflict => {
            // What stands there now, whoever was first.
            let read = book(&operator, Some(&of)).await?;
            let approval = found(&read, &leaf.into())?;
            check(approval, &operator, args)?;
            return Err(already(approval));
        }
        Err(error) => return Err(error.into()),
    }
    // From here on it is answered, whatever can be read.
    if !global.json {
        out::line(&out::harmless(&format!("{}  {}", print::short(&leaf), args.choice)))?;
        return Ok(Exit::Done);
    }
    match book(&operator, Some(&of)).await {
        Ok(read) => print::show(found(&read, &leaf.into())?, session.clock.now(), global)?,
        Err(error) => {
            let reason = error.what();
            out::remark(&format!("it is answered, and cannot be read again now: {reason}"));
            out::json(&json!({
                "approval": leaf.to_string(),
                "session": of.as_str(),
                "state": "resolved",
                "choice": args.choice,
                "by": operator.agent().as_str(),
            }))?;
        }
    }
    Ok(Exit::Done)
}

/// Refuses what cannot be answered so by this agent, before anybody is asked.
fn check(
    approval: &Approval,
    operator: &Endpoint,
    args: &ApprovalsResolveArgs,
) -> Result<(), CliError> {
    let (by, may_resolve) = (operator.agent(), operator.may_resolve());
    let command = Command::Resolve { by, may_resolve, choice: &args.choice };
    let Err(refusal) = approval.decide(&command, operator.clock().now()) else { return Ok(()) };
    let told = |exit, words: &str| CliError::new(exit, format!("{}: {words}", refusal.code()));
    Err(match refusal {
        // Its own answer may be sent again.
        Refusal::AlreadyResolved if approval.verdict().is_some_and(|verdict| verdict.by == *by) => {
            return Ok(());
        }
        Refusal::AlreadyResolved => already(approval),
        Refusal::OptionMissing => {
            let offered = approval.request().map(|asked| asked.request.choices().join(", "));
            let words = format!("{:?} was not offered", args.choice);
            told(Exit::Usage, &words)
                .next(format!("answer with one of: {}", offered.unwrap_or_default()))
        }
        Refusal::NotResolver => told(Exit::Refused, &refusal.to_string())
            .next("name another operator with --as, or leave it out"),
        other => told(Exit::Failed, &other.to_string())
            .next(format!("vakbus approvals show {}", print::short(&approval.leaf()))),
    })
}

fn already(approval: &Approval) -> CliError {
    let who = approval.verdict().map_or_else(String::new, |verdict| {
        format!(": {} answered {:?} at {}", verdict.by, verdict.choice, verdict.at)
    });
    let what = format!("{}{who}", Refusal::AlreadyResolved.code());
    let next = format!("vakbus approvals show {}", print::short(&approval.leaf()));
    CliError::new(Exit::Failed, what).next(next)
}
