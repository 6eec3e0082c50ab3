//! Live events on NATS Core: published, heard by whoever listens, asked and answered.
//!
//! A small frame that needs no headers goes without: nothing else is as quick, and no stream is
//! declared over its plane. Events that wait together for their connection go as one message. Any
//! other live message names a stream that does not exist (`Nats-Expected-Stream: -`), so that no
//! stream over its subject ever stores it; subscribers hear it all the same. The samples of
//! latest-value subjects go without, and a stream in memory keeps the newest of each for those who
//! come late.

use std::{sync::Arc, time::Duration};

use async_nats::Message;
use bus_core::{
    BoxFuture, Error, ErrorKind, Frame, Overflow, Result, Subscription,
    planes::latest_value_filters,
};
use bus_subjects::{Filter, Subject};

use self::{
    arrival::{Arrivals, REPLY, decode},
    feed::Feed,
    heard::Heard,
    intake::Intake,
    outbox::Outbox,
    reader::{Asked, Fences},
    samples::Samples,
};
use crate::{
    api::Api,
    codec::{self, Packable},
    connection::Connection,
};

mod arrival;
mod backlog;
mod feed;
mod heard;
mod intake;
mod outbox;
mod reader;
mod samples;

/// Publishes, hears and asks.
pub(crate) struct Live {
    connection: Arc<Connection>,
    /// Subjects of which late readers see the newest frame.
    sampled: Vec<Filter>,
    samples: Samples,
    fences: Arc<Fences>,
    outbox: Outbox,
}

impl Live {
    /// The live plane behind `api`.
    ///
    /// # Errors
    /// None in practice: the filters of the planes are valid.
    pub(crate) fn new(api: Api) -> Result<Self> {
        let sampled = latest_value_filters()?;
        Ok(Self {
            connection: Arc::clone(api.connection()),
            outbox: Outbox::new(Arc::clone(api.connection())),
            samples: Samples::new(api, sampled.clone()),
            sampled,
            fences: Arc::default(),
        })
    }

    /// Hands `frame` to the connection, which hands it to the server in order.
    ///
    /// The server does not acknowledge live messages: whether it lets this connection publish there
    /// is not known here, and asking each time would cost a round trip. The connection logs what
    /// is refused.
    ///
    /// # Errors
    /// `TooLarge`, `Invalid`, `Closed`; `Unavailable` at once while there is no connection.
    pub(crate) fn publish(&self, frame: Frame) -> BoxFuture<'_, Result<()>> {
        // The short way keeps little: most frames go it, and each is moved and freed.
        if frame.reply.is_none() && frame.subject.as_str().starts_with(EVENTS) {
            Box::pin(self.publish_event(frame))
        } else {
            Box::pin(self.publish_alone(frame))
        }
    }

    /// Publishes a frame together with others that wait.
    async fn publish_event(&self, frame: Frame) -> Result<()> {
        check(PUBLISH, &frame)?;
        self.connection.check_open(PUBLISH)?;
        match self.packable(&frame) {
            Some(packable) => {
                let putting = self.outbox.put(PUBLISH, &frame.subject, &packable);
                putting.await.map_err(|error| error.at(&frame.subject))
            }
            None => Box::pin(self.publish_alone(frame)).await,
        }
    }

    /// Publishes a frame as a message of its own, behind those that wait.
    async fn publish_alone(&self, frame: Frame) -> Result<()> {
        check(PUBLISH, &frame)?;
        self.connection.check_open(PUBLISH)?;
        self.outbox.carry(PUBLISH, self.connection.answer_wait()).await?;
        if let Some(packable) = self.packable(&frame) {
            let reply = frame.reply.as_ref().map(|reply| reply.as_str().to_owned());
            let (subject, body) = (frame.subject.as_str(), packable.alone());
            let publishing = self.connection.publish(PUBLISH, subject, reply, None, body);
            return self.accepted(publishing.await, &frame.subject);
        }
        let (mut map, body) = codec::encode_live(&frame)?;
        let mut reply = frame.reply;
        if self.is_sampled(&frame.subject) {
            self.samples.prepare().await;
            // The stream would send its own answer to the reply subject of the protocol.
            if let Some(reply) = reply.take() {
                codec::set(&mut map, REPLY, reply.as_str())?;
            }
        } else {
            codec::set(&mut map, EXPECTED_STREAM, NO_STREAM)?;
        }
        let reply = reply.map(|reply| reply.as_str().to_owned());
        let publishing =
            self.connection.publish(PUBLISH, frame.subject.as_str(), reply, Some(map), body);
        self.accepted(publishing.await, &frame.subject)
    }

    fn accepted(&self, published: Result<()>, subject: &Subject) -> Result<()> {
        published.map_err(|error| error.at(subject))?;
        self.connection.note_handed_over();
        Ok(())
    }

    /// Hears `filter`; in force when this returns, at every server of a cluster that answers.
    ///
    /// # Errors
    /// `Denied`, `Closed`, `Unavailable`; and when the samples of latest-value subjects cannot be
    /// read though they are promised.
    pub(crate) async fn subscribe(
        &self,
        filter: Filter,
        overflow: Overflow,
    ) -> Result<Subscription> {
        const OP: &str = "subscribe";
        let (mark, states) = (self.connection.violation_mark(), self.connection.states());
        let has_samples = self.sampled.iter().any(|sampled| sampled.overlaps(&filter));
        let failed = |error: Error| error.at(filter.as_str());
        self.connection.check_open(OP).map_err(failed)?;
        // What this connection published before is nothing that the subscription hears.
        let carrying = self.outbox.carry(OP, self.connection.answer_wait()).await;
        carrying.map_err(failed)?;
        let epoch = states.borrow().epoch();
        let messages = self.connection.subscribe(OP, filter.as_str()).await;
        let feed = Arc::new(Feed::new(overflow));
        let arrivals = Arrivals::new(filter.clone(), has_samples);
        let epochs = (self.connection.connects(), epoch);
        let intake = Intake::new(messages.map_err(failed)?, arrivals, epochs, Arc::clone(&feed));
        let (connection, fences) = (Arc::clone(&self.connection), Arc::clone(&self.fences));
        let asked = Asked { filter: filter.clone(), mark, states, epoch };
        let reader = reader::start(Arc::clone(&intake), asked, connection, fences);
        self.connection.confirm_heard(OP, mark, filter.as_str()).await.map_err(failed)?;
        self.connection.be_known(OP).await;
        if has_samples && matches!(overflow, Overflow::Latest { .. }) {
            let samples = self.samples.read(OP, &filter).await.map_err(failed)?;
            feed.add_samples(samples);
        }
        Ok(Subscription::of_batches(Heard::new(intake, reader)))
    }

    /// Publishes `frame` with a reply subject of this connection's own and waits for the answer.
    ///
    /// # Errors
    /// As [`publish`](Self::publish); `NoRecipient` at once when nobody listens, `Denied`;
    /// `Timeout` after `wait`, `Corrupt` for an answer that is no frame and `Unavailable`, with
    /// outcome unknown.
    pub(crate) async fn request(&self, frame: Frame, wait: Duration) -> Result<Frame> {
        const OP: &str = "request";
        check(OP, &frame)?;
        self.connection.check_open(OP)?;
        let (map, body) = match self.packable(&frame) {
            Some(packable) => (None, packable.alone()),
            None => {
                let (mut map, body) = codec::encode_live(&frame)?;
                // Nobody's sample: it would be shown to late readers without its asker.
                codec::set(&mut map, EXPECTED_STREAM, NO_STREAM)?;
                (Some(map), body)
            }
        };
        let wait = self.outbox.carry(OP, wait).await?;
        let asked = (frame.subject.as_str(), map, body);
        let answer = self.connection.call_within(OP, asked, wait).await;
        let answer = answer.map_err(|error| error.at(&frame.subject))?;
        answer_of(&answer).map_err(|error| {
            let why = "the answer is no frame";
            Error::new(ErrorKind::Corrupt, OP, why).because(error).at(&frame.subject).unknown()
        })
    }

    /// Makes sure that there is a stream for samples.
    ///
    /// # Errors
    /// `Denied` where another account keeps it; those of a call.
    pub(crate) async fn make_samples(&self, op: &'static str) -> Result<()> {
        self.samples.make(op).await
    }

    /// Takes no more events, and hands over those that wait.
    ///
    /// # Errors
    /// `Unavailable`, with outcome unknown, when some of them were not handed over.
    pub(crate) async fn close(&self) -> Result<()> {
        self.outbox.close().await
    }

    fn packable<'a>(&self, frame: &'a Frame) -> Option<Packable<'a>> {
        if self.is_sampled(&frame.subject) { None } else { Packable::of(frame) }
    }

    fn is_sampled(&self, subject: &Subject) -> bool {
        self.sampled.iter().any(|filter| filter.matches(subject))
    }
}

/// The one frame of an answer.
fn answer_of(answer: &Message) -> Result<Frame> {
    let mut frames = Vec::with_capacity(1);
    decode(&codec::parse_subject(&answer.subject)?, answer, false, &mut frames)?;
    match (frames.pop(), frames.pop()) {
        (Some(frame), None) => Ok(frame),
        _ => Err(Error::new(ErrorKind::Corrupt, "decode message", "holds several frames")),
    }
}

/// Refuses what is no live frame, and what would be a command to the server.
fn check(op: &'static str, frame: &Frame) -> Result<()> {
    frame.check_live(op)?;
    if frame.subject.as_str().starts_with('$') {
        let why = "subjects that begin with $ are the server's own";
        return Err(Error::new(ErrorKind::Invalid, op, why).at(&frame.subject));
    }
    Ok(())
}

/// What the subjects of events begin with.
const EVENTS: &str = "vak.events.";
const PUBLISH: &str = "publish";
/// The stream that a message is meant for: a stream of another name refuses it.
const EXPECTED_STREAM: &str = "Nats-Expected-Stream";
/// The name of no stream.
const NO_STREAM: &str = "-";
