//! `vakbus approvals use`: takes the one use of an approval.

use bus_authority::{ApprovalName, Approvals, Used};
use bus_envelope::Timestamp;
use serde_json::json;

use super::{asker, desk, print};
use crate::{
    args::{ApprovalsUseArgs, Global, What},
    engine::Session,
    error::{CliError, Exit},
    print as out,
};

pub(super) async fn run(
    args: &ApprovalsUseArgs,
    session: &Session,
    global: &Global,
) -> Result<Exit, CliError> {
    let until = args.wait.map(|limit| session.clock.now().plus(limit));
    if until.is_some() {
        session.place().check_shared("answer it while this command waits")?;
    }
    let endpoint = asker(session, args.session.session.clone()).await?;
    let name = ApprovalName::new(&args.approval);
    take(&desk(&endpoint), &name, (&args.what, until), global).await
}

/// Takes the use of what `name` stands for, and says what came of it.
pub(super) async fn take(
    desk: &Approvals,
    name: &ApprovalName,
    (what, until): (&What, Option<Timestamp>),
    global: &Global,
) -> Result<Exit, CliError> {
    let ask = desk.ask(&what.action, &what.target, what.run.as_deref())?;
    match desk.take(name, &ask, until).await {
        Ok(used) => {
            tell(&used, global)?;
            Ok(Exit::Done)
        }
        Err(refused) => {
            if global.json {
                out::json(&print::refusal_json(name, &refused))?;
            }
            Err(print::refused(name, &refused))
        }
    }
}

fn tell(used: &Used, global: &Global) -> Result<(), CliError> {
    let Used { approval, verdict, record } = used;
    if global.json {
        return out::json(&json!({
            "approval": approval.to_string(),
            "state": "consumed",
            "choice": verdict.choice,
            "by": verdict.by.as_str(),
            "note": verdict.note,
            "record": record.0,
            "valid_until": verdict.valid_until.map(|until| until.to_string()),
        }));
    }
    let note = verdict.note.as_deref().map_or_else(String::new, |note| format!(": {note}"));
    let line = format!("{} by {}{note}", verdict.choice, verdict.by);
    out::line(&out::harmless(&line))
}
