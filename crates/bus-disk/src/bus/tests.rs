//! Pictures of a whole bus, taken while it is used.

use std::{path::Path, time::Duration};

use bus_core::{
    BlobBody, Blobs, Buckets, ExpectRevision, FrameId, Put, Retention, Verdict, settle_all,
};
use bus_subjects::{BucketKey, BucketName};
use bytes::Bytes;
use futures_util::FutureExt as _;

use super::*;

const SIZES: Sizes = Sizes { segment: 256 * 1024, picture_after: 512 * 1024 };

fn open(dir: &Path) -> DiskBus {
    open::open(DiskOptions::new(dir), SIZES).unwrap()
}

fn consumer() -> ConsumerSpec {
    ConsumerSpec {
        stream: StreamName::parse("S").unwrap(),
        name: ConsumerName::parse("c").unwrap(),
        filter: Filter::parse("s.>").unwrap(),
        lease: Duration::from_secs(3600),
    }
}

fn has_picture(dir: &Path) -> bool {
    let names = std::fs::read_dir(dir.join("snapshot")).unwrap();
    names.into_iter().any(|entry| entry.unwrap().path().extension().unwrap() == "snap")
}

fn key(name: &str) -> (BucketName, BucketKey) {
    (BucketName::parse("b").unwrap(), BucketKey::parse(name).unwrap())
}

async fn append(bus: &DiskBus, number: u32) -> Receipt {
    let id = FrameId::parse(&number.to_string()).unwrap();
    let frame = Frame::new(Subject::parse("s.a").unwrap(), id, vec![b'x'; 1000]);
    bus.append(frame, Expect::Any).await.unwrap()
}

/// Everything that a restart must keep.
async fn seen(bus: &DiskBus) -> (Vec<(u64, String)>, Lag, Option<bus_core::Entry>, Vec<u64>) {
    let stream = consumer().stream;
    let mut replay = bus.replay(stream.clone(), Filter::all(), Seq(1)).await.unwrap();
    let mut messages = Vec::new();
    while let Some(message) = replay.next().await {
        let message = message.unwrap();
        messages.push((message.seq.0, message.frame.id.to_string()));
    }
    let lag = Lag { oldest: None, ..bus.lag(stream).await.unwrap() };
    let (bucket, value) = key("value");
    let entry = bus.get(bucket.clone(), value).await.unwrap();
    let blobs = bus.list_blobs(bucket).await.unwrap().into_iter().map(|blob| blob.bytes);
    (messages, lag, entry, blobs.collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_on_a_picture_keeps_what_a_restart_on_the_journal_does() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("d");
    let bus = open(&dir);
    let filters = vec![Filter::parse("s.>").unwrap()];
    bus.declare(StreamSpec::new(consumer().stream, filters, Retention::WorkQueue)).await.unwrap();
    let mut member = bus.consume(consumer()).await.unwrap();
    let (bucket, value) = key("value");
    bus.put_blob(bucket.clone(), key("blob").1, BlobBody::from(Bytes::from_static(b"content")))
        .await
        .unwrap();
    let mut number = 0;
    let mut held = Vec::new();
    while !has_picture(&dir) {
        number += 1;
        assert!(number < 20_000, "no picture");
        append(&bus, number).await;
        let put = Put::new(number.to_string()).expect(ExpectRevision::Any);
        bus.put(bucket.clone(), value.clone(), put).await.unwrap();
        let delivery = member.next().await.unwrap().unwrap();
        // Of three one is settled, one waits again, and one is still held.
        match number % 3 {
            0 => delivery.settle(Verdict::Ack).await.unwrap(),
            1 => delivery
                .settle(Verdict::Release { after: Duration::from_secs(3600) })
                .await
                .unwrap(),
            _ => held.push(delivery),
        }
    }
    append(&bus, number + 1).await;
    let before = seen(&bus).await;
    assert!(before.1.in_flight > 0 && before.1.pending > 0);
    drop((held, member));
    bus.shut_down().await.unwrap();
    let again = open(&dir);
    assert_eq!(seen(&again).await, before);
    assert!(append(&again, number).await.duplicate);
}

/// Bytes of all files below `dir`; what goes away meanwhile has none.
fn bytes_below(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let paths = entries.map(|entry| entry.unwrap().path());
    let bytes = |path: PathBuf| match path.symlink_metadata() {
        Ok(found) if found.is_dir() => bytes_below(&path),
        found => found.map_or(0, |found| found.len()),
    };
    paths.map(bytes).sum()
}

/// Waits for the picture that is due, if one is.
async fn picture_taken(bus: &DiskBus) {
    let is_due = || bus.0.core.store.supply.lock().bytes > SIZES.picture_after;
    let taken = async {
        while is_due() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), taken).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_directory_stays_below_three_times_what_lives_and_four_segments() {
    const LIVING: usize = 200;
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("d");
    let bus = open(&dir);
    let filters = vec![Filter::parse("s.>").unwrap()];
    let spec = StreamSpec::new(consumer().stream, filters, Retention::WorkQueue);
    // Ids live as well, for so long.
    let dedupe_window = Duration::from_millis(1);
    bus.declare(StreamSpec { dedupe_window, ..spec }).await.unwrap();
    let mut member = bus.consume(consumer()).await.unwrap();
    let mut held = Vec::new();
    let mut most = 0;
    for round in 0..250 {
        let numbers = round * 40..(round + 1) * 40;
        futures_util::future::join_all(numbers.map(|number| append(&bus, number))).await;
        while bus.lag(consumer().stream).await.unwrap().pending > 0 {
            held.push((member.next().await.unwrap().unwrap(), Verdict::Ack));
        }
        let settled = held.drain(..held.len().saturating_sub(LIVING)).collect();
        settle_all(settled).await.into_iter().for_each(|settled| settled.unwrap());
        most = most.max(bytes_below(&dir));
        // What is written while a picture is taken comes on top.
        picture_taken(&bus).await;
    }
    assert!(most > 4 * SIZES.segment, "no picture was due");
    let limit = 3 * (LIVING as u64 + 40) * 1200 + 4 * SIZES.segment;
    assert!(most <= limit, "{most} bytes, of {limit} at most");
}

#[tokio::test]
async fn a_put_that_nobody_waits_for_any_more_gives_back_what_it_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("d");
    let limits = bus_mem::Limits { blob_bytes_max: 500_000, ..Default::default() };
    let bus = open::open(DiskOptions { limits, ..DiskOptions::new(&dir) }, SIZES).unwrap();
    let (bucket, key) = key("blob");
    for round in 0..30 {
        let before = bus.0.core.blobs.get(&bucket, &key).0;
        let body = BlobBody::from(Bytes::from(vec![round; 100_000]));
        let mut putting = bus.put_blob(bucket.clone(), key.clone(), body);
        // Dropped as soon as the journal took it down.
        while bus.0.core.blobs.get(&bucket, &key).0 == before {
            if let Some(done) = (&mut putting).now_or_never() {
                done.unwrap();
            }
            tokio::task::yield_now().await;
        }
    }
    let body = BlobBody::from(Bytes::from(vec![0; 100_000]));
    bus.put_blob(bucket, key, body).await.unwrap();
    let files = std::fs::read_dir(dir.join("blobs")).unwrap().map(|entry| entry.unwrap().path());
    let blobs: usize = files.map(|folder| std::fs::read_dir(folder).unwrap().count()).sum();
    assert_eq!(blobs, 1);
}
