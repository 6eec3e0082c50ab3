//! `vakbus pub` and `vakbus sub`: live events in and out.

mod late;

use std::{
    io::{self, Write},
    num::NonZeroUsize,
};

use bus_core::{Endpoint, Incoming, Opened, Overflow, Standing};
use bus_envelope::Draft;
use bus_runner::Sanitize;
use bus_subjects::{Address, Filter};
use data_encoding::BASE64;
use serde_json::{Value, json};

use super::task::text_or_stdin;
use crate::{
    args::{Global, PubArgs, Raw, SubArgs},
    engine::{self, Scope},
    error::{CliError, Exit},
    print as out,
    swarm::Signals,
    workspace::Part,
};

/// Publishes one event.
pub(crate) fn publish(args: &PubArgs, global: &Global) -> Result<Exit, CliError> {
    let payload = text_or_stdin(&args.text)?;
    engine::run(global, async |session| {
        session.place().check_shared("hear the event")?;
        let subject = args.target(&global.workspace)?;
        let address = Address::parse(&subject).ok();
        // Events of a session are its worker's; all else is for who runs the place.
        let is_event = matches!(
            address,
            Some(
                Address::Tokens { .. }
                    | Address::Terminal { .. }
                    | Address::Telemetry { .. }
                    | Address::Alert { .. }
            )
        );
        let part = if is_event { Part::Worker } else { Part::Operator };
        let agent = session.agent(part, Scope::default()).await?;
        let mut draft = Draft::new(subject.clone(), &args.event_type, payload)
            .content_type("text/plain; charset=utf-8");
        if let Some(session) = &args.session {
            draft = draft.session(session.clone());
        }
        let hash = agent.endpoint.publish(draft).await?;
        vouch(&agent.endpoint, &subject).await?;
        // A publish needs no answer, a question does: what was sent before it has arrived then.
        agent.engine.close().await?;
        if global.json {
            out::json(&json!({ "subject": subject.as_str(), "hash": hash.to_string() }))?;
        }
        Ok(Exit::Done)
    })
}

async fn vouch(endpoint: &Endpoint, subject: &bus_subjects::Subject) -> Result<(), CliError> {
    endpoint.finish_live(subject).await?;
    Ok(())
}

/// Hears events until there were enough, or a signal comes.
pub(crate) fn subscribe(args: &SubArgs, global: &Global) -> Result<Exit, CliError> {
    let what = match (&args.session, &args.filter) {
        (Some(session), _) => format!("vakbus sub --session {session}"),
        (None, filter) => format!("vakbus sub '{}'", filter.as_deref().unwrap_or(">")),
    };
    Raw::check(args.raw, &what)?;
    engine::run(global, async |session| {
        session.place().check_shared("publish an event")?;
        let mut signals = Signals::new();
        let beginning = session.agent(Part::Operator, Scope::default());
        let Some(agent) = signals.unless_asked(beginning).await? else { return Ok(Exit::Done) };
        if let Some(session) = &args.session {
            return late::watch(&agent, session, (args, global), &mut signals).await;
        }
        let filter = args.filter.as_deref().unwrap_or(">");
        let (told, filter) = (filter, Filter::parse(filter)?);
        let overflow = match args.latest {
            true => Overflow::Latest { subjects: SUBJECTS_MAX },
            false => Overflow::DropOldest { capacity: WAITING_MAX },
        };
        let mut feed = agent.endpoint.subscribe(filter, overflow).await?;
        out::remark(&format!("listening on {told}"));
        let mut heard = 0_u64;
        while args.count.is_none_or(|count| heard < count) {
            let item = tokio::select! {
                item = feed.next() => item,
                _asked = signals.next(|| false) => return Ok(Exit::Done),
            };
            match item {
                None => return Err(CliError::new(Exit::Unreachable, "the bus was closed")),
                Some(Incoming::Message(opened)) => {
                    heard += 1;
                    if !tell(&opened, args, global)? {
                        return Ok(Exit::Done);
                    }
                }
                Some(Incoming::Gap { missed }) => {
                    if global.json {
                        out::json(&json!({ "gap": missed }))?;
                    }
                    out::talk(&format!("gap: {}", out::counted(missed, "event", "events")));
                }
                Some(Incoming::Refused(error)) => {
                    let why = out::harmless(&error.to_string());
                    out::talk(&format!("warning: an event is refused: {why}"));
                }
                Some(Incoming::Checkpoint(_)) => {}
            }
        }
        Ok(Exit::Done)
    })
}

/// Prints one event; says whether somebody still reads.
fn tell(opened: &Opened, args: &SubArgs, global: &Global) -> Result<bool, CliError> {
    let line = match (args.raw, global.json) {
        (Some(_), _) => {
            let mut stdout = io::stdout().lock();
            let written = stdout.write_all(&opened.payload).and_then(|()| stdout.flush());
            return is_read(written);
        }
        (None, true) => out::json_text(&message_json(opened)),
        (None, false) => {
            format!("{}  {}", opened.envelope.subject, Sanitize::line(&opened.payload))
        }
    };
    is_read(out::data(&line))
}

/// Whether somebody still reads what was written.
pub(super) fn is_read(written: io::Result<()>) -> Result<bool, CliError> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(out::unwritten(&error)),
    }
}

/// A message as one JSON object. A payload that is no text comes in base64, under another name.
pub(crate) fn message_json(opened: &Opened) -> Value {
    let envelope = &opened.envelope;
    let standing = match opened.standing {
        Standing::Signed => "signed",
        Standing::Vouched => "vouched",
        Standing::Sealed => "sealed",
        Standing::Contradicted => "contradicted",
    };
    let line = json!({
        "id": envelope.id,
        "subject": envelope.subject.as_str(),
        "type": envelope.event_type,
        "time": envelope.time.to_string(),
        "from": envelope.lineage.agent.as_str(),
        "session": envelope.lineage.session.as_ref().map(|session| session.as_str()),
        "standing": standing,
    });
    out::with(
        line,
        match std::str::from_utf8(&opened.payload) {
            Ok(text) => json!({ "payload": text }),
            Err(_) => json!({ "payload_base64": BASE64.encode(&opened.payload) }),
        },
    )
}

/// How many events may wait for the reader: 16 MiB of the largest ones.
const WAITING_MAX: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// Of how many subjects the newest event may wait.
const SUBJECTS_MAX: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
