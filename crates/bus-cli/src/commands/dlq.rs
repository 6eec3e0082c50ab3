//! `vakbus dlq`: tasks that were given up, looked at, sent again, or thrown away.

mod many;
mod show;

use std::time::Duration;

use bus_core::{
    DeadLetter, DeadLetters, ErrorKind, LetterContent, LetterFilter, LetterOrder, Outcome,
};
use bus_envelope::Timestamp;
use bus_subjects::{Address, Filter, WorkspaceId};
use serde_json::{Value, json};

use crate::{
    args::{DlqCommand, DlqLsArgs, Global, Meant},
    engine::{self, Scope},
    error::{CliError, Exit},
    print as out,
    workspace::Part,
};

/// Runs the command.
pub(crate) fn run(command: DlqCommand, global: &Global) -> Result<Exit, CliError> {
    if let DlqCommand::Redrive(args) = &command {
        many::check(&args.chosen)?;
    }
    if let DlqCommand::Discard(args) = &command {
        many::check(&args.chosen)?;
    }
    engine::run(global, async |session| {
        let agent = session.agent(Part::Operator, Scope::default()).await?;
        let workspace = agent.endpoint.workspace().clone();
        let letters = DeadLetters::new(agent.endpoint.clone());
        let now = session.clock.now();
        match command {
            DlqCommand::Ls(args) => list(&letters, &args, (&workspace, now), global).await,
            DlqCommand::Show(args) => show::run(&letters, &args, now, global).await,
            DlqCommand::Redrive(args) => many::redrive(&letters, args, &workspace, global).await,
            DlqCommand::Discard(args) => many::discard(&letters, args, &workspace, global).await,
        }
    })
}

async fn list(
    letters: &DeadLetters,
    args: &DlqLsArgs,
    (workspace, now): (&WorkspaceId, Timestamp),
    global: &Global,
) -> Result<Exit, CliError> {
    let order = match args.oldest_first {
        true => LetterOrder::OldestFirst,
        false => LetterOrder::NewestFirst,
    };
    let mut letters = letters.list(filter(&args.meant, workspace), order).await?;
    let mut listed = 0;
    while let Some(letter) = letters.next().await {
        let letter = letter?;
        if listed == args.limit {
            out::remark(&format!(
                "there are more than these {listed}: say --limit N, or what is meant"
            ));
            return Ok(Exit::Done);
        }
        listed += 1;
        match global.json {
            true => out::json(&letter_json(&letter, now))?,
            false => out::line(&line(&letter, now))?,
        }
    }
    if listed == 0 {
        out::remark(NOTHING_MEANT);
    }
    Ok(Exit::Done)
}

/// What is asked of letters.
fn filter(meant: &Meant, workspace: &WorkspaceId) -> LetterFilter {
    let queue = meant.queue.clone();
    let queue = queue.map(|role| Address::Task { workspace: workspace.clone(), role }.subject());
    LetterFilter {
        agent: meant.agent.clone(),
        kind: meant.kind.map(Into::into),
        reason: meant.failed_with.clone(),
        subject: queue.as_ref().map(Filter::from),
        older_than: meant.older,
        newer_than: meant.newer,
    }
}

fn line(letter: &DeadLetter, now: Timestamp) -> String {
    let (number, age) = (letter.seq.0, age(letter, now));
    let content = match &letter.content {
        Ok(content) => content,
        Err(error) => {
            let agent = letter.agent.as_ref().map_or("?", |agent| agent.as_str());
            return format!(
                "{number}  {age}  ?  from {agent}  cannot be opened: {}",
                out::harmless(&error.to_string())
            );
        }
    };
    let event = &content.event;
    let made = attempts(content);
    let (kind, to) = (kind(content), out::harmless(&to(content)));
    let task = out::harmless(&event.envelope_id);
    let reason = cut(&out::harmless(&event.failure_reason));
    format!("{number}  {age}  {kind}  {to}  {task}  {made}  {reason}")
}

/// A letter as JSON, as far as it can be opened.
fn letter_json(letter: &DeadLetter, now: Timestamp) -> Value {
    let age = now.since(letter.stored).as_millis();
    let known = json!({
        "letter": letter.seq.0,
        "stored": letter.stored.to_string(),
        "age_ms": u64::try_from(age).unwrap_or(u64::MAX),
        "agent": letter.agent.as_ref().map(|agent| agent.as_str()),
    });
    let content = letter.content.as_ref();
    let event = content.ok().map(|content| &content.event);
    let more = json!({
        "kind": content.ok().map(|content| kind(content)),
        "task": event.map(|event| &event.envelope_id),
        "queue": content.ok().and_then(|content| queue(content)),
        "subject": event.map(|event| &event.subject),
        "attempts": event.map(|event| event.attempts),
        "worker": event.and_then(|event| event.worker_id.as_ref()),
        "reason": event.map(|event| &event.failure_reason),
        "redrives": content.ok().map(|content| content.redrives),
        "unreadable": content.err().map(ToString::to_string),
    });
    out::with(known, more)
}

fn kind(content: &LetterContent) -> &'static str {
    content.kind.map_or("unknown", bus_core::GivenUpCause::as_str)
}

/// The role whose queue the task was in.
fn queue(content: &LetterContent) -> Option<String> {
    match Address::parse(&content.subject().ok()?).ok()? {
        Address::Task { role, .. } => Some(role.to_string()),
        _ => None,
    }
}

/// Where the task was sent, in the shortest words.
fn to(content: &LetterContent) -> String {
    queue(content).unwrap_or_else(|| content.event.subject.clone())
}

fn attempts(content: &LetterContent) -> String {
    let event = &content.event;
    let made = out::counted(event.attempts.into(), "attempt", "attempts");
    match &event.worker_id {
        Some(worker) => format!("{made} by {}", out::harmless(worker)),
        None => made,
    }
}

fn age(letter: &DeadLetter, now: Timestamp) -> String {
    let seconds = now.since(letter.stored).as_secs();
    humantime::format_duration(Duration::from_secs(seconds)).to_string().replace(' ', "")
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(REASON_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// The failure to treat a letter, with what helps.
fn untreated(error: &bus_core::Error, number: u64) -> CliError {
    let code = match error.outcome() {
        Outcome::Unknown => Exit::Unknown,
        Outcome::NotDone => Exit::of(error.kind()),
    };
    let failure = CliError::new(code, error.to_string());
    match error.kind() {
        _ if code == Exit::Unknown => failure.next("say it again: what is done is not done twice"),
        ErrorKind::NotFound => failure.next("vakbus dlq ls shows which there are"),
        ErrorKind::Conflict => failure.next(format!(
            "see why it comes back: vakbus dlq show {number}; then --force sends it all the same"
        )),
        ErrorKind::UnknownKey => {
            failure.next("the secret that it is sealed under is needed here: vakbus keys ls")
        }
        ErrorKind::Corrupt => failure.next(format!("vakbus dlq show {number} says what is known")),
        _ => failure,
    }
}

/// How much of a reason stands in a line, in characters.
const REASON_CHARS_MAX: usize = 100;

const NOTHING_MEANT: &str = "no dead letter is meant by that";
