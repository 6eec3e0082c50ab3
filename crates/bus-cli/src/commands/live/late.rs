//! `vakbus sub --session`: what a session said and says, for who comes late.

use bus_runner::{RecordingKinds, TERMINAL_END, TERMINAL_SIZE, TOKENS_END, Viewed, Viewer, Window};
use bus_subjects::SessionId;
use serde_json::json;

use super::{message_json, tell};
use crate::{
    args::{Global, SubArgs},
    engine::Agent,
    error::{CliError, Exit},
    print as out,
    swarm::Signals,
};

/// Shows the past that is wanted, then what comes, until there was enough, or a signal comes.
pub(super) async fn watch(
    agent: &Agent,
    session: &SessionId,
    (args, global): (&SubArgs, &Global),
    signals: &mut Signals,
) -> Result<Exit, CliError> {
    let wanted = (RecordingKinds::ALL, args.window.unwrap_or(NO_PAST));
    let mut viewer = Viewer::open(agent.endpoint.clone(), session.clone(), wanted).await?;
    out::remark(&introduction(&viewer, session, args));
    let mut shown = 0_u64;
    while args.count.is_none_or(|count| shown < count) {
        let viewed = tokio::select! {
            viewed = viewer.next() => viewed,
            _asked = signals.next(|| false) => return Ok(Exit::Done),
        };
        match viewed {
            None => return Err(CliError::new(Exit::Unreachable, "the bus was closed")),
            Some(Viewed::Message { opened, .. })
                if args.raw.is_some() && MARKS.contains(&opened.envelope.event_type.as_str()) => {}
            Some(Viewed::Message { opened, is_past }) => {
                shown += 1;
                let is_read = match is_past && global.json {
                    true => {
                        let line = out::with(message_json(&opened), json!({ "past": true }));
                        super::is_read(out::data(&out::json_text(&line)))?
                    }
                    false => tell(&opened, args, global)?,
                };
                if !is_read {
                    return Ok(Exit::Done);
                }
            }
            Some(Viewed::Gap { missed }) => {
                if global.json {
                    out::json(&json!({ "gap": missed }))?;
                }
                out::talk(&format!("gap: {}", out::counted(missed, "event", "events")));
            }
            Some(Viewed::Refused(error)) => {
                let why = out::harmless(&error.to_string());
                out::talk(&format!("warning: an event is refused: {why}"));
            }
        }
    }
    Ok(Exit::Done)
}

/// What is said before the first event.
fn introduction(viewer: &Viewer, session: &SessionId, args: &SubArgs) -> String {
    match (args.window, viewer.has_recording()) {
        (None, _) => format!("listening on session {session}"),
        (Some(_), false) => format!(
            "nothing of session {session} is recorded (vakbus record --session {session}); \
             listening from now on"
        ),
        (Some(_), true) => {
            let past = out::counted(viewer.past_events(), "event", "events");
            format!("{past} of the past of session {session}; listening from there on")
        }
    }
}

/// Nothing that was before.
const NO_PAST: Window = Window { bytes: 0, events: 0, age: None };

/// What tells of a terminal or a stream and is no part of what it said.
const MARKS: [&str; 3] = [TERMINAL_SIZE, TERMINAL_END, TOKENS_END];
