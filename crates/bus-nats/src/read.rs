//! What streams hold: by position, by subject, from a position on; and what an operator removes.

use std::sync::Arc;

use bus_core::{Error, ErrorKind, Replay, Result, Retention, Seq, Stored};
use bus_subjects::{Filter, StreamName, Subject};
use serde::{Deserialize, Serialize};

use crate::{
    api::{Api, ApiFailure, GetRequest, RawStored},
    codec::decode_stored,
    streams::Streams,
};

mod replay;

/// Reads streams.
pub(crate) struct Read {
    api: Api,
    streams: Arc<Streams>,
}

#[derive(Serialize)]
struct Delete {
    seq: u64,
}

#[derive(Deserialize)]
struct Deleted {
    success: bool,
}

impl Read {
    /// Reads through `api` what `streams` keep.
    pub(crate) fn new(api: Api, streams: Arc<Streams>) -> Self {
        Self { api, streams }
    }

    /// The last message stored under `subject`, plain or placed.
    ///
    /// # Errors
    /// As `Bus::last`.
    pub(crate) async fn last(&self, subject: Subject) -> Result<Option<Stored>> {
        const OP: &str = "last";
        let stream = &self.streams.of_subject(OP, &subject).await?.name;
        let placed = placed_of(&subject);
        let multi_last = vec![subject.as_str().to_owned(), placed.clone()];
        let both = GetRequest { multi_last, ..GetRequest::default() };
        let got = match self.get(OP, stream, &both).await {
            // The server lists the last ones of about a thousand subjects at most, and there may
            // be more keys than that. This way it searches its messages, which is slower.
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                let last_of =
                    |wanted| GetRequest { last_by_subj: Some(wanted), ..GetRequest::default() };
                let (plain, placed) = (last_of(subject.as_str().to_owned()), last_of(placed));
                let (plain, placed) =
                    tokio::join!(self.get(OP, stream, &plain), self.get(OP, stream, &placed));
                let mut got = plain?;
                got.extend(placed?);
                got
            }
            got => got?,
        };
        got.into_iter().max_by_key(|stored| stored.seq).map(decode).transpose()
    }

    /// The message at `seq` of `stream`.
    ///
    /// # Errors
    /// As `Bus::read`.
    pub(crate) async fn read(&self, stream: StreamName, seq: Seq) -> Result<Option<Stored>> {
        const OP: &str = "read";
        self.streams.named(OP, &stream).await?;
        if seq == Seq(0) {
            return Ok(None);
        }
        let wanted = GetRequest { seq: Some(seq.0), ..GetRequest::default() };
        self.get(OP, &stream, &wanted).await?.into_iter().next().map(decode).transpose()
    }

    /// Reads `stream` from `from` on, up to its head at this moment.
    ///
    /// # Errors
    /// As `Bus::replay`.
    pub(crate) async fn replay(
        &self,
        stream: StreamName,
        filter: Filter,
        from: Seq,
    ) -> Result<Replay> {
        let (_, info) = self.streams.info("replay", &stream).await?;
        let range = (from.0.max(1), info.state.last_seq);
        Ok(Replay::new(replay::read(self.api.clone(), stream, &filter, range)))
    }

    /// Removes the message at `seq`, and says whether there was one.
    ///
    /// # Errors
    /// As `Bus::discard`.
    pub(crate) async fn discard(&self, stream: StreamName, seq: Seq) -> Result<bool> {
        const OP: &str = "discard";
        let spec = self.streams.named(OP, &stream).await?;
        if spec.retention == Retention::AppendOnly {
            let why = "the stream is append-only: nothing leaves it";
            return Err(Error::new(ErrorKind::Denied, OP, why).at(&stream));
        }
        if seq == Seq(0) {
            return Ok(false);
        }
        let verb = format!("STREAM.MSG.DELETE.{stream}");
        let deleted = self.api.call::<Deleted>(OP, &verb, &Delete { seq: seq.0 }).await;
        match deleted {
            Ok(deleted) => Ok(deleted.success),
            Err(failure) if is_absence(&failure) => {
                // The same code stands for several reasons: whether there is one decides.
                let wanted = GetRequest { seq: Some(seq.0), ..GetRequest::default() };
                if self.get(OP, &stream, &wanted).await?.is_empty() {
                    return Ok(false);
                }
                Err(failure.into_error(OP, &stream))
            }
            Err(failure) => Err(self.streams.missed(&stream, failure.into_error(OP, &stream))),
        }
    }

    async fn get(
        &self,
        op: &'static str,
        stream: &StreamName,
        wanted: &GetRequest,
    ) -> Result<Vec<RawStored>> {
        let got = self.api.get(op, stream.as_str(), wanted).await;
        got.map_err(|failure| self.streams.missed(stream, failure.into_error(op, stream)))
    }
}

/// The message as its sender made it.
fn decode(raw: RawStored) -> Result<Stored> {
    let RawStored { subject, seq, time, headers, body } = raw;
    let frame = decode_stored(&subject, &headers, body)?;
    Ok(Stored { frame, seq: Seq(seq), time })
}

/// The filter of what was placed under `subject`.
fn placed_of(subject: &Subject) -> String {
    format!("{}*.*.{subject}", crate::codec::PLACED)
}

fn is_absence(failure: &ApiFailure) -> bool {
    matches!(failure.err_code(), Some(NO_MESSAGE | NO_POSITION | NOT_DELETED))
}

const NO_MESSAGE: u32 = 10_037;
const NO_POSITION: u32 = 10_043;
const NOT_DELETED: u32 = 10_057;
