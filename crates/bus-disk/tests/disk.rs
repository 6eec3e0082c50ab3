//! The engine on a real directory: its lock, its modes, its backups, its clock.
#![cfg(test)]

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bus_core::{
    BlobBody, Blobs, Buckets, Bus, Clock, ConsumerSpec, Durability, Engine, ErrorKind, Expect,
    Frame, FrameId, Put, Retention, Seq, StreamSpec,
};
use bus_disk::{Contents, DiskBus, DiskOptions, Sync, restore, verify_backup};
use bus_envelope::Timestamp;
use bus_subjects::{BucketKey, BucketName, ConsumerName, Filter, StreamName, Subject};
use bytes::Bytes;

#[path = "common/copy.rs"]
mod copy;

fn stream() -> StreamName {
    StreamName::parse("S").unwrap()
}

async fn opened(options: DiskOptions) -> DiskBus {
    let bus = DiskBus::open(options).unwrap();
    let filters = vec![Filter::parse("s.>").unwrap()];
    bus.declare(StreamSpec::new(stream(), filters, Retention::Kept)).await.unwrap();
    bus
}

async fn append(bus: &DiskBus, id: &str) -> bus_core::Receipt {
    let frame = Frame::new(Subject::parse("s.a").unwrap(), FrameId::parse(id).unwrap(), "body");
    bus.append(frame, Expect::Any).await.unwrap()
}

async fn ids(bus: &DiskBus) -> Vec<String> {
    let mut replay = bus.replay(stream(), Filter::all(), Seq(1)).await.unwrap();
    let mut ids = Vec::new();
    while let Some(message) = replay.next().await {
        ids.push(message.unwrap().frame.id.to_string());
    }
    ids
}

fn consumer() -> ConsumerSpec {
    ConsumerSpec {
        stream: stream(),
        name: ConsumerName::parse("C").unwrap(),
        filter: Filter::parse("s.>").unwrap(),
        lease: Duration::from_secs(30),
    }
}

async fn put_blob(bus: &DiskBus, key: &str, content: &[u8]) {
    let body = BlobBody::from(Bytes::copy_from_slice(content));
    let key = BucketKey::parse(key).unwrap();
    bus.put_blob(BucketName::parse("b").unwrap(), key, body).await.unwrap();
}

async fn blob(bus: &DiskBus, key: &str) -> Option<Vec<u8>> {
    let key = BucketKey::parse(key).unwrap();
    let mut blob = bus.get_blob(BucketName::parse("b").unwrap(), key).await.unwrap()?;
    let mut content = Vec::new();
    while let Some(piece) = blob.body.next().await {
        content.extend_from_slice(&piece.unwrap());
    }
    Some(content)
}

/// The only file of a blob in the data directory.
fn blob_file(home: &Path) -> std::path::PathBuf {
    let folders = std::fs::read_dir(home.join("blobs")).unwrap().map(|entry| entry.unwrap().path());
    let files = folders.flat_map(|folder| std::fs::read_dir(folder).unwrap());
    files.map(|entry| entry.unwrap().path()).next().unwrap()
}

#[tokio::test]
async fn the_receipt_says_what_it_survives() {
    let dir = tempfile::tempdir().unwrap();
    for (name, sync, durability) in [
        ("always", Sync::Always, Durability::Synced),
        ("interval", Sync::Interval(Duration::from_millis(5)), Durability::Written),
    ] {
        let bus = opened(DiskOptions { sync, ..DiskOptions::new(dir.path().join(name)) }).await;
        assert_eq!(append(&bus, "1").await.durability, durability);
        assert_eq!(bus.promises().durability, durability);
    }
}

#[tokio::test]
async fn the_directory_is_free_when_the_last_connection_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let first = opened(DiskOptions::new(dir.path().join("d"))).await;
    let second = first.connect();
    first.close().await.unwrap();
    append(&second, "1").await;
    let refused = DiskBus::open(DiskOptions::new(dir.path().join("d"))).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    second.close().await.unwrap();
    let third = opened(DiskOptions::new(dir.path().join("d"))).await;
    assert_eq!(ids(&third).await, ["1"]);
}

#[tokio::test]
async fn dropping_the_last_connection_closes_likewise() {
    let dir = tempfile::tempdir().unwrap();
    let bus = opened(DiskOptions::new(dir.path().join("d"))).await;
    append(&bus, "1").await;
    drop(bus);
    let again = opened(DiskOptions::new(dir.path().join("d"))).await;
    assert_eq!(ids(&again).await, ["1"]);
}

#[tokio::test]
async fn a_shut_down_ends_all_connections() {
    let dir = tempfile::tempdir().unwrap();
    let bus = opened(DiskOptions::new(dir.path().join("d"))).await;
    let other = bus.connect();
    append(&bus, "0").await;
    let mut member = other.consume(consumer()).await.unwrap();
    bus.shut_down().await.unwrap();
    let frame = Frame::new(Subject::parse("s.a").unwrap(), FrameId::parse("1").unwrap(), "");
    let refused = other.append(frame, Expect::Any).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed);
    // Whoever opens the directory next hands the message out: nobody else may.
    assert!(member.next().await.is_none());
    assert_eq!(other.read(stream(), Seq(1)).await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(
        bus.connect().lag(StreamName::parse("S").unwrap()).await.unwrap_err().kind(),
        ErrorKind::Closed
    );
    assert!(DiskBus::open(DiskOptions::new(dir.path().join("d"))).is_ok());
}

#[tokio::test]
async fn a_batch_that_can_never_be_taken_is_too_large_and_not_full() {
    let dir = tempfile::tempdir().unwrap();
    let bus = opened(DiskOptions::new(dir.path().join("d"))).await;
    let frame = |n: usize| {
        let id = FrameId::parse(&n.to_string()).unwrap();
        Frame::new(Subject::parse("s.a").unwrap(), id, vec![7; Frame::BYTES_MAX - 1000])
    };
    let refused = bus.append_all((0..30).map(frame).collect()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
    append(&bus, "next").await;
    assert_eq!(ids(&bus).await, ["next"]);
}

#[tokio::test]
async fn a_backup_made_while_the_bus_goes_on_restores_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let bus = opened(DiskOptions::new(dir.path().join("d"))).await;
    append(&bus, "1").await;
    put_blob(&bus, "k", &[7; 100_000]).await;
    let writing = bus.connect();
    let mut writer = tokio::task::JoinSet::new();
    writer.spawn(async move {
        for number in 2..200 {
            append(&writing, &number.to_string()).await;
        }
    });
    let made = bus.backup(dir.path().join("backup")).await.unwrap();
    writer.join_next().await.unwrap().unwrap();
    assert_eq!(verify_backup(&dir.path().join("backup")).unwrap(), made);
    restore(&dir.path().join("backup"), &dir.path().join("again")).unwrap();
    let again = opened(DiskOptions::new(dir.path().join("again"))).await;
    let (all, found) = (ids(&bus).await, ids(&again).await);
    assert!(!found.is_empty());
    assert_eq!(found, all[..found.len()]);
    assert_eq!(blob(&again, "k").await, Some(vec![7; 100_000]));
}

#[tokio::test]
async fn a_backup_that_was_changed_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let bus = opened(DiskOptions::new(dir.path().join("d"))).await;
    append(&bus, "1").await;
    let backup = dir.path().join("backup");
    bus.backup(&backup).await.unwrap();
    let segment = backup.join("journal/0000000000000001.seg");
    let mut content = std::fs::read(&segment).unwrap();
    *content.last_mut().unwrap() ^= 1;
    std::fs::write(&segment, &content).unwrap();
    let refused = restore(&backup, &dir.path().join("again")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt);
    assert!(!dir.path().join("again").exists());
    std::fs::remove_file(backup.join("manifest")).unwrap();
    assert_eq!(verify_backup(&backup).unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_restore_does_not_write_over_what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let bus = opened(DiskOptions::new(dir.path().join("d"))).await;
    bus.backup(dir.path().join("backup")).await.unwrap();
    let refused = restore(&dir.path().join("backup"), &dir.path().join("d")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn what_a_bus_holds_is_counted_without_what_was_taken_out() {
    let dir = tempfile::tempdir().unwrap();
    let bus = opened(DiskOptions::new(dir.path().join("d"))).await;
    for id in ["1", "2", "3"] {
        append(&bus, id).await;
    }
    bus.discard(stream(), Seq(2)).await.unwrap();
    let (bucket, key) = (BucketName::parse("b").unwrap(), BucketKey::parse("k").unwrap());
    bus.put(bucket, key, Put::new("value")).await.unwrap();
    put_blob(&bus, "blob", b"blob").await;
    let Contents { streams, messages, values, blobs, position } = bus.contents();
    assert_eq!((streams, messages, values, blobs), (1, 2, 1, 1));
    // The opening, the declaration, three messages, a removal, a value and a blob at least.
    assert!(position >= 8, "{position}");
}

#[tokio::test]
async fn a_damaged_blob_is_corrupt_and_never_reaches_the_reader() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("d");
    let bus = opened(DiskOptions::new(&home)).await;
    put_blob(&bus, "k", &[7; 100_000]).await;
    let mut content = std::fs::read(blob_file(&home)).unwrap();
    content[70_000] ^= 1;
    std::fs::write(blob_file(&home), content).unwrap();
    let (bucket, key) = (BucketName::parse("b").unwrap(), BucketKey::parse("k").unwrap());
    let mut blob = bus.get_blob(bucket, key).await.unwrap().unwrap();
    assert!(blob.body.next().await.unwrap().is_ok());
    assert_eq!(blob.body.next().await.unwrap().unwrap_err().kind(), ErrorKind::Corrupt);
}

#[tokio::test]
async fn a_blob_whose_file_is_missing_is_found_when_the_directory_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("d");
    let bus = opened(DiskOptions::new(&home)).await;
    put_blob(&bus, "k", b"content").await;
    drop(bus);
    std::fs::remove_file(blob_file(&home)).unwrap();
    let error = DiskBus::open(DiskOptions::new(&home)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[tokio::test]
async fn what_an_upload_left_behind_is_swept() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("d");
    drop(opened(DiskOptions::new(&home)).await);
    std::fs::write(home.join("blobs/tmp/0000000000000001"), "half").unwrap();
    drop(opened(DiskOptions::new(&home)).await);
    assert!(!home.join("blobs/tmp/0000000000000001").exists());
}

/// A clock that a test sets.
struct SetClock(AtomicU64);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ns(self.0.load(Ordering::Relaxed).into())
    }

    fn coarse(&self) -> Timestamp {
        self.now()
    }
}

fn at(home: &Path, seconds: u64) -> DiskOptions {
    let clock = Arc::new(SetClock(AtomicU64::new(seconds * 1_000_000_000)));
    DiskOptions { clock, ..DiskOptions::new(home) }
}

#[tokio::test]
async fn a_clock_that_was_set_back_loses_and_repeats_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("d");
    let bus = opened(at(&home, 2_000_000_000)).await;
    append(&bus, "1").await;
    let (bucket, key) = (BucketName::parse("b").unwrap(), BucketKey::parse("k").unwrap());
    let put = Put::new("v").ttl(Duration::from_secs(3600));
    bus.put(bucket.clone(), key.clone(), put).await.unwrap();
    drop(bus);
    let bus = opened(at(&home, 1_000_000_000)).await;
    assert!(append(&bus, "1").await.duplicate);
    assert!(bus.get(bucket, key).await.unwrap().is_some());
    append(&bus, "2").await;
    let second = bus.read(stream(), Seq(2)).await.unwrap().unwrap();
    assert!(second.time >= Timestamp::from_unix_ns(2_000_000_000_000_000_000));
    assert_eq!(ids(&bus).await, ["1", "2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_copied_while_it_is_written_is_a_prefix_or_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let bus = opened(DiskOptions::new(dir.path().join("d"))).await;
    let writing = bus.connect();
    let mut writer = tokio::task::JoinSet::new();
    writer.spawn(async move {
        for number in 0..2_000 {
            append(&writing, &number.to_string()).await;
        }
    });
    let mut copies = Vec::new();
    for number in 0..5 {
        let copy = dir.path().join(format!("copy{number}"));
        copy::copy(&dir.path().join("d"), &copy).unwrap();
        copies.push(copy);
        tokio::task::yield_now().await;
    }
    writer.join_next().await.unwrap().unwrap();
    let all = ids(&bus).await;
    for copy in copies {
        match DiskBus::open(DiskOptions::new(&copy)) {
            Ok(copied) => {
                let found = ids(&copied).await;
                assert_eq!(found, all[..found.len()]);
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}"),
        }
    }
}
