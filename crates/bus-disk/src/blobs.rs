//! Blobs: a file each, and which file stands for which key.
//!
//! A file is complete and safe before the journal says that it exists, and the journal says that
//! it is gone before its name goes. What nobody refers to is swept at the next start.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bus_core::{BlobInfo, Error, ErrorKind, Result};
use bus_mem::journal::{Journal, Position};
use bus_subjects::{BucketKey, BucketName};

use crate::{
    files::Files,
    home::Home,
    journal::DiskJournal,
    record::{BlobRecord, Record},
    segment::{damaged, unavailable},
};

pub(crate) use read::read;
pub(crate) use upload::{Upload, blocking};

mod read;
mod upload;

/// The blobs of one directory.
pub(crate) struct BlobFiles {
    pub(crate) files: Arc<dyn Files>,
    pub(crate) home: Arc<Home>,
    journal: DiskJournal,
    index: Mutex<BlobIndex>,
    next_file: AtomicU64,
    /// Files that go as soon as a backup does not need them any more, while one runs.
    held: Mutex<Option<Vec<Stored>>>,
    /// Bytes of all blobs and uploads, and the most there may be.
    bytes: AtomicU64,
    bytes_max: u64,
}

/// Which blobs there are.
#[derive(Debug, Default)]
pub(crate) struct BlobIndex {
    buckets: HashMap<BucketName, BTreeMap<BucketKey, Stored>>,
    /// The last change of it.
    last: Position,
    /// Blobs that were taken out, and where the journal says so.
    left: Vec<(Position, Stored)>,
}

/// A blob and the file that holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) info: BlobInfo,
    pub(crate) file: u64,
}

impl BlobIndex {
    /// Takes in what a record says of a blob.
    pub(crate) fn apply(&mut self, record: &Record<'_>) {
        match record {
            Record::BlobStored(blob) => {
                let key = blob.key.clone();
                let info = BlobInfo { key: key.clone(), bytes: blob.bytes, digest: blob.digest };
                let stored = Stored { info, file: blob.file };
                self.buckets.entry(blob.bucket.clone()).or_default().insert(key, stored);
            }
            Record::BlobRemoved { bucket, key } => {
                let _removed = self.remove(bucket, key);
            }
            Record::Change(_) | Record::Opened { .. } => {}
        }
    }

    fn remove(&mut self, bucket: &BucketName, key: &BucketKey) -> Option<Stored> {
        let blobs = self.buckets.get_mut(bucket)?;
        let removed = blobs.remove(key);
        if blobs.is_empty() {
            self.buckets.remove(bucket);
        }
        removed
    }

    fn all(&self) -> impl Iterator<Item = (&BucketName, &Stored)> {
        self.buckets.iter().flat_map(|(bucket, blobs)| blobs.values().map(move |b| (bucket, b)))
    }
}

impl BlobFiles {
    /// The blobs of `index`, after a look whether their files are there; all others are removed.
    ///
    /// # Errors
    /// `Corrupt` when a file is missing or has another size than it should; `Unavailable` when
    /// the directory cannot be read.
    pub(crate) fn open(
        (files, home): (Arc<dyn Files>, Arc<Home>),
        journal: DiskJournal,
        index: BlobIndex,
        bytes_max: u64,
    ) -> Result<Self> {
        let bytes = index.all().map(|(_, blob)| weight(blob.info.bytes)).sum();
        let next = index.all().map(|(_, blob)| blob.file + 1).max().unwrap_or(1);
        let blobs = Self {
            files,
            home,
            journal,
            index: Mutex::new(index),
            next_file: AtomicU64::new(next),
            held: Mutex::default(),
            bytes: AtomicU64::new(bytes),
            bytes_max,
        };
        blobs.check_and_sweep()?;
        Ok(blobs)
    }

    /// Every blob, with its bucket.
    pub(crate) fn all(&self) -> Vec<(BucketName, Stored)> {
        self.lock().all().map(|(bucket, blob)| (bucket.clone(), blob.clone())).collect()
    }

    /// Puts a complete file in the place of what is under the key, and says where the journal says
    /// so.
    pub(crate) fn store(&self, bucket: BucketName, blob: Stored) -> Position {
        let mut index = self.lock();
        let Stored { info, file } = &blob;
        let (file, bytes, digest) = (*file, info.bytes, info.digest);
        let record = BlobRecord { bucket: &bucket, key: &info.key, file, bytes, digest };
        let position = self.journal.write(&Record::BlobStored(record));
        let key = info.key.clone();
        let replaced = index.buckets.entry(bucket).or_default().insert(key, blob);
        index.left.extend(replaced.map(|replaced| (position, replaced)));
        index.last = position;
        position
    }

    /// Takes the blob under the key out; says whether there was one, and where the journal says
    /// so.
    pub(crate) fn remove(&self, bucket: &BucketName, key: &BucketKey) -> (bool, Position) {
        let mut index = self.lock();
        let Some(removed) = index.remove(bucket, key) else { return (false, index.last) };
        let position = self.journal.write(&Record::BlobRemoved { bucket, key });
        index.left.push((position, removed));
        index.last = position;
        (true, position)
    }

    /// Makes what was taken out count no more, so that there is room for what comes: waits until
    /// that is safe, and has it synced soon where that is not the same.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(crate) async fn settle_left(&self) -> Result<()> {
        let last = self.lock().left.iter().map(|(position, _)| *position).max();
        if let Some(last) = last {
            self.journal.0.ask_sync();
            self.safe(last).await?;
            self.discard_left();
        }
        Ok(())
    }

    /// Removes the files of blobs that were taken out, as far as that survives a power cut: a file
    /// that goes before would be missing afterwards. Whoever took one out need not be there any
    /// more.
    pub(crate) fn discard_left(&self) {
        let mut left = std::mem::take(&mut self.lock().left);
        left.retain(|(position, blob)| {
            let is_synced = self.journal.0.is_synced(*position);
            if is_synced {
                self.discard(blob);
            }
            !is_synced
        });
        self.lock().left.append(&mut left);
    }

    /// The blob under the key, and up to where the journal must be safe before it is shown.
    pub(crate) fn get(&self, bucket: &BucketName, key: &BucketKey) -> (Option<Stored>, Position) {
        let index = self.lock();
        let found = index.buckets.get(bucket).and_then(|blobs| blobs.get(key)).cloned();
        (found, index.last)
    }

    /// The blobs of a bucket by key, likewise.
    pub(crate) fn list(&self, bucket: &BucketName) -> (Vec<BlobInfo>, Position) {
        let index = self.lock();
        let blobs = index.buckets.get(bucket).into_iter().flat_map(BTreeMap::values);
        (blobs.map(|blob| blob.info.clone()).collect(), index.last)
    }

    /// Waits until `position` is safe.
    ///
    /// # Errors
    /// `Unavailable`, outcome unknown.
    pub(crate) async fn safe(&self, position: Position) -> Result<()> {
        if self.journal.is_safe(position) {
            return Ok(());
        }
        self.journal.safe(position).await
    }

    /// Whether a change may be made.
    ///
    /// # Errors
    /// As [`Journal::admit`].
    pub(crate) fn admit(&self, op: &'static str, frees: bool) -> Result<()> {
        self.journal.admit(op, RECORD_BYTES, frees)
    }

    /// Keeps the files of blobs that go from now on, for a backup.
    pub(crate) fn hold(&self) {
        self.lock_held().get_or_insert_default();
    }

    /// Removes the files that were kept.
    pub(crate) fn let_go(&self) {
        let held = self.lock_held().take();
        held.into_iter().flatten().for_each(|blob| self.discard(&blob));
    }

    /// Removes the file of a blob that nobody refers to; who reads it goes on.
    pub(crate) fn discard(&self, blob: &Stored) {
        if let Some(held) = &mut *self.lock_held() {
            held.push(blob.clone());
            return;
        }
        self.give_back(weight(blob.info.bytes));
        if let Err(error) = self.files.remove(&self.path(blob.file)) {
            // It is found again at the next start.
            tracing::warn!(file = blob.file, %error, "the file of a blob stays");
        }
    }

    /// The path of a blob's file.
    pub(crate) fn path(&self, file: u64) -> PathBuf {
        self.home.blobs().join(format!("{:02x}", file & 0xff)).join(format!("{file:016x}"))
    }

    /// A number that no file has.
    fn next_file(&self) -> u64 {
        self.next_file.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes room.
    ///
    /// # Errors
    /// `Full`.
    fn take(&self, bytes: u64) -> Result<()> {
        let grown = |held: u64| held.checked_add(bytes).filter(|sum| *sum <= self.bytes_max);
        match self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown) {
            Ok(_) => Ok(()),
            Err(_) => {
                let why = format!("the blobs hold {} bytes", self.bytes_max);
                Err(Error::new(ErrorKind::Full, "put blob", why))
            }
        }
    }

    fn give_back(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn check_and_sweep(&self) -> Result<()> {
        let unreadable = |error| unavailable(&self.home.blobs(), error);
        let swept = sweep_uploads(&*self.files, &self.home);
        swept.map_err(unreadable)?;
        let mut wanted: HashMap<u64, u64> = HashMap::new();
        wanted.extend(self.lock().all().map(|(_, blob)| (blob.file, file_bytes(blob.info.bytes))));
        let mut found = HashSet::new();
        let mut highest = 0;
        for folder in self.files.list(&self.home.blobs()).map_err(unreadable)? {
            let folder = self.home.blobs().join(&folder);
            if folder == self.home.uploads() {
                continue;
            }
            for name in self.files.list(&folder).map_err(unreadable)? {
                let path = folder.join(&name);
                let Ok(file) = u64::from_str_radix(&name, 16) else { continue };
                highest = highest.max(file);
                let Some(bytes) = wanted.get(&file).filter(|_| path == self.path(file)) else {
                    self.files.remove(&path).map_err(unreadable)?;
                    continue;
                };
                let size = self.files.open(&path).and_then(|file| file.bytes());
                if size.map_err(unreadable)? != *bytes {
                    return Err(damaged(&path, 0, format!("it should have {bytes} bytes")));
                }
                found.insert(file);
            }
        }
        if let Some(file) = wanted.keys().find(|file| !found.contains(file)) {
            return Err(damaged(&self.path(*file), 0, "it is missing"));
        }
        self.next_file.fetch_max(highest + 1, Ordering::Relaxed);
        Ok(())
    }

    fn lock_held(&self) -> MutexGuard<'_, Option<Vec<Stored>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, BlobIndex> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn sweep_uploads(files: &dyn Files, home: &Home) -> io::Result<()> {
    files
        .list(&home.uploads())?
        .iter()
        .try_for_each(|name| files.remove(&home.uploads().join(name)))
}

/// Bytes of the file of a blob: its content, then the hash of each piece.
pub(crate) fn file_bytes(bytes: u64) -> u64 {
    bytes + 32 * bytes.div_ceil(BlobInfo::PIECE_BYTES as u64)
}

/// What a blob counts for, as [`bus_mem::Limits::blob_bytes_max`] says.
fn weight(bytes: u64) -> u64 {
    BLOB_BYTES + bytes + PIECE_BYTES * bytes.div_ceil(BlobInfo::PIECE_BYTES as u64)
}

/// What a blob counts for beside its pieces.
const BLOB_BYTES: u64 = 1024;

/// What a piece counts for beside its content.
const PIECE_BYTES: u64 = 128;

/// No less than a record about a blob takes.
const RECORD_BYTES: usize = 1200;
