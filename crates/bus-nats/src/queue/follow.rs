//! Following the board: all records that a filter matches, and then each change of them.
//!
//! The server is asked for that by a consumer of its own, in memory, whose filter stands in the
//! call's subject: a right to follow one queue's records is no right to the others'. It delivers in
//! the order of storing.

use std::{sync::Arc, time::Duration};

use async_nats::{Message, StatusCode, Subscriber};
use bus_core::{Error, ErrorKind, Result};
use bus_envelope::Timestamp;
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::{
    consumer::nonce,
    pull::{Place, next_subject},
    store::BOARD,
};
use crate::{api::Api, codec::get, connection::Mark};

/// A part of the board, followed.
pub(super) struct Follower {
    api: Api,
    /// The server's consumer.
    name: String,
    inbox: String,
    answers: Subscriber,
    mark: Mark,
    /// How many pulls there were.
    pulls: u64,
    /// How many records the one under way may still bring.
    left: usize,
    /// How many records came.
    came: u64,
    /// Whether the server said that there is nothing more for now.
    is_at_end: bool,
    /// How often nobody heard a pull, before any was heard.
    unheard: u32,
    /// How long to wait before the next pull.
    pause: Option<Duration>,
    silent_until: Instant,
}

/// Which records are followed.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) filter: String,
    /// Only where they are and how large, not what they hold.
    pub(super) is_bare: bool,
}

/// A record as the server tells of it.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) subject: String,
    pub(super) revision: u64,
    pub(super) stored: Timestamp,
    /// Whether nothing stands there any more.
    pub(super) is_gone: bool,
    pub(super) body: Bytes,
    /// How many more there are at this moment.
    pub(super) left: u64,
}

/// What came.
pub(super) enum Told {
    Record(Record),
    /// Nothing of interest.
    Nothing,
    /// Something may be missing from here on: it is to be followed anew.
    Lost,
}

/// What the server says of a consumer that it made.
#[derive(Deserialize)]
struct Made {
    num_pending: u64,
}

impl Follower {
    /// Begins to follow. Returns also how many records there are now.
    ///
    /// # Errors
    /// `NotFound` when there is no board; those of the API.
    pub(super) async fn open(api: &Api, op: &'static str, wanted: &Wanted) -> Result<(Self, u64)> {
        Self::open_until(api, op, (wanted, FORGOTTEN_AFTER)).await
    }

    async fn open_until(
        api: &Api,
        op: &'static str,
        (wanted, forgotten_after): (&Wanted, Duration),
    ) -> Result<(Self, u64)> {
        let connection = Arc::clone(api.connection());
        let (name, inbox) = (nonce(&connection), connection.new_inbox());
        let mark = connection.violation_mark();
        let answers = connection.subscribe(op, format!("{inbox}.*")).await?;
        let Wanted { filter, is_bare } = wanted;
        let body = json!({
            "stream_name": BOARD,
            "action": "create",
            "config": {
                "name": name,
                "filter_subject": filter,
                "deliver_policy": "last_per_subject",
                "ack_policy": "none",
                "replay_policy": "instant",
                "headers_only": is_bare,
                "inactive_threshold": nanos(forgotten_after),
                "num_replicas": 1,
                "mem_storage": true,
            },
        });
        let verb = format!("CONSUMER.CREATE.{BOARD}.{name}.{filter}");
        let made = api.call::<Made>(op, &verb, &body).await;
        let made = made.map_err(|failure| failure.into_error(op, BOARD))?;
        let follower = Self {
            api: api.clone(),
            name,
            inbox,
            answers,
            mark,
            pulls: 0,
            left: 0,
            came: 0,
            is_at_end: false,
            unheard: 0,
            pause: None,
            silent_until: Instant::now() + BEAT * 2,
        };
        Ok((follower, made.num_pending))
    }

    /// All records there are, in the order of their revisions; none when there is no board.
    ///
    /// # Errors
    /// Those of the API; `Unavailable` when it cannot be read to its end.
    pub(super) async fn all(api: &Api, op: &'static str, wanted: &Wanted) -> Result<Vec<Record>> {
        let mut pauses = crate::api::new_stream_pauses();
        loop {
            let opened = Self::open_until(api, op, (wanted, READ_FORGOTTEN_AFTER)).await;
            let (mut follower, left) = match opened {
                Ok(opened) => opened,
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
                Err(error) => return Err(error),
            };
            let read = follower.read(op, left).await;
            follower.remove(op).await;
            match (read, pauses.next()) {
                (Err(error), Some(pause)) if error.kind() == ErrorKind::Unavailable => {
                    tokio::time::sleep(pause).await;
                }
                (read, _) => return read,
            }
        }
    }

    /// Has the server forget it at once, where this connection may.
    async fn remove(self, op: &'static str) {
        if !self.api.keeps_itself() {
            return;
        }
        let connection = self.api.connection();
        let asked_on = format!("CONSUMER.DELETE.{BOARD}.{}", self.name);
        let asked_on = connection.api_subject(&asked_on);
        // Nobody waits for it: one that stays is forgotten for want of a reader.
        let _asked = connection.publish(op, asked_on, None, None, Bytes::new()).await;
    }

    /// What there was when it was opened, `left` records, and what came meanwhile.
    ///
    /// Some of what was counted may be gone before it is told: the end is what the server says is
    /// the end.
    ///
    /// # Errors
    /// `Unavailable` when the server stops before that; `Timeout`, `Denied`.
    pub(super) async fn read(&mut self, op: &'static str, mut left: u64) -> Result<Vec<Record>> {
        let (mut records, end) = (Vec::new(), Instant::now() + READ_WITHIN);
        self.is_at_end = false;
        while left > 0 && !self.is_at_end {
            if Instant::now() >= end {
                let why = "the server does not come to the end of the board";
                return Err(Error::new(ErrorKind::Timeout, op, why));
            }
            let batch = usize::try_from(left).unwrap_or(AT_ONCE).min(AT_ONCE);
            self.ask(op, batch, json!({ "batch": batch, "no_wait": true })).await?;
            let connection = Arc::clone(self.api.connection());
            let asked_on = next_subject(self.api.connection(), BOARD, &self.name);
            let hears = format!("{}.*", self.inbox);
            let places = (asked_on.as_str(), hears.as_str());
            let answer = connection.answer_on(op, self.mark, places, self.answers.next());
            let Ok(answer) = timeout(UNANSWERED, answer).await else {
                // What it asked for went meanwhile: asked again, the server says so.
                self.left = 0;
                continue;
            };
            match answer?.map_or(Told::Lost, |answer| self.sort(answer)) {
                Told::Record(record) => {
                    left = record.left;
                    records.push(record);
                }
                Told::Nothing => {}
                Told::Lost => {
                    let why = "the server stopped in the middle of the board";
                    return Err(Error::new(ErrorKind::Unavailable, op, why));
                }
            }
        }
        // What follows is asked for in another way.
        self.left = 0;
        Ok(records)
    }

    /// Asks for what comes next, when nothing is asked for.
    pub(super) async fn go_on(&mut self, op: &'static str) -> Result<()> {
        if self.left > 0 {
            return Ok(());
        }
        let body = json!({
            "batch": AT_ONCE, "expires": nanos(PULL_WAIT), "idle_heartbeat": nanos(self.beat()),
        });
        self.ask(op, AT_ONCE, body).await
    }

    async fn ask(&mut self, op: &'static str, batch: usize, body: Value) -> Result<()> {
        if self.left > 0 {
            return Ok(());
        }
        if let Some(pause) = self.pause.take() {
            tokio::time::sleep(pause).await;
        }
        self.pulls += 1;
        let reply = format!("{}.{}", self.inbox, self.pulls);
        let asked_on = next_subject(self.api.connection(), BOARD, &self.name);
        let body = body.to_string().into();
        self.api.connection().publish(op, asked_on, Some(reply), None, body).await?;
        self.left = batch;
        self.note_heard();
        Ok(())
    }

    /// What comes next. Nothing is lost when this is dropped before it came.
    pub(super) async fn next(&mut self) -> Told {
        match self.answers.next().await {
            Some(answer) => self.sort(answer),
            None => Told::Lost,
        }
    }

    /// What came already.
    pub(super) fn at_hand(&mut self) -> Option<Told> {
        let answer = self.answers.next().now_or_never()?;
        Some(answer.map_or(Told::Lost, |answer| self.sort(answer)))
    }

    /// Whoever hears nothing until then hears no more.
    pub(super) const fn silent_until(&self) -> Instant {
        self.silent_until
    }

    fn beat(&self) -> Duration {
        // Who keeps a consumer of several servers may go while our own stays.
        if self.api.has_copies() { BEAT_OF_COPIES } else { BEAT }
    }

    fn note_heard(&mut self) {
        // By then two heartbeats did not come.
        self.silent_until = Instant::now() + self.beat() * 2 + A_SECOND;
    }

    fn sort(&mut self, answer: Message) -> Told {
        self.note_heard();
        let Some(status) = answer.status else { return self.sort_record(answer) };
        if status == StatusCode::IDLE_HEARTBEAT {
            self.unheard = UNHEARD_MAX;
            return Told::Nothing;
        }
        if status == StatusCode::NO_RESPONDERS && self.unheard < UNHEARD_MAX {
            // The consumer is there before every server has heard who has it.
            self.unheard += 1;
            (self.left, self.pause) = (0, Some(A_MOMENT * self.unheard));
            return Told::Nothing;
        }
        if status == StatusCode::TIMEOUT || status == StatusCode::NOT_FOUND {
            // That of an earlier pull, which brought all it could, says nothing of this one.
            if answer.subject.rsplit('.').next() == Some(self.pulls.to_string().as_str()) {
                self.left = 0;
                self.is_at_end = status == StatusCode::NOT_FOUND;
            }
            return Told::Nothing;
        }
        Told::Lost
    }

    fn sort_record(&mut self, message: Message) -> Told {
        let Some(place) = message.reply.as_deref().and_then(Place::read) else {
            return Told::Nothing;
        };
        self.left = self.left.saturating_sub(1);
        self.unheard = UNHEARD_MAX;
        self.came += 1;
        if place.nth != self.came {
            return Told::Lost;
        }
        let size = message.headers.as_ref().and_then(|headers| get(headers, SIZE));
        Told::Record(Record {
            subject: message.subject.into_string(),
            revision: place.seq,
            stored: place.stored,
            is_gone: size.map_or(message.payload.is_empty(), |size| size == "0"),
            body: message.payload,
            left: place.left,
        })
    }
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// How many records one pull asks for.
const AT_ONCE: usize = 1000;
/// How long the server keeps a pull. It answers in between, so an import keeps its way back.
const PULL_WAIT: Duration = Duration::from_secs(60);
const BEAT: Duration = Duration::from_secs(20);
const BEAT_OF_COPIES: Duration = Duration::from_secs(4);
/// How often a consumer that was made a moment ago is asked when nobody hears it.
const UNHEARD_MAX: u32 = 8;
const A_MOMENT: Duration = Duration::from_millis(5);
const A_SECOND: Duration = Duration::from_secs(1);
/// When the server forgets a consumer that nobody asks.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(30);
/// The same of one that is read once. Each takes room among those that the board may have.
const READ_FORGOTTEN_AFTER: Duration = Duration::from_secs(5);
/// How long all of the board may take.
const READ_WITHIN: Duration = Duration::from_secs(60);
/// How long the server may leave a pull that does not wait without an answer.
const UNANSWERED: Duration = Duration::from_secs(1);
/// How large the body is of what comes without it.
const SIZE: &str = "Nats-Msg-Size";

#[cfg(test)]
mod tests;
