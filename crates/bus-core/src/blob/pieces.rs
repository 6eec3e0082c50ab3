//! The way in: parts of any size become pieces of one size, hashed as they come.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bus_envelope::{
    EventHash,
    tree::{MerkleTree, leaf_hash},
};
use bus_subjects::BucketKey;
use bytes::{Buf, Bytes};
use futures_core::Stream;

use super::{BlobBody, BlobInfo};
use crate::{Error, ErrorKind, Result};

/// A body cut into pieces of [`BlobInfo::PIECE_BYTES`], the last one shorter: what engines store.
///
/// A piece is a copy, so that it keeps no larger part of the caller's in memory. Hashing one takes
/// tens of microseconds; after each the stream gives way to others.
#[derive(Debug)]
#[must_use = "a body that is not read does nothing"]
pub struct BlobPieces {
    body: BlobBody,
    /// What came and is in no piece yet.
    part: Bytes,
    piece: Vec<u8>,
    tree: MerkleTree,
    bytes: u64,
    gives_way: bool,
    has_ended: bool,
}

/// A piece of a blob and the hash it is verified against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobPiece {
    /// The content.
    pub bytes: Bytes,
    /// Its leaf hash in the tree that the digest is the root of.
    pub leaf: EventHash,
}

impl BlobPieces {
    /// Cuts `body`.
    pub const fn new(body: BlobBody) -> Self {
        Self {
            body,
            part: Bytes::new(),
            piece: Vec::new(),
            tree: MerkleTree::new(),
            bytes: 0,
            gives_way: false,
            has_ended: false,
        }
    }

    /// The next piece; `None` at the end, also after an error. Cancel safe.
    ///
    /// # Errors
    /// `TooLarge` (over [`BlobInfo::BYTES_MAX`]), and the first error of the body.
    pub async fn next(&mut self) -> Option<Result<BlobPiece>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// What is known about the pieces so far; at the end, about the blob.
    #[must_use]
    pub fn info(&self, key: BucketKey) -> BlobInfo {
        BlobInfo { key, bytes: self.bytes, digest: self.tree.root() }
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<BlobPiece>>> {
        for _ in 0..PARTS_MAX {
            let missing = BlobInfo::PIECE_BYTES - self.piece.len();
            let taken = self.part.split_to(missing.min(self.part.remaining()));
            self.piece.extend_from_slice(&taken);
            if self.piece.len() == BlobInfo::PIECE_BYTES {
                return Poll::Ready(Some(Ok(self.cut())));
            }
            match ready!(Pin::new(&mut self.body).poll_next(cx)) {
                Some(Ok(part)) if part.len() as u64 > self.room_left() => {
                    let why = format!("a blob has at most {} bytes", BlobInfo::BYTES_MAX);
                    return self.fail(Error::new(ErrorKind::TooLarge, "put blob", why));
                }
                Some(Ok(part)) => self.part = part,
                Some(Err(error)) => return self.fail(error),
                None => {
                    self.has_ended = true;
                    let last = (!self.piece.is_empty()).then(|| Ok(self.cut()));
                    return Poll::Ready(last);
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn room_left(&self) -> u64 {
        BlobInfo::BYTES_MAX - self.bytes - self.piece.len() as u64
    }

    fn cut(&mut self) -> BlobPiece {
        let bytes = Bytes::from(std::mem::take(&mut self.piece).into_boxed_slice());
        let leaf = leaf_hash(&bytes);
        self.tree.append_leaf(leaf);
        self.bytes += bytes.len() as u64;
        self.gives_way = true;
        BlobPiece { bytes, leaf }
    }

    fn fail(&mut self, error: Error) -> Poll<Option<Result<BlobPiece>>> {
        self.has_ended = true;
        Poll::Ready(Some(Err(error)))
    }
}

impl Stream for BlobPieces {
    type Item = Result<BlobPiece>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if std::mem::take(&mut self.gives_way) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.has_ended {
            return Poll::Ready(None);
        }
        self.poll_piece(cx)
    }
}

/// How many parts are taken in one go; they may be tiny or empty.
const PARTS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::FutureExt;

    use super::*;

    const PIECE: usize = BlobInfo::PIECE_BYTES;

    /// Pieces that come behind all but two pieces of the largest blob.
    fn pieces_of_a_large_blob(body: Vec<u8>) -> BlobPieces {
        let mut pieces = BlobPieces::new(Bytes::from(body).into());
        pieces.bytes = BlobInfo::BYTES_MAX - 2 * PIECE as u64;
        pieces
    }

    /// What comes when others had their turn.
    fn next(pieces: &mut BlobPieces) -> Option<Result<BlobPiece>> {
        pieces.next().now_or_never().or_else(|| pieces.next().now_or_never()).unwrap()
    }

    #[test]
    fn a_body_over_the_largest_blob_is_too_large() {
        let mut pieces = pieces_of_a_large_blob(vec![0; 2 * PIECE + 1]);
        assert_eq!(next(&mut pieces).unwrap().unwrap_err().kind(), ErrorKind::TooLarge);
        assert!(next(&mut pieces).is_none(), "nothing of it is stored");
    }

    #[test]
    fn a_blob_may_be_as_large_as_allowed() {
        let mut pieces = pieces_of_a_large_blob(vec![0; 2 * PIECE]);
        assert!(next(&mut pieces).unwrap().is_ok());
        assert!(next(&mut pieces).unwrap().is_ok());
        assert!(next(&mut pieces).is_none());
        assert_eq!(pieces.info(BucketKey::parse("k").unwrap()).bytes, BlobInfo::BYTES_MAX);
    }
}
