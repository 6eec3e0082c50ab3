//! Appends: acknowledged by the stream, recognised when repeated.

use std::{borrow::Cow, sync::Arc, time::Duration};

use async_nats::HeaderMap;
use bus_core::{Error, ErrorKind, Expect, Frame, Outcome, Receipt, Result, Seq};
use bus_subjects::StreamName;
use bytes::Bytes;
use tokio::{runtime::Handle, sync::Semaphore};

use self::line::Lines;
use crate::{
    api::{Api, ApiFailure, PubAck, new_stream_pauses},
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
struct Encoded<'a> {
    subject: Cow<'a, str>,
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
        // What is boxed here is not waited for in most calls, and would make each of them large.
        let spec = match self.streams.known_for(&frame.subject) {
            Some(spec) => spec,
            None => Box::pin(self.streams.of_subject(APPEND, &frame.subject)).await?,
        };
        match (expect, &self.lines) {
            (Expect::Any, None) => self.append_alone(&spec.name, &frame).await,
            (Expect::Any, Some(lines)) => {
                Box::pin(self.append_in_line(lines.of(&spec), frame)).await
            }
            (Expect::LastOfSubject(head), _) => {
                Box::pin(self.append_at(&spec.name, &frame, head)).await
            }
        }
    }

    /// Stores `frame`, in a round trip.
    async fn append_alone(&self, stream: &StreamName, frame: &Frame) -> Result<Receipt> {
        let mut pauses = self.pauses();
        loop {
            let Encoded { subject, headers, body } = Encoded::new(frame)?;
            let failure = match self.api.publish(APPEND, &subject, headers, body).await {
                Ok(ack) => return self.receipt(APPEND, &ack),
                Err(failure) => failure,
            };
            match pauses.next().filter(|_| is_unheard(&failure)) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(self.refused(APPEND, stream, named(failure, frame))),
            }
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
        let mut pauses = self.pauses();
        let stored = loop {
            // The server takes a number that it cannot count to for no expectation at all.
            if i64::try_from(head.0).is_err() {
                break Err(no_such_head(frame, head).into());
            }
            let (headers, body) = (headers.clone(), body.clone());
            let stored = self.api.publish(APPEND, &subject, headers, body).await;
            match stored.as_ref().err().filter(|it| is_unheard(it)).and_then(|_| pauses.next()) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => break stored,
            }
        };
        let failure = match stored {
            Ok(ack) => return self.receipt(APPEND, &ack),
            Err(failure) => failure,
        };
        let is_stale = failure.is_stale() || i64::try_from(head.0).is_err();
        // The head that a repeat expects is the one before itself: it may be its own first copy
        // that is in the way.
        if is_stale {
            // A frame with a placement has no head: it is kept under its own subject.
            let known = self.probe(APPEND, &subject, frame.id.as_str()).await;
            if let Some(ack) = known.map_err(|error| self.streams.missed(stream, error))? {
                return self.receipt(APPEND, &ack);
            }
        }
        Err(self.refused(APPEND, stream, failure))
    }

    /// Where the id of a message was stored within the window; stores nothing.
    ///
    /// The question is a message that the server refuses, known ids before that. It must be refused
    /// before its copies are told of it: a wrong `Nats-Expected-Last-Msg-Id` ends a stream of
    /// several copies for good (nats-server 2.15.1), a wrong `Nats-Rollup` does not.
    async fn probe(&self, op: &'static str, subject: &str, id: &str) -> Result<Option<PubAck>> {
        let mut headers = HeaderMap::new();
        set(&mut headers, MESSAGE_ID, id)?;
        set(&mut headers, ROLLUP, NO_ROLLUP)?;
        let asked = self.api.publish(op, subject, headers, Bytes::new()).await;
        match asked {
            Ok(ack) if ack.duplicate => Ok(Some(ack)),
            Ok(_) => {
                let why = "the server stored a question as a message";
                Err(Error::new(ErrorKind::Corrupt, op, why).at(subject).unknown())
            }
            Err(failure) if failure.err_code() == Some(WRONG_ROLLUP) => Ok(None),
            Err(failure) => Err(failure.into_error(op, subject)),
        }
    }

    fn receipt(&self, op: &'static str, ack: &PubAck) -> Result<Receipt> {
        let stream = StreamName::parse(&ack.stream).map_err(|error| {
            Error::new(ErrorKind::Corrupt, op, "the server names no stream")
                .because(error)
                .unknown()
        })?;
        self.streams.note_stored(&stream, ack.seq);
        Ok(Receipt {
            stream,
            seq: Seq(ack.seq),
            duplicate: ack.duplicate,
            durability: self.streams.profile().durability(),
        })
    }

    /// A stream of several copies is there before every server has heard who leads it.
    fn pauses(&self) -> impl Iterator<Item = Duration> + use<> {
        let is_one = self.streams.profile().replicas() == 1;
        new_stream_pauses().take(if is_one { 0 } else { usize::MAX })
    }

    fn refused(&self, op: &'static str, stream: &StreamName, failure: ApiFailure) -> Error {
        self.streams.missed(stream, failure.into_error(op, stream))
    }
}

impl<'a> Encoded<'a> {
    fn new(frame: &'a Frame) -> Result<Self> {
        let (subject, headers, body) = encode_stored(frame)?;
        Ok(Self { subject, headers, body })
    }
}

/// A failure of the call itself, told with the subject that the caller knows: a placed frame is
/// kept under another one.
fn named(failure: ApiFailure, frame: &Frame) -> ApiFailure {
    match failure {
        ApiFailure::Bus(error) => ApiFailure::Bus(of_frame(error, frame)),
        refused @ ApiFailure::Refused(_) => refused,
    }
}

fn of_frame(error: Error, frame: &Frame) -> Error {
    if frame.placement.is_none() {
        return error.at(&frame.subject);
    }
    let told = Error::new(error.kind(), error.op(), error.detail().to_owned()).at(&frame.subject);
    let is_unknown = error.outcome() == Outcome::Unknown;
    let told = if is_unknown { told.unknown() } else { told };
    told.because(error)
}

fn is_unheard(failure: &ApiFailure) -> bool {
    matches!(failure, ApiFailure::Bus(error) if error.kind() == ErrorKind::NotFound)
}

fn no_such_head(frame: &Frame, head: Seq) -> Error {
    let why = format!("no stream has a position {}", head.0);
    Error::new(ErrorKind::Conflict, APPEND, why).at(&frame.subject)
}

const APPEND: &str = "append";
const BATCHES_OPEN_MAX: usize = 16;

const LAST_OF_SUBJECT: &str = "Nats-Expected-Last-Subject-Sequence";
const ROLLUP: &str = "Nats-Rollup";
/// Nothing that a server could roll up.
const NO_ROLLUP: &str = "none";

const WRONG_ROLLUP: u32 = 10_111;
