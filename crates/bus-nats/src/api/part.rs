//! A part of a stream in order, by a consumer that nobody else knows of.
//!
//! The part stands in the subject on which the consumer is made, and no other one can be asked for
//! there: so reading can be granted by the part. Its end is what lay there when it was made.

use std::{collections::VecDeque, time::Duration};

use async_nats::{Message, Subscriber};
use bus_core::{Error, ErrorKind, Result};
use bus_envelope::Timestamp;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};

use super::{Api, RawStored};
use crate::connection::Mark;

/// What is read of a part of a stream. Dropped: the consumer ends by itself.
pub(crate) struct Part {
    api: Api,
    op: &'static str,
    stream: String,
    /// What is asked for the next messages.
    asked_on: String,
    inbox: String,
    answers: Subscriber,
    mark: Mark,
    /// How many of it are to come.
    left: u64,
    /// How many came.
    delivered: u64,
    got: VecDeque<RawStored>,
}

/// What is asked to make a consumer of its own.
#[derive(Serialize)]
struct CreateConsumer<'a> {
    stream_name: &'a str,
    config: ConsumerConfig<'a>,
    action: &'static str,
}

/// A consumer that is pulled from, and forgotten when nobody does.
#[derive(Serialize)]
struct ConsumerConfig<'a> {
    name: &'a str,
    deliver_policy: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    opt_start_seq: Option<u64>,
    ack_policy: &'static str,
    replay_policy: &'static str,
    filter_subject: &'a str,
    inactive_threshold: u128,
    mem_storage: bool,
    num_replicas: u64,
}

/// What the server says of a consumer that it made.
#[derive(Deserialize)]
pub(crate) struct CreatedConsumer {
    /// How many messages lie before it.
    #[serde(default)]
    pub(crate) num_pending: u64,
}

/// What the reply subject of a delivered message says.
pub(crate) struct Position {
    pub(crate) seq: u64,
    pub(crate) delivered: u64,
    pub(crate) time: Timestamp,
    pub(crate) pending: u64,
}

impl Api {
    /// Makes a consumer of `filter` that begins at `from` and ends when nobody has pulled from it
    /// for `unread`.
    pub(crate) async fn make_reader(
        &self,
        op: &'static str,
        (stream, name): (&str, &str),
        (filter, from, unread): (&str, u64, Duration),
    ) -> Result<CreatedConsumer> {
        let config = ConsumerConfig {
            name,
            deliver_policy: if from <= 1 { "all" } else { "by_start_sequence" },
            opt_start_seq: (from > 1).then_some(from),
            ack_policy: "none",
            replay_policy: "instant",
            filter_subject: filter,
            inactive_threshold: unread.as_nanos(),
            mem_storage: true,
            num_replicas: 1,
        };
        let create = CreateConsumer { stream_name: stream, config, action: "create" };
        let verb = format!("CONSUMER.CREATE.{stream}.{name}.{filter}");
        let made = self.call(op, &verb, &create).await;
        made.map_err(|failure| failure.into_error(op, stream))
    }

    /// What `stream` holds of `filter` now, from `from` on.
    ///
    /// # Errors
    /// `Denied`, `NotFound`; those of a call.
    pub(crate) async fn read_part(
        &self,
        op: &'static str,
        stream: &str,
        (filter, from): (&str, u64),
    ) -> Result<Part> {
        let connection = self.connection();
        let (mark, inbox) = (connection.violation_mark(), connection.new_inbox());
        let answers = connection.subscribe(op, inbox.clone()).await?;
        let name = reader_name(&inbox);
        let made = self.make_reader(op, (stream, &name), (filter, from, UNREAD)).await?;
        Ok(Part {
            api: self.clone(),
            op,
            stream: stream.to_owned(),
            asked_on: connection.api_subject(&format!("CONSUMER.MSG.NEXT.{stream}.{name}")),
            inbox,
            answers,
            mark,
            left: made.num_pending,
            delivered: 0,
            got: VecDeque::new(),
        })
    }
}

impl Part {
    /// Where the next message is; `None` at the end.
    ///
    /// # Errors
    /// `Denied`; `Unavailable`, `Timeout`, when the rest is not told, as to who reads on after a
    /// minute alone.
    pub(crate) async fn peek(&mut self) -> Result<Option<u64>> {
        if self.got.is_empty() && self.left > 0 {
            self.pull().await?;
        }
        Ok(self.got.front().map(|next| next.seq))
    }

    /// The message that was seen by [`peek`](Self::peek).
    pub(crate) fn take(&mut self) -> Option<RawStored> {
        self.got.pop_front()
    }

    async fn pull(&mut self) -> Result<()> {
        let connection = self.api.connection();
        let batch = self.left.min(MESSAGES_AT_ONCE);
        let body = serde_json::json!({ "batch": batch, "no_wait": true }).to_string();
        let (asked_on, inbox) = (self.asked_on.clone(), Some(self.inbox.clone()));
        connection.publish(self.op, asked_on, inbox, None, body.into()).await?;
        for _ in 0..batch {
            let places = (self.asked_on.as_str(), self.inbox.as_str());
            let answer = connection.answer_on(self.op, self.mark, places, self.answers.next());
            let answer = answer.await?.ok_or_else(|| self.broken("the connection ended"))?;
            match answer.status.map(|status| status.as_u16()) {
                None => {}
                // What was removed since it was counted does not come.
                Some(404 | 408) => {
                    self.left = 0;
                    return Ok(());
                }
                Some(status) => return Err(self.broken(&format!("the server answers {status}"))),
            }
            let position = answer.reply.as_deref().and_then(Position::parse);
            let position = position.ok_or_else(|| self.broken("a message without a position"))?;
            self.delivered += 1;
            if position.delivered != self.delivered {
                return Err(self.broken("a message is missing"));
            }
            self.left = if position.pending == 0 { 0 } else { self.left.saturating_sub(1) };
            self.got.push_back(stored(answer, &position));
            if self.left == 0 {
                break;
            }
        }
        Ok(())
    }

    fn broken(&self, why: &str) -> Error {
        Error::new(ErrorKind::Unavailable, self.op, why.to_owned()).at(&self.stream)
    }
}

fn stored(message: Message, position: &Position) -> RawStored {
    RawStored {
        subject: message.subject.to_string(),
        seq: position.seq,
        time: position.time,
        headers: message.headers.unwrap_or_default(),
        body: message.payload,
    }
}

impl Position {
    /// `$JS.ACK.[<domain>.<account>.]<stream>.<consumer>.<attempt>.<seq>.<delivered>.<time>.
    /// <pending>[.<random>]`.
    pub(crate) fn parse(reply: &str) -> Option<Self> {
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

/// A consumer's name that nobody can guess: of an inbox, which nobody can either.
pub(crate) fn reader_name(inbox: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    inbox.chars().map(plain).collect()
}

const MESSAGES_AT_ONCE: u64 = 256;
/// How long the server keeps a consumer of who reads on that slowly.
const UNREAD: Duration = Duration::from_secs(60);
