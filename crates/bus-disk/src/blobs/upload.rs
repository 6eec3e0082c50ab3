//! A blob that comes in: into a file of its own, which gets its place when it is whole.

use std::{io, path::PathBuf, sync::Arc};

use bus_core::{BlobInfo, BlobPiece, Error, ErrorKind, Result};
use bus_envelope::EventHash;

use super::{BLOB_BYTES, BlobFiles, PIECE_BYTES, Stored};
use crate::files::{Handle, is_full};

/// A file that is written; dropping it leaves nothing.
pub(crate) struct Upload {
    blobs: Arc<BlobFiles>,
    number: u64,
    path: PathBuf,
    file: Arc<dyn Handle>,
    at: u64,
    /// What came and is not written yet.
    parts: Vec<u8>,
    leaves: Vec<EventHash>,
    /// What it counts for so far.
    taken: u64,
    is_stored: bool,
}

impl Upload {
    /// Begins a file.
    ///
    /// # Errors
    /// `Full`, `Unavailable`.
    pub(crate) async fn begin(blobs: Arc<BlobFiles>) -> Result<Self> {
        blobs.settle_left().await?;
        blobs.take(BLOB_BYTES)?;
        let number = blobs.next_file();
        let path = blobs.home.uploads().join(format!("{number:016x}"));
        let (files, at) = (Arc::clone(&blobs.files), path.clone());
        let created = blocking(move || files.create(&at)).await;
        let file: Arc<dyn Handle> = match created {
            Ok(file) => file.into(),
            Err(error) => {
                blobs.give_back(BLOB_BYTES);
                return Err(error);
            }
        };
        let (parts, leaves) = (Vec::new(), Vec::new());
        let taken = BLOB_BYTES;
        Ok(Self { blobs, number, path, file, at: 0, parts, leaves, taken, is_stored: false })
    }

    /// Adds the next piece.
    ///
    /// # Errors
    /// `Full`, `Unavailable`.
    pub(crate) async fn add(&mut self, piece: BlobPiece) -> Result<()> {
        let bytes = piece.bytes.len() as u64 + PIECE_BYTES;
        self.blobs.take(bytes)?;
        self.taken += bytes;
        self.parts.extend_from_slice(&piece.bytes);
        self.leaves.push(piece.leaf);
        if self.parts.len() < WRITTEN_AT_ONCE {
            return Ok(());
        }
        self.flush().await
    }

    /// Makes the file safe, gives it its place, and returns what it stands for.
    ///
    /// # Errors
    /// `Full`, `Unavailable`.
    pub(crate) async fn finish(mut self, info: BlobInfo) -> Result<Stored> {
        let leaves = std::mem::take(&mut self.leaves);
        leaves.iter().for_each(|leaf| self.parts.extend_from_slice(leaf.as_bytes()));
        self.flush().await?;
        let (blobs, file) = (Arc::clone(&self.blobs), Arc::clone(&self.file));
        let (from, number) = (self.path.clone(), self.number);
        blocking(move || {
            let to = blobs.path(number);
            file.sync()?;
            let folder = to.parent().unwrap_or(&to);
            blobs.files.make_dir(folder)?;
            blobs.files.rename(&from, &to)?;
            blobs.files.sync_dir(folder)?;
            blobs.files.sync_dir(&blobs.home.blobs())
        })
        .await?;
        self.is_stored = true;
        Ok(Stored { info, file: self.number })
    }

    async fn flush(&mut self) -> Result<()> {
        let (file, at, parts) = (Arc::clone(&self.file), self.at, std::mem::take(&mut self.parts));
        self.at += parts.len() as u64;
        blocking(move || file.write_at(&parts, at)).await
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if !self.is_stored {
            self.blobs.give_back(self.taken);
            // What stays is swept at the next start.
            let _ignored = self.blobs.files.remove(&self.path);
        }
    }
}

/// Does what waits for the disk on a thread that may.
#[expect(clippy::disallowed_methods, reason = "an engine: files block")]
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(io::Error::other).and_then(|done| done).map_err(|error| {
        let kind = if is_full(&error) { ErrorKind::Full } else { ErrorKind::Unavailable };
        Error::new(kind, "blob file", error.to_string()).because(error)
    })
}

/// How much of a blob is written in one go (1 MiB).
const WRITTEN_AT_ONCE: usize = 1 << 20;
