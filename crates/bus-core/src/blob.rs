//! Large values as streams: nothing reaches the caller before it was verified.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bus_envelope::EventHash;
use bus_subjects::{BucketKey, BucketName};
use bytes::Bytes;
use futures_core::Stream;

use crate::{BoxFuture, Result};

pub use pieces::{BlobPiece, BlobPieces};

mod pieces;
mod verified;

use verified::Verified;

/// Blobs under keys, in buckets of their own: written whole or not at all, read piece by piece.
pub trait Blobs: Send + Sync + 'static {
    /// Stores what `body` yields under `key`, in place of what was there.
    ///
    /// It becomes visible as a whole once the last byte is stored; while it is written, and after
    /// an upload that failed or was dropped, readers see what was there before
    /// (`an_aborted_blob_is_invisible`).
    ///
    /// # Errors
    /// `TooLarge` (over [`BlobInfo::BYTES_MAX`]), `Full`, `Denied`, `Closed`; the first error of
    /// `body`; `Timeout` and `Unavailable` with outcome unknown.
    fn put_blob(
        &self,
        bucket: BucketName,
        key: BucketKey,
        body: BlobBody,
    ) -> BoxFuture<'_, Result<BlobInfo>>;

    /// The blob under `key`, or `None`. A reader that began keeps what it began to read, also
    /// when the blob is replaced or deleted meanwhile
    /// (`a_reader_keeps_the_blob_it_began`); each piece is verified before it is yielded, and one
    /// that does not verify is an error of kind `Corrupt` in its place.
    ///
    /// # Errors
    /// `Denied`, `Closed`, `Unavailable`.
    fn get_blob(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<Option<Blob>>>;

    /// Removes the blob under `key` and says whether there was one.
    ///
    /// # Errors
    /// `Denied`, `Closed`; `Timeout` and `Unavailable` with outcome unknown.
    fn delete_blob(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<bool>>;

    /// Every blob of `bucket`, by key.
    ///
    /// # Errors
    /// `Denied`, `Closed`, `Unavailable`.
    fn list_blobs(&self, bucket: BucketName) -> BoxFuture<'_, Result<Vec<BlobInfo>>>;
}

/// What is known about a stored blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobInfo {
    /// Its key.
    pub key: BucketKey,
    /// Its size.
    pub bytes: u64,
    /// The root of the RFC 6962 tree over its pieces, each of [`BlobInfo::PIECE_BYTES`] but the
    /// last: the same content has the same digest, whatever the parts it was written in.
    pub digest: EventHash,
}

/// A blob that is being read.
#[derive(Debug)]
pub struct Blob {
    /// What is known about it.
    pub info: BlobInfo,
    /// Its verified pieces.
    pub body: BlobBody,
}

/// The content of a blob as a stream of parts.
#[must_use = "a body that is not read does nothing"]
pub struct BlobBody(Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>);

impl BlobInfo {
    /// The size of a piece, in bytes (64 KiB).
    pub const PIECE_BYTES: usize = 64 * 1024;

    /// The largest blob, in bytes (4 GiB).
    pub const BYTES_MAX: u64 = 4 << 30;
}

impl BlobBody {
    /// Wraps a stream of parts of any size.
    pub fn new(parts: impl Stream<Item = Result<Bytes>> + Send + 'static) -> Self {
        Self(Box::pin(parts))
    }

    /// The stored pieces of the blob that `info` tells about, each verified before it is yielded.
    ///
    /// `leaves` are the leaf hashes as stored; they are held to the digest first. What does not
    /// verify, is missing or has another size is an error of kind `Corrupt` in its place, and the
    /// body ends with it.
    pub fn verified(
        info: BlobInfo,
        leaves: Arc<[EventHash]>,
        pieces: impl Stream<Item = Result<Bytes>> + Send + 'static,
    ) -> Self {
        Self::new(Verified::new(info, leaves, pieces))
    }

    /// The next part; `None` at the end. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Bytes>> {
        std::future::poll_fn(|cx| self.0.as_mut().poll_next(cx)).await
    }
}

impl Stream for BlobBody {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(cx)
    }
}

impl From<Bytes> for BlobBody {
    fn from(bytes: Bytes) -> Self {
        Self::new(futures_util::stream::iter([Ok(bytes)]))
    }
}

impl std::fmt::Debug for BlobBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BlobBody")
    }
}

#[cfg(test)]
mod tests;
