//! Stored blobs: whole ones under keys, and the room that they and the uploads share.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bus_core::{BlobInfo, BlobPiece, Error, ErrorKind, Result};
use bus_envelope::EventHash;
use bus_subjects::{BucketKey, BucketName};
use bytes::Bytes;

use crate::Limits;

/// Every blob of one bus.
#[derive(Debug)]
pub struct BlobStore {
    buckets: HashMap<BucketName, BTreeMap<BucketKey, Arc<StoredBlob>>>,
    room: Arc<Room>,
}

/// A whole blob; readers share it and keep it when it is replaced.
#[derive(Debug)]
pub struct StoredBlob {
    info: BlobInfo,
    pieces: Vec<Bytes>,
    leaves: Arc<[EventHash]>,
    _taken: Taken,
}

/// A blob that comes in; dropping it leaves nothing.
#[derive(Debug)]
pub struct Upload {
    pieces: Vec<Bytes>,
    leaves: Vec<EventHash>,
    taken: Taken,
}

/// How much may be held and is.
#[derive(Debug)]
struct Room {
    bytes: AtomicU64,
    bytes_max: u64,
}

/// A part of the room, given back when dropped.
#[derive(Debug)]
struct Taken {
    room: Arc<Room>,
    bytes: u64,
}

impl BlobStore {
    /// No blob yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let room = Room { bytes: AtomicU64::new(0), bytes_max: limits.blob_bytes_max };
        Self { buckets: HashMap::new(), room: Arc::new(room) }
    }

    /// Begins an upload, which needs the store again only when it is complete.
    ///
    /// # Errors
    /// `Full`.
    pub fn begin(&self) -> Result<Upload> {
        let mut taken = Taken { room: Arc::clone(&self.room), bytes: 0 };
        taken.take(BLOB_BYTES)?;
        Ok(Upload { pieces: Vec::new(), leaves: Vec::new(), taken })
    }

    /// Makes a complete upload visible under `key`, and returns the blob it takes the place of.
    pub fn finish(
        &mut self,
        bucket: BucketName,
        info: BlobInfo,
        upload: Upload,
    ) -> Option<Arc<StoredBlob>> {
        let key = info.key.clone();
        let Upload { pieces, leaves, taken } = upload;
        let blob = StoredBlob { info, pieces, leaves: leaves.into(), _taken: taken };
        self.buckets.entry(bucket).or_default().insert(key, Arc::new(blob))
    }

    /// The blob under `key`.
    #[must_use]
    pub fn get(&self, bucket: &BucketName, key: &BucketKey) -> Option<Arc<StoredBlob>> {
        self.buckets.get(bucket)?.get(key).cloned()
    }

    /// Takes the blob under `key` out.
    pub fn remove(&mut self, bucket: &BucketName, key: &BucketKey) -> Option<Arc<StoredBlob>> {
        let blobs = self.buckets.get_mut(bucket)?;
        let removed = blobs.remove(key);
        if blobs.is_empty() {
            self.buckets.remove(bucket);
        }
        removed
    }

    /// Up to `blobs_max` blobs of `bucket` by key, behind `after`.
    #[must_use]
    pub fn list(
        &self,
        bucket: &BucketName,
        after: Option<&BucketKey>,
        blobs_max: usize,
    ) -> Vec<BlobInfo> {
        let Some(blobs) = self.buckets.get(bucket) else { return Vec::new() };
        let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = blobs.range::<BucketKey, _>((behind, Bound::Unbounded));
        behind.take(blobs_max).map(|(_, blob)| blob.info.clone()).collect()
    }

    /// What stored blobs, blobs that are still read, and uploads count for together.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.room.bytes.load(Ordering::Relaxed)
    }
}

impl StoredBlob {
    /// What is known about it.
    #[must_use]
    pub fn info(&self) -> &BlobInfo {
        &self.info
    }

    /// Its pieces, as stored and not verified.
    #[must_use]
    pub fn pieces(&self) -> &[Bytes] {
        &self.pieces
    }

    /// The leaf hash of each piece.
    #[must_use]
    pub fn leaves(&self) -> &Arc<[EventHash]> {
        &self.leaves
    }
}

impl Upload {
    /// Adds the next piece.
    ///
    /// # Errors
    /// `Full`.
    pub fn add(&mut self, piece: BlobPiece) -> Result<()> {
        self.taken.take(piece.bytes.len() as u64 + PIECE_BYTES)?;
        self.pieces.push(piece.bytes);
        self.leaves.push(piece.leaf);
        Ok(())
    }
}

impl Taken {
    fn take(&mut self, bytes: u64) -> Result<()> {
        let Room { bytes: held, bytes_max } = &*self.room;
        let grown = |held: u64| held.checked_add(bytes).filter(|sum| sum <= bytes_max);
        if held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_err() {
            let why = format!("the blobs hold {bytes_max} bytes");
            return Err(Error::new(ErrorKind::Full, "put blob", why));
        }
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What a blob counts for beside its pieces: its name, its key and its place.
const BLOB_BYTES: u64 = 1024;

/// What a piece counts for beside its content: its hash and its place.
const PIECE_BYTES: u64 = 128;
