//! A server, connections to it, and words for common steps.

use std::{collections::BTreeMap, time::Duration};

use async_nats::jetstream;
use bus_core::{
    BucketMirror, Buckets, Change, ExpectRevision, KeyState, Put, Revision, Watch, WatchItem,
};
use bus_nats::{NatsBus, NatsOptions, server::ServerConfig};
use bus_subjects::{BucketKey, BucketName, Filter};
use bus_testserver::TestServer;
use tokio::time::timeout;

/// A server, a bus on it, and the server's own view of what is stored.
pub(crate) struct Place {
    pub(crate) server: TestServer,
    pub(crate) bus: NatsBus,
    pub(crate) raw: jetstream::Context,
    pub(crate) client: async_nats::Client,
}

impl Place {
    pub(crate) async fn open() -> Self {
        Self::open_with(ServerConfig::default()).await
    }

    pub(crate) async fn open_with(config: ServerConfig) -> Self {
        let server = TestServer::start_with(config);
        let bus = connect(&server).await;
        let client = async_nats::connect(server.url()).await.unwrap();
        let raw = jetstream::new(client.clone());
        Self { server, bus, raw, client }
    }

    pub(crate) async fn put(&self, name: &str, value: &str) -> Revision {
        put(&self.bus, name, Put::new(value.to_owned())).await
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.bus.delete(bucket(), key(name), ExpectRevision::Any).await.unwrap();
    }

    pub(crate) async fn value(&self, name: &str) -> Option<String> {
        let entry = self.bus.get(bucket(), key(name)).await.unwrap();
        entry.map(|entry| String::from_utf8(entry.value.to_vec()).unwrap())
    }

    pub(crate) async fn watch(&self, after: Revision) -> Watch {
        self.bus.watch(bucket(), Filter::all(), after).await.unwrap()
    }

    /// What the server says of the stream behind the bucket.
    pub(crate) async fn state(&self) -> jetstream::stream::State {
        self.raw.get_stream("KV_STATE").await.unwrap().get_info().await.unwrap().state
    }
}

pub(crate) async fn connect(server: &TestServer) -> NatsBus {
    NatsBus::open(options(server)).await.unwrap()
}

/// Many servers start at once here: the first connection may take its time.
pub(crate) fn options(server: &TestServer) -> NatsOptions {
    NatsOptions { connect_wait: Duration::from_secs(30), ..NatsOptions::new(server.url()) }
}

pub(crate) fn bucket() -> BucketName {
    BucketName::parse("STATE").unwrap()
}

pub(crate) fn key(name: &str) -> BucketKey {
    BucketKey::parse(name).unwrap()
}

pub(crate) async fn put(bus: &NatsBus, name: &str, put: Put) -> Revision {
    bus.put(bucket(), key(name), put).await.unwrap()
}

/// The next item, which must come.
pub(crate) async fn see(watch: &mut Watch) -> WatchItem {
    let seen = timeout(Duration::from_secs(20), watch.next()).await;
    seen.expect("an item in time").expect("the watch goes on").unwrap()
}

/// The next change, which must be the next item.
pub(crate) async fn see_change(watch: &mut Watch) -> (String, KeyState) {
    match see(watch).await {
        WatchItem::Changed(Change { key, state, .. }) => (key.as_str().to_owned(), state),
        other => panic!("a change was expected, not {other:?}"),
    }
}

/// Reads up to the mark that everything was told, and returns the changes.
pub(crate) async fn see_current(watch: &mut Watch) -> Vec<Change> {
    let mut told = Vec::new();
    loop {
        match see(watch).await {
            WatchItem::Changed(change) => told.push(change),
            WatchItem::Current => return told,
            WatchItem::Resync => panic!("a resync, though nothing was lost"),
        }
    }
}

pub(crate) fn value(text: &str) -> KeyState {
    KeyState::Value(text.to_owned().into())
}

pub(crate) fn held(mirror: &BucketMirror) -> BTreeMap<String, String> {
    let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
    mirror.iter().map(|(key, entry)| (key.as_str().to_owned(), text(&entry.value))).collect()
}
