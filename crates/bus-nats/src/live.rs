//! Live events on NATS Core: published, heard by whoever listens, asked and answered.
//!
//! A live message names a stream that does not exist (`Nats-Expected-Stream: -`), so that no stream
//! over its subject ever stores it; subscribers hear it all the same. The samples of latest-value
//! subjects go without, and a stream in memory keeps the newest of each for those who come late.

use std::{sync::Arc, time::Duration};

use bus_core::{
    Error, ErrorKind, Frame, Overflow, Result, Subscription, planes::latest_value_filters,
};
use bus_subjects::{Filter, Subject};

use self::{
    feed::Feed,
    heard::{Heard, REPLY},
    reader::{Fences, Reader},
    samples::Samples,
};
use crate::{api::Api, codec, connection::Connection};

mod backlog;
mod feed;
mod heard;
mod reader;
mod samples;

/// Publishes, hears and asks.
pub(crate) struct Live {
    connection: Arc<Connection>,
    /// Subjects of which late readers see the newest frame.
    sampled: Vec<Filter>,
    samples: Samples,
    fences: Arc<Fences>,
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
    pub(crate) async fn publish(&self, frame: Frame) -> Result<()> {
        const OP: &str = "publish";
        check(OP, &frame)?;
        let (mut map, body) = codec::encode_live(&frame)?;
        let mut reply = frame.reply;
        if self.is_sampled(&frame.subject) {
            self.connection.check_open(OP)?;
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
            self.connection.publish(OP, frame.subject.as_str(), reply, Some(map), body);
        publishing.await.map_err(|error| error.at(&frame.subject))
    }

    /// Hears `filter`; in force when this returns.
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
        let messages = self.connection.subscribe(OP, filter.as_str()).await;
        let feed = Arc::new(Feed::new(overflow));
        // It reads from the first message on: what waits in the client is dropped the newest first.
        let reader = Reader::new(messages.map_err(failed)?, states, &feed)
            .start(Arc::clone(&self.connection), Arc::clone(&self.fences));
        self.connection.confirm(OP, mark, filter.as_str()).await.map_err(failed)?;
        if has_samples && matches!(overflow, Overflow::Latest { .. }) {
            let samples = self.samples.read(OP, &filter).await.map_err(failed)?;
            feed.add_samples(samples);
        }
        Ok(Subscription::of_batches(Heard::new(feed, filter, has_samples, reader)))
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
        let (mut map, body) = codec::encode_live(&frame)?;
        // Nobody's sample: it would be shown to late readers without its asker.
        codec::set(&mut map, EXPECTED_STREAM, NO_STREAM)?;
        let asked = (frame.subject.as_str(), Some(map), body);
        let answer = self.connection.request_within(OP, asked, wait).await;
        let answer = answer.map_err(|error| error.at(&frame.subject))?;
        heard::decode(answer, false).map_err(|error| {
            let why = "the answer is no frame";
            Error::new(ErrorKind::Corrupt, OP, why).because(error).at(&frame.subject).unknown()
        })
    }

    fn is_sampled(&self, subject: &Subject) -> bool {
        self.sampled.iter().any(|filter| filter.matches(subject))
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

/// The stream that a message is meant for: a stream of another name refuses it.
const EXPECTED_STREAM: &str = "Nats-Expected-Stream";
/// The name of no stream.
const NO_STREAM: &str = "-";
