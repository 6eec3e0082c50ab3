//! Appends: acknowledged by the stream, recognised when repeated.

use std::sync::Arc;

use async_nats::HeaderMap;
use bus_core::{Error, ErrorKind, Expect, Frame, Receipt, Result, Seq};
use bus_subjects::StreamName;
use bytes::Bytes;
use tokio::{runtime::Handle, sync::Semaphore};

use self::line::Lines;
use crate::{
    api::{Api, ApiFailure, PubAck},
    codec::{MESSAGE_ID, encode_stored, set},
    profile::Profile,
    streams::Streams,
};

mod batch;
mod line;
mod together;

/// Stores frames in the streams that keep their subjects.
pub(crate) struct Append {
    api: Api,
    streams: Arc<Streams>,
    /// A stream takes 50 open batches, of all its clients together.
    batches: Semaphore,
    /// Where a sync a message is what appends wait for.
    lines: Option<Lines>,
    runtime: Handle,
}

/// A frame on its way into a stream.
struct Encoded {
    subject: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Append {
    /// Appends through `api` to `streams`, from within the runtime of the connection.
    pub(crate) fn new(api: Api, streams: Arc<Streams>) -> Self {
        let lines = match streams.profile() {
            // Measured: without syncs a batch costs the server more than its messages alone.
            Profile::Development => None,
            Profile::Synced | Profile::Replicated => Some(Lines::default()),
        };
        let (batches, runtime) = (Semaphore::new(BATCHES_OPEN_MAX), Handle::current());
        Self { api, streams, batches, lines, runtime }
    }

    /// Stores `frame` when `expect` holds; a repeat of its id within the window stores nothing.
    ///
    /// One append after the other is stored in that order, and so is all that one caller awaits
    /// in turn. Appends under way at the same time are sent in the order in which they were first
    /// polled, and stored so as long as none has to be sent again; who needs a certain order of
    /// several stores them by `append_all`. Where the servers sync every write, those that wait
    /// go together as one batch, and an append with an expectation does not wait for them.
    ///
    /// The server holds an expectation against one subject of its own, and placed frames are kept
    /// under others: one with a placement cannot have an expectation, and where a subject has
    /// both, the newest placed one makes every expectation a conflict.
    ///
    /// Dropped: what waits is not sent; what was sent may be stored.
    ///
    /// # Errors
    /// As `Bus::append`; `Unsupported` for an expectation of a frame with a placement.
    pub(crate) async fn append(self: &Arc<Self>, frame: Frame, expect: Expect) -> Result<Receipt> {
        self.api.connection().check_open(APPEND)?;
        frame.check_size(APPEND)?;
        let spec = self.streams.of_subject(APPEND, &frame.subject).await?;
        match (expect, &self.lines) {
            (Expect::LastOfSubject(head), _) => self.append_at(&spec.name, &frame, head).await,
            (Expect::Any, None) => self.append_alone(&spec.name, &frame).await,
            (Expect::Any, Some(lines)) => self.append_in_line(lines.of(&spec), frame).await,
        }
    }

    /// Stores `frame`, in a round trip.
    async fn append_alone(&self, stream: &StreamName, frame: &Frame) -> Result<Receipt> {
        let Encoded { subject, headers, body } = Encoded::new(frame)?;
        match self.api.publish(APPEND, subject, headers, body).await {
            Ok(ack) => self.receipt(APPEND, &ack),
            Err(failure) => Err(self.refused(APPEND, stream, failure)),
        }
    }

    /// Stores `frame` when the last message of its subject is the one at `head`.
    async fn append_at(&self, stream: &StreamName, frame: &Frame, head: Seq) -> Result<Receipt> {
        if frame.placement.is_some() {
            let why = "a frame with a placement is kept apart and has no head to expect";
            return Err(Error::new(ErrorKind::Unsupported, APPEND, why).at(&frame.subject));
        }
        let Encoded { subject, mut headers, body } = Encoded::new(frame)?;
        set(&mut headers, LAST_OF_SUBJECT, &head.0.to_string())?;
        // The server takes a number that it cannot count to for no expectation at all.
        let stored = match i64::try_from(head.0) {
            Ok(_) => self.api.publish(APPEND, subject.clone(), headers, body).await,
            Err(_) => Err(no_such_head(frame, head).into()),
        };
        let failure = match stored {
            Ok(ack) => return self.receipt(APPEND, &ack),
            Err(failure) => failure,
        };
        let is_stale = failure.is_stale() || i64::try_from(head.0).is_err();
        // The head that a repeat expects is the one before itself: it may be its own first copy
        // that is in the way.
        if is_stale && let Some(ack) = self.probe(APPEND, subject, frame.id.as_str()).await? {
            return self.receipt(APPEND, &ack);
        }
        Err(self.refused(APPEND, stream, failure))
    }

    /// Where the id of a message was stored within the window; stores nothing.
    async fn probe(&self, op: &'static str, subject: String, id: &str) -> Result<Option<PubAck>> {
        let mut headers = HeaderMap::new();
        set(&mut headers, MESSAGE_ID, id)?;
        set(&mut headers, LAST_ID, NO_ID)?;
        let asked = self.api.publish(op, subject.clone(), headers, Bytes::new()).await;
        match asked {
            Ok(ack) if ack.duplicate => Ok(Some(ack)),
            Ok(_) => {
                let why = "the server stored a question as a message";
                Err(Error::new(ErrorKind::Corrupt, op, why).at(subject).unknown())
            }
            Err(failure) if failure.err_code() == Some(WRONG_LAST_ID) => Ok(None),
            Err(failure) => Err(failure.into_error(op, subject)),
        }
    }

    fn receipt(&self, op: &'static str, ack: &PubAck) -> Result<Receipt> {
        let stream = StreamName::parse(&ack.stream).map_err(|error| {
            Error::new(ErrorKind::Corrupt, op, "the server names no stream")
                .because(error)
                .unknown()
        })?;
        Ok(Receipt {
            stream,
            seq: Seq(ack.seq),
            duplicate: ack.duplicate,
            durability: self.streams.profile().durability(),
        })
    }

    fn refused(&self, op: &'static str, stream: &StreamName, failure: ApiFailure) -> Error {
        self.streams.missed(stream, failure.into_error(op, stream))
    }
}

impl Encoded {
    fn new(frame: &Frame) -> Result<Self> {
        let (subject, headers, body) = encode_stored(frame)?;
        Ok(Self { subject, headers, body })
    }
}

fn no_such_head(frame: &Frame, head: Seq) -> Error {
    let why = format!("no stream has a position {}", head.0);
    Error::new(ErrorKind::Conflict, APPEND, why).at(&frame.subject)
}

const APPEND: &str = "append";
const BATCHES_OPEN_MAX: usize = 16;

const LAST_OF_SUBJECT: &str = "Nats-Expected-Last-Subject-Sequence";
const LAST_ID: &str = "Nats-Expected-Last-Msg-Id";
/// No message has this id: ids have no blanks.
const NO_ID: &str = "no id";

const WRONG_LAST_ID: u32 = 10_070;
