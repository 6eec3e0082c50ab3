//! `vakbus request`: asks a module, and prints its answer.

use bus_core::{CallOutcome, ErrorKind, Opened};
use bus_envelope::Draft;
use serde_json::json;

use crate::{
    args::{Global, RequestArgs},
    commands::{live::message_json, task},
    engine::{self, Scope, Session},
    error::{CliError, Exit},
    print as out,
    swarm::surrounding_trace,
    workspace::Part,
};

/// Asks, and waits for the answer.
pub(crate) fn run(args: &RequestArgs, global: &Global) -> Result<Exit, CliError> {
    // Read before anything is opened: a pipe may take its time.
    let payload = match (&args.text, &args.file, args.stdin) {
        (None, None, false) => Vec::new(),
        (text, file, _) => task::payload(text.as_deref(), file.as_deref())?,
    };
    engine::run(global, async |session| ask(args, payload, session, global).await)
}

async fn ask(
    args: &RequestArgs,
    payload: Vec<u8>,
    session: &Session,
    global: &Global,
) -> Result<Exit, CliError> {
    session.place().check_shared("answer the request")?;
    let agent = session.agent(Part::Operator, Scope::default()).await?;
    let content_type = task::content_type(&payload);
    let subject = args.target.subject(agent.endpoint.workspace());
    let mut draft = Draft::new(subject, REQUEST, payload).content_type(content_type);
    if let Some(trace) = surrounding_trace() {
        draft = draft.trace(trace);
    }
    let outcome = agent.endpoint.ask(draft, args.wait).await;
    match outcome.map_err(|error| unanswered(args, error))? {
        CallOutcome::Answered(answer) => {
            tell(&answer, "answered", global)?;
            Ok(Exit::Done)
        }
        CallOutcome::Failed(why) => {
            if global.json {
                tell(&why, "failed", global)?;
            }
            let (by, reason) = (&why.envelope.lineage.agent, text_of(&why));
            let what = format!("{} failed at {by}: {reason}", args.target);
            Err(CliError::new(Exit::Failed, what).next("see what it was asked for, and ask again"))
        }
    }
}

/// Why there is no answer.
fn unanswered(args: &RequestArgs, error: bus_core::Error) -> CliError {
    let target = &args.target;
    match error.kind() {
        ErrorKind::NoRecipient => {
            CliError::new(Exit::Unreachable, format!("nobody answers {target}"))
                .next(format!("start somebody who does: vakbus reply {target} -- CMD"))
        }
        ErrorKind::Timeout => {
            let wait = humantime::format_duration(args.wait);
            CliError::new(Exit::Timeout, format!("{target} gave no answer within {wait}"))
                .next("it may have been done all the same: look first, or wait longer with --wait")
        }
        _ => error.into(),
    }
}

fn tell(opened: &Opened, outcome: &str, global: &Global) -> Result<(), CliError> {
    if global.json {
        let cause = opened.envelope.lineage.cause.map(|cause| cause.to_string());
        let line = json!({ "outcome": outcome, "request_hash": cause });
        return out::json(&out::with(message_json(opened), line));
    }
    out::Others::print(&opened.payload)
}

fn text_of(opened: &Opened) -> String {
    out::harmless(String::from_utf8_lossy(&opened.payload).trim())
}

/// The `CloudEvents` type of what is asked.
const REQUEST: &str = "vak.call";
