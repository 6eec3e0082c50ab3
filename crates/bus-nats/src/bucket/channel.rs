//! A consumer of a watch's own: what it delivers, in order and without a gap, or its end.

use std::time::Duration;

use async_nats::{Message, StatusCode, Subscriber};
use bus_core::{Error, ErrorKind, Result};
use bus_envelope::Timestamp;
use futures_util::{FutureExt, StreamExt};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::layout::Place;
use crate::{
    api::{Api, Position, reader_name},
    codec::get,
    connection::{ConnectionState, Mark},
};

/// An open consumer, which is pulled from. Dropping it ends it: at once where this connection may
/// remove it, else when nobody has pulled for a while.
pub(super) struct Channel {
    api: Api,
    /// `<stream>.<consumer>`.
    name: String,
    /// What is asked for more.
    asked_on: String,
    inbox: String,
    messages: Subscriber,
    /// Since when refusals are of this consumer.
    mark: Mark,
    /// The connection's state at its beginning: with another one, nothing is sure any more.
    pub(super) state: ConnectionState,
    delivered: u64,
    /// How many messages may still come of what was asked for.
    asked: usize,
    /// The server has said that it is made.
    is_made: bool,
    /// When something was last taken from it.
    heard: Instant,
}

/// What a consumer told.
#[expect(clippy::large_enum_variant, reason = "the large one is the usual one")]
pub(super) enum Told {
    /// A stored message.
    Stored(Stored),
    /// Nothing waits to be told, as far as the server knew when it said so.
    Quiet {
        /// Whether it said so just now.
        is_now: bool,
    },
    /// Nothing to act on.
    Nothing,
    /// Something is missing, or the consumer ended: what follows cannot be trusted.
    Broken,
    /// Nothing may be pulled.
    Denied(Error),
}

/// A stored message and where it stands.
pub(super) struct Stored {
    pub(super) message: Message,
    pub(super) seq: u64,
    pub(super) time: Timestamp,
    /// How many are still to come.
    pub(super) pending: u64,
    /// Whether it came just now; else it lay here for as long as nobody polled.
    pub(super) is_now: bool,
}

impl Channel {
    /// Opens a consumer of `subjects` that tells what lies behind `after`, and says how much that
    /// is. Cancel safe: what was made ends by itself.
    pub(super) async fn open(
        api: &Api,
        place: &Place,
        subjects: &str,
        after: u64,
    ) -> Result<(Self, u64)> {
        let connection = api.connection();
        let state = *connection.states().borrow();
        let (mark, inbox) = (connection.violation_mark(), connection.new_inbox());
        let (stream, consumer) = (&place.stream, reader_name(&inbox));
        let messages = connection.subscribe(OP, inbox.clone()).await?;
        let mut channel = Self {
            api: api.clone(),
            name: format!("{stream}.{consumer}"),
            asked_on: connection.api_subject(&format!("CONSUMER.MSG.NEXT.{stream}.{consumer}")),
            inbox,
            messages,
            mark,
            state,
            delivered: 0,
            asked: 0,
            is_made: false,
            heard: Instant::now(),
        };
        // The subjects stand in the call, so that watching can be granted by the key.
        let wanted = (subjects, after.saturating_add(1), UNHEARD);
        let made = api.make_reader(OP, (stream, &consumer), wanted).await?;
        channel.is_made = true;
        Ok((channel, made.num_pending))
    }

    /// The next thing told. Cancel safe.
    pub(super) async fn next(&mut self) -> Told {
        if self.asked <= BATCH / 2 && self.ask().await.is_err() {
            return Told::Broken;
        }
        // Without a budget: its end would look as if nothing lay here.
        let waiting = tokio::task::unconstrained(self.messages.next()).now_or_never();
        let is_now = waiting.is_none();
        let message = match waiting {
            Some(message) => message,
            None => {
                let due = self.heard + SILENCE;
                let heard = timeout_at(due, self.messages.next()).await;
                // A process that stood still hears what was said long ago as if it were new.
                if Instant::now() > due {
                    return self.silent();
                }
                heard.ok().flatten()
            }
        };
        self.heard = Instant::now();
        match message {
            Some(message) => self.read(message, is_now),
            None => Told::Broken,
        }
    }

    /// Asks for more, before all of it has come: what follows is on its way meanwhile. Dropped, it
    /// may have asked: then more comes than is counted.
    async fn ask(&mut self) -> Result<()> {
        let missing = BATCH.saturating_sub(self.asked);
        let body = json!({
            "batch": missing,
            "expires": ASKED_FOR.as_nanos(),
            "idle_heartbeat": HEARTBEAT.as_nanos(),
        });
        let (asked_on, inbox) = (self.asked_on.clone(), Some(self.inbox.clone()));
        let body = body.to_string().into();
        self.api.connection().publish(OP, asked_on, inbox, None, body).await?;
        self.asked = self.asked.saturating_add(missing);
        Ok(())
    }

    /// What it means that nothing came in time.
    fn silent(&self) -> Told {
        match self.api.connection().refused_since(OP, self.mark, &self.asked_on) {
            Err(denied) => Told::Denied(denied),
            Ok(()) => Told::Broken,
        }
    }

    fn read(&mut self, message: Message, is_now: bool) -> Told {
        if let Some(status) = message.status {
            return self.read_status(status, &message, is_now);
        }
        let Some(position) = message.reply.as_deref().and_then(Position::parse) else {
            return Told::Nothing;
        };
        self.asked = self.asked.saturating_sub(1);
        self.delivered = self.delivered.saturating_add(1);
        if position.delivered != self.delivered {
            return Told::Broken;
        }
        let Position { seq, time, pending, .. } = position;
        Told::Stored(Stored { message, seq, time, pending, is_now })
    }

    fn read_status(&mut self, status: StatusCode, message: &Message, is_now: bool) -> Told {
        match status.as_u16() {
            QUIET => {}
            OVER => {
                let left = message.headers.as_ref().and_then(|headers| get(headers, LEFT));
                let left = left.and_then(|left| left.parse().ok());
                self.asked = self.asked.saturating_sub(left.unwrap_or(self.asked));
                return Told::Nothing;
            }
            _ => return Told::Broken,
        }
        let said = message.headers.as_ref().and_then(|headers| get(headers, LAST_DELIVERED));
        let said = said.and_then(|said| said.parse::<u64>().ok());
        if said.is_some_and(|said| said != self.delivered) {
            return Told::Broken;
        }
        Told::Quiet { is_now }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        if !self.api.keeps_itself() {
            return;
        }
        let (api, verb) = (self.api.clone(), format!("CONSUMER.DELETE.{}", self.name));
        // The server answers calls beside each other: one that is being made may not be there yet.
        let pauses = if self.is_made { &PAUSES[..1] } else { &PAUSES[..] };
        // Without a runtime, or when this fails, the server removes it for want of a reader.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                for &pause in pauses {
                    tokio::time::sleep(pause).await;
                    let asked = api.ask::<serde_json::Value>(OP, &verb).await;
                    if asked.is_ok() || asked.is_err_and(|why| why.err_code() != Some(UNKNOWN)) {
                        return;
                    }
                }
            });
        }
    }
}

/// An error of a watch.
pub(super) fn failed(kind: ErrorKind, why: &'static str, place: &Place) -> Error {
    Error::new(kind, OP, why).at(&place.stream)
}

/// When it is tried to remove a consumer that may still be in the making.
const PAUSES: [Duration; 7] = [
    Duration::ZERO,
    Duration::from_millis(10),
    Duration::from_millis(30),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
];
/// "consumer not found".
const UNKNOWN: u32 = 10_014;
pub(super) const OP: &str = "watch";
/// A heartbeat: nothing is left to tell.
const QUIET: u16 = 100;
/// What was asked for is over by its time.
const OVER: u16 = 408;
/// What a quiet consumer told last: who took less misses something.
const LAST_DELIVERED: &str = "Nats-Last-Consumer";
/// How many of what was asked for did not come in its time.
const LEFT: &str = "Nats-Pending-Messages";
/// How many messages are asked for at once; so many wait here at most when nobody polls.
const BATCH: usize = 128;
/// For how long they are asked for.
const ASKED_FOR: Duration = Duration::from_secs(30);
/// How often a quiet consumer says that it is there.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// How long the server keeps a consumer that nobody asks for more.
const UNHEARD: Duration = Duration::from_secs(10);
/// Two heartbeats missed: the consumer counts as lost.
const SILENCE: Duration = Duration::from_millis(2_500);

#[cfg(test)]
mod tests;
