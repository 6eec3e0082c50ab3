//! The way out: stored pieces are held to their hashes before anybody sees them.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bus_envelope::{
    EventHash,
    tree::{MerkleTree, leaf_hash},
};
use bytes::Bytes;
use futures_core::Stream;

use super::BlobInfo;
use crate::{Error, ErrorKind, Result};

/// The pieces of a blob as stored, verified one by one.
pub(super) struct Verified<S> {
    pieces: Pin<Box<S>>,
    info: BlobInfo,
    leaves: Arc<[EventHash]>,
    /// The tree over the leaves looked at so far; `None` once its root was found to be the digest.
    unproved: Option<MerkleTree>,
    next: usize,
    bytes_left: u64,
    gives_way: bool,
    has_ended: bool,
}

impl<S: Stream<Item = Result<Bytes>>> Verified<S> {
    pub(super) fn new(info: BlobInfo, leaves: Arc<[EventHash]>, pieces: S) -> Self {
        Self {
            pieces: Box::pin(pieces),
            bytes_left: info.bytes,
            info,
            leaves,
            unproved: Some(MerkleTree::new()),
            next: 0,
            gives_way: false,
            has_ended: false,
        }
    }

    /// Proves that the leaves belong to the digest, some of them at a time; true when it is done.
    fn prove_leaves(&mut self) -> Result<bool> {
        let Some(tree) = &mut self.unproved else { return Ok(true) };
        let next = usize::try_from(tree.size()).unwrap_or(usize::MAX);
        for leaf in self.leaves.iter().skip(next).take(LEAVES_A_POLL) {
            tree.append_leaf(*leaf);
        }
        if tree.size() < self.leaves.len() as u64 {
            return Ok(false);
        }
        let root = tree.root();
        self.unproved = None;
        if root != self.info.digest {
            return Err(self.corrupt("the hashes of its pieces do not add up to its digest"));
        }
        let pieces = self.info.bytes.div_ceil(BlobInfo::PIECE_BYTES as u64);
        if pieces != self.leaves.len() as u64 {
            return Err(self.corrupt("it has another size than its number of pieces tells"));
        }
        Ok(true)
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
        let Some(leaf) = self.leaves.get(self.next).copied() else { return Poll::Ready(None) };
        let piece = match ready!(self.pieces.as_mut().poll_next(cx)) {
            Some(Ok(piece)) => piece,
            Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            None => {
                let why = format!("its pieces end before piece {}", self.next);
                return Poll::Ready(Some(Err(self.corrupt(why))));
            }
        };
        let expected = self.bytes_left.min(BlobInfo::PIECE_BYTES as u64);
        if piece.len() as u64 != expected || leaf_hash(&piece) != leaf {
            let why = format!("piece {} is not what was stored", self.next);
            return Poll::Ready(Some(Err(self.corrupt(why))));
        }
        self.next += 1;
        self.bytes_left -= expected;
        self.gives_way = true;
        Poll::Ready(Some(Ok(piece)))
    }

    fn corrupt(&self, why: impl Into<std::borrow::Cow<'static, str>>) -> Error {
        Error::new(ErrorKind::Corrupt, "get blob", why).at(&self.info.key)
    }
}

impl<S: Stream<Item = Result<Bytes>>> Stream for Verified<S> {
    type Item = Result<Bytes>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        // Hashing takes tens of microseconds: others have their turn after each piece.
        if std::mem::take(&mut this.gives_way) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if this.has_ended {
            return Poll::Ready(None);
        }
        let item = match this.prove_leaves() {
            Ok(false) => {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Ok(true) => ready!(this.poll_piece(cx)),
            Err(error) => Some(Err(error)),
        };
        this.has_ended = !matches!(item, Some(Ok(_)));
        Poll::Ready(item)
    }
}

/// How many leaves are added to the tree in one go: a fifth of a millisecond.
const LEAVES_A_POLL: usize = 1024;
