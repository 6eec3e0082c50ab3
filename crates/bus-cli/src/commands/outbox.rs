//! `vakbus outbox`: what waits here for a hub that may be away, and what became of it.

use std::{sync::Arc, time::Duration};

use bus_core::{
    Engine, ErrorKind, Outbox, OutboxCounts, OutboxRecord, RecordState, Waiting, planes,
};
use serde_json::json;

use crate::{
    args::{Global, OutboxCommand, OutboxLsArgs, Stands},
    engine::{self, Agent, Scope},
    error::{CliError, Exit},
    print as out,
    workspace::Part,
};

/// Runs the command.
pub(crate) fn run(command: OutboxCommand, global: &Global) -> Result<Exit, CliError> {
    engine::run(global, async |session| {
        let agent = session.agent(Part::Operator, Scope::default()).await?;
        let engine = session.overview(&agent).await?;
        let outbox = outbox(&agent, &engine);
        if !is_there(&agent, &*engine).await? {
            out::remark("no hub is named here, so nothing waits for one: vakbus up --hub-url URL");
            return match command {
                OutboxCommand::Ls(_) => Ok(Exit::Done),
                OutboxCommand::Status => tell_counts(OutboxCounts::default(), global),
            };
        }
        match command {
            OutboxCommand::Ls(args) => list(&outbox, &args, global).await,
            OutboxCommand::Status => status(&outbox, global).await,
        }
    })
}

/// The failure to use an outbox; without one there is nobody yet who would carry anything.
pub(crate) fn missing(error: bus_core::Error) -> CliError {
    if error.kind() != ErrorKind::NotFound {
        return error.into();
    }
    let what = "there is no outbox here: no hub is named that anything could be carried to";
    CliError::new(Exit::Failed, what).next("name it to the daemon: vakbus up --hub-url URL")
}

fn outbox(agent: &Agent, engine: &Arc<dyn Engine>) -> Outbox {
    let endpoint = &agent.endpoint;
    Outbox::new(Arc::clone(engine), endpoint.workspace().clone(), endpoint.agent().clone())
}

/// Whether there are outboxes here at all.
async fn is_there(agent: &Agent, engine: &dyn Engine) -> Result<bool, CliError> {
    let stream = planes::outbox_stream(agent.endpoint.workspace())?;
    match engine.lag(stream).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

async fn list(outbox: &Outbox, args: &OutboxLsArgs, global: &Global) -> Result<Exit, CliError> {
    let is_wanted = |state| match args.state.as_slice() {
        [] => state != Stands::AtHub,
        states => states.contains(&state),
    };
    let mut waiting = outbox.waiting(args.agent.as_ref()).await?;
    for record in outbox.states().await? {
        let stands = match &record.state {
            RecordState::AtHub { .. } => Stands::AtHub,
            RecordState::Refused { .. } => Stands::Refused,
            // It is among those that wait.
            RecordState::Again { .. } => continue,
        };
        let is_of = args.agent.as_ref().is_none_or(|agent| record.agent == *agent);
        if is_of && is_wanted(stands) {
            tell_ended(&record, global)?;
        }
    }
    while is_wanted(Stands::Waiting)
        && let Some(record) = waiting.next().await
    {
        tell_waiting(&record?, global)?;
    }
    Ok(Exit::Done)
}

fn tell_waiting(record: &Waiting, global: &Global) -> Result<(), CliError> {
    let Waiting { id, agent, subject, seq, since, tries, last_error } = record;
    if global.json {
        return out::json(&json!({
            "id": id.as_str(),
            "agent": agent.as_ref().map(|agent| agent.as_str()),
            "subject": subject,
            "seq": seq.0,
            "since": since.to_string(),
            "state": "waiting",
            "tries": tries,
            "last_error": last_error,
        }));
    }
    let tried = match last_error {
        Some(why) => format!(", tried {tries} times: {}", out::harmless(why)),
        None => String::new(),
    };
    let agent = agent.as_ref().map_or("?", |agent| agent.as_str());
    let subject = subject.as_deref().unwrap_or("?");
    out::line(&format!("{id}  {agent}  {subject}  waiting since {since}{tried}"))
}

fn tell_ended(record: &OutboxRecord, global: &Global) -> Result<(), CliError> {
    let OutboxRecord { id, agent, subject, seq, since, state } = record;
    let (name, words, more) = match state {
        RecordState::AtHub { stream, seq, at, is_duplicate } => (
            "at-hub",
            // Nobody can tell whether it was this one, or another of that id.
            match is_duplicate {
                true => format!("at hub since {at}: {stream} {}, its id known before", seq.0),
                false => format!("at hub since {at}: {stream} {}", seq.0),
            },
            json!({
                "at": at.to_string(),
                "hub_stream": stream.as_str(),
                "hub_seq": seq.0,
                "is_duplicate": is_duplicate,
            }),
        ),
        RecordState::Refused { reason, at } => (
            "refused",
            format!("refused at {at}: {}", out::harmless(reason)),
            json!({ "at": at.to_string(), "reason": reason }),
        ),
        RecordState::Again { .. } => return Ok(()),
    };
    if !global.json {
        let subject = subject.as_deref().unwrap_or("?");
        return out::line(&format!("{id}  {agent}  {subject}  {words}"));
    }
    let line = json!({
        "id": id.as_str(),
        "agent": agent.as_str(),
        "subject": subject,
        "seq": seq.0,
        "since": since.to_string(),
        "state": name,
    });
    out::json(&out::with(line, more))
}

async fn status(outbox: &Outbox, global: &Global) -> Result<Exit, CliError> {
    tell_counts(outbox.counts().await?, global)
}

fn tell_counts(counts: OutboxCounts, global: &Global) -> Result<Exit, CliError> {
    if global.json {
        let ms = |age: Duration| u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        out::json(&json!({
            "waiting": counts.waiting,
            "oldest_ms": counts.oldest.map(ms),
            "at_hub": counts.at_hub,
            "refused": counts.refused,
        }))?;
    } else {
        let oldest = counts.oldest.map_or_else(String::new, |age| {
            let age = humantime::format_duration(Duration::from_secs(age.as_secs()));
            format!(", oldest {age}")
        });
        out::line(&format!(
            "waiting {}{oldest}, at hub {}, refused {}",
            counts.waiting, counts.at_hub, counts.refused
        ))?;
    }
    Ok(if counts.refused == 0 { Exit::Done } else { Exit::Partly })
}
