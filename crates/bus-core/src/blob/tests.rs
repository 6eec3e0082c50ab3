//! Pieces on the way in, and what verifies on the way out.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bus_envelope::{
    EventHash,
    tree::{empty_root, leaf_hash, node_hash},
};
use bus_subjects::BucketKey;
use bytes::Bytes;
use futures_core::Stream;
use futures_util::{FutureExt, stream};
use proptest::{collection::vec, prelude::*};

use super::{BlobBody, BlobInfo, BlobPiece, BlobPieces};
use crate::{Error, ErrorKind, Result};

const PIECE: usize = BlobInfo::PIECE_BYTES;

fn key() -> BucketKey {
    BucketKey::parse("k").unwrap()
}

/// `bytes` bytes, no two pieces of which are alike.
fn content(bytes: usize) -> Bytes {
    (0..bytes).map(|at| (at / 251 + at) as u8).collect()
}

/// Runs what only ever waits for its own turn.
fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = Box::pin(future);
    loop {
        if let Some(done) = (&mut future).now_or_never() {
            return done;
        }
    }
}

fn body(parts: Vec<Bytes>) -> BlobBody {
    BlobBody::new(stream::iter(parts.into_iter().map(Ok)))
}

/// `content` in parts that end at `cuts`.
fn in_parts(content: &Bytes, mut cuts: Vec<usize>) -> BlobBody {
    cuts.extend([0, content.len()]);
    cuts.sort_unstable();
    body(cuts.windows(2).map(|cut| content.slice(cut[0]..cut[1])).collect())
}

/// All pieces of `body`, up to its error, and what is known then.
fn cut(body: BlobBody) -> (Vec<BlobPiece>, Option<Error>, BlobInfo) {
    let mut pieces = BlobPieces::new(body);
    let mut cut = Vec::new();
    let error = run(async {
        while let Some(piece) = pieces.next().await {
            match piece {
                Ok(piece) => cut.push(piece),
                Err(error) => return Some(error),
            }
        }
        None
    });
    assert!(run(pieces.next()).is_none(), "it has ended");
    (cut, error, pieces.info(key()))
}

/// Reads what is stored back, up to its error.
fn read(info: &BlobInfo, leaves: &[EventHash], pieces: &[Bytes]) -> (Vec<u8>, Option<ErrorKind>) {
    let pieces: Vec<Bytes> = pieces.into();
    let stored = stream::iter(pieces.into_iter().map(Ok));
    let mut body = BlobBody::verified(info.clone(), Arc::from(leaves), stored);
    let mut read = Vec::new();
    let error = run(async {
        while let Some(part) = body.next().await {
            match part {
                Ok(part) => read.extend_from_slice(&part),
                Err(error) => return Some(error.kind()),
            }
        }
        None
    });
    assert!(run(body.next()).is_none(), "it has ended");
    (read, error)
}

/// A blob of two pieces and a bit, as it is stored.
fn stored() -> (BlobInfo, Vec<EventHash>, Vec<Bytes>) {
    let (pieces, _, info) = cut(content(2 * PIECE + 7).into());
    let leaves = pieces.iter().map(|piece| piece.leaf).collect();
    (info, leaves, pieces.into_iter().map(|piece| piece.bytes).collect())
}

/// Always has another part.
struct Endless(Bytes);

impl Stream for Endless {
    type Item = Result<Bytes>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(Some(Ok(self.0.clone())))
    }
}

#[test]
fn every_piece_but_the_last_is_full() {
    let sizes = |bytes: usize| -> Vec<usize> {
        cut(content(bytes).into()).0.iter().map(|piece| piece.bytes.len()).collect()
    };
    assert_eq!(sizes(0), [0_usize; 0]);
    assert_eq!(sizes(1), [1]);
    assert_eq!(sizes(PIECE - 1), [PIECE - 1]);
    assert_eq!(sizes(PIECE), [PIECE]);
    assert_eq!(sizes(PIECE + 1), [PIECE, 1]);
    assert_eq!(sizes(2 * PIECE), [PIECE, PIECE]);
}

#[test]
fn the_digest_is_the_root_over_the_pieces() {
    let bytes = content(2 * PIECE + 7);
    let leaf = |from: usize, to: usize| leaf_hash(&bytes[from..to]);
    let first = node_hash(&leaf(0, PIECE), &leaf(PIECE, 2 * PIECE));
    let root = node_hash(&first, &leaf(2 * PIECE, bytes.len()));
    let info = BlobInfo { key: key(), bytes: bytes.len() as u64, digest: root };
    assert_eq!(cut(bytes.into()).2, info);
}

#[test]
fn an_empty_blob_has_the_digest_of_the_empty_tree() {
    assert_eq!(cut(body(vec![Bytes::new()])).2.digest, empty_root());
}

#[test]
fn the_error_of_a_body_ends_its_pieces() {
    let failed = Error::new(ErrorKind::Unavailable, "read", "the disk is gone");
    let parts = [Ok(content(PIECE + 1)), Err(failed), Ok(content(1))];
    let (pieces, error, _) = cut(BlobBody::new(stream::iter(parts)));
    assert_eq!((pieces.len(), error.unwrap().kind()), (1, ErrorKind::Unavailable));
}

#[test]
fn others_have_their_turn_after_each_piece() {
    let mut pieces = BlobPieces::new(Endless(content(PIECE)).into_body());
    for _ in 0..3 {
        assert!(pieces.next().now_or_never().unwrap().unwrap().is_ok());
        assert!(pieces.next().now_or_never().is_none(), "a piece was hashed just now");
    }
}

#[test]
fn others_have_their_turn_although_the_parts_are_empty() {
    let mut pieces = BlobPieces::new(Endless(Bytes::new()).into_body());
    assert!(pieces.next().now_or_never().is_none());
}

#[test]
fn others_have_their_turn_while_a_blob_is_read() {
    let (info, leaves, pieces) = stored();
    let stored = stream::iter(pieces.into_iter().map(Ok));
    let mut body = BlobBody::verified(info, leaves.into(), stored);
    assert!(body.next().now_or_never().unwrap().unwrap().is_ok());
    assert!(body.next().now_or_never().is_none(), "a piece was hashed just now");
}

#[test]
fn a_changed_piece_is_corrupt_in_its_place() {
    let (info, leaves, mut pieces) = stored();
    let mut changed = pieces[1].to_vec();
    changed[PIECE / 2] ^= 1;
    pieces[1] = changed.into();
    let (read, error) = read(&info, &leaves, &pieces);
    assert_eq!((read.len(), error), (PIECE, Some(ErrorKind::Corrupt)));
}

#[test]
fn a_missing_piece_is_corrupt() {
    let (info, leaves, pieces) = stored();
    let (read, error) = read(&info, &leaves, &pieces[..2]);
    assert_eq!((read.len(), error), (2 * PIECE, Some(ErrorKind::Corrupt)));
}

#[test]
fn swapped_pieces_are_corrupt() {
    let (info, leaves, mut pieces) = stored();
    pieces.swap(0, 1);
    assert_eq!(read(&info, &leaves, &pieces), (vec![], Some(ErrorKind::Corrupt)));
}

#[test]
fn hashes_that_do_not_belong_to_the_digest_are_corrupt_before_anything_is_read() {
    let (info, mut leaves, mut pieces) = stored();
    pieces[2] = Bytes::from_static(b"another");
    leaves[2] = leaf_hash(&pieces[2]);
    assert_eq!(read(&info, &leaves, &pieces), (vec![], Some(ErrorKind::Corrupt)));
}

#[test]
fn a_size_that_is_not_that_of_the_pieces_is_corrupt() {
    let (info, leaves, pieces) = stored();
    for bytes in [0, info.bytes - 1, info.bytes + 1, info.bytes + PIECE as u64, u64::MAX] {
        let wrong = BlobInfo { bytes, ..info.clone() };
        assert_eq!(read(&wrong, &leaves, &pieces).1, Some(ErrorKind::Corrupt), "{bytes}");
    }
}

#[test]
fn an_error_of_the_store_ends_the_reading() {
    let (info, leaves, pieces) = stored();
    let gone = Error::new(ErrorKind::Unavailable, "read", "the disk is gone");
    let mut stored: VecDeque<Result<Bytes>> = pieces.into_iter().map(Ok).collect();
    stored.insert(1, Err(gone));
    let mut body = BlobBody::verified(info, leaves.into(), stream::iter(stored));
    assert!(run(body.next()).unwrap().is_ok());
    assert_eq!(run(body.next()).unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(run(body.next()).is_none());
}

impl Endless {
    fn into_body(self) -> BlobBody {
        BlobBody::new(self)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the parts, the pieces and the digest are those of the content, and what is read
    /// back is the content.
    #[test]
    fn the_parts_leave_no_trace(
        bytes in prop_oneof![0..400_usize, 0..4 * PIECE],
        cuts in vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let content = content(bytes);
        let cuts = cuts.iter().map(|cut| cut.index(bytes + 1)).collect();
        let (pieces, error, info) = cut(in_parts(&content, cuts));
        prop_assert!(error.is_none());
        let whole = cut(content.clone().into());
        prop_assert_eq!((&pieces, &info), (&whole.0, &whole.2));
        let leaves: Vec<_> = pieces.iter().map(|piece| piece.leaf).collect();
        let pieces: Vec<_> = pieces.into_iter().map(|piece| piece.bytes).collect();
        prop_assert_eq!(read(&info, &leaves, &pieces), (content.to_vec(), None));
    }
}
