//! A server with something on it, a directory for backups, and words for common steps.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use bus_core::{
    BlobBody, Blobs, Buckets, Bus as _, Expect, Frame, FrameId, Put, Receipt, Result, Retention,
    Seq, StreamSpec,
};
use bus_nats::{Backup, NatsBus, NatsOptions, Restored};
use bus_subjects::{BucketKey, BucketName, Filter, StreamName, Subject};
use bus_testserver::TestServer;
use bytes::Bytes;
use futures_util::StreamExt as _;
use tempfile::TempDir;

/// A server, a bus on it, and where its backups lie.
pub(crate) struct Place {
    pub(crate) bus: NatsBus,
    pub(crate) server: TestServer,
    home: TempDir,
}

impl Place {
    /// A server with nothing on it.
    pub(crate) async fn empty() -> Self {
        let server = TestServer::start();
        let bus = connect(&server).await;
        Self { bus, server, home: tempfile::tempdir().unwrap() }
    }

    /// A server with a queue, records, a bucket and blobs, and a stream that was never used.
    pub(crate) async fn filled() -> Self {
        let place = Self::empty().await;
        declare(&place.bus, "WORK", Retention::WorkQueue).await;
        declare(&place.bus, "RECORDS", Retention::AppendOnly).await;
        declare(&place.bus, "UNUSED", Retention::Kept).await;
        for n in 0..20 {
            append(&place.bus, "work.coder", &format!("w{n}")).await.unwrap();
            append(&place.bus, "records.one", &format!("r{n}")).await.unwrap();
            place.put(&format!("k{}", n % 7), &format!("v{n}")).await;
        }
        // More than one chunk of a snapshot, and nothing that can be compressed.
        place.put_blob("large", noise(300_000)).await;
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) async fn back_up(&self) -> Backup {
        self.bus.backup(&self.path("backup"), &mut |_| ()).await.unwrap()
    }

    /// Restores the backup of another place.
    pub(crate) async fn restore(&self, from: &Self) -> Result<Restored> {
        self.bus.restore(&from.path("backup"), &mut |_| ()).await
    }

    pub(crate) async fn put(&self, key: &str, value: &str) {
        let (bucket, key) = (bucket(), BucketKey::parse(key).unwrap());
        self.bus.put(bucket, key, Put::new(value.to_owned())).await.unwrap();
    }

    pub(crate) async fn put_blob(&self, key: &str, body: Vec<u8>) {
        let key = BucketKey::parse(key).unwrap();
        self.bus.put_blob(bucket(), key, BlobBody::from(Bytes::from(body))).await.unwrap();
    }

    /// The names of the streams on the server.
    pub(crate) async fn streams(&self) -> Vec<String> {
        let raw = async_nats::connect(self.server.url()).await.unwrap();
        let names = async_nats::jetstream::new(raw).stream_names();
        let mut names: Vec<_> = names.map(Result::unwrap).collect().await;
        names.sort();
        names
    }

    /// Everything that `filled` wrote, as it is read.
    pub(crate) async fn content(&self) -> BTreeMap<String, String> {
        let mut content = BTreeMap::new();
        for stream in ["WORK", "RECORDS"] {
            for (seq, id) in stored(&self.bus, stream).await {
                content.insert(format!("{stream} {seq}"), id);
            }
        }
        for n in 0..7 {
            let key = BucketKey::parse(&format!("k{n}")).unwrap();
            let entry = self.bus.get(bucket(), key).await.unwrap().unwrap();
            content.insert(format!("k{n}"), format!("{:?} {:?}", entry.revision, entry.value));
        }
        let key = BucketKey::parse("large").unwrap();
        let blob = self.bus.get_blob(bucket(), key).await.unwrap().unwrap();
        content.insert("large".to_owned(), format!("{:?}", blob.info.digest));
        let parts: Vec<_> = blob.body.map(Result::unwrap).collect().await;
        content.insert("bytes".to_owned(), parts.concat().len().to_string());
        content
    }
}

pub(crate) async fn connect(server: &TestServer) -> NatsBus {
    NatsBus::open(NatsOptions::new(server.url())).await.unwrap()
}

pub(crate) async fn declare(bus: &NatsBus, stream: &str, retention: Retention) {
    let filter = Filter::parse(&format!("{}.>", stream.to_lowercase())).unwrap();
    let stream = StreamName::parse(stream).unwrap();
    bus.declare(StreamSpec::new(stream, vec![filter], retention)).await.unwrap();
}

pub(crate) async fn append(bus: &NatsBus, subject: &str, id: &str) -> Result<Receipt> {
    let subject = Subject::parse(subject).unwrap();
    let frame = Frame::new(subject, FrameId::parse(id).unwrap(), id.to_owned());
    bus.append(frame, Expect::Any).await
}

/// The positions and ids in a stream.
pub(crate) async fn stored(bus: &NatsBus, stream: &str) -> Vec<(u64, String)> {
    let stream = StreamName::parse(stream).unwrap();
    let mut replay = bus.replay(stream, Filter::all(), Seq(0)).await.unwrap();
    let mut got = Vec::new();
    while let Some(stored) = replay.next().await {
        let stored = stored.unwrap();
        got.push((stored.seq.0, stored.frame.id.to_string()));
    }
    got
}

pub(crate) fn bucket() -> BucketName {
    BucketName::parse("STATE").unwrap()
}

/// Bytes that nothing compresses, the same each time.
pub(crate) fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    (0..bytes).map(|_| next()).collect()
}

/// The files below `dir`.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}
