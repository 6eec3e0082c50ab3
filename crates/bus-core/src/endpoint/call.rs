//! Calls: a signed question, and an answer that is bound to it.
//!
//! An answer goes to a reply subject, which no role may publish to. So its right is another one:
//! whoever may hear the question may answer it, and says which by naming its leaf hash as cause.

use std::{sync::Arc, time::Duration};

use bus_envelope::{Draft, EventHash};
use bus_subjects::{Address, AddressKind, Filter, Subject};
use bytes::Bytes;

use super::{Endpoint, Opened, Seen, chain::Place, stamp::Prepared};
use crate::{
    Deadline, Error, ErrorKind, FeedItem, Operation, Outcome, Overflow, Result, Subscription,
};

/// The calls of one subscription, opened and checked. Dropping it ends the subscription.
#[must_use = "dropped calls are heard by nobody"]
pub struct Calls {
    endpoint: Endpoint,
    frames: Subscription,
    among_hearers: bool,
}

/// What [`Calls`] yield.
#[derive(Debug)]
pub enum Asked {
    /// A question that was checked and opened, and has time left.
    Question(Box<Heard>),
    /// The reader was too slow: this many questions were dropped here, the oldest first.
    Gap {
        /// How many; at least 1.
        missed: u64,
    },
    /// One that is not answered: damaged, forged, asked without a reply subject, or too late.
    Refused(Error),
}

/// A question, and where its answer goes.
#[derive(Debug)]
pub struct Heard {
    /// The question.
    pub opened: Opened,
    reply: Subject,
    /// Its span, from when it was heard until it is answered.
    seen: Option<Arc<Seen>>,
}

/// What came of a question.
#[derive(Debug, Clone)]
pub enum CallOutcome {
    /// The answer; its payload is what was asked for.
    Answered(Opened),
    /// Whoever was asked says that it failed; the payload says why, as text.
    Failed(Opened),
}

impl Endpoint {
    /// The `CloudEvents` type of an answer.
    pub const ANSWERED: &'static str = "vak.call.answered";

    /// The `CloudEvents` type of the word that a call failed.
    pub const CALL_FAILED: &'static str = "vak.call.failed";

    /// Asks on the subject of a call, and waits for the first answer. The question is sealed and
    /// signed and says until when an answer is of use; the answer has to be signed by an agent
    /// that may hear the question, and to name it as its cause.
    ///
    /// Cancel safe in that a dropped call may have been asked or not.
    ///
    /// # Errors
    /// `Invalid` (the subject is no call), `Denied`, `TooLarge` and `Exhausted` before anything is
    /// sent; `NoRecipient` at once when nobody listens; `Timeout` after `wait` (outcome unknown);
    /// `Corrupt` and `Denied` for an answer that does not hold (outcome unknown); those of
    /// [`crate::Bus::request`].
    pub async fn ask(&self, draft: Draft, wait: Duration) -> Result<CallOutcome> {
        self.check(&draft)?;
        check_call("ask", &draft.subject)?;
        let subject = draft.subject.clone();
        let draft = Deadline(self.clock().now().plus(wait)).set(draft)?;
        let (place, prepared) = self.next_question(draft).await?;
        let (hash, head, bytes) = (prepared.hash, prepared.head, prepared.frame.bytes());
        let asked = self.engine().request(prepared.frame, wait).await;
        self.tell_sent(prepared.sending.as_deref(), asked.as_ref().err().map(Error::kind));
        let frame = match asked {
            Ok(frame) => frame,
            Err(error) => {
                if error.outcome() == Outcome::NotDone {
                    self.take_back(&subject, place, head).await?;
                }
                return Err(error);
            }
        };
        self.metrics().published(bytes);
        let question = Filter::from(&subject);
        let opened = self.open_of(&frame, |policy, _reply| policy.can_subscribe(&question));
        let outcome = opened.and_then(|opened| outcome_of(opened, &hash));
        // It was asked, and somebody may have done what was asked for.
        outcome.map_err(|error| error.unknown())
    }

    /// Hears the questions of `filter`, to be answered with [`Endpoint::answer`]. At most
    /// `capacity` of them wait for the reader.
    ///
    /// # Errors
    /// `Denied` when the policy does not allow it, `Invalid` when the filter is wider than calls,
    /// and those of [`crate::Bus::subscribe`].
    pub async fn calls(&self, filter: Filter, capacity: std::num::NonZeroUsize) -> Result<Calls> {
        self.may_subscribe("hear calls", &filter)?;
        if !AddressKind::Call.filter(Some(self.workspace())).covers(&filter) {
            let detail = "only calls are answered: expected vak.call.<workspace>.<module>.<verb>";
            return Err(Error::new(ErrorKind::Invalid, "hear calls", detail).at(&filter));
        }
        let frames = self.engine().subscribe(filter, Overflow::DropOldest { capacity }).await?;
        Ok(Calls { endpoint: self.clone(), frames, among_hearers: false })
    }

    /// Answers a question, once: with what was asked for, or with the word that it failed and why.
    /// The answer is sealed, signed, and bound to the question.
    ///
    /// # Errors
    /// `Denied` when the question was answered before or two minutes are over
    /// ([`Answers`](crate::Answers)); `TooLarge`; those of [`crate::Bus::publish`].
    pub async fn answer(
        &self,
        heard: &Heard,
        answer: std::result::Result<Bytes, String>,
    ) -> Result<EventHash> {
        self.check_certificate("answer")?;
        let (event_type, payload) = match answer {
            Ok(payload) => (Self::ANSWERED, payload),
            Err(why) => (Self::CALL_FAILED, Bytes::from(why)),
        };
        let (bytes, bytes_max) = (payload.len(), Self::PAYLOAD_BYTES_MAX);
        if bytes > bytes_max {
            let detail = format!("the answer has {bytes} bytes: at most {bytes_max} are allowed");
            return Err(Error::new(ErrorKind::TooLarge, "answer", detail).at(&heard.reply));
        }
        let content_type = match std::str::from_utf8(&payload) {
            Ok(_) => "text/plain; charset=utf-8",
            Err(_) => "application/octet-stream",
        };
        let mut draft = Draft::new(heard.reply.clone(), event_type, payload)
            .content_type(content_type)
            .trace(heard.opened.envelope.trace.clone())
            .cause(heard.opened.hash);
        draft.session = heard.opened.envelope.lineage.session.clone();
        // One message is all that ever stands on a reply subject: no chain is kept for it.
        let place = Place::at(self.genesis(&heard.reply));
        let prepared = self.prepare(draft.into(), None, &place, self.form(true))?;
        let (hash, bytes) = (prepared.hash, prepared.frame.bytes());
        let answered = self.engine().publish(prepared.frame).await;
        let failure = answered.as_ref().err().map(Error::kind);
        self.tell_sent(prepared.sending.as_deref(), failure);
        if let Some(seen) = &heard.seen {
            let said = (event_type == Self::CALL_FAILED).then_some("call-failed");
            seen.end(failure.map(ErrorKind::as_str).or(said));
        }
        answered?;
        self.metrics().published(bytes);
        Ok(hash)
    }

    /// The next message of the subject's chain. The chain moves first: nobody waits for the answer
    /// to another question.
    async fn next_question(&self, draft: Draft) -> Result<(Place, Prepared)> {
        let chain = self.0.chains.of(&draft.subject)?;
        let mut state = chain.lock().await;
        let place = state.place.unwrap_or_else(|| Place::at(self.genesis(&draft.subject)));
        let prepared = self.prepare(draft.into(), None, &place, self.form(true))?;
        state.place = Some(Place::at(prepared.head));
        Ok((place, prepared))
    }

    /// Gives the place of a question that was not asked to the next one, unless that has its own.
    async fn take_back(
        &self,
        subject: &Subject,
        place: Place,
        head: bus_envelope::ChainHead,
    ) -> Result<()> {
        let chain = self.0.chains.of(subject)?;
        let mut state = chain.lock().await;
        if state.place.is_some_and(|now| now.head == head) {
            state.place = Some(place);
        }
        Ok(())
    }
}

impl Calls {
    /// Refuses the questions of those who may ask here and may not hear what is asked: for agents
    /// of one trade, who ask each other and take no orders.
    pub const fn among_hearers(mut self) -> Self {
        self.among_hearers = true;
        self
    }

    /// The next question; `None` when the bus was closed. Cancel safe.
    pub async fn next(&mut self) -> Option<Asked> {
        Some(match self.frames.next().await? {
            FeedItem::Gap { missed } => Asked::Gap { missed },
            FeedItem::Frame(frame) => match self.endpoint.hear(&frame, self.among_hearers) {
                Ok(heard) => Asked::Question(Box::new(heard)),
                Err(error) => Asked::Refused(error),
            },
        })
    }
}

impl Endpoint {
    fn hear(&self, frame: &crate::Frame, among_hearers: bool) -> Result<Heard> {
        self.check_certificate("hear calls")?;
        let question = Filter::from(&frame.subject);
        let mut opened = self.open_of(frame, |policy, subject| {
            policy.can_publish(subject) && (!among_hearers || policy.can_subscribe(&question))
        })?;
        let refused = |kind, why| Error::new(kind, "hear calls", why).at(&frame.subject);
        let Some(reply) = frame.reply.clone() else {
            return Err(refused(ErrorKind::Invalid, "the question names no place for an answer"));
        };
        // Also a question that somebody kept and sends again.
        let deadline = Deadline::of(&opened.envelope)?;
        if deadline.is_none_or(|deadline| deadline.is_over(self.clock().now())) {
            return Err(refused(ErrorKind::Timeout, "the time for an answer is over"));
        }
        let seen = Seen::begin(self, &mut opened, Operation::Process, None);
        Ok(Heard { opened, reply, seen })
    }
}

/// An answer to the question with this leaf hash.
fn outcome_of(opened: Opened, question: &EventHash) -> Result<CallOutcome> {
    let subject = &opened.envelope.subject;
    if opened.envelope.lineage.cause.as_ref() != Some(question) {
        let detail = "the answer was made for another question";
        return Err(Error::new(ErrorKind::Corrupt, "ask", detail).at(subject));
    }
    match opened.envelope.event_type.as_str() {
        Endpoint::ANSWERED => Ok(CallOutcome::Answered(opened)),
        Endpoint::CALL_FAILED => Ok(CallOutcome::Failed(opened)),
        _ => {
            let detail = "what came is no answer to a call";
            Err(Error::new(ErrorKind::Corrupt, "ask", detail).at(subject))
        }
    }
}

fn check_call(op: &'static str, subject: &Subject) -> Result<()> {
    if matches!(Address::parse(subject), Ok(Address::Call { .. })) {
        return Ok(());
    }
    let detail = "this subject is no call: expected vak.call.<workspace>.<module>.<verb>";
    Err(Error::new(ErrorKind::Invalid, op, detail).at(subject))
}

impl std::fmt::Debug for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Calls").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}
