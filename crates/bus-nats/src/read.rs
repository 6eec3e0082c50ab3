//! What streams hold: by position, by subject, from a position on; and what an operator removes.

use std::sync::Arc;

use bus_core::{Error, ErrorKind, Replay, Result, Retention, Seq, Stored};
use bus_subjects::{Filter, StreamName, Subject};
use serde::{Deserialize, Serialize};

use crate::{
    api::{Api, ApiFailure, GetRequest, RawStored, new_stream_pauses},
    codec::{decode_stored, placed_filter},
    queue::pattern::intersect,
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
        let spec = self.streams.of_subject(OP, &subject).await?;
        let filter = Filter::from(&subject);
        if !self.streams.has_placed(&spec) {
            let last = self.last_under(OP, &spec.name, filter.as_str().to_owned()).await?;
            return last.map(decode).transpose();
        }
        self.last_of(OP, &spec.name, &filter).await?.map(decode).transpose()
    }

    /// The last message under `filter`, plain or placed.
    async fn last_of(
        &self,
        op: &'static str,
        stream: &StreamName,
        filter: &Filter,
    ) -> Result<Option<RawStored>> {
        // Two questions, each of which names its subject: a right to both is no right to the rest.
        let (plain, placed) = tokio::join!(
            self.last_under(op, stream, filter.as_str().to_owned()),
            self.last_under(op, stream, placed_filter(filter)),
        );
        Ok(plain?.into_iter().chain(placed?).max_by_key(|stored| stored.seq))
    }

    async fn last_under(
        &self,
        op: &'static str,
        stream: &StreamName,
        wanted: String,
    ) -> Result<Option<RawStored>> {
        let wanted = GetRequest { last_by_subj: Some(wanted), ..GetRequest::default() };
        Ok(self.get(op, stream, &wanted).await?.into_iter().next())
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
        let mut got = self.get(OP, &stream, &wanted).await?;
        if got.is_empty() && self.streams.is_told(&stream, seq.0) {
            // It is gone, or the copy that answers is behind: measured, a few milliseconds.
            for pause in new_stream_pauses().take(BEHIND_TRIES) {
                tokio::time::sleep(pause).await;
                got = self.get(OP, &stream, &wanted).await?;
                if !got.is_empty() {
                    break;
                }
            }
        }
        got.into_iter().next().map(decode).transpose()
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
        const OP: &str = "replay";
        if self.api.keeps_itself() {
            let (_, info) = self.streams.info(OP, &stream).await?;
            let range = (from.0.max(1), info.state.last_seq);
            return Ok(Replay::new(replay::read(self.api.clone(), stream, &filter, range)));
        }
        let spec = self.streams.named(OP, &stream).await?;
        let parts = spec.filters.iter().filter_map(|whole| intersect(&filter, whole));
        let parts: Vec<_> = parts.collect();
        let part = match parts.as_slice() {
            [] => return Ok(Replay::new(futures_util::stream::empty())),
            [part] => Filter::parse(part)?,
            _ => {
                let why = "behind an import one part of a stream is read at a time";
                return Err(Error::new(ErrorKind::Unsupported, OP, why).at(&filter));
            }
        };
        // The server gives a queue no second consumer of the same messages.
        if spec.retention == Retention::WorkQueue {
            let last = self.last_of(OP, &stream, &part).await?;
            let range = (from.0.max(1), last.map_or(0, |last| last.seq));
            return Ok(Replay::new(replay::read(self.api.clone(), stream, &part, range)));
        }
        let placed = self.streams.has_placed(&spec).then(|| placed_filter(&part));
        let mut parts = Vec::new();
        for part in [part.as_str()].into_iter().chain(placed.as_deref()) {
            parts.push(self.api.read_part(OP, stream.as_str(), (part, from.0)).await?);
        }
        Ok(Replay::new(replay::read_parts(parts)))
    }

    /// Removes the message at `seq`, and says whether there was one.
    ///
    /// # Errors
    /// As `Bus::discard`.
    pub(crate) async fn discard(&self, stream: &StreamName, seq: Seq) -> Result<bool> {
        const OP: &str = DISCARD;
        let spec = self.streams.named(OP, stream).await?;
        if spec.retention == Retention::AppendOnly {
            let why = "the stream is append-only: nothing leaves it";
            return Err(Error::new(ErrorKind::Denied, OP, why).at(stream));
        }
        if seq == Seq(0) {
            return Ok(false);
        }
        let verb = format!("STREAM.MSG.DELETE.{stream}");
        let mut pauses = new_stream_pauses().take(UNHEARD_TRIES);
        let deleted = loop {
            let deleted = self.api.call::<Deleted>(OP, &verb, &Delete { seq: seq.0 }).await;
            // Who leads the stream, or all of them, since a moment ago may be behind.
            let may_be = |it: &ApiFailure| it.err_code() == Some(NO_STREAM) || is_absence(it);
            let is_unheard = self.api.has_copies() && deleted.as_ref().is_err_and(may_be);
            match pauses.next().filter(|_| is_unheard) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => break deleted,
            }
        };
        match deleted {
            Ok(deleted) => Ok(deleted.success),
            Err(failure) if is_absence(&failure) => {
                // The same code stands for several reasons: whether there is one decides.
                let wanted = GetRequest { seq: Some(seq.0), ..GetRequest::default() };
                match self.get(OP, stream, &wanted).await {
                    Ok(got) if got.is_empty() => Ok(false),
                    Err(error) if error.kind() != ErrorKind::Denied => Err(error),
                    // Who may remove and not read is told what the server says.
                    _ => Err(failure.into_error(OP, stream)),
                }
            }
            Err(failure) => Err(self.streams.missed(stream, failure.into_error(OP, stream))),
        }
    }

    /// Waits until no copy has what was removed, where there are several.
    pub(crate) async fn until_gone(&self, stream: &StreamName, seq: Seq) {
        if self.streams.profile().replicas() > 1 && seq != Seq(0) {
            self.api.until_gone(DISCARD, stream.as_str(), [seq.0]).await;
        }
    }

    /// Whether the message at `seq` is gone, or goes within a moment, when it is not known whether
    /// it was removed; false when nobody answers.
    pub(crate) async fn is_gone(&self, stream: &StreamName, seq: Seq) -> bool {
        let wanted = GetRequest { seq: Some(seq.0), ..GetRequest::default() };
        for pause in new_stream_pauses() {
            tokio::time::sleep(pause).await;
            match self.get(DISCARD, stream, &wanted).await {
                Ok(got) if got.is_empty() => return true,
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(%error, %stream, "whether a message is gone is not known");
                    return false;
                }
            }
        }
        false
    }

    async fn get(
        &self,
        op: &'static str,
        stream: &StreamName,
        wanted: &GetRequest,
    ) -> Result<Vec<RawStored>> {
        let mut pauses = new_stream_pauses();
        loop {
            let failure = match self.api.get(op, stream.as_str(), wanted).await {
                Ok(got) => return Ok(got),
                Err(failure) => failure.into_error(op, stream),
            };
            // One that was made a moment ago is there before every server has heard who has it.
            let is_young = failure.kind() == ErrorKind::NotFound && self.api.has_copies();
            match pauses.next().filter(|_| is_young) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(self.streams.missed(stream, failure)),
            }
        }
    }
}

/// The message as its sender made it.
fn decode(raw: RawStored) -> Result<Stored> {
    let RawStored { subject, seq, time, headers, body } = raw;
    let frame = decode_stored(&subject, &headers, body)?;
    Ok(Stored { frame, seq: Seq(seq), time })
}

fn is_absence(failure: &ApiFailure) -> bool {
    matches!(failure.err_code(), Some(NO_MESSAGE | NO_POSITION | NOT_DELETED))
}

const DISCARD: &str = "discard";
/// How often a leader that may not have heard of a message is asked again, 92 ms in all.
const UNHEARD_TRIES: usize = 6;
/// How often a copy that may be behind is asked again, 42 ms in all.
const BEHIND_TRIES: usize = 5;
const NO_STREAM: u32 = 10_059;
const NO_MESSAGE: u32 = 10_037;
const NO_POSITION: u32 = 10_043;
const NOT_DELETED: u32 = 10_057;
