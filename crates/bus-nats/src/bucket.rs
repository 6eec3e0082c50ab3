//! Buckets on the layout of NATS KV: stream `KV_<bucket>`, one subject a key.
//!
//! What this engine adds to the promises: times to live are counted by the server in whole
//! seconds, a fraction is rounded up, and the end comes up to 0.3 s later. The mark of an end stays
//! for an hour; a watch that comes back later is told everything anew. Watching a bucket that is
//! not there makes it, and needs the right to; where another account keeps the buckets, whoever
//! sets up the workspace has made them.

use std::time::Duration;

use async_nats::HeaderMap;
use bus_core::{Entry, Error, ErrorKind, ExpectRevision, Put, Result, Revision, Watch, WatchItem};
use bus_subjects::{BucketKey, BucketName, Filter};
use bytes::Bytes;
use futures_util::stream;

use crate::{
    api::{self, Api, ApiFailure, GetRequest, RawStored},
    bucket::{
        known::{KnownValues, OwnWrites},
        layout::Place,
        watch::Follower,
    },
    codec::set,
};

mod channel;
mod known;
mod layout;
mod watch;

/// The buckets of one connection.
pub(crate) struct Buckets {
    api: Api,
    /// How many copies of a new bucket there are.
    replicas: u64,
    known: KnownValues,
    own: OwnWrites,
}

/// What stands under a key.
enum Held {
    /// Nothing, and no trace of an end.
    Nothing,
    /// The mark of an end.
    End(u64),
    /// A value.
    Value(Entry),
}

impl Held {
    /// The revision of what stands there; 0 for nothing.
    fn revision(&self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::End(revision) => *revision,
            Self::Value(entry) => entry.revision.0,
        }
    }
}

impl Buckets {
    pub(crate) fn new(api: Api, replicas: u64) -> Self {
        Self { api, replicas, known: KnownValues::default(), own: OwnWrites::default() }
    }

    /// The current value under `key`. Cancel safe.
    pub(crate) async fn get(&self, bucket: BucketName, key: BucketKey) -> Result<Option<Entry>> {
        let place = self.place(&bucket);
        match self.held(GET, &place, &key).await? {
            Held::Value(entry) => Ok(Some(entry)),
            Held::Nothing | Held::End(_) => Ok(None),
        }
    }

    /// Puts a value under `key`. A dropped call may have put it.
    pub(crate) async fn put(
        &self,
        bucket: BucketName,
        key: BucketKey,
        put: Put,
    ) -> Result<Revision> {
        let place = self.place(&bucket);
        let mut headers = HeaderMap::new();
        if let Some(ttl) = put.ttl {
            if ttl.is_zero() {
                let why = "a time to live of zero";
                return Err(Error::new(ErrorKind::Invalid, PUT, why).at(place.subject(&key)));
            }
            set(&mut headers, "Nats-TTL", &whole_seconds(ttl).to_string())?;
        }
        let write = Write { op: PUT, place: &place, key: &key, headers, body: put.value };
        let written = match put.expect {
            ExpectRevision::Any => self.write(&write, None).await?,
            ExpectRevision::Absent => self.write_where_nothing_is(&write).await?,
            ExpectRevision::Exactly(revision) => self.write_on(&write, revision).await?,
        };
        self.known.note(&place.subject(&key), written);
        Ok(written)
    }

    /// Deletes `key`. A dropped call may have deleted it.
    pub(crate) async fn delete(
        &self,
        bucket: BucketName,
        key: BucketKey,
        expect: ExpectRevision,
    ) -> Result<()> {
        let place = self.place(&bucket);
        let expected = match expect {
            ExpectRevision::Exactly(revision) => Some(revision),
            ExpectRevision::Any | ExpectRevision::Absent => {
                match self.held(DELETE, &place, &key).await? {
                    // No change, so no mark and nothing for a watch to tell.
                    Held::Nothing | Held::End(_) => return Ok(()),
                    Held::Value(_) if expect == ExpectRevision::Absent => {
                        return Err(conflict(DELETE, &place, &key, "the key holds a value"));
                    }
                    Held::Value(_) => None,
                }
            }
        };
        let mut headers = HeaderMap::new();
        set(&mut headers, layout::OPERATION, "PURGE")?;
        set(&mut headers, "Nats-Rollup", "sub")?;
        set(&mut headers, "Nats-TTL", &layout::ENDS_KEPT.as_secs().to_string())?;
        let write = Write { op: DELETE, place: &place, key: &key, headers, body: Bytes::new() };
        match expected {
            Some(revision) => self.write_on(&write, revision).await?,
            None => self.write(&write, None).await?,
        };
        Ok(())
    }

    /// Follows the keys that match `keys`, from the write after `after` on.
    pub(crate) async fn watch(
        &self,
        bucket: BucketName,
        keys: Filter,
        after: Revision,
    ) -> Result<Watch> {
        let place = self.place(&bucket);
        let follower = Follower::open(self.api.clone(), place, &keys, after).await?;
        // The step stays in the stream when `next` is dropped: nothing it took is lost.
        Ok(Watch::new(stream::unfold(follower, |mut follower| async move {
            let item: Result<WatchItem> = follower.next().await?;
            Some((item, follower))
        })))
    }

    /// Makes `bucket` unless it is there.
    pub(crate) async fn make(&self, op: &'static str, bucket: &BucketName) -> Result<()> {
        self.place(bucket).ensure(&self.api, op).await
    }

    fn place(&self, bucket: &BucketName) -> Place {
        Place::new(bucket, self.replicas)
    }

    /// What stands under a key. What this connection wrote there itself is seen.
    async fn held(&self, op: &'static str, place: &Place, key: &BucketKey) -> Result<Held> {
        let subject = place.subject(key);
        let mut pauses = api::new_stream_pauses();
        let held = loop {
            let held = self.held_by_a_copy(op, place, &subject).await?;
            let is_behind = self.replicas > 1 && self.own.is_behind(&subject, held.revision());
            match pauses.next().filter(|_| is_behind) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => break held,
            }
        };
        if let Held::Value(entry) = &held {
            self.known.note(&subject, entry.revision);
        }
        Ok(held)
    }

    async fn held_by_a_copy(&self, op: &'static str, place: &Place, subject: &str) -> Result<Held> {
        // The key stands in the subject of the call, so that reading can be granted by the key.
        let at = format!("{}.{subject}", place.stream);
        let mut pauses = api::new_stream_pauses();
        let got = loop {
            let failure = match self.api.get(op, &at, &GetRequest::default()).await {
                Ok(got) => break got,
                Err(failure) => failure,
            };
            let error = failure.into_error(op, subject);
            if error.kind() != ErrorKind::NotFound {
                return Err(error);
            }
            // Nobody answers as well while a server starts: only its word counts. Who may not make
            // a bucket may not ask for it either, and finds it made.
            if self.api.keeps_itself() && place.info(&self.api, op).await?.is_none() {
                return Ok(Held::Nothing);
            }
            match pauses.next() {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(cannot_be_read(op, subject)),
            }
        };
        Ok(got.into_iter().next().map_or(Held::Nothing, read_held))
    }

    /// Writes when the last revision under the key is `expected`; the outer refusal is the
    /// server's word that it is not.
    async fn try_write(
        &self,
        write: &Write<'_>,
        expected: Option<u64>,
    ) -> Result<Option<Revision>> {
        let subject = write.place.subject(write.key);
        let mut headers = write.headers.clone();
        if let Some(expected) = expected {
            set(&mut headers, "Nats-Expected-Last-Subject-Sequence", &expected.to_string())?;
        }
        let mut pauses = api::new_stream_pauses();
        loop {
            let (subject, headers) = (subject.clone(), headers.clone());
            let sent = self.api.publish(write.op, &subject, headers, write.body.clone());
            match sent.await {
                Ok(ack) => {
                    let revision = Revision(ack.seq);
                    if self.replicas > 1 {
                        self.own.note(&subject, revision);
                    }
                    return Ok(Some(revision));
                }
                Err(failure) if failure.is_stale() => {
                    return Ok(None);
                }
                Err(ApiFailure::Bus(error)) if error.kind() == ErrorKind::NotFound => {
                    if self.api.keeps_itself() {
                        write.place.ensure(&self.api, write.op).await?;
                    }
                    let Some(pause) = pauses.next() else {
                        return Err(cannot_be_read(write.op, &subject));
                    };
                    tokio::time::sleep(pause).await;
                }
                Err(failure) => return Err(failure.into_error(write.op, subject)),
            }
        }
    }

    async fn write(&self, write: &Write<'_>, expected: Option<u64>) -> Result<Revision> {
        let written = self.try_write(write, expected).await?;
        written.ok_or_else(|| {
            conflict(write.op, write.place, write.key, "the key is not at the revision expected")
        })
    }

    async fn write_on(&self, write: &Write<'_>, revision: Revision) -> Result<Revision> {
        let never = revision == Revision::START || i64::try_from(revision.0).is_err();
        let stale = "the key is not at the revision expected";
        if never {
            return Err(conflict(write.op, write.place, write.key, stale));
        }
        // The server would take the mark of an end for a value.
        if !self.known.has(&write.place.subject(write.key), revision)
            && let Held::End(end) = self.held(write.op, write.place, write.key).await?
            && end == revision.0
        {
            return Err(conflict(write.op, write.place, write.key, stale));
        }
        self.write(write, Some(revision.0)).await
    }

    /// A key that ended still has the mark of its end as its last revision.
    async fn write_where_nothing_is(&self, write: &Write<'_>) -> Result<Revision> {
        let mut expected = 0;
        for _ in 0..ABSENT_TRIES {
            if let Some(revision) = self.try_write(write, Some(expected)).await? {
                return Ok(revision);
            }
            expected = match self.held(write.op, write.place, write.key).await? {
                Held::Value(_) => break,
                Held::End(end) => end,
                Held::Nothing => 0,
            };
        }
        Err(conflict(write.op, write.place, write.key, "the key holds a value"))
    }
}

/// A write into a bucket without what it expects.
struct Write<'a> {
    op: &'static str,
    place: &'a Place,
    key: &'a BucketKey,
    headers: HeaderMap,
    body: Bytes,
}

fn read_held(stored: RawStored) -> Held {
    match layout::end(&stored.headers) {
        Some(_) => Held::End(stored.seq),
        None => Held::Value(Entry { value: stored.body, revision: Revision(stored.seq) }),
    }
}

/// The server counts whole seconds; a value may stay longer than asked, never shorter.
fn whole_seconds(ttl: Duration) -> u64 {
    let more = u64::from(ttl.subsec_nanos() > 0);
    ttl.as_secs().saturating_add(more).min(TTL_SECONDS_MAX)
}

fn conflict(op: &'static str, place: &Place, key: &BucketKey, why: &'static str) -> Error {
    Error::new(ErrorKind::Conflict, op, why).at(place.subject(key))
}

fn cannot_be_read(op: &'static str, subject: &str) -> Error {
    Error::new(ErrorKind::Unavailable, op, "nobody answers for the bucket now").at(subject)
}

const GET: &str = "get";
const PUT: &str = "put";
const DELETE: &str = "delete";
/// How often somebody else may come between before a put gives up.
const ABSENT_TRIES: usize = 8;
/// A hundred years: the server counts the end in nanoseconds, which end in 2262.
const TTL_SECONDS_MAX: u64 = 100 * 365 * 24 * 3_600;

#[cfg(test)]
mod tests;
