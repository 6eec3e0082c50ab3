//! The live plane on a real server: what breaks, what is refused, and what is none of ours.
#![cfg(test)]

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use async_nats::HeaderMap;
use bus_core::{
    Bus as _, ErrorKind, Expect, FeedItem, Frame, FrameId, Outcome, Overflow, Retention, Seq,
    StreamSpec, Subscription,
};
use bus_crypto::{
    NkeyKind, SigningKey, SystemEntropy,
    jwt::{Permissions, SubjectPermission},
};
use bus_nats::{
    ConnectionState, NatsAuth, NatsBus, NatsOptions,
    server::{Authorization, NkeyUser, ServerConfig},
};
use bus_subjects::{Filter, StreamName, Subject};
use bus_testserver::TestServer;
use futures_util::StreamExt as _;

mod burst;
mod ends;

const TOKENS: &str = "vak.events.w1.s1.tokens";
const TELEMETRY: &str = "vak.events.w1.s1.telemetry";

async fn bus(server: &TestServer) -> NatsBus {
    NatsBus::open(NatsOptions::new(server.url())).await.unwrap()
}

async fn stranger(server: &TestServer) -> async_nats::Client {
    async_nats::connect(server.url()).await.unwrap()
}

/// A round trip of a stranger's own: what it subscribed to is in force.
async fn hear_itself(stranger: &async_nats::Client) {
    let mut back = stranger.subscribe("back").await.unwrap();
    stranger.publish("back", "".into()).await.unwrap();
    back.next().await.unwrap();
}

fn frame(subject: &str, id: &str) -> Frame {
    Frame::new(Subject::parse(subject).unwrap(), FrameId::parse(id).unwrap(), id.to_owned())
}

fn every(capacity: usize) -> Overflow {
    Overflow::DropOldest { capacity: NonZeroUsize::new(capacity).unwrap() }
}

fn latest(subjects: usize) -> Overflow {
    Overflow::Latest { subjects: NonZeroUsize::new(subjects).unwrap() }
}

async fn listen(bus: &NatsBus, filter: &str, overflow: Overflow) -> Subscription {
    bus.subscribe(Filter::parse(filter).unwrap(), overflow).await.unwrap()
}

async fn item(subscription: &mut Subscription) -> FeedItem {
    let next = tokio::time::timeout(Duration::from_secs(20), subscription.next()).await;
    next.expect("nothing came").expect("the subscription ended")
}

async fn hear(subscription: &mut Subscription) -> Frame {
    match item(subscription).await {
        FeedItem::Frame(frame) => frame.into_frame(),
        gap => panic!("expected a frame, got {gap:?}"),
    }
}

async fn hear_id(subscription: &mut Subscription) -> String {
    hear(subscription).await.id.to_string()
}

async fn hear_gap(subscription: &mut Subscription) -> u64 {
    match item(subscription).await {
        FeedItem::Gap { missed } => missed,
        FeedItem::Frame(frame) => panic!("expected a gap, got {frame:?}"),
    }
}

async fn until(bus: &NatsBus, wanted: impl FnMut(&ConnectionState) -> bool) {
    let mut states = bus.states();
    let waited = tokio::time::timeout(Duration::from_secs(30), states.wait_for(wanted)).await;
    assert!(waited.is_ok(), "the state did not come");
}

async fn break_and_mend(server: &mut TestServer, bus: &NatsBus) {
    let epoch = bus.states().borrow().epoch();
    server.kill();
    until(bus, |state| state.epoch() != epoch).await;
    server.restart().unwrap();
    until(bus, |state| state.epoch().is_some_and(|now| Some(now) > epoch)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_is_a_gap_at_its_place_and_then_everything_is_heard_again() {
    let mut server = TestServer::start();
    let bus = bus(&server).await;
    for overflow in [every(64), latest(64)] {
        let mut subscription = listen(&bus, "vak.events.w1.*.tokens", overflow).await;
        let mut witness = listen(&bus, "vak.events.>", every(64)).await;
        bus.publish(frame(TOKENS, "before")).await.unwrap();
        // It has come, though it is not taken yet.
        assert_eq!(hear_id(&mut witness).await, "before");
        break_and_mend(&mut server, &bus).await;
        assert!(hear_gap(&mut witness).await >= 1);
        bus.publish(frame("vak.events.w1.s2.tokens", "after")).await.unwrap();
        assert_eq!(hear_id(&mut witness).await, "after");
        assert_eq!(hear_id(&mut subscription).await, "before");
        assert!(hear_gap(&mut subscription).await >= 1);
        assert_eq!(hear_id(&mut subscription).await, "after");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn once_the_gap_is_told_whatever_others_publish_is_heard() {
    let mut server = TestServer::start();
    let (bus, other) = (bus(&server).await, bus(&server).await);
    let mut subscription = listen(&bus, TOKENS, every(64)).await;
    for round in 0..3 {
        server.kill();
        server.restart().unwrap();
        assert!(hear_gap(&mut subscription).await >= 1);
        until(&other, |state| state.epoch().is_some_and(|epoch| epoch >= round + 2)).await;
        other.publish(frame(TOKENS, &format!("round-{round}"))).await.unwrap();
        assert_eq!(hear_id(&mut subscription).await, format!("round-{round}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_is_not_heard_and_what_is_heard_is_not_stored() {
    let server = TestServer::start();
    let bus = bus(&server).await;
    let stream = StreamName::parse("WORK").unwrap();
    let filters = vec![Filter::parse("work.>").unwrap()];
    bus.declare(StreamSpec::new(stream.clone(), filters, Retention::Kept)).await.unwrap();
    let mut subscription = listen(&bus, ">", every(64)).await;
    bus.append(frame("work.a", "stored"), Expect::Any).await.unwrap();
    bus.append_all(vec![frame("work.a", "one"), frame("work.a", "two")]).await.unwrap();
    let mut live = frame("work.a", "live");
    live.reply = Some(Subject::parse("answers.a").unwrap());
    bus.publish(live.clone()).await.unwrap();
    assert_eq!(hear(&mut subscription).await, live);
    let mut replay = bus.replay(stream, Filter::all(), Seq(0)).await.unwrap();
    let mut stored = Vec::new();
    while let Some(message) = replay.next().await {
        stored.push(message.unwrap().frame.id.to_string());
    }
    assert_eq!(stored, ["stored", "one", "two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_live_message_is_a_command_to_the_server() {
    let server = TestServer::start();
    let bus = bus(&server).await;
    let stream = StreamName::parse("WORK").unwrap();
    let filters = vec![Filter::parse("work.>").unwrap()];
    bus.declare(StreamSpec::new(stream.clone(), filters, Retention::Kept)).await.unwrap();
    let delete = frame("$JS.API.STREAM.DELETE.WORK", "d1");
    let published = bus.publish(delete.clone()).await.unwrap_err();
    let asked = bus.request(delete, Duration::from_secs(1)).await.unwrap_err();
    assert_eq!((published.kind(), asked.kind()), (ErrorKind::Invalid, ErrorKind::Invalid));
    bus.append(frame("work.a", "still-there"), Expect::Any).await.unwrap();
}

fn user() -> Arc<SigningKey> {
    Arc::new(SigningKey::generate(NkeyKind::User, &SystemEntropy::new()).unwrap())
}

async fn at_once<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(1), future).await.expect("it takes too long")
}

/// A server that lets one user do everything, and another one publish and hear only this.
fn confining(publish: &[&str], subscribe: &[&str]) -> (TestServer, NatsOptions, NatsOptions) {
    let allow = |list: &[&str]| SubjectPermission {
        allow: ["_INBOX.>"].iter().chain(list).map(|subject| (*subject).to_owned()).collect(),
        ..SubjectPermission::default()
    };
    let (publish, subscribe) = (allow(publish), allow(subscribe));
    let permissions = Permissions { publish, subscribe, ..Permissions::default() };
    let (all, some) = (user(), user());
    let authorization = Authorization::Nkeys(vec![
        NkeyUser { key: *all.public(), permissions: None },
        NkeyUser { key: *some.public(), permissions: Some(permissions) },
    ]);
    let server = TestServer::start_with(ServerConfig { authorization, ..Default::default() });
    let options = |key| NatsOptions { auth: NatsAuth::Nkey(key), ..NatsOptions::new(server.url()) };
    let options = (options(all), options(some));
    (server, options.0, options.1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subject_that_may_not_be_heard_is_denied_at_once() {
    let (_server, _, options) = confining(&["ok.>"], &["ok.>"]);
    let bus = NatsBus::open(options).await.unwrap();
    for filter in ["vak.>", TOKENS, ">"] {
        let asking = bus.subscribe(Filter::parse(filter).unwrap(), every(4));
        let refused = at_once(asking).await.unwrap_err();
        assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Denied, Outcome::NotDone));
    }
    let mut subscription = listen(&bus, "ok.>", every(4)).await;
    bus.publish(frame("ok.a", "heard")).await.unwrap();
    assert_eq!(hear_id(&mut subscription).await, "heard");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_to_a_subject_that_is_refused_is_denied_at_once() {
    let (_server, _, options) = confining(&["ok.>"], &["ok.>"]);
    let bus = NatsBus::open(options).await.unwrap();
    let asking = bus.request(frame("vak.call.w1.m1.ping", "q1"), Duration::from_secs(30));
    let refused = at_once(asking).await.unwrap_err();
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Denied, Outcome::NotDone));
}

/// Headers as a stranger may write them.
fn headers(list: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in list {
        map.append(*name, *value);
    }
    map
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_frame_is_passed_over_and_counts_for_nothing() {
    let server = TestServer::start();
    let (bus, stranger) = (bus(&server).await, stranger(&server).await);
    let mut subscription = listen(&bus, "vak.>", every(64)).await;
    let long_id = "x".repeat(FrameId::BYTES_MAX + 1);
    for garbage in [
        headers(&[]),
        headers(&[("vak-key", "no-id")]),
        headers(&[("vak-id", &long_id)]),
        headers(&[("vak-id", "not visible: \u{fc}")]),
        headers(&[("vak-id", "1"), ("vak-headers", "{")]),
        headers(&[("vak-id", "1"), ("vak-order", "a,b"), ("a", "1")]),
        headers(&[("vak-id", "1"), ("Nats-Msg-Id", "1")]),
    ] {
        stranger.publish_with_headers(TOKENS, garbage, "garbage".into()).await.unwrap();
    }
    for _ in 0..1000 {
        stranger.publish(TOKENS, "garbage without end".into()).await.unwrap();
    }
    let too_large = vec![7; Frame::BYTES_MAX + 1].into();
    stranger.publish_with_headers(TOKENS, headers(&[("vak-id", "1")]), too_large).await.unwrap();
    // Subjects of no frame, which the filter hears all the same.
    for subject in ["vak.a*.>", "vak.\u{7f}"] {
        let frame_like = headers(&[("vak-id", "1")]);
        let _refused = stranger.publish_with_headers(subject, frame_like, "x".into()).await;
    }
    let event = headers(&[("ce-id", "event-7"), ("ce-type", "t")]);
    stranger.publish_with_headers(TOKENS, event, "a CloudEvent".into()).await.unwrap();
    let event = hear(&mut subscription).await;
    assert_eq!((event.id.as_str(), event.headers.get("ce-type")), ("event-7", Some("t")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_no_frame_is_corrupt_and_leaves_the_outcome_unknown() {
    let server = TestServer::start();
    let (bus, stranger) = (bus(&server).await, stranger(&server).await);
    let mut requests = stranger.subscribe("vak.call.w1.m1.ping").await.unwrap();
    hear_itself(&stranger).await;
    let answering = async {
        let reply = requests.next().await.unwrap().reply.unwrap();
        stranger.publish(reply, "no frame".into()).await.unwrap();
    };
    let asking = bus.request(frame("vak.call.w1.m1.ping", "q1"), Duration::from_secs(10));
    let (answer, ()) = tokio::join!(asking, answering);
    let failed = answer.unwrap_err();
    assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::Corrupt, Outcome::Unknown));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_holds_its_capacity_and_slows_nobody() {
    const MANY: u64 = 20_000;
    let server = TestServer::start();
    let (bus, publisher) = (bus(&server).await, bus(&server).await);
    let mut sleeping = listen(&bus, "vak.>", every(4)).await;
    let mut awake = listen(&bus, "vak.>", every(MANY as usize)).await;
    let publishing = async {
        for number in 0..MANY {
            publisher.publish(frame(TOKENS, &number.to_string())).await.unwrap();
        }
    };
    let hearing = async {
        for number in 0..MANY {
            assert_eq!(hear_id(&mut awake).await, number.to_string());
        }
    };
    tokio::join!(publishing, hearing);
    // The sleeping one may be filled a little later: its end is what was published last.
    bus.close().await.unwrap();
    assert_eq!(hear_gap(&mut sleeping).await, MANY - 4);
    for number in MANY - 4..MANY {
        assert_eq!(hear_id(&mut sleeping).await, number.to_string());
    }
    assert_eq!(sleeping.next().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_outlives_the_bus_it_came_from() {
    let server = TestServer::start();
    let (bus, other) = (bus(&server).await, bus(&server).await);
    let mut subscription = listen(&bus, TOKENS, every(4)).await;
    drop(bus);
    other.publish(frame(TOKENS, "heard")).await.unwrap();
    assert_eq!(hear_id(&mut subscription).await, "heard");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_reader_sees_more_samples_than_the_server_gives_at_once() {
    const SESSIONS: usize = 1500;
    let server = TestServer::start();
    let bus = bus(&server).await;
    for session in 0..SESSIONS {
        let subject = format!("vak.events.w1.s{session}.telemetry");
        bus.publish(frame(&subject, &session.to_string())).await.unwrap();
    }
    let mut late = listen(&bus, "vak.events.>", latest(SESSIONS)).await;
    for session in 0..SESSIONS {
        assert_eq!(hear_id(&mut late).await, session.to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_keeps_its_reply_subject_and_the_server_answers_nobody() {
    let server = TestServer::start();
    let bus = bus(&server).await;
    let mut early = listen(&bus, TELEMETRY, latest(4)).await;
    let mut sample = frame(TELEMETRY, "sample");
    sample.reply = Some(Subject::parse("answers.a").unwrap());
    let stranger = stranger(&server).await;
    let mut answers = stranger.subscribe("answers.>").await.unwrap();
    hear_itself(&stranger).await;
    bus.publish(sample.clone()).await.unwrap();
    let mut late = listen(&bus, "vak.events.w1.*.telemetry", latest(4)).await;
    assert_eq!(hear(&mut early).await, sample);
    assert_eq!(hear(&mut late).await, sample);
    stranger.publish("answers.end", "".into()).await.unwrap();
    assert_eq!(answers.next().await.unwrap().subject.as_str(), "answers.end");
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_are_kept_again_after_the_server_came_back_empty() {
    let mut server = TestServer::start();
    let bus = bus(&server).await;
    bus.publish(frame(TELEMETRY, "before")).await.unwrap();
    drop(listen(&bus, TELEMETRY, latest(4)).await);
    stranger(&server).await.request("$JS.API.STREAM.DELETE.VAK_LATEST", "".into()).await.unwrap();
    break_and_mend(&mut server, &bus).await;
    bus.publish(frame(TELEMETRY, "after")).await.unwrap();
    let mut late = listen(&bus, TELEMETRY, latest(4)).await;
    assert_eq!(hear_id(&mut late).await, "after");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_only_read_samples_sees_what_others_had_kept() {
    let (_server, all, reader) = confining(&["$JS.API.DIRECT.GET.VAK_LATEST"], &["vak.>"]);
    let (publisher, reader) =
        (NatsBus::open(all).await.unwrap(), NatsBus::open(reader).await.unwrap());
    let nothing = at_once(listen(&reader, TELEMETRY, latest(4))).await;
    publisher.publish(frame(TELEMETRY, "sample")).await.unwrap();
    // Who reads it once knows that it is kept.
    assert_eq!(hear_id(&mut listen(&publisher, TELEMETRY, latest(4)).await).await, "sample");
    let mut late = at_once(listen(&reader, TELEMETRY, latest(4))).await;
    assert_eq!(hear_id(&mut late).await, "sample");
    drop(nothing);
}
