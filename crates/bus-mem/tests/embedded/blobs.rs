//! Blobs as callers hold them: whole or not there, and read as they were begun.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bus_core::{Blob, BlobBody, BlobInfo, Blobs, Bus, Error, ErrorKind, Result, TokioClock};
use bus_envelope::Timestamp;
use bus_mem::{InMemoryBus, Limits};
use bus_subjects::{BucketKey, BucketName};
use bytes::Bytes;
use futures_core::Stream;

use super::bus;

const PIECE: usize = BlobInfo::PIECE_BYTES;

/// A body of these parts, which then comes to no end or to this error.
struct Parts {
    parts: Vec<Bytes>,
    error: Option<Error>,
    hangs: bool,
}

impl Stream for Parts {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.parts.pop() {
            Some(part) => Poll::Ready(Some(Ok(part))),
            None if self.hangs => Poll::Pending,
            None => Poll::Ready(self.error.take().map(Err)),
        }
    }
}

fn bucket() -> BucketName {
    BucketName::parse("b").unwrap()
}

fn key(text: &str) -> BucketKey {
    BucketKey::parse(text).unwrap()
}

fn content(bytes: usize) -> Bytes {
    (0..bytes).map(|at| (at / 251 + at) as u8).collect()
}

/// A body that never ends behind `bytes` bytes.
fn hanging(bytes: usize) -> BlobBody {
    BlobBody::new(Parts { parts: vec![content(bytes)], error: None, hangs: true })
}

/// A body that fails behind `bytes` bytes.
fn failing(bytes: usize) -> BlobBody {
    let error = Error::new(ErrorKind::Unavailable, "read", "the disk is gone");
    BlobBody::new(Parts { parts: vec![content(bytes)], error: Some(error), hangs: false })
}

async fn put(bus: &InMemoryBus, of: &str, body: impl Into<BlobBody>) -> Result<BlobInfo> {
    bus.put_blob(bucket(), key(of), body.into()).await
}

async fn get(bus: &InMemoryBus, of: &str) -> Option<Blob> {
    bus.get_blob(bucket(), key(of)).await.unwrap()
}

async fn read(mut blob: Blob) -> Bytes {
    let mut read = Vec::new();
    while let Some(part) = blob.body.next().await {
        read.extend_from_slice(&part.unwrap());
    }
    assert_eq!(read.len() as u64, blob.info.bytes);
    read.into()
}

async fn holds(bus: &InMemoryBus, of: &str, expected: Option<&Bytes>) {
    let read = match get(bus, of).await {
        Some(blob) => Some(read(blob).await),
        None => None,
    };
    assert_eq!(read.as_ref(), expected);
}

/// A bus with room for two blobs of one piece each.
fn small_bus() -> InMemoryBus {
    let clock = TokioClock::starting_at(Timestamp::from_unix_ns(0));
    let blob_bytes_max = 2 * (PIECE + 128 + 1024) as u64;
    InMemoryBus::with_limits(Arc::new(clock), Limits { blob_bytes_max, ..Limits::default() })
}

#[tokio::test(start_paused = true)]
async fn a_blob_is_read_back_whatever_its_size() {
    let bus = bus();
    for bytes in [0, 1, PIECE - 1, PIECE, PIECE + 1, 5 * PIECE + 7] {
        let content = content(bytes);
        let info = put(&bus, "k", content.clone()).await.unwrap();
        assert_eq!(info.bytes, bytes as u64);
        assert_eq!(get(&bus, "k").await.unwrap().info, info);
        holds(&bus, "k", Some(&content)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_upload_leaves_what_was_there() {
    let bus = small_bus();
    put(&bus, "k", content(10)).await.unwrap();
    let failed = put(&bus, "k", failing(10)).await.unwrap_err();
    assert_eq!((failed.kind(), failed.subject()), (ErrorKind::Unavailable, Some("b/k")));
    holds(&bus, "k", Some(&content(10))).await;
    put(&bus, "l", content(PIECE)).await.expect("the failed upload holds no room");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_upload_leaves_nothing() {
    let bus = small_bus();
    let mut upload = bus.put_blob(bucket(), key("k"), hanging(PIECE));
    let waker = std::task::Waker::noop();
    for _ in 0..8 {
        assert!(upload.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    }
    holds(&bus, "k", None).await;
    put(&bus, "l", content(PIECE)).await.unwrap();
    let full = put(&bus, "m", content(PIECE)).await.unwrap_err();
    assert_eq!(full.kind(), ErrorKind::Full, "the upload that comes in counts");
    drop(upload);
    put(&bus, "m", content(PIECE)).await.unwrap();
    holds(&bus, "k", None).await;
}

#[tokio::test(start_paused = true)]
async fn a_blob_over_the_room_that_is_left_is_refused() {
    let bus = small_bus();
    assert_eq!(put(&bus, "k", content(3 * PIECE)).await.unwrap_err().kind(), ErrorKind::Full);
    holds(&bus, "k", None).await;
    put(&bus, "k", content(PIECE)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reader_keeps_the_blob_it_began() {
    let bus = bus();
    let (old, new) = (content(3 * PIECE), content(7));
    put(&bus, "k", old.clone()).await.unwrap();
    let mut begun = get(&bus, "k").await.unwrap();
    let first = begun.body.next().await.unwrap().unwrap();
    let late = get(&bus, "k").await.unwrap();
    put(&bus, "k", new.clone()).await.unwrap();
    holds(&bus, "k", Some(&new)).await;
    assert!(bus.delete_blob(bucket(), key("k")).await.unwrap());
    bus.close().await.unwrap();
    assert_eq!(read(late).await, old);
    let mut rest = first.to_vec();
    while let Some(part) = begun.body.next().await {
        rest.extend_from_slice(&part.unwrap());
    }
    assert_eq!(rest, old);
}

#[tokio::test(start_paused = true)]
async fn an_upload_cut_short_by_the_close_is_closed_and_invisible() {
    let bus = bus();
    let other = bus.connect();
    let closing = bus.clone();
    // The close comes while the first piece's turn is given to others.
    let upload = put(&bus, "k", content(4 * PIECE));
    let (refused, closed) = tokio::join!(upload, async move { closing.close().await });
    closed.unwrap();
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Closed);
    holds(&other, "k", None).await;
}

#[tokio::test(start_paused = true)]
async fn every_blob_of_a_bucket_is_listed_by_key() {
    let bus = bus();
    let mut names: Vec<String> = (0..600).map(|n| format!("k{n}")).collect();
    for name in &names {
        put(&bus, name, content(1)).await.unwrap();
    }
    bus.put_blob(BucketName::parse("other").unwrap(), key("k"), content(1).into()).await.unwrap();
    let listed = bus.list_blobs(bucket()).await.unwrap();
    names.sort();
    let keys: Vec<&str> = listed.iter().map(|info| info.key.as_str()).collect();
    assert_eq!(keys, names);
}

#[tokio::test(start_paused = true)]
async fn a_blob_is_deleted_once() {
    let bus = bus();
    put(&bus, "k", content(1)).await.unwrap();
    assert!(bus.delete_blob(bucket(), key("k")).await.unwrap());
    assert!(!bus.delete_blob(bucket(), key("k")).await.unwrap());
    holds(&bus, "k", None).await;
    assert!(bus.list_blobs(bucket()).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn every_connection_sees_a_blob() {
    let bus = bus();
    put(&bus, "k", content(9)).await.unwrap();
    holds(&bus.connect(), "k", Some(&content(9))).await;
}

#[tokio::test(start_paused = true)]
async fn others_of_the_thread_run_while_a_blob_is_stored_and_read() {
    let bus = bus();
    let mut turns = tokio::task::JoinSet::new();
    for _ in 0..2 {
        turns.spawn(async {
            for _ in 0..16 {
                tokio::task::yield_now().await;
            }
        });
    }
    put(&bus, "k", content(20 * PIECE)).await.unwrap();
    assert!(turns.try_join_next().is_some(), "a turn for each piece that was stored");
    assert!(turns.try_join_next().is_some());
    turns.spawn(async {
        for _ in 0..16 {
            tokio::task::yield_now().await;
        }
    });
    holds(&bus, "k", Some(&content(20 * PIECE))).await;
    assert!(turns.try_join_next().is_some(), "a turn for each piece that was read");
}

#[tokio::test(start_paused = true)]
async fn a_closed_bus_takes_and_gives_no_blob() {
    let bus = bus();
    bus.close().await.unwrap();
    let closed = |error: Error| assert_eq!(error.kind(), ErrorKind::Closed);
    closed(put(&bus, "k", content(1)).await.unwrap_err());
    closed(bus.get_blob(bucket(), key("k")).await.unwrap_err());
    closed(bus.delete_blob(bucket(), key("k")).await.unwrap_err());
    closed(bus.list_blobs(bucket()).await.unwrap_err());
}
