//! Questions that change nothing, asked again while nobody answers.
//!
//! Where several servers keep a stream, who leads it answers, or one whose copy is current. While
//! they find out who that is, a question is dropped, and nobody says so. Measured on three servers:
//! of the first questions about a stream that was made a moment ago some were never answered.

use std::time::Duration;

use async_nats::{Message, Subscriber};
use bus_core::{Error, ErrorKind, Result};
use bytes::Bytes;
use futures_util::StreamExt;

use super::Api;

/// Whether a verb of the API changes nothing.
pub(super) fn is_question(verb: &str) -> bool {
    [".INFO.", ".LIST", ".NAMES", ".MSG.GET."].iter().any(|word| verb.contains(word))
}

/// How long to wait before a stream that was made a moment ago is asked again: the server says
/// that there is one before all of it listens.
pub(crate) fn new_stream_pauses() -> impl Iterator<Item = Duration> {
    [0, 2, 5, 10, 25, 50, 100, 200, 400, 800].into_iter().map(Duration::from_millis)
}

impl Api {
    /// Asks on `subject`, again and again within the time that a call may take.
    pub(super) async fn inquire(
        &self,
        op: &'static str,
        subject: &str,
        body: Bytes,
    ) -> Result<Message> {
        for wait in self.tries() {
            let asked = self.connection.request_within(op, (subject, None, body.clone()), wait);
            match asked.await {
                Err(error) if error.kind() == ErrorKind::Timeout => {}
                answer => return answer,
            }
        }
        Err(self.unanswered(op))
    }

    /// The same for a question with several answers: the first one, and where the others come.
    pub(super) async fn inquire_many(
        &self,
        op: &'static str,
        subject: &str,
        body: &Bytes,
    ) -> Result<Option<(Message, Answers)>> {
        let connection = &self.connection;
        for wait in self.tries() {
            // A place of its own each time: a late answer to an earlier try is none to this one.
            let (mark, inbox) = (connection.violation_mark(), connection.new_inbox());
            let mut coming = connection.subscribe(op, inbox.clone()).await?;
            let reply = Some(inbox.clone());
            connection.publish(op, subject.to_owned(), reply, None, body.clone()).await?;
            let places = (subject, inbox.as_str());
            let first = connection.answer_within(op, (mark, wait), places, coming.next()).await;
            match first {
                Err(error) if error.kind() == ErrorKind::Timeout => {}
                Err(error) => return Err(error),
                Ok(first) => {
                    let subject = subject.to_owned();
                    return Ok(first.map(|first| (first, Answers { coming, mark, subject, inbox })));
                }
            }
        }
        Err(self.unanswered(op))
    }

    /// How long is waited for an answer, try by try.
    fn tries(&self) -> impl Iterator<Item = Duration> + use<> {
        let whole = self.connection.answer_wait();
        let mut left = whole;
        let early: &[u64] = if self.has_copies() { &EARLY } else { &[] };
        let mut early: Vec<_> = early.iter().map(|ms| Duration::from_millis(*ms)).collect();
        early.retain(|wait| {
            let rest = left.saturating_sub(*wait);
            let fits = rest > *wait;
            left = if fits { rest } else { left };
            fits
        });
        early.into_iter().chain([left])
    }

    fn unanswered(&self, op: &'static str) -> Error {
        let why = format!("no answer came within {:?}", self.connection.answer_wait());
        Error::new(ErrorKind::Timeout, op, why).unknown()
    }
}

/// The answers to one question.
pub(super) struct Answers {
    coming: Subscriber,
    mark: crate::connection::Mark,
    subject: String,
    inbox: String,
}

impl Answers {
    /// The next one; `None` when the connection ended.
    pub(super) async fn next(&mut self, api: &Api, op: &'static str) -> Result<Option<Message>> {
        let places = (self.subject.as_str(), self.inbox.as_str());
        api.connection.answer_on(op, self.mark, places, self.coming.next()).await
    }
}

/// How long the first tries wait, in milliseconds.
const EARLY: [u64; 4] = [100, 200, 400, 800];
