//! Pulls from one of the server's consumers: what was asked for, and what came.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_nats::{Message, StatusCode, Subscriber};
use bus_core::{Error, ErrorKind, Result};
use bus_envelope::Timestamp;
use futures_util::{FutureExt, StreamExt};
use serde_json::json;
use tokio::{task::unconstrained, time::Instant};

use crate::connection::{Connection, Mark};

/// The pulls of one engine from one consumer. All answers come on one subject.
pub(super) struct Pulls {
    connection: Arc<Connection>,
    /// Where the API is asked for the next messages of the consumer.
    asked_on: String,
    inbox: String,
    answers: Subscriber,
    /// Nothing had come then that was not taken: what is at hand came later.
    quiet_at: Instant,
    last_number: u64,
    /// What is still to come of each pull, and when the server has given it up at the latest.
    open: BTreeMap<u64, (usize, Instant)>,
    /// From when on a refusal counts.
    mark: Mark,
    /// When to look for one; the server answers nothing to what it refuses.
    look_at: Option<Instant>,
}

/// What came.
pub(super) enum Pulled {
    /// A message.
    Message(Message),
    /// A pull is over, or goes on: nothing to do.
    Nothing,
    /// The consumer is not there.
    Gone,
}

/// What the subject for the acknowledgement says about a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) seq: u64,
    pub(super) delivered: u32,
    pub(super) stored: Timestamp,
    /// The how-manieth delivery of the consumer it is.
    pub(super) nth: u64,
    /// How many messages the consumer had left.
    pub(super) left: u64,
}

impl Pulls {
    pub(super) async fn open(
        connection: Arc<Connection>,
        (stream, consumer): (&str, &str),
    ) -> Result<Self> {
        let inbox = connection.new_inbox();
        let mark = connection.violation_mark();
        let answers = connection.subscribe(NEXT, format!("{inbox}.*")).await?;
        let asked_on = next_subject(&connection, stream, consumer);
        Ok(Self {
            connection,
            asked_on,
            inbox,
            answers,
            quiet_at: Instant::now(),
            last_number: 0,
            open: BTreeMap::new(),
            mark,
            look_at: None,
        })
    }

    /// Since when at the earliest what was taken last has been here.
    pub(super) const fn came_after(&self) -> Instant {
        self.quiet_at
    }

    /// Nothing is at hand now.
    pub(super) fn note_quiet(&mut self) {
        self.quiet_at = Instant::now();
    }

    /// When to ask whether the server refused to hear of a pull.
    pub(super) const fn look_at(&self) -> Option<Instant> {
        self.look_at
    }

    /// Whether the server refused to hear of a pull.
    ///
    /// # Errors
    /// `Denied`.
    pub(super) fn check(&mut self, now: Instant) -> Result<()> {
        if self.look_at.is_none_or(|look_at| look_at > now) {
            return Ok(());
        }
        self.look_at = None;
        let mark = std::mem::replace(&mut self.mark, self.connection.violation_mark());
        self.connection.refused_since(NEXT, mark, &self.asked_on)?;
        self.connection.refused_since(NEXT, mark, &format!("{}.*", self.inbox))
    }

    /// How many messages may still come.
    pub(super) fn open_count(&self) -> usize {
        self.open.values().map(|&(left, _)| left).sum()
    }

    /// When the first pull is over at the latest.
    pub(super) fn first_end(&self) -> Option<Instant> {
        self.open.values().map(|&(_, end)| end).min()
    }

    /// Forgets pulls that the server cannot answer any more.
    pub(super) fn forget(&mut self, now: Instant) {
        self.open.retain(|_, &mut (_, end)| end > now);
    }

    /// Forgets all pulls: they went with the connection, or with a pause.
    pub(super) fn forget_all(&mut self) {
        self.open.clear();
    }

    /// Asks for up to `count` messages, now or within `wait`.
    pub(super) async fn wait_for(&mut self, count: usize, wait: Duration) -> Result<()> {
        let expires = i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX);
        let count = count.min(COUNT_MAX);
        self.ask(&json!({ "batch": count, "expires": expires }), (count, wait)).await
    }

    /// What is there now, at most `count` messages.
    ///
    /// # Errors
    /// `NotFound` when the consumer is not there; `Timeout`, `Unavailable`. What came before stays
    /// in `got`.
    pub(super) async fn take(&mut self, count: usize, got: &mut Vec<Message>) -> Result<()> {
        let number = self.begin_take(count).await?;
        while let Some(message) = self.next_of(number).await? {
            got.push(message);
        }
        Ok(())
    }

    /// Asks for what is there now, at most `count` messages. Returns the number of the pull.
    pub(super) async fn begin_take(&mut self, count: usize) -> Result<u64> {
        let count = count.min(COUNT_MAX);
        let body = json!({ "batch": count, "no_wait": true });
        self.ask(&body, (count, AT_ONCE)).await?;
        Ok(self.last_number)
    }

    /// The next message until the pull `number` is over.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub(super) async fn next_of(&mut self, number: u64) -> Result<Option<Message>> {
        let connection = Arc::clone(&self.connection);
        while self.open.contains_key(&number) {
            let answer = connection.in_time(NEXT, self.next_answer()).await;
            if answer.is_err() {
                self.open.remove(&number);
            }
            let answer = answer?.ok_or_else(ended)?;
            match self.sort(answer) {
                Pulled::Message(message) => return Ok(Some(message)),
                Pulled::Nothing => {}
                Pulled::Gone => {
                    let why = "there is no such consumer";
                    return Err(Error::new(ErrorKind::NotFound, NEXT, why));
                }
            }
        }
        Ok(None)
    }

    /// What comes next; `None` when the connection ended.
    pub(super) async fn next(&mut self) -> Option<Pulled> {
        let answer = self.next_answer().await?;
        Some(self.sort(answer))
    }

    async fn next_answer(&mut self) -> Option<Message> {
        if let Some(answer) = self.answer_at_hand() {
            return answer;
        }
        let answer = self.answers.next().await;
        self.note_quiet();
        answer
    }

    /// What came, or that nothing comes any more; `None` when nothing is there now.
    fn answer_at_hand(&mut self) -> Option<Option<Message>> {
        // A task that has done much would be told that there is nothing.
        unconstrained(self.answers.next()).now_or_never()
    }

    /// What came already.
    pub(super) fn at_hand(&mut self) -> Option<Pulled> {
        let Some(answer) = self.answer_at_hand() else {
            self.note_quiet();
            return None;
        };
        answer.map(|answer| self.sort(answer))
    }

    /// Ends all pulls at the server; what came until then is returned.
    pub(super) async fn end(mut self) -> Vec<Message> {
        let mut left = Vec::new();
        if self.answers.drain().await.is_err() {
            return left;
        }
        let connection = Arc::clone(&self.connection);
        while let Ok(Some(answer)) = connection.in_time(NEXT, self.answers.next()).await {
            if let Pulled::Message(message) = self.sort(answer) {
                left.push(message);
            }
        }
        left
    }

    async fn ask(
        &mut self,
        body: &serde_json::Value,
        (count, wait): (usize, Duration),
    ) -> Result<()> {
        if self.open.is_empty() {
            // Everything before was taken: what comes now is asked for now.
            self.note_quiet();
        }
        self.last_number += 1;
        let reply = format!("{}.{}", self.inbox, self.last_number);
        let body = body.to_string().into();
        self.connection.publish(NEXT, self.asked_on.clone(), Some(reply), None, body).await?;
        // A second longer than the server waits: its word may be under way.
        let now = Instant::now();
        let end = now + wait + Duration::from_secs(1);
        if self.last_number == 1 || self.last_number.is_multiple_of(LOOK_EVERY) {
            self.look_at = Some(now + LOOK_AFTER);
        }
        self.open.insert(self.last_number, (count, end));
        Ok(())
    }

    fn sort(&mut self, answer: Message) -> Pulled {
        let Some(status) = answer.status else {
            // The server answers pulls in the order they came.
            if let Some(mut oldest) = self.open.first_entry() {
                oldest.get_mut().0 = oldest.get().0.saturating_sub(1);
                if oldest.get().0 == 0 {
                    oldest.remove();
                }
            }
            return Pulled::Message(answer);
        };
        if status == HEARTBEAT {
            return Pulled::Nothing;
        }
        let number = answer.subject.rsplit('.').next().and_then(|text| text.parse().ok());
        if let Some(number) = number {
            self.open.remove(&number);
        }
        let text = answer.description.as_deref().unwrap_or_default();
        let is_gone = status == StatusCode::NO_RESPONDERS || text.contains("Consumer Deleted");
        if is_gone { Pulled::Gone } else { Pulled::Nothing }
    }
}

impl Place {
    /// Reads `$JS.ACK.<stream>.<consumer>.<delivered>.<seq>.<nth>.<time>.<left>`, or the longer
    /// form with a domain and an account before the stream, and maybe a random level at its end.
    pub(super) fn read(reply: &str) -> Option<Self> {
        let levels = reply.strip_prefix(ACKS)?;
        let from = match levels.split('.').count() {
            7 => 2,
            9 | 10 => 4,
            _ => return None,
        };
        let mut levels = levels.split('.').skip(from).map(|level| level.parse::<u64>().ok());
        let mut number = || levels.next().flatten();
        let (delivered, seq, nth) = (number()?, number()?, number()?);
        let (stored, left) = (number()?, number()?);
        Some(Self {
            delivered: u32::try_from(delivered).unwrap_or(u32::MAX),
            seq,
            stored: Timestamp::from_unix_ns(i128::from(stored)),
            nth,
            left,
        })
    }

    /// The stream, and the server's consumer that delivered from it.
    pub(super) fn of(reply: &str) -> Option<(&str, &str)> {
        let levels = reply.strip_prefix(ACKS)?;
        let is_short = levels.split('.').count() == 7;
        let mut levels = levels.split('.').skip(if is_short { 0 } else { 2 });
        Some((levels.next()?, levels.next()?))
    }
}

/// Where a consumer is asked for its next messages.
pub(super) fn next_subject(connection: &Connection, stream: &str, consumer: &str) -> String {
    connection.api_subject(&format!("CONSUMER.MSG.NEXT.{stream}.{consumer}"))
}

fn ended() -> Error {
    Error::new(ErrorKind::Unavailable, NEXT, "the connection ended")
}

const NEXT: &str = "next";
/// How long what is there now may take.
const AT_ONCE: Duration = Duration::from_secs(20);
/// How long a refusal may take.
const LOOK_AFTER: Duration = Duration::from_millis(500);
/// After how many pulls it is looked again whether they are heard of.
const LOOK_EVERY: u64 = 64;
/// The most messages of one pull.
const COUNT_MAX: usize = 1000;
/// Before the subjects of acknowledgements.
const ACKS: &str = "$JS.ACK.";
const HEARTBEAT: StatusCode = StatusCode::IDLE_HEARTBEAT;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_delivery_is_read_from_both_forms_of_its_reply() {
        let stored = Timestamp::from_unix_ns(1_796);
        let place = Place { seq: 7, delivered: 2, stored, nth: 9, left: 0 };
        let short = "$JS.ACK.W.coder.2.7.9.1796.0";
        let long = "$JS.ACK.hub.ACCHASH.W.coder.2.7.9.1796.0.token";
        for (reply, consumer) in [(short, "coder"), (long, "coder")] {
            assert_eq!(Place::read(reply), Some(place), "{reply}");
            assert_eq!(Place::of(reply), Some(("W", consumer)), "{reply}");
        }
        for bad in [
            "$JS.ACK.W.coder.x.7.9.1796.0",
            "$JS.ACK.W.coder.2.7.*.1796.0",
            "$JS.ACK.W.coder.2.7.9.1796.>",
            "$JS.ACK.W.coder.2.7.9.1796.0.x",
            "$JS.ACK.hub.ACCHASH.W.coder.2.7.9.1796.0.token.more",
            "$JS.API.STREAM.W.coder.2.7.9.1796.0",
        ] {
            assert_eq!(Place::read(bad), None, "{bad}");
        }
        assert_eq!(Place::read("_INBOX.1"), None);
        assert_eq!(Place::of("work.W.coder.2.7.9.1796.0.x"), None);
    }

    proptest! {
        #[test]
        fn a_reply_of_any_text_is_read_or_refused(
            reply in "(\\$JS\\.ACK\\.)?([0-9a-z]{0,20}\\.){0,12}",
        ) {
            let _either = (Place::read(&reply), Place::of(&reply));
        }
    }
}
