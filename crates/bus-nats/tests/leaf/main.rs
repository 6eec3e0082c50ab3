//! A hub and a leaf node of it, each with a store of its own under the same names: work at the leaf
//! goes on without the hub, and no publish, acknowledgement or value is the other side's as well.
#![cfg(test)]

use std::time::Duration;

use async_nats::{Client, ConnectOptions};
use bus_core::{
    Buckets, Bus, ConsumerSpec, Deliveries, Delivery, Expect, Frame, FrameId, Lag, Overflow, Put,
    Retention, StreamSpec, Subscription, Verdict,
};
use bus_nats::{NatsAuth, NatsBus};
use bus_subjects::{BucketKey, BucketName, ConsumerName, Filter, StreamName, Subject};
use bus_testserver::TestPair;
use futures_util::StreamExt;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

const WORK: &str = "vak.work.w1.coder.task";
const CALL: &str = "vak.call.w1.files.read";
/// What must come comes within this.
const SOON: Duration = Duration::from_secs(30);

/// Both servers and an engine at each.
struct Stage {
    pair: TestPair,
    hub: NatsBus,
    leaf: NatsBus,
}

impl Stage {
    async fn new() -> Self {
        let pair = tokio::task::block_in_place(TestPair::start);
        let hub = open(&pair, pair.hub.url()).await;
        let leaf = open(&pair, pair.leaf.url()).await;
        for bus in [&hub, &leaf] {
            bus.declare(work()).await.unwrap();
        }
        Self { pair, hub, leaf }
    }

    /// Waits until what the one publishes is heard by the other; whatever crossed before it has
    /// arrived then.
    async fn linked(&self) {
        for (from, to) in [(&self.leaf, &self.hub), (&self.hub, &self.leaf)] {
            let mut heard = listen(to, "vak.events.w1.s1.>").await;
            let end = Instant::now() + SOON;
            let mut number = 0;
            loop {
                let subject = Subject::parse("vak.events.w1.s1.tokens").unwrap();
                let id = FrameId::parse(&format!("probe-{number}")).unwrap();
                from.publish(Frame::new(subject, id, "probe")).await.unwrap();
                if timeout(Duration::from_millis(50), heard.next()).await.is_ok() {
                    break;
                }
                assert!(Instant::now() < end, "the servers are not linked");
                number += 1;
            }
        }
    }
}

async fn open(pair: &TestPair, url: &str) -> NatsBus {
    NatsBus::open(pair.options(url)).await.unwrap()
}

fn work() -> StreamSpec {
    let filters = vec![Filter::parse("vak.work.w1.*.task").unwrap()];
    StreamSpec::new(stream(), filters, Retention::WorkQueue)
}

fn stream() -> StreamName {
    StreamName::parse("VAK_WORK_w1").unwrap()
}

fn task(id: &str) -> Frame {
    Frame::new(Subject::parse(WORK).unwrap(), FrameId::parse(id).unwrap(), id.to_owned())
}

async fn member(bus: &NatsBus) -> Deliveries {
    let (name, filter) = (ConsumerName::parse("worker_coder").unwrap(), Filter::parse(WORK));
    let filter = filter.unwrap();
    let spec = ConsumerSpec { stream: stream(), name, filter, lease: SOON };
    bus.consume(spec).await.unwrap()
}

async fn take(member: &mut Deliveries) -> Delivery {
    let taken = timeout(SOON, member.next()).await.expect("a task comes");
    taken.unwrap().unwrap()
}

async fn listen(bus: &NatsBus, filter: &str) -> Subscription {
    let overflow = Overflow::DropOldest { capacity: 64.try_into().unwrap() };
    bus.subscribe(Filter::parse(filter).unwrap(), overflow).await.unwrap()
}

fn counts(lag: &Lag) -> (u64, u64) {
    (lag.pending, lag.in_flight)
}

async fn lag_of(bus: &NatsBus) -> (u64, u64) {
    counts(&bus.lag(stream()).await.unwrap())
}

fn bucket() -> BucketName {
    BucketName::parse("VAK_RESULTS_w1").unwrap()
}

fn key() -> BucketKey {
    BucketKey::parse("k").unwrap()
}

/// Does the work of a machine: a call, a task and a value.
async fn works(bus: &NatsBus, other: &NatsBus, id: &str) {
    let mut calls = listen(other, CALL).await;
    let answering = async {
        let call = timeout(SOON, calls.next()).await.unwrap().unwrap();
        let bus_core::FeedItem::Frame(call) = call else { panic!("{call:?}") };
        let answer = Frame::new(call.reply.clone().unwrap(), call.id.clone(), "answer");
        other.publish(answer).await.unwrap();
    };
    let call = Frame::new(Subject::parse(CALL).unwrap(), FrameId::parse(id).unwrap(), "call");
    let (answer, ()) = tokio::join!(bus.request(call, SOON), answering);
    assert_eq!(&*answer.unwrap().body, b"answer");

    bus.append(task(id), Expect::Any).await.unwrap();
    let mut member = member(other).await;
    let taken = take(&mut member).await;
    assert_eq!(taken.frame.id.as_str(), id);
    taken.settle(Verdict::Ack).await.unwrap();

    bus.put(bucket(), key(), Put::new(id.to_owned())).await.unwrap();
    let held = other.get(bucket(), key()).await.unwrap().unwrap();
    assert_eq!(&*held.value, id.as_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn local_work_goes_on_without_the_hub() {
    let mut stage = Stage::new().await;
    stage.linked().await;
    stage.pair.hub.kill();
    let other = open(&stage.pair, stage.pair.leaf.url()).await;
    works(&stage.leaf, &other, "away").await;

    // Also from a cold start.
    stage.leaf.append(task("kept"), Expect::Any).await.unwrap();
    stage.pair.leaf.kill();
    stage.pair.leaf.restart().unwrap();
    let one = open(&stage.pair, stage.pair.leaf.url()).await;
    let other = open(&stage.pair, stage.pair.leaf.url()).await;
    let mut member = member(&one).await;
    let kept = take(&mut member).await;
    assert_eq!(kept.frame.id.as_str(), "kept");
    kept.settle(Verdict::Ack).await.unwrap();
    drop(member);
    works(&one, &other, "cold").await;

    stage.pair.hub.restart().unwrap();
    let hub = open(&stage.pair, stage.pair.hub.url()).await;
    Stage { hub, leaf: one, ..stage }.linked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledgement_settles_only_its_own_domains_task() {
    let stage = Stage::new().await;
    stage.linked().await;
    let (mut at_hub, mut at_leaf) = (member(&stage.hub).await, member(&stage.leaf).await);
    for number in 0..3 {
        // The same positions, consumers and attempts at both.
        let id = format!("t{number}");
        for bus in [&stage.hub, &stage.leaf] {
            bus.append(task(&id), Expect::Any).await.unwrap();
        }
        let (hubs, leafs) = (take(&mut at_hub).await, take(&mut at_leaf).await);
        assert_eq!((hubs.seq, &hubs.frame.id), (leafs.seq, &leafs.frame.id));
        let (first, second) = if number % 2 == 0 { (hubs, leafs) } else { (leafs, hubs) };
        first.settle(Verdict::Ack).await.unwrap();
        stage.linked().await;
        let left = [lag_of(&stage.hub).await, lag_of(&stage.leaf).await];
        let expected = if number % 2 == 0 { [(0, 0), (0, 1)] } else { [(0, 1), (0, 0)] };
        assert_eq!(left, expected, "after {number}");
        second.settle(Verdict::Ack).await.unwrap();
        assert_eq!([lag_of(&stage.hub).await, lag_of(&stage.leaf).await], [(0, 0); 2]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_publish_is_kept_once() {
    let stage = Stage::new().await;
    stage.linked().await;
    stage.leaf.append(task("leafs"), Expect::Any).await.unwrap();
    stage.hub.append(task("hubs"), Expect::Any).await.unwrap();
    for (bus, value) in [(&stage.leaf, "leafs"), (&stage.hub, "hubs")] {
        bus.put(bucket(), key(), Put::new(value.to_owned())).await.unwrap();
    }
    // Without a question for an answer, so that nothing but the link decides who keeps it.
    let sample = Subject::parse("vak.events.w1.s1.telemetry").unwrap();
    let sample = Frame::new(sample, FrameId::parse("sample").unwrap(), "sample");
    stage.leaf.publish(sample).await.unwrap();
    stage.linked().await;
    for (bus, own) in [(&stage.leaf, "leafs"), (&stage.hub, "hubs")] {
        let mut member = member(bus).await;
        assert_eq!(take(&mut member).await.frame.id.as_str(), own);
        assert_eq!(lag_of(bus).await, (0, 1));
        let held = bus.get(bucket(), key()).await.unwrap().unwrap();
        assert_eq!(&*held.value, own.as_bytes());
    }
    let latest = Overflow::Latest { subjects: 8.try_into().unwrap() };
    let filter = Filter::parse("vak.events.w1.*.telemetry").unwrap();
    let mut at_hub = stage.hub.subscribe(filter.clone(), latest).await.unwrap();
    let mut at_leaf = stage.leaf.subscribe(filter, latest).await.unwrap();
    assert!(timeout(SOON, at_leaf.next()).await.is_ok());
    assert!(timeout(Duration::from_millis(50), at_hub.next()).await.is_err());
}

/// Somebody who answers calls with a word, as one of several that share them, until it is dropped.
async fn respond(client: &Client, word: &'static str) -> JoinSet<()> {
    let mut calls = client.queue_subscribe(CALL, "files".to_owned()).await.unwrap();
    client.flush().await.unwrap();
    let (client, mut responder) = (client.clone(), JoinSet::new());
    responder.spawn(async move {
        while let Some(call) = calls.next().await {
            client.publish(call.reply.unwrap(), word.into()).await.unwrap();
        }
    });
    responder
}

async fn bare(pair: &TestPair, url: &str) -> Client {
    let NatsAuth::Jwt(user) = pair.options(url).auth else { panic!("a user of the account") };
    let text = bus_crypto::creds::render(user.jwt(), user.key());
    ConnectOptions::with_credentials(&text).unwrap().connect(url).await.unwrap()
}

/// Who answered each of some calls.
async fn answers(client: &Client) -> Vec<String> {
    let mut words = Vec::new();
    for _ in 0..20 {
        let answer = client.request(CALL, "".into()).await.unwrap();
        words.push(String::from_utf8(answer.payload.to_vec()).unwrap());
    }
    words
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_prefers_its_own_machine() {
    let stage = Stage::new().await;
    stage.linked().await;
    let (hub, leaf) = (stage.pair.hub.url(), stage.pair.leaf.url());
    let [at_hub, at_leaf] = [bare(&stage.pair, hub).await, bare(&stage.pair, leaf).await];
    let [from_hub, from_leaf] = [bare(&stage.pair, hub).await, bare(&stage.pair, leaf).await];
    let _hubs = respond(&at_hub, "hub").await;
    stage.linked().await;
    // Who is alone answers both.
    assert_eq!(answers(&from_leaf).await, ["hub"; 20]);
    let mut leafs = respond(&at_leaf, "leaf").await;
    stage.linked().await;
    assert_eq!(answers(&from_leaf).await, ["leaf"; 20]);
    assert_eq!(answers(&from_hub).await, ["hub"; 20]);
    // When its own machine's is gone the other one answers again.
    leafs.shutdown().await;
    drop(at_leaf);
    stage.linked().await;
    assert_eq!(answers(&from_leaf).await, ["hub"; 20]);
}
