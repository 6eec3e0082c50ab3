//! Blobs on JetStream: pieces first, the manifest last, so that a blob appears as a whole.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_nats::HeaderMap;
use bus_core::{Blob, BlobBody, BlobInfo, Error, ErrorKind, Outcome, Result};
use bus_subjects::{BucketKey, BucketName};
use bytes::Bytes;
use tokio::time::Instant;

use self::{
    layout::{Layout, Manifest, StreamConfig},
    reader::{Pieces, read_leaves},
    upload::Upload,
};
use crate::{
    api::{Api, GetRequest, RawStored},
    codec::{get, set},
};

pub use sweep::BlobAges;

mod layout;
mod reader;
mod sweep;
mod upload;

/// The blobs of one connection; a clone is cheap.
///
/// Each bucket has a stream of its own. The pieces of an upload lie under a subject of that upload,
/// the leaf hashes behind them, and one small manifest a key says which upload the key stands for.
/// Replacing a blob replaces its manifest; the pieces stay for those who read them, until
/// [`BlobStore::sweep`] finds that they were long enough without a manifest. A reader that takes
/// longer than that grace time is told `Corrupt` where the pieces end.
#[derive(Clone)]
pub(crate) struct BlobStore {
    api: Api,
    replicas: u64,
    /// The buckets whose stream is there, and when each was last swept.
    known: Arc<Mutex<HashMap<BucketName, Option<Instant>>>>,
}

impl BlobStore {
    /// The blobs that `api` reaches; streams that are made have so many replicas.
    pub(crate) fn new(api: Api, replicas: u64) -> Self {
        Self { api, replicas, known: Arc::default() }
    }

    /// Makes `bucket` unless it is there.
    pub(crate) async fn make(&self, op: &'static str, bucket: &BucketName) -> Result<()> {
        self.api.check_keeps_itself(op).map_err(|error| error.at(bucket))?;
        self.make_stream(bucket, &Layout::new(bucket)).await
    }

    /// See [`bus_core::Blobs::put_blob`].
    pub(crate) async fn put_blob(
        &self,
        bucket: BucketName,
        key: BucketKey,
        body: BlobBody,
    ) -> Result<BlobInfo> {
        let place = format!("{bucket}/{key}");
        let stored = self.put(&bucket, key, body).await.map_err(|error| error.at(place))?;
        self.sweep_when_due(&bucket);
        Ok(stored)
    }

    /// See [`bus_core::Blobs::get_blob`].
    pub(crate) async fn get_blob(
        &self,
        bucket: BucketName,
        key: BucketKey,
    ) -> Result<Option<Blob>> {
        let place = format!("{bucket}/{key}");
        self.begin_reading(&bucket, &key).await.map_err(|error| error.at(place))
    }

    /// See [`bus_core::Blobs::delete_blob`].
    pub(crate) async fn delete_blob(&self, bucket: BucketName, key: BucketKey) -> Result<bool> {
        let place = format!("{bucket}/{key}");
        let deleted = self.delete(&bucket, &key).await.map_err(|error| error.at(place))?;
        if deleted {
            self.sweep_when_due(&bucket);
        }
        Ok(deleted)
    }

    /// See [`bus_core::Blobs::list_blobs`].
    pub(crate) async fn list_blobs(&self, bucket: BucketName) -> Result<Vec<BlobInfo>> {
        let layout = Layout::new(&bucket);
        self.api.connection().check_open(LIST)?;
        let mut listed = HashMap::new();
        for stored in self.all_of(LIST, &layout, layout.all_manifests()).await? {
            if is_tombstone(&stored) {
                listed.remove(&stored.subject);
                continue;
            }
            let info = Manifest::read(LIST, &stored.body)?.info;
            listed.insert(stored.subject, info);
        }
        let mut listed: Vec<BlobInfo> = listed.into_values().collect();
        listed.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(listed)
    }

    async fn put(&self, bucket: &BucketName, key: BucketKey, body: BlobBody) -> Result<BlobInfo> {
        self.api.connection().check_open(PUT)?;
        let layout = Layout::new(bucket);
        self.make_stream(bucket, &layout).await?;
        let mut upload = Upload::begin(&self.api, &layout).await?;
        let stored = match upload.take(key, body).await {
            Ok(manifest) => self.commit(&layout, &manifest).await.map(|old| (manifest, old)),
            Err(error) => Err(error),
        };
        match stored {
            Ok((manifest, replaced)) => {
                if let Some(replaced) = replaced {
                    self.mark_dead(PUT, &layout, &replaced).await;
                }
                Ok(manifest.info)
            }
            Err(error) => {
                // A manifest that may be stored keeps its pieces.
                if error.outcome() == Outcome::NotDone {
                    upload.give_up().await;
                }
                // A stream that somebody deleted is made anew by the next upload.
                self.known().remove(bucket);
                Err(error)
            }
        }
    }

    /// Makes the manifest the one of its key, and tells which one it took the place of.
    async fn commit(&self, layout: &Layout, manifest: &Manifest) -> Result<Option<Manifest>> {
        let subject = layout.manifest(&manifest.info.key);
        for _ in 0..RACES_MAX {
            let last = self.last(PUT, layout, &subject).await?;
            let headers = takes_the_place_of(last.as_ref().map_or(0, |last| last.seq))?;
            let body = manifest.write()?;
            match self.api.publish(PUT, &subject, headers, body).await {
                // A manifest that cannot be read names no upload; the sweep finds its pieces.
                Ok(_) => {
                    let replaced = last.filter(|last| !is_tombstone(last));
                    return Ok(replaced.and_then(|last| Manifest::read(PUT, &last.body).ok()));
                }
                Err(failure) if failure.is_stale() => {}
                Err(failure) => return Err(stream_is_gone(PUT, failure.into_error(PUT, &subject))),
            }
        }
        Err(too_many_races(PUT))
    }

    async fn begin_reading(&self, bucket: &BucketName, key: &BucketKey) -> Result<Option<Blob>> {
        self.api.connection().check_open(GET)?;
        let layout = Layout::new(bucket);
        let last = self.last(GET, &layout, &layout.manifest(key)).await?;
        let Some(last) = last.filter(|last| !is_tombstone(last)) else { return Ok(None) };
        let manifest = Manifest::read(GET, &last.body)?;
        if manifest.info.key != *key {
            return Err(Error::new(ErrorKind::Corrupt, GET, "its manifest is of another key"));
        }
        let leaves = read_leaves(&self.api, &layout, &manifest).await?;
        let pieces = Pieces::new(self.api.clone(), &layout, &manifest);
        let info = manifest.info;
        let body = BlobBody::verified(info.clone(), leaves.into(), pieces);
        Ok(Some(Blob { info, body }))
    }

    async fn delete(&self, bucket: &BucketName, key: &BucketKey) -> Result<bool> {
        self.api.connection().check_open(DELETE)?;
        let layout = Layout::new(bucket);
        let subject = layout.manifest(key);
        for _ in 0..RACES_MAX {
            let last = self.last(DELETE, &layout, &subject).await?;
            let Some(last) = last.filter(|last| !is_tombstone(last)) else { return Ok(false) };
            let mut headers = takes_the_place_of(last.seq)?;
            set(&mut headers, OPERATION, DELETED)?;
            set(&mut headers, "Nats-TTL", TOMBSTONE_SECONDS)?;
            match self.api.publish(DELETE, &subject, headers, Bytes::new()).await {
                Ok(_) => {
                    if let Ok(deleted) = Manifest::read(DELETE, &last.body) {
                        self.mark_dead(DELETE, &layout, &deleted).await;
                    }
                    return Ok(true);
                }
                Err(failure) if failure.is_stale() => {}
                Err(failure) => {
                    return Err(stream_is_gone(DELETE, failure.into_error(DELETE, &subject)));
                }
            }
        }
        Err(too_many_races(DELETE))
    }

    /// The last message under `subject`; `None` also when the bucket was never written.
    async fn last(
        &self,
        op: &'static str,
        layout: &Layout,
        subject: &str,
    ) -> Result<Option<RawStored>> {
        let wanted = GetRequest { last_by_subj: Some(subject.to_owned()), ..Default::default() };
        let stored = self.api.get_if_made(op, layout.stream(), &wanted).await;
        let stored = stored.map_err(|failure| failure.into_error(op, subject))?;
        Ok(stored.into_iter().next())
    }

    /// Every message under `filter`, in the order they were stored.
    async fn all_of(
        &self,
        op: &'static str,
        layout: &Layout,
        filter: String,
    ) -> Result<Vec<RawStored>> {
        let mut all: Vec<RawStored> = Vec::new();
        let mut from = 1;
        loop {
            let wanted = GetRequest {
                seq: Some(from),
                next_by_subj: Some(filter.clone()),
                batch: Some(LISTED_AT_ONCE),
                ..Default::default()
            };
            let got = self.api.get_if_made(op, layout.stream(), &wanted).await;
            let got = got.map_err(|failure| failure.into_error(op, &filter))?;
            let Some(last) = got.last() else { return Ok(all) };
            from = last.seq.saturating_add(1);
            all.extend(got);
        }
    }

    async fn make_stream(&self, bucket: &BucketName, layout: &Layout) -> Result<()> {
        // Where another account keeps it, whoever sets up the workspace has made it.
        if !self.api.keeps_itself() || self.known().contains_key(bucket) {
            return Ok(());
        }
        let config = StreamConfig::new(layout, self.replicas);
        let verb = format!("STREAM.CREATE.{}", layout.stream());
        let made = self.api.call::<serde::de::IgnoredAny>(PUT, &verb, &config).await;
        match made {
            Ok(_) => {}
            // It is there, with limits or replicas that an operator chose.
            Err(failure) if failure.err_code() == Some(NAME_IN_USE) => {}
            Err(failure) => return Err(failure.into_error(PUT, layout.stream())),
        }
        self.known().entry(bucket.clone()).or_default();
        Ok(())
    }

    /// Says that nothing refers to `upload` any more. When that does not get through, the sweep
    /// finds the upload all the same, by its age.
    async fn mark_dead(&self, op: &'static str, layout: &Layout, manifest: &Manifest) {
        if manifest.pieces() == 0 {
            return;
        }
        if let Err(error) = self.try_mark_dead(op, layout, &manifest.upload).await {
            tracing::debug!(%error, upload = manifest.upload, "a dead upload is left to the sweep");
        }
    }

    async fn try_mark_dead(&self, op: &'static str, layout: &Layout, upload: &str) -> Result<()> {
        let (subject, headers) = (layout.dead(upload), takes_the_place_of(0)?);
        match self.api.publish(op, &subject, headers, Bytes::new()).await {
            Ok(_) => Ok(()),
            // It was said before.
            Err(failure) if failure.is_stale() => Ok(()),
            Err(failure) => Err(failure.into_error(op, subject)),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "an engine sweeps beside its calls")]
    fn sweep_when_due(&self, bucket: &BucketName) {
        if !self.api.keeps_itself() {
            return;
        }
        let now = Instant::now();
        let mut known = self.known();
        let swept = known.entry(bucket.clone()).or_default();
        if swept.is_some_and(|swept| now.duration_since(swept) < SWEEP_EVERY) {
            return;
        }
        *swept = Some(now);
        drop(known);
        let (store, bucket) = (self.clone(), bucket.clone());
        tokio::spawn(async move {
            if let Err(error) = store.sweep(&bucket, BlobAges::default()).await {
                tracing::debug!(%error, %bucket, "dead uploads are left to the next sweep");
            }
        });
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<BucketName, Option<Instant>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for BlobStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlobStore").field("replicas", &self.replicas).finish_non_exhaustive()
    }
}

/// Headers of a message that is the only one of its subject, stored only when the last one there
/// is at `seq` (0: when there is none).
fn takes_the_place_of(seq: u64) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    set(&mut headers, "Nats-Expected-Last-Subject-Sequence", &seq.to_string())?;
    set(&mut headers, "Nats-Rollup", "sub")?;
    Ok(headers)
}

fn is_tombstone(stored: &RawStored) -> bool {
    get(&stored.headers, OPERATION) == Some(DELETED)
}

/// A bucket is there when it is written to: that its stream is not is a fault of the moment.
fn stream_is_gone(op: &'static str, error: Error) -> Error {
    if error.kind() != ErrorKind::NotFound {
        return error;
    }
    Error::new(ErrorKind::Unavailable, op, "the stream of the bucket went away").because(error)
}

fn too_many_races(op: &'static str) -> Error {
    let why = format!("others wrote the same key first, {RACES_MAX} times");
    Error::new(ErrorKind::Unavailable, op, why)
}

const PUT: &str = "put blob";
const GET: &str = "get blob";
const DELETE: &str = "delete blob";
const LIST: &str = "list blobs";

/// The header that tells a deleted key, as buckets of values do it.
const OPERATION: &str = "KV-Operation";
const DELETED: &str = "DEL";
/// How long a deleted key is remembered, so that late readers of the old state lose their race.
const TOMBSTONE_SECONDS: &str = "60";

const NAME_IN_USE: u32 = 10_058;

/// How often a writer that comes second looks again.
const RACES_MAX: usize = 64;
/// How many manifests are read in one request.
const LISTED_AT_ONCE: usize = 512;
/// How often a connection that writes to a bucket sweeps it.
const SWEEP_EVERY: Duration = Duration::from_secs(600);
