//! What a policy does not allow never reaches the engine; what it allows, whichever way, does.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use bus_core::{
    Bus, ConsumerSpec, Engine, ErrorKind, Expect, ExpectRevision, Frame, FrameId, Guarded, Outcome,
    Overflow, Put, Result, Retention, Seq, StreamSpec,
};
use bus_stories::{Call, Flaky, Op, Stage};
use bus_subjects::{AclPolicy, BucketKey, BucketName, Filter, RuleSet, StreamName, Subject};

const ROOM: Overflow = Overflow::DropOldest { capacity: NonZeroUsize::MIN };

fn frame(subject: &str) -> Frame {
    Frame::new(Subject::parse(subject).unwrap(), FrameId::parse("frame-1").unwrap(), "body")
}

fn filters(texts: &[&str]) -> Vec<Filter> {
    texts.iter().map(|text| Filter::parse(text).unwrap()).collect()
}

fn policy(publish: &[&str], subscribe: &[&str]) -> AclPolicy {
    let allow = |texts| RuleSet { allow: filters(texts), deny: Vec::new() };
    AclPolicy { publish: allow(publish), subscribe: allow(subscribe) }
}

fn stream() -> StreamName {
    StreamName::parse("S").unwrap()
}

fn place() -> (BucketName, BucketKey) {
    (BucketName::parse("B").unwrap(), BucketKey::parse("k").unwrap())
}

/// Calls every operation once and returns which were denied; other answers do not matter.
async fn denied(engine: &dyn Engine) -> Vec<Op> {
    let mut denied = Vec::new();
    let mut note = |op, result: Result<()>| {
        if let Err(error) = result
            && error.kind() == ErrorKind::Denied
        {
            assert_eq!(error.outcome(), Outcome::NotDone);
            assert!(error.subject().is_some(), "{op:?} does not say where");
            denied.push(op);
        }
    };
    let filter = Filter::parse("a.b").unwrap();
    let spec = StreamSpec::new(stream(), filters(&["a.>"]), Retention::Kept);
    let name = "c".parse().unwrap();
    let lease = Duration::from_secs(1);
    let consumer = ConsumerSpec { stream: stream(), name, filter: filter.clone(), lease };
    let (bucket, key) = place();
    let any = ExpectRevision::Any;

    note(Op::Declare, engine.declare(spec).await);
    note(Op::Publish, engine.publish(frame("a.b")).await);
    note(Op::Subscribe, engine.subscribe(filter, ROOM).await.map(drop));
    note(Op::Request, engine.request(frame("a.b"), Duration::from_millis(1)).await.map(drop));
    note(Op::Append, engine.append(frame("a.b"), Expect::Any).await.map(drop));
    note(Op::Last, engine.last(Subject::parse("a.b").unwrap()).await.map(drop));
    note(Op::Consume, engine.consume(consumer).await.map(drop));
    note(Op::Replay, engine.replay(stream(), Filter::all(), Seq(1)).await.map(drop));
    note(Op::Lag, engine.lag(stream()).await.map(drop));
    let put = engine.put(bucket.clone(), key.clone(), Put::new("v")).await;
    note(Op::Put, put.map(drop));
    note(Op::Get, engine.get(bucket.clone(), key.clone()).await.map(drop));
    note(Op::Delete, engine.delete(bucket, key, any).await);
    denied
}

const ALL: [Op; 12] = [
    Op::Declare,
    Op::Publish,
    Op::Subscribe,
    Op::Request,
    Op::Append,
    Op::Last,
    Op::Consume,
    Op::Replay,
    Op::Lag,
    Op::Put,
    Op::Get,
    Op::Delete,
];

async fn counting() -> Arc<Flaky> {
    Stage::flaky().await.unwrap().1
}

/// The operations that a policy lets through are exactly these, and exactly these are counted.
#[track_caller]
fn exactly(allowed: &[Op], denied: &[Op], calls: &[Call]) {
    let expected: Vec<Op> = ALL.into_iter().filter(|op| !allowed.contains(op)).collect();
    assert_eq!(denied, expected);
    let reached: Vec<Op> = calls.iter().map(|call| call.op).collect();
    let expected: Vec<Op> = ALL.into_iter().filter(|op| allowed.contains(op)).collect();
    assert_eq!(reached, expected);
}

async fn allows(policy: AclPolicy, allowed: &[Op]) {
    let inner = counting().await;
    let guarded = Guarded::new(Arc::clone(&inner) as Arc<dyn Engine>, policy);
    let denied = denied(&guarded).await;
    exactly(allowed, &denied, &inner.calls());
}

#[tokio::test(start_paused = true)]
async fn an_empty_policy_denies_every_operation_before_the_engine() {
    allows(AclPolicy::default(), &[]).await;
}

#[tokio::test(start_paused = true)]
async fn who_may_publish_may_publish_request_and_append() {
    let allowed = [Op::Publish, Op::Request, Op::Append];
    allows(policy(&["a.b"], &[]), &allowed).await;
}

#[tokio::test(start_paused = true)]
async fn who_may_subscribe_may_subscribe_consume_and_read_the_last_one() {
    allows(policy(&[], &["a.*"]), &[Op::Subscribe, Op::Last, Op::Consume]).await;
}

#[tokio::test(start_paused = true)]
async fn who_may_publish_to_a_bucket_may_write_it() {
    allows(policy(&["$KV.B.*"], &[]), &[Op::Put, Op::Delete]).await;
}

#[tokio::test(start_paused = true)]
async fn who_may_subscribe_to_a_bucket_may_read_it() {
    allows(policy(&[], &["$KV.B.>"]), &[Op::Get]).await;
}

#[tokio::test(start_paused = true)]
async fn a_right_to_another_bucket_is_none_to_this_one() {
    allows(policy(&["$KV.B2.>", "$KV.B.k2"], &["$KV.b.>"]), &[]).await;
}

#[tokio::test(start_paused = true)]
async fn streams_are_administered_under_the_subjects_a_server_uses() {
    allows(policy(&["$JS.API.STREAM.CREATE.S"], &[]), &[Op::Declare]).await;
    allows(policy(&["$JS.API.STREAM.INFO.S"], &[]), &[Op::Lag]).await;
    allows(policy(&["$JS.API.STREAM.MSG.GET.S"], &[]), &[Op::Replay]).await;
    allows(policy(&["$JS.API.STREAM.CREATE.S2"], &["$JS.API.>"]), &[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_deny_rule_wins_over_the_right_it_lies_in() {
    let mut policy = policy(&[">"], &[">"]);
    policy.publish.deny = filters(&["a.b", "$KV.B.k", "$JS.API.STREAM.CREATE.>"]);
    policy.subscribe.deny = filters(&["*.b", "$KV.>"]);
    allows(policy, &[Op::Replay, Op::Lag]).await;
}

#[tokio::test(start_paused = true)]
async fn a_subscription_wider_than_the_right_is_denied() {
    let inner = counting().await;
    let guarded = Guarded::new(Arc::clone(&inner) as Arc<dyn Engine>, policy(&[], &["a.*", "b.>"]));
    for wide in [">", "a.>", "*.b", "*.*", "c.d", "b"] {
        let refused = guarded.subscribe(Filter::parse(wide).unwrap(), ROOM).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Denied, "{wide}");
    }
    assert!(inner.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_the_engine_promises_is_promised_behind_a_policy_too() {
    let inner = counting().await;
    let guarded = Guarded::new(Arc::clone(&inner) as Arc<dyn Engine>, AclPolicy::default());
    assert_eq!(guarded.promises(), inner.promises());
}
