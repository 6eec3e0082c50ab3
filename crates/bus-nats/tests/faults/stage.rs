//! A server, clients of it, and what the faults need to say about them.

use std::{collections::BTreeMap, num::NonZeroU64, time::Duration};

use bus_core::{
    Blobs, BucketMirror, Buckets, Bus, Error, ErrorKind, Frame, FrameId, Put, Retention, Seq,
    StreamSpec, Watch,
};
use bus_nats::{ConnectionState, NatsBus, NatsOptions, server::ServerConfig};
use bus_subjects::{BucketKey, BucketName, Filter, StreamName, Subject};
use bus_testserver::TestServer;
use tokio::time::{Instant, timeout};

/// A server and one client.
pub(crate) struct Stage {
    pub(crate) server: TestServer,
    pub(crate) bus: NatsBus,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::with(ServerConfig::default()).await
    }

    pub(crate) async fn with(config: ServerConfig) -> Self {
        Self::on(TestServer::start_with(config)).await
    }

    pub(crate) async fn on(server: TestServer) -> Self {
        let bus = open(&server).await;
        Self { server, bus }
    }

    /// One more client.
    pub(crate) async fn another(&self) -> NatsBus {
        open(&self.server).await
    }

    /// A client that knows nothing of the engine.
    pub(crate) async fn stranger(&self) -> async_nats::Client {
        async_nats::connect(self.server.url()).await.unwrap()
    }

    /// Kills the server and starts it again; the clients find it by themselves.
    pub(crate) fn kill_and_restart(&mut self) {
        self.server.kill();
        self.server.restart().unwrap();
    }
}

/// How long a call may take, and what the machine may add to it.
pub(crate) const ANSWER_WAIT: Duration = Duration::from_secs(2);
pub(crate) const MARGIN: Duration = Duration::from_secs(2);
/// What must come comes within this.
pub(crate) const SOON: Duration = Duration::from_secs(30);

async fn open(server: &TestServer) -> NatsBus {
    let options = NatsOptions { answer_wait: ANSWER_WAIT, ..NatsOptions::new(server.url()) };
    NatsBus::open(options).await.unwrap()
}

pub(crate) fn stream(text: &str) -> StreamName {
    StreamName::parse(text).unwrap()
}

/// A stream `WORK` over `work.>` that keeps everything.
pub(crate) fn kept() -> StreamSpec {
    StreamSpec::new(stream("WORK"), vec![Filter::parse("work.>").unwrap()], Retention::Kept)
}

pub(crate) fn bounded(messages_max: u64) -> StreamSpec {
    StreamSpec { messages_max: NonZeroU64::new(messages_max).unwrap(), ..kept() }
}

pub(crate) fn frame(subject: &str, id: &str) -> Frame {
    Frame::new(Subject::parse(subject).unwrap(), FrameId::parse(id).unwrap(), id.to_owned())
}

pub(crate) fn bucket() -> BucketName {
    BucketName::parse("STATE").unwrap()
}

pub(crate) fn key(text: &str) -> BucketKey {
    BucketKey::parse(text).unwrap()
}

pub(crate) async fn put(bus: &NatsBus, name: &str, value: &str) {
    bus.put(bucket(), key(name), Put::new(value.to_owned())).await.unwrap();
}

/// Everything in `WORK`: the position of each id. An id that is there twice is a failure.
pub(crate) async fn stored(bus: &NatsBus) -> BTreeMap<String, u64> {
    let mut replay = bus.replay(stream("WORK"), Filter::all(), Seq(0)).await.unwrap();
    let mut found = BTreeMap::new();
    while let Some(one) = replay.next().await {
        let one = one.unwrap();
        let before = found.insert(one.frame.id.to_string(), one.seq.0);
        assert_eq!(before, None, "{} is stored twice", one.frame.id);
    }
    found
}

/// Waits until the client is connected.
pub(crate) async fn connected(bus: &NatsBus) {
    let mut states = bus.states();
    let is_connected = |state: &ConnectionState| state.epoch().is_some();
    let found = timeout(SOON, states.wait_for(is_connected)).await;
    assert!(found.is_ok(), "the server was not found again");
}

/// Waits until the client knows that it is not connected.
pub(crate) async fn disconnected(bus: &NatsBus) {
    let mut states = bus.states();
    let is_lost = |state: &ConnectionState| state.epoch().is_none();
    let lost = timeout(SOON, states.wait_for(is_lost)).await;
    assert!(lost.is_ok(), "the loss of the server was not told");
}

/// Does `call` until it is taken, as whoever must get something done does: only what a fault may
/// answer is tried again. Says how often it had to.
pub(crate) async fn until_taken<T, F>(bus: &NatsBus, mut call: impl FnMut() -> F) -> (T, u64)
where
    F: Future<Output = Result<T, Error>>,
{
    let begun = Instant::now();
    let mut again = 0;
    loop {
        match call().await {
            Ok(taken) => return (taken, again),
            Err(error) => may_be_tried_again(&error),
        }
        assert!(begun.elapsed() < SOON, "nothing was taken for {SOON:?}");
        again += 1;
        connected(bus).await;
        // Found again is not ready again: a moment, or the next change.
        let _changed = timeout(Duration::from_millis(10), bus.states().changed()).await;
    }
}

/// A fault is answered with `Unavailable` or `Timeout`, and nothing else.
pub(crate) fn may_be_tried_again(error: &Error) {
    let kind = error.kind();
    assert!(matches!(kind, ErrorKind::Unavailable | ErrorKind::Timeout), "{kind:?}: {error:?}");
}

/// Reads `watch` until the mirror holds what the bucket holds and says so.
pub(crate) async fn follow(bus: &NatsBus, watch: &mut Watch, mirror: &mut BucketMirror) {
    let end = Instant::now() + SOON;
    let mut wrong = compare(bus, mirror).await;
    while !mirror.is_current() || wrong.is_some() {
        let next = tokio::time::timeout_at(end, watch.next()).await;
        let item = next.unwrap_or_else(|_| panic!("the watch is silent: {wrong:?}"));
        mirror.apply(item.expect("the watch ended").unwrap());
        if mirror.is_current() {
            wrong = compare(bus, mirror).await;
        }
    }
}

/// The first key of which mirror and bucket say different things.
async fn compare(bus: &NatsBus, mirror: &BucketMirror) -> Option<String> {
    for n in 0..KEYS {
        let name = key(&format!("k{n}"));
        let (held, _) = until_taken(bus, || bus.get(bucket(), name.clone())).await;
        if held.as_ref() != mirror.get(&name) {
            return Some(format!("{name}: {held:?}, told {:?}", mirror.get(&name)));
        }
    }
    None
}

/// The keys `k0`, `k1` … that [`follow`] compares.
pub(crate) const KEYS: usize = 100;

pub(crate) async fn put_blob(bus: &NatsBus, name: &str, bytes: usize) -> Result<(), Error> {
    let body = bytes::Bytes::from(vec![7; bytes]);
    bus.put_blob(bucket(), key(name), body.into()).await.map(drop)
}
