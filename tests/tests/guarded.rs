//! What a policy does not allow never reaches the engine; what it allows, whichever way, does.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use bus_core::{
    BlobBody, Buckets, Bus, ConsumerSpec, Engine, ErrorKind, Expect, ExpectRevision, Frame,
    FrameId, Guarded, Outcome, Overflow, Put, Result, Retention, Revision, Seq, StreamSpec,
};
use bus_stories::{Call, Flaky, Op, Stage};
use bus_subjects::{
    AclPolicy, BucketKey, BucketName, ConsumerName, Filter, RuleSet, StreamName, Subject,
};
use bytes::Bytes;

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

/// The kinds of operations that were denied, in the order they were tried.
#[derive(Default)]
struct Denied(Vec<Op>);

impl Denied {
    fn note<T>(&mut self, op: Op, result: Result<T>) {
        if let Err(error) = result
            && error.kind() == ErrorKind::Denied
        {
            assert_eq!(error.outcome(), Outcome::NotDone);
            assert!(error.subject().is_some(), "{op:?} does not say where");
            self.0.push(op);
        }
    }
}

/// Calls every operation once and returns which were denied; other answers do not matter.
async fn denied(engine: &dyn Engine) -> Vec<Op> {
    let mut denied = Denied::default();
    let filter = Filter::parse("a.b").unwrap();
    let spec = StreamSpec::new(stream(), filters(&["a.>"]), Retention::Kept);
    let name: ConsumerName = "c".parse().unwrap();
    let lease = Duration::from_secs(1);
    let consumer =
        ConsumerSpec { stream: stream(), name: name.clone(), filter: filter.clone(), lease };

    denied.note(Op::Declare, engine.declare(spec).await);
    denied.note(Op::Publish, engine.publish(frame("a.b")).await);
    denied.note(Op::Subscribe, engine.subscribe(filter.clone(), ROOM).await);
    denied.note(Op::Request, engine.request(frame("a.b"), Duration::from_millis(1)).await);
    denied.note(Op::Append, engine.append(frame("a.b"), Expect::Any).await);
    denied.note(Op::AppendAll, engine.append_all(vec![frame("a.b")]).await);
    denied.note(Op::Last, engine.last(Subject::parse("a.b").unwrap()).await);
    denied.note(Op::Consume, engine.consume(consumer).await);
    denied.note(Op::Consumers, engine.consumers(stream()).await);
    denied.note(Op::Pause, engine.pause(stream(), name.clone(), None).await);
    denied.note(Op::RemoveConsumer, engine.remove_consumer(stream(), name).await);
    denied.note(Op::Replay, engine.replay(stream(), filter, Seq(1)).await);
    denied.note(Op::Lag, engine.lag(stream()).await);
    state_denied(engine, &mut denied).await;
    denied.0
}

async fn state_denied(engine: &dyn Engine, denied: &mut Denied) {
    let (bucket, key) = place();
    let (b, k) = (|| bucket.clone(), || key.clone());
    let body = || BlobBody::from(Bytes::from_static(b"v"));
    denied.note(Op::Put, engine.put(b(), k(), Put::new("v")).await);
    denied.note(Op::Get, engine.get(b(), k()).await);
    denied.note(Op::Delete, engine.delete(b(), k(), ExpectRevision::Any).await);
    denied.note(Op::Watch, engine.watch(b(), Filter::parse("k").unwrap(), Revision::START).await);
    denied.note(Op::PutBlob, engine.put_blob(b(), k(), body()).await);
    denied.note(Op::GetBlob, engine.get_blob(b(), k()).await);
    denied.note(Op::DeleteBlob, engine.delete_blob(b(), k()).await);
    denied.note(Op::ListBlobs, engine.list_blobs(b()).await);
}

/// Every operation that is one question to the policy; discarding asks two and has its own tests.
const ALL: [Op; 21] = [
    Op::Declare,
    Op::Publish,
    Op::Subscribe,
    Op::Request,
    Op::Append,
    Op::AppendAll,
    Op::Last,
    Op::Consume,
    Op::Consumers,
    Op::Pause,
    Op::RemoveConsumer,
    Op::Replay,
    Op::Lag,
    Op::Put,
    Op::Get,
    Op::Delete,
    Op::Watch,
    Op::PutBlob,
    Op::GetBlob,
    Op::DeleteBlob,
    Op::ListBlobs,
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
    let allowed = [Op::Publish, Op::Request, Op::Append, Op::AppendAll];
    allows(policy(&["a.b"], &[]), &allowed).await;
}

#[tokio::test(start_paused = true)]
async fn who_may_subscribe_may_subscribe_consume_and_read_what_is_stored() {
    allows(policy(&[], &["a.*"]), &[Op::Subscribe, Op::Last, Op::Consume, Op::Replay]).await;
}

#[tokio::test(start_paused = true)]
async fn who_may_publish_to_a_bucket_may_write_it() {
    allows(policy(&["$KV.B.*"], &[]), &[Op::Put, Op::Delete]).await;
}

#[tokio::test(start_paused = true)]
async fn who_may_subscribe_to_a_bucket_may_read_it() {
    allows(policy(&[], &["$KV.B.>"]), &[Op::Get, Op::Watch]).await;
}

#[tokio::test(start_paused = true)]
async fn who_may_read_one_key_may_not_watch_another() {
    let inner = counting().await;
    let guarded = Guarded::new(Arc::clone(&inner) as Arc<dyn Engine>, policy(&[], &["$KV.B.k.*"]));
    for wide in [">", "k.>", "*.a", "k"] {
        let keys = Filter::parse(wide).unwrap();
        let refused = guarded.watch(place().0, keys, Revision::START).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Denied, "{wide}");
    }
    assert!(inner.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn blobs_are_asked_under_the_subjects_of_an_object_store() {
    allows(policy(&["$O.B.M.*"], &[]), &[Op::PutBlob, Op::DeleteBlob]).await;
    allows(policy(&[], &["$O.B.M.k"]), &[Op::GetBlob]).await;
    allows(policy(&[], &["$O.B.>"]), &[Op::GetBlob, Op::ListBlobs]).await;
}

#[tokio::test(start_paused = true)]
async fn one_frame_that_may_not_be_published_denies_its_whole_batch() {
    let inner = counting().await;
    let guarded = Guarded::new(Arc::clone(&inner) as Arc<dyn Engine>, policy(&["a.b"], &[]));
    let frames = vec![frame("a.b"), frame("a.c")];
    assert_eq!(guarded.append_all(frames).await.unwrap_err().kind(), ErrorKind::Denied);
    assert!(inner.calls().is_empty());
}

/// A stream with one message, and who tries to discard it with these rights.
async fn discard(publish: &[&str], subscribe: &[&str]) -> (Result<bool>, bool) {
    let inner = counting().await;
    let spec = StreamSpec::new(stream(), filters(&["a.>"]), Retention::Kept);
    inner.declare(spec).await.unwrap();
    let seq = inner.append(frame("a.b"), Expect::Any).await.unwrap().seq;
    let rights = policy(publish, subscribe);
    let guarded = Guarded::new(Arc::clone(&inner) as Arc<dyn Engine>, rights);
    let answer = guarded.discard(stream(), seq).await;
    (answer, inner.read(stream(), seq).await.unwrap().is_some())
}

#[tokio::test(start_paused = true)]
async fn who_may_delete_in_a_stream_and_read_the_message_may_discard_it() {
    let (answer, is_there) = discard(&["$JS.API.STREAM.MSG.DELETE.S"], &["a.b"]).await;
    assert!(answer.unwrap() && !is_there);
}

#[tokio::test(start_paused = true)]
async fn the_right_to_delete_in_a_stream_is_none_to_what_others_keep_there() {
    let (answer, is_there) = discard(&["$JS.API.STREAM.MSG.DELETE.S"], &["a.c"]).await;
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::Denied);
    assert!(is_there);
}

#[tokio::test(start_paused = true)]
async fn the_right_to_read_is_none_to_discard() {
    let (answer, is_there) = discard(&["$JS.API.STREAM.MSG.DELETE.S2"], &[">"]).await;
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::Denied);
    assert!(is_there);
}

#[tokio::test(start_paused = true)]
async fn a_right_to_another_bucket_is_none_to_this_one() {
    allows(policy(&["$KV.B2.>", "$KV.B.k2"], &["$KV.b.>"]), &[]).await;
}

#[tokio::test(start_paused = true)]
async fn streams_are_administered_under_the_subjects_a_server_uses() {
    allows(policy(&["$JS.API.STREAM.CREATE.S"], &[]), &[Op::Declare]).await;
    allows(policy(&["$JS.API.STREAM.INFO.S"], &[]), &[Op::Lag]).await;
    allows(policy(&["$JS.API.CONSUMER.LIST.S"], &[]), &[Op::Consumers]).await;
    allows(policy(&["$JS.API.CONSUMER.PAUSE.S.c"], &[]), &[Op::Pause]).await;
    allows(policy(&["$JS.API.CONSUMER.DELETE.S.*"], &[]), &[Op::RemoveConsumer]).await;
    allows(policy(&["$JS.API.CONSUMER.DELETE.S.c2"], &[]), &[]).await;
    allows(policy(&["$JS.API.STREAM.CREATE.S2"], &["$JS.API.>"]), &[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_deny_rule_wins_over_the_right_it_lies_in() {
    let mut policy = policy(&[">"], &[">"]);
    policy.publish.deny = filters(&["a.b", "$KV.B.k", "$O.>", "$JS.API.STREAM.CREATE.>"]);
    policy.subscribe.deny = filters(&["*.b", "$KV.>", "$O.B.M.*"]);
    allows(policy, &[Op::Consumers, Op::Pause, Op::RemoveConsumer, Op::Lag]).await;
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
