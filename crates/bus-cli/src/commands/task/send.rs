//! `vakbus task send`: stores one task, and waits for its end if that is wanted.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use bus_core::{Deadline, Durability, Endpoint, ErrorKind, Outgoing, Sent};
use bus_envelope::Draft;
use bus_subjects::Address;
use serde_json::json;

use super::{end::Ends, print};
use crate::{
    args::{Global, SendArgs, When},
    commands::outbox,
    engine::{self, Agent, Scope, Session},
    error::{CliError, Exit},
    print as out,
    swarm::surrounding_trace,
    workspace::Part,
};

/// Stores the task.
pub(super) fn run(args: SendArgs, global: &Global) -> Result<Exit, CliError> {
    // Read before anything is opened: a pipe may take its time.
    let payload = payload(args.text.as_deref(), args.file.as_deref())?;
    engine::run(global, async |session| send(&args, payload, session, global).await)
}

async fn send(
    args: &SendArgs,
    payload: Vec<u8>,
    session: &Session,
    global: &Global,
) -> Result<Exit, CliError> {
    if args.wait.is_some() {
        session.place().check_shared("work on the task while this command waits for it")?;
    }
    let agent = match args.to_hub {
        true => session.agent_to_hub(Part::Operator).await?,
        false => session.agent(Part::Operator, Scope::default()).await?,
    };
    let sent = agent.endpoint.send(outgoing(args, payload, &agent)?).await;
    let sent = sent.map_err(|error| refused(args, error))?;
    if !session.place().outlives() {
        out::talk("warning: this engine ends with this process, and the task with it");
    }
    let Some(patience) = args.wait else {
        tell(args, &sent, global)?;
        return Ok(Exit::Done);
    };
    out::remark(&format!("sent task {}", sent.id));
    match Ends::new(&agent, &sent.id, Some(sent.hash)).wait(patience.0).await? {
        Some(end) => print::end(&agent, &sent.id, &end, (None, global)).await,
        None => Err(print::no_end(&sent.id)),
    }
}

/// The failure to send a task; an id that was used before is a task that can be looked at.
fn refused(args: &SendArgs, error: bus_core::Error) -> CliError {
    match (&args.id, error.kind()) {
        (Some(id), ErrorKind::Conflict) if args.to_hub => {
            let what = format!("a record with the id {id} was sent before; nothing is stored now");
            CliError::new(Exit::Failed, what).next("vakbus outbox ls --state at-hub")
        }
        (Some(id), ErrorKind::Conflict) => {
            let what = format!("a task with the id {id} was sent before; nothing is stored now");
            CliError::new(Exit::Failed, what).next(format!("vakbus task show {id}"))
        }
        _ if args.to_hub => outbox::missing(error),
        _ => error.into(),
    }
}

fn outgoing(args: &SendArgs, payload: Vec<u8>, agent: &Agent) -> Result<Outgoing, CliError> {
    let (workspace, role) = (agent.endpoint.workspace().clone(), args.role.clone());
    let subject = Address::Task { workspace, role }.subject();
    let content_type = content_type(&payload);
    let mut draft = Draft::new(subject, "vak.task", payload).content_type(content_type);
    if let Some(id) = &args.id {
        draft = draft.id(id);
    }
    if let Some(trace) = surrounding_trace() {
        draft = draft.trace(trace);
    }
    if let Some(deadline) = args.deadline {
        let time = match deadline {
            When::At(time) => time,
            When::In(after) => agent.endpoint.clock().now().plus(after),
        };
        draft = Deadline(time).set(draft).map_err(bus_core::Error::from)?;
    }
    let mut outgoing = Outgoing::from(draft).priority(args.priority);
    if let Some(delay) = args.delay {
        outgoing = outgoing.after(delay);
    }
    if let Some(at) = args.at {
        outgoing = outgoing.at(at);
    }
    if let Some(key) = &args.key {
        outgoing = outgoing.key(key.clone());
    }
    Ok(outgoing)
}

fn tell(args: &SendArgs, sent: &Sent, global: &Global) -> Result<(), CliError> {
    if !global.json {
        return out::line(&sent.id);
    }
    out::json(&json!({
        "task": sent.id,
        "role": args.role.as_str(),
        "hash": sent.hash.to_string(),
        "seq": sent.receipt.seq.0,
        "durability": durability(sent.receipt.durability),
    }))
}

/// The name of what a stored message survives.
pub(crate) const fn durability(durability: Durability) -> &'static str {
    match durability {
        Durability::Memory => "memory",
        Durability::Written => "written",
        Durability::Synced => "synced",
    }
}

/// The media type that a payload is sent under.
pub(crate) fn content_type(payload: &[u8]) -> &'static str {
    match std::str::from_utf8(payload) {
        Ok(_) => "text/plain; charset=utf-8",
        Err(_) => "application/octet-stream",
    }
}

/// The text itself, or what the file holds, or else standard input.
pub(crate) fn payload(text: Option<&str>, file: Option<&Path>) -> Result<Vec<u8>, CliError> {
    match (text, file) {
        (Some(text), _) => check("the payload", text.as_bytes().to_vec()),
        (None, Some(path)) => {
            let shown = path.display().to_string();
            let file = File::open(path)
                .map_err(|error| CliError::usage(format!("cannot read {shown}: {error}")))?;
            read(&shown, file)
        }
        (None, None) => read("standard input", io::stdin().lock()),
    }
}

/// Reads no more than a payload may have.
fn read(shown: &str, from: impl Read) -> Result<Vec<u8>, CliError> {
    let mut bytes = Vec::new();
    let limit = Endpoint::PAYLOAD_BYTES_MAX as u64 + 1;
    from.take(limit)
        .read_to_end(&mut bytes)
        .map_err(|error| CliError::usage(format!("cannot read {shown}: {error}")))?;
    check(shown, bytes)
}

fn check(shown: &str, bytes: Vec<u8>) -> Result<Vec<u8>, CliError> {
    let bytes_max = Endpoint::PAYLOAD_BYTES_MAX;
    if bytes.len() > bytes_max {
        let what = format!("{shown} has more than {bytes_max} bytes");
        return Err(CliError::usage(what).next("pass a file's name instead of what it holds"));
    }
    Ok(bytes)
}

/// Where a payload comes from when its name is `-`, or the text itself.
pub(crate) fn text_or_stdin(text: &str) -> Result<Vec<u8>, CliError> {
    match Path::new(text) == Path::new("-") {
        true => read("standard input", io::stdin().lock()),
        false => check("the text", text.as_bytes().to_vec()),
    }
}
