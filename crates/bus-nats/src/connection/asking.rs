//! Questions and their answers.

use std::{pin::pin, time::Duration};

use async_nats::{
    HeaderMap, Message, StatusCode, client::traits::Publisher, message::OutboundMessage,
};
use bus_core::{Error, ErrorKind, Result};
use bytes::Bytes;

use super::{
    Connection,
    answers::Answers,
    call::{Call, Mark, deaf, refused},
    refusals::Act,
    watcher::Watcher,
};

impl Connection {
    /// Asks on `subject` and waits for the answer, as long as any call may take.
    pub(crate) fn request(
        &self,
        op: &'static str,
        subject: &str,
        headers: Option<HeaderMap>,
        body: Bytes,
    ) -> impl Future<Output = Result<Message>> {
        self.ask(op, (subject, headers, body), (&self.answers, self.options.answer_wait))
    }

    /// Asks on `subject` and waits for the answer, at most for `wait`.
    ///
    /// # Errors
    /// `NoRecipient` (nobody listens), `Denied`, `TooLarge`, `Closed`; `Timeout` and `Unavailable`,
    /// with outcome unknown once it was sent.
    pub(crate) fn request_within(
        &self,
        op: &'static str,
        asked: (&str, Option<HeaderMap>, Bytes),
        wait: Duration,
    ) -> impl Future<Output = Result<Message>> {
        self.ask(op, asked, (&self.answers, wait))
    }

    /// As [`request_within`](Self::request_within), of other agents: these may answer below
    /// [`CALL_ANSWERS`](crate::permissions::CALL_ANSWERS) and nowhere else.
    pub(crate) fn call_within(
        &self,
        op: &'static str,
        asked: (&str, Option<HeaderMap>, Bytes),
        wait: Duration,
    ) -> impl Future<Output = Result<Message>> {
        self.ask(op, asked, (&self.call_answers, wait))
    }

    fn ask(
        &self,
        op: &'static str,
        (subject, headers, body): (&str, Option<HeaderMap>, Bytes),
        (answers, wait): (&Answers, Duration),
    ) -> impl Future<Output = Result<Message>> {
        // Made before the first poll, and the large part apart: what waits for its answer is small.
        let begun = self.begin_open(op, 1).map(|call| {
            let reply = answers.subject(call.token());
            let message = OutboundMessage {
                subject: subject.into(),
                reply: Some(reply.into()),
                payload: body,
                headers,
            };
            (call, Box::pin(self.client.publish_message(message)))
        });
        async move {
            let (call, sending) = begun?;
            let asking = pin!(async {
                sending.await.map_err(|error| self.not_published(op, error))?;
                Ok::<_, Error>(call.answer().await)
            });
            let refusal = |watcher: &Watcher, mark: Mark| {
                refused(watcher, op, (Act::Publish, subject), mark)
                    .or_else(|| deaf(watcher, op, mark).map(Error::unknown))
            };
            let answer = call.wait(wait, asking, refusal).await??;
            if answer.status == Some(StatusCode::NO_RESPONDERS) {
                return Err(Error::new(ErrorKind::NoRecipient, op, "nobody listens"));
            }
            Ok(answer)
        }
    }

    /// Asks the same on each of `subjects` and waits for all answers, as long as any call may take.
    /// Each answer is told with the place of its question as it comes, until this fails; the
    /// outcome is unknown once the first of them was sent.
    pub(crate) async fn request_each(
        &self,
        op: &'static str,
        (subjects, body): (&[&str], Bytes),
        mut told: impl FnMut(usize, Message),
    ) -> Result<()> {
        let Some(first) = subjects.first() else { return Ok(()) };
        let call = self.begin_open(op, subjects.len())?;
        for (at, &subject) in subjects.iter().enumerate() {
            let reply = self.answers.subject_of(call.token(), at);
            let message = OutboundMessage {
                subject: subject.into(),
                reply: Some(reply.into()),
                payload: body.clone(),
                headers: None,
            };
            // Those before it are on their way.
            let is_first = at == 0;
            let sent = self.send(op, message).await;
            sent.map_err(|error| if is_first { error } else { error.unknown() })?;
        }
        let all = pin!(async {
            for _ in subjects {
                let answer = call.answer().await;
                if let Some(at) = Answers::place(&answer) {
                    told(at, answer);
                }
            }
        });
        let refusal = |watcher: &Watcher, mark: Mark| {
            refused(watcher, op, (Act::Publish, first), mark)
                // They were sent: only their answers cannot come.
                .or_else(|| deaf(watcher, op, mark).map(Error::unknown))
        };
        call.wait(self.options.answer_wait, all, refusal).await
    }

    /// Begins a call whose answers will be heard.
    fn begin_open(&self, op: &'static str, answers: usize) -> Result<Call<'_>> {
        self.check_open(op)?;
        let call = Call::begin(&self.watcher, op, answers);
        deaf(&self.watcher, op, call.mark()).map_or(Ok(call), Err)
    }
}
