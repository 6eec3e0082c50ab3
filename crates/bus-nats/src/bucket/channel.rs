//! A consumer of a watch's own: what it delivers, in order and without a gap, or its end.

use std::time::Duration;

use async_nats::{Message, StatusCode, Subscriber};
use bus_core::{Error, ErrorKind, Result};
use bus_envelope::Timestamp;
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};

use super::layout::Place;
use crate::{api::Api, codec::get, connection::ConnectionState};

/// An open consumer; dropping it removes it from the server.
pub(super) struct Channel {
    api: Api,
    /// `<stream>.<consumer>`.
    name: String,
    messages: Subscriber,
    /// The connection's state at its beginning: with another one, nothing is sure any more.
    pub(super) state: ConnectionState,
    delivered: u64,
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

#[derive(Serialize)]
struct Create<'a> {
    stream_name: &'a str,
    config: Config<'a>,
    action: &'static str,
}

#[derive(Serialize)]
struct Config<'a> {
    name: &'a str,
    deliver_subject: &'a str,
    deliver_policy: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    opt_start_seq: Option<u64>,
    ack_policy: &'static str,
    replay_policy: &'static str,
    filter_subject: &'a str,
    flow_control: bool,
    idle_heartbeat: u128,
    inactive_threshold: u128,
    max_deliver: i64,
    mem_storage: bool,
    num_replicas: u64,
}

#[derive(Deserialize)]
struct Created {
    #[serde(default)]
    num_pending: u64,
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
        let inbox = connection.new_inbox();
        let consumer: String = inbox.chars().map(plain).collect();
        let messages = connection.subscribe(OP, inbox.clone()).await?;
        let name = format!("{}.{consumer}", place.stream);
        let mut channel = Self {
            api: api.clone(),
            name,
            messages,
            state,
            delivered: 0,
            is_made: false,
            heard: Instant::now(),
        };
        let config = Config {
            name: &consumer,
            deliver_subject: &inbox,
            deliver_policy: if after == 0 { "all" } else { "by_start_sequence" },
            opt_start_seq: (after > 0).then(|| after.saturating_add(1)),
            ack_policy: "none",
            replay_policy: "instant",
            filter_subject: subjects,
            flow_control: true,
            idle_heartbeat: HEARTBEAT.as_nanos(),
            inactive_threshold: UNHEARD.as_nanos(),
            max_deliver: 1,
            mem_storage: true,
            num_replicas: 1,
        };
        let create = Create { stream_name: &place.stream, config, action: "create" };
        // The subjects stand in the call, so that watching can be granted by the key.
        let verb = format!("CONSUMER.CREATE.{}.{subjects}", channel.name);
        let created: Created = api
            .call(OP, &verb, &create)
            .await
            .map_err(|failure| failure.into_error(OP, &place.stream))?;
        channel.is_made = true;
        Ok((channel, created.num_pending))
    }

    /// The next thing told. Cancel safe.
    pub(super) async fn next(&mut self) -> Told {
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
                    return Told::Broken;
                }
                heard.ok().flatten()
            }
        };
        self.heard = Instant::now();
        match message {
            Some(message) => self.read(message, is_now).await,
            None => Told::Broken,
        }
    }

    async fn read(&mut self, message: Message, is_now: bool) -> Told {
        if let Some(status) = message.status {
            return self.read_status(status, message, is_now).await;
        }
        let Some(position) = message.reply.as_deref().and_then(Position::parse) else {
            return Told::Nothing;
        };
        self.delivered = self.delivered.saturating_add(1);
        if position.delivered != self.delivered {
            return Told::Broken;
        }
        let Position { seq, time, pending, .. } = position;
        Told::Stored(Stored { message, seq, time, pending, is_now })
    }

    async fn read_status(&self, status: StatusCode, message: Message, is_now: bool) -> Told {
        if status.as_u16() != CONTROL {
            return Told::Broken;
        }
        let header =
            |name: &'static str| message.headers.as_ref().and_then(|headers| get(headers, name));
        let said = header(LAST_DELIVERED).and_then(|said| said.parse::<u64>().ok());
        if said.is_some_and(|said| said != self.delivered) {
            return Told::Broken;
        }
        let stalled = header(STALLED).map(str::to_owned);
        let is_quiet = stalled.is_none() && message.reply.is_none();
        if let Some(go_on) = stalled.or(message.reply.map(|subject| subject.to_string())) {
            let connection = self.api.connection();
            if connection.publish(OP, go_on, None, None, Bytes::new()).await.is_err() {
                return Told::Broken;
            }
        }
        if is_quiet { Told::Quiet { is_now } } else { Told::Nothing }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
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

/// What the reply subject of a delivered message says.
struct Position {
    seq: u64,
    delivered: u64,
    time: Timestamp,
    pending: u64,
}

impl Position {
    /// `$JS.ACK.[<domain>.<account>.]<stream>.<consumer>.<attempt>.<seq>.<delivered>.<time>.
    /// <pending>[.<random>]`.
    fn parse(reply: &str) -> Option<Self> {
        let tokens: Vec<&str> = reply.strip_prefix("$JS.ACK.")?.split('.').collect();
        let own = if tokens.len() >= 9 { tokens.get(2..)? } else { tokens.as_slice() };
        let [_, _, _, seq, delivered, time, pending, ..] = own else { return None };
        Some(Self {
            seq: seq.parse().ok()?,
            delivered: delivered.parse().ok()?,
            time: Timestamp::from_unix_ns(time.parse().ok()?),
            pending: pending.parse().ok()?,
        })
    }
}

fn plain(c: char) -> char {
    if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }
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
const CONTROL: u16 = 100;
const STALLED: &str = "Nats-Consumer-Stalled";
/// What a quiet consumer told last: who took less misses something.
const LAST_DELIVERED: &str = "Nats-Last-Consumer";
/// How often a quiet consumer says that it is there.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Two heartbeats missed: the consumer counts as lost.
const SILENCE: Duration = Duration::from_millis(2_500);
/// How long the server keeps a consumer that nobody listens to.
const UNHEARD: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
