//! Calls of the JetStream API as JSON, publishes that are acknowledged, and direct gets.

use std::sync::Arc;

use async_nats::{HeaderMap, Message, StatusCode};
use bus_core::{Error, ErrorKind, Result};
use bus_envelope::Timestamp;
use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::time::Instant;

use crate::{codec::get, connection::Connection};

mod again;
mod copies;
mod made;
mod part;
mod refusal;

pub(crate) use again::new_stream_pauses;
pub(crate) use part::{Part, Position, reader_name};

/// The JetStream API of one connection; a clone is cheap.
#[derive(Clone)]
pub(crate) struct Api {
    connection: Arc<Connection>,
}

/// Why a call came to nothing.
#[derive(Debug)]
pub(crate) enum ApiFailure {
    /// The server said no.
    Refused(Refusal),
    /// No answer, or one that cannot be read.
    Bus(Error),
}

/// What the server said.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Refusal {
    /// An HTTP-like class.
    #[serde(default)]
    pub(crate) code: u16,
    /// The exact reason.
    #[serde(default)]
    pub(crate) err_code: u32,
    /// The same in words.
    #[serde(default)]
    pub(crate) description: String,
}

/// The server's word that a message is stored.
#[derive(Debug, Clone)]
pub(crate) struct PubAck {
    /// The stream.
    pub(crate) stream: String,
    /// The position; of a batch, that of its last message.
    pub(crate) seq: u64,
    /// Whether its id was known.
    pub(crate) duplicate: bool,
    /// How many messages the batch had.
    pub(crate) count: u64,
}

/// Which stored messages to get.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct GetRequest {
    /// At this position, or from it on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seq: Option<u64>,
    /// The last one of a subject, or of all that a filter matches; then nothing else counts.
    #[serde(skip)]
    pub(crate) last_by_subj: Option<String>,
    /// The next one that matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_by_subj: Option<String>,
    /// At most so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) batch: Option<usize>,
    /// At most about so many bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_bytes: Option<usize>,
    /// None behind this position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) up_to_seq: Option<u64>,
}

/// A message as its stream keeps it.
#[derive(Debug, Clone)]
pub(crate) struct RawStored {
    pub(crate) subject: String,
    pub(crate) seq: u64,
    pub(crate) time: Timestamp,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Api {
    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        Self { connection }
    }

    /// The connection it goes through.
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Whether what is kept is kept in this connection's own account, so that it may make it.
    pub(crate) fn keeps_itself(&self) -> bool {
        self.connection.keeps_itself()
    }

    /// Refuses what only who sets the place up may do.
    ///
    /// # Errors
    /// `Denied`.
    pub(crate) fn check_keeps_itself(&self, op: &'static str) -> Result<()> {
        if self.keeps_itself() {
            return Ok(());
        }
        let why = "another account keeps it: only who sets up the workspace does that";
        Err(Error::new(ErrorKind::Denied, op, why))
    }

    /// Calls `<verb>` of the API with `body` as JSON.
    pub(crate) async fn call<A: DeserializeOwned>(
        &self,
        op: &'static str,
        verb: &str,
        body: &impl Serialize,
    ) -> Result<A, ApiFailure> {
        let body = serde_json::to_vec(body).map_err(|error| {
            Error::new(ErrorKind::Invalid, op, "cannot be written as JSON").because(error)
        })?;
        self.call_raw(op, verb, body.into()).await
    }

    /// Calls `<verb>` of the API without a body.
    pub(crate) async fn ask<A: DeserializeOwned>(
        &self,
        op: &'static str,
        verb: &str,
    ) -> Result<A, ApiFailure> {
        self.call_raw(op, verb, Bytes::new()).await
    }

    async fn call_raw<A: DeserializeOwned>(
        &self,
        op: &'static str,
        verb: &str,
        body: Bytes,
    ) -> Result<A, ApiFailure> {
        let subject = self.connection.api_subject(verb);
        let (asked_at, is_bare) = (Instant::now(), body.is_empty());
        let asked = if again::is_question(verb) {
            self.inquire(op, &subject, body).await
        } else {
            self.connection.request(op, &subject, None, body).await
        };
        let answer = asked.map_err(|error| no_jetstream(error, op))?;
        let head: Head = read(op, &answer.payload)?;
        if let Some(time) = head.ts.and_then(|ts| Timestamp::parse_rfc3339(&ts).ok()) {
            // What only tells can be asked again.
            let again = (is_bare && verb.contains(".INFO.")).then_some(subject.as_str());
            self.connection.note_answer(time, asked_at, again);
        }
        match head.error {
            Some(refusal) => Err(ApiFailure::Refused(refusal)),
            None => Ok(read(op, &answer.payload)?),
        }
    }

    /// Publishes a message to the stream that keeps `subject`; it is stored when this returns.
    pub(crate) async fn publish(
        &self,
        op: &'static str,
        subject: impl AsRef<str>,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<PubAck, ApiFailure> {
        let subject = subject.as_ref();
        let asked = self.connection.request(op, subject, Some(headers), body).await;
        let answer = asked.map_err(|error| match error.kind() {
            ErrorKind::NoRecipient => {
                Error::new(ErrorKind::NotFound, op, "no stream keeps the subject").at(subject)
            }
            _ => error.at(subject),
        })?;
        Self::read_ack(op, &answer)
    }

    /// Reads the answer to a publish.
    pub(crate) fn read_ack(op: &'static str, answer: &Message) -> Result<PubAck, ApiFailure> {
        match read(op, &answer.payload)? {
            Ack { error: Some(refusal), .. } => Err(ApiFailure::Refused(refusal)),
            Ack { stream: Some(stream), seq, duplicate, count, .. } => {
                Ok(PubAck { stream, seq, duplicate, count })
            }
            Ack { stream: None, .. } => {
                let why = "the answer is no server's: it names no stream";
                Err(Error::new(ErrorKind::Corrupt, op, why).unknown().into())
            }
        }
    }

    /// The stored messages of `stream` that `wanted` names, in the order of their positions; none
    /// when there are none.
    pub(crate) async fn get(
        &self,
        op: &'static str,
        stream: &str,
        wanted: &GetRequest,
    ) -> Result<Vec<RawStored>, ApiFailure> {
        if let Some(last) = &wanted.last_by_subj {
            // The subject stands in the call's own, so that a right to it can be given alone.
            let subject = self.connection.api_subject(&format!("DIRECT.GET.{stream}.{last}"));
            let asked = self.inquire(op, &subject, Bytes::new()).await;
            let answer = asked.map_err(|error| no_stream(error, op, stream))?;
            return Ok(read_stored(op, answer)?.into_iter().collect());
        }
        let subject = self.connection.api_subject(&format!("DIRECT.GET.{stream}"));
        let body: Bytes = serde_json::to_vec(wanted)
            .map_err(|error| {
                Error::new(ErrorKind::Invalid, op, "cannot be written as JSON").because(error)
            })?
            .into();
        if wanted.batch.is_none() {
            let asked = self.inquire(op, &subject, body).await;
            let answer = asked.map_err(|error| no_stream(error, op, stream))?;
            return Ok(read_stored(op, answer)?.into_iter().collect());
        }
        self.get_many(op, stream, (subject, body)).await
    }

    /// How many messages of `stream` there are under `subject` from the position `seq` on.
    pub(crate) async fn count_from(
        &self,
        op: &'static str,
        stream: &str,
        (seq, subject): (u64, &str),
    ) -> Result<u64, ApiFailure> {
        let (seq, next_by_subj) = (Some(seq), Some(subject.to_owned()));
        let wanted = GetRequest { seq, next_by_subj, batch: Some(1), ..GetRequest::default() };
        let first = self.get(op, stream, &wanted).await?.into_iter().next();
        let behind =
            first.as_ref().and_then(|it| get(&it.headers, "Nats-Num-Pending")?.parse().ok());
        Ok(first.map_or(0, |_| 1 + behind.unwrap_or(0)))
    }

    async fn get_many(
        &self,
        op: &'static str,
        stream: &str,
        (subject, body): (String, Bytes),
    ) -> Result<Vec<RawStored>, ApiFailure> {
        let asked = self.inquire_many(op, &subject, &body).await;
        let asked = asked.map_err(|error| error.at(stream))?;
        let ended = || Error::new(ErrorKind::Unavailable, op, "the connection ended").at(stream);
        let (mut answer, mut answers) = asked.ok_or_else(ended)?;
        let mut got = Vec::new();
        loop {
            if answer.status == Some(StatusCode::NO_RESPONDERS) {
                let error = Error::new(ErrorKind::NoRecipient, op, "nobody answers");
                return Err(no_stream(error, op, stream).into());
            }
            match read_stored(op, answer)? {
                Some(stored) => got.push(stored),
                None => return Ok(got),
            }
            let next = answers.next(self, op).await.map_err(|error| error.at(stream))?;
            answer = next.ok_or_else(ended)?;
        }
    }
}

impl ApiFailure {
    /// The exact reason, when the server gave one.
    pub(crate) fn err_code(&self) -> Option<u32> {
        match self {
            Self::Refused(refusal) => Some(refusal.err_code),
            Self::Bus(_) => None,
        }
    }

    /// Whether a compare-and-set came too late: the last message of the subject is another one.
    /// Servers that keep several copies say so under a code of its own.
    pub(crate) fn is_stale(&self) -> bool {
        matches!(self.err_code(), Some(WRONG_LAST | WRONG_LAST_OF_COPIES))
    }

    /// The error that a caller can act on.
    pub(crate) fn into_error(self, op: &'static str, at: impl std::fmt::Display) -> Error {
        match self {
            Self::Refused(refusal) => refusal.into_error(op).at(at),
            Self::Bus(error) => error.at(at),
        }
    }
}

impl From<Error> for ApiFailure {
    fn from(error: Error) -> Self {
        Self::Bus(error)
    }
}

/// What every answer may hold.
#[derive(Deserialize)]
struct Head {
    error: Option<Refusal>,
    /// The server's time.
    ts: Option<String>,
}

/// The answer to a publish.
#[derive(Deserialize)]
struct Ack {
    error: Option<Refusal>,
    stream: Option<String>,
    #[serde(default)]
    seq: u64,
    #[serde(default)]
    duplicate: bool,
    #[serde(default)]
    count: u64,
}

fn read<A: DeserializeOwned>(op: &'static str, body: &[u8]) -> Result<A> {
    serde_json::from_slice(body).map_err(|error| {
        Error::new(ErrorKind::Corrupt, op, "the server's answer cannot be read")
            .because(error)
            .unknown()
    })
}

/// A stored message in the answer to a direct get; `None` at the end, or where there is none.
fn read_stored(op: &'static str, answer: Message) -> Result<Option<RawStored>> {
    match answer.status.map(|status| status.as_u16()) {
        None | Some(200) => {}
        Some(204 | 404) => return Ok(None),
        Some(status) => {
            let said = answer.description.unwrap_or_default();
            let why = format!("the server answers {status} {said}");
            return Err(Error::new(ErrorKind::Unavailable, op, why));
        }
    }
    let damaged = |what: &'static str| Error::new(ErrorKind::Corrupt, op, what);
    let headers = answer.headers.ok_or_else(|| damaged("a stored message has no headers"))?;
    let subject = get(&headers, "Nats-Subject").ok_or_else(|| damaged("it has no subject"))?;
    let seq = get(&headers, "Nats-Sequence").and_then(|seq| seq.parse().ok());
    let time =
        get(&headers, "Nats-Time-Stamp").and_then(|time| Timestamp::parse_rfc3339(time).ok());
    Ok(Some(RawStored {
        subject: subject.to_owned(),
        seq: seq.ok_or_else(|| damaged("a stored message has no position"))?,
        time: time.ok_or_else(|| damaged("a stored message has no time"))?,
        headers,
        body: answer.payload,
    }))
}

fn no_jetstream(error: Error, op: &'static str) -> Error {
    match error.kind() {
        ErrorKind::NoRecipient => Error::new(
            ErrorKind::Unavailable,
            op,
            "no JetStream answers: it is off, not ready yet, or not granted",
        ),
        _ => error,
    }
}

fn no_stream(error: Error, op: &'static str, stream: &str) -> Error {
    match error.kind() {
        ErrorKind::NoRecipient => {
            Error::new(ErrorKind::NotFound, op, "there is no such stream").at(stream)
        }
        _ => error.at(stream),
    }
}

const WRONG_LAST: u32 = 10_071;
const WRONG_LAST_OF_COPIES: u32 = 10_164;

#[cfg(test)]
mod tests;
