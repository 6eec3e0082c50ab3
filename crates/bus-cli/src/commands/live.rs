//! `vakbus pub` and `vakbus sub`: live events in and out.

use std::{
    io::{self, Write},
    num::NonZeroUsize,
};

use bus_core::{Endpoint, Incoming, Opened, Overflow, Standing};
use bus_envelope::Draft;
use bus_subjects::{Address, Filter};
use data_encoding::BASE64;
use serde_json::{Value, json};

use super::task::text_or_stdin;
use crate::{
    args::{Global, PubArgs, SubArgs},
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
            Some(Address::Tokens { .. } | Address::Terminal { .. } | Address::Telemetry { .. })
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
    engine::run(global, async |session| {
        session.place().check_shared("publish an event")?;
        let mut signals = Signals::new();
        let filter = Filter::parse(&args.filter)?;
        let agent = session.agent(Part::Operator, Scope::default()).await?;
        let overflow = match args.latest {
            true => Overflow::Latest { subjects: WAITING_MAX },
            false => Overflow::DropOldest { capacity: WAITING_MAX },
        };
        let mut feed = agent.endpoint.subscribe(filter, overflow).await?;
        out::remark(&format!("listening on {}", args.filter));
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
                    out::talk(&format!("warning: an event is refused: {error}"));
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
        (true, _) => {
            let mut stdout = io::stdout().lock();
            let written = stdout.write_all(&opened.payload).and_then(|()| stdout.flush());
            return check(written);
        }
        (false, true) => message_json(opened).to_string(),
        (false, false) => {
            let text = out::harmless(&String::from_utf8_lossy(&opened.payload));
            format!("{}  {text}", opened.envelope.subject)
        }
    };
    check(out::data(&line))
}

fn check(written: io::Result<()>) -> Result<bool, CliError> {
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

/// How many events may wait for the reader.
const WAITING_MAX: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
