//! `vakbus approvals request`: asks, and perhaps waits for the answer and takes its one use.

use bus_authority::{ApprovalName, Approvals, NotUsed, Requested};
use bus_core::{ApprovalRequest, ErrorKind};
use bus_envelope::Timestamp;
use serde_json::json;

use super::{asker, desk, leaf_of, print, take};
use crate::{
    args::{ApprovalsRequestArgs, Global},
    engine::Session,
    error::{CliError, Exit},
    print as out,
};

pub(super) async fn run(
    args: &ApprovalsRequestArgs,
    session: &Session,
    global: &Global,
) -> Result<Exit, CliError> {
    let limit = args.wait.map(|wait| wait.0);
    let until = limit.flatten().map(|limit| session.clock.now().plus(limit));
    let request = request(args, until)?;
    if limit.is_some() {
        session.place().check_shared("answer it while this command waits")?;
    }
    let endpoint = asker(session, args.session.session.clone()).await?;
    let desk = desk(&endpoint);
    let id = match (&args.id, &args.supersedes) {
        // It is known before the old one is gone, so that a step that failed can be repeated.
        (None, Some(_)) => Some(endpoint.new_id()?),
        (id, _) => id.clone(),
    };
    let asked = ask(args, (&request, id.as_deref()), (&desk, session)).await?;
    tell(args, asked.as_ref(), until, global)?;
    if limit.is_none() {
        return Ok(Exit::Done);
    }
    let name = match (&asked, &args.id) {
        (Some(asked), _) => ApprovalName::from(asked.approval),
        (None, id) => ApprovalName::new(id.as_deref().unwrap_or_default()),
    };
    let until = until.unwrap_or(Timestamp::MAX);
    take::take(&desk, &name, (&args.what, Some(until)), global).await
}

/// What is asked for, as far as that can be said at all.
fn request(
    args: &ApprovalsRequestArgs,
    until: Option<Timestamp>,
) -> Result<ApprovalRequest, CliError> {
    let choices: Vec<&str> = args.choice.iter().map(String::as_str).collect();
    if !args.choice.contains(&args.approve_with) {
        let offered = args.choice.join(",");
        let what = format!("no answer allows it: {:?} is none of {offered}", args.approve_with);
        return Err(CliError::usage(what).next("say which answer does: --approve-with CHOICE"));
    }
    let mut request = ApprovalRequest::new(&args.what.action, &args.what.target, &choices)?
        .approval_choice(&args.approve_with)?
        .valid_for(args.valid_for)?;
    if let Some(question) = &args.question {
        request = request.question(question)?;
    }
    if let Some(run) = &args.what.run {
        request = request.run(run)?;
    }
    Ok(match until {
        Some(until) => request.answer_until(until),
        None => request,
    })
}

/// Asks; nothing when it was asked under this id before and its answer is to be waited for.
async fn ask(
    args: &ApprovalsRequestArgs,
    (request, id): (&ApprovalRequest, Option<&str>),
    (desk, session): (&Approvals, &Session),
) -> Result<Option<Requested>, CliError> {
    let old = args.supersedes.as_deref().map(ApprovalName::new);
    let asked = match &old {
        None => desk.request(id, request).await.map_err(NotUsed::Failed),
        Some(old) => desk.supersede(leaf_of(old, session).await?, id, request).await,
    };
    match (asked, id) {
        (Ok(asked), _) => Ok(Some(asked)),
        (Err(NotUsed::Failed(error)), Some(id)) if error.kind() == ErrorKind::Conflict => {
            if args.wait.is_some() {
                out::remark(&format!("{id} was asked for before: this waits for its answer"));
                return Ok(None);
            }
            let what = format!("an approval with the id {id} was asked for before");
            Err(CliError::new(Exit::Failed, what)
                .next("say --wait to wait for its answer, or choose another id"))
        }
        (Err(NotUsed::Failed(error)), Some(id)) if old.is_some() => Err(CliError::from(error)
            .next(format!("the old one may be gone already: repeat it with --id {id}"))),
        (Err(NotUsed::Failed(error)), _) => Err(error.into()),
        (Err(refused), _) => {
            let name = old.unwrap_or_else(|| ApprovalName::new(id.unwrap_or_default()));
            Err(print::refused(&name, &refused))
        }
    }
}

fn tell(
    args: &ApprovalsRequestArgs,
    asked: Option<&Requested>,
    until: Option<Timestamp>,
    global: &Global,
) -> Result<(), CliError> {
    if global.json {
        return out::json(&json!({
            "approval": asked.map(|asked| asked.approval.to_string()),
            "id": asked.map(|asked| asked.id.as_str()).or(args.id.as_deref()),
            "session": args.session.session.as_str(),
            "state": "open",
            "answer_until": until.map(|until| until.to_string()),
        }));
    }
    let Some(asked) = asked else { return Ok(()) };
    if args.wait.is_some() {
        let name = print::short(&asked.approval);
        out::remark(&format!(
            "waiting for: vakbus approvals resolve {name} {}",
            args.choice.join("|")
        ));
    }
    out::line(&asked.approval.to_string())
}
