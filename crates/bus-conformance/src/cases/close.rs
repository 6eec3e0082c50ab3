//! The end of a bus: nothing accepted is lost, and nothing is accepted any more.

use std::time::Duration;

use bus_core::{
    ErrorKind, Expect, ExpectRevision, Overflow, Put, Retention, Revision, Seq, Verdict,
};
use bus_subjects::{BucketKey, ConsumerName, Filter};
use bytes::Bytes;

use crate::{
    case::{Case, cases},
    check::{CaseResult, equal, refused},
    context::{A_MOMENT, Context, LEASE, frame, text},
};

pub(super) const CASES: &[Case] = cases![Nothing:
    a_second_close_is_fine,
    close_loses_nothing_accepted,
    a_gap_is_still_told_after_the_close,
    a_waiting_subscriber_ends_with_the_close,
    a_waiting_member_ends_with_the_close,
    a_closed_bus_refuses_the_live_plane,
    a_closed_bus_refuses_the_durable_plane,
    a_closed_bus_refuses_what_operators_do,
    a_closed_bus_refuses_its_buckets,
    a_closed_bus_refuses_its_blobs,
    a_settle_after_the_close_is_refused,
    a_close_leaves_other_connections_open,
    what_was_appended_before_a_close_is_kept,
    a_task_held_at_the_close_comes_back_after_its_lease,
];

async fn a_second_close_is_fine(context: &Context) -> CaseResult {
    context.bus.close().await?;
    Ok(context.bus.close().await?)
}

async fn close_loses_nothing_accepted(context: &Context) -> CaseResult {
    let subject = context.subject("events", "s1.tokens")?;
    let mut subscription = context.listen(&subject, 64).await?;
    for n in 0..50 {
        context.publish(&subject, &n.to_string()).await?;
    }
    context.wait("the close", context.bus.close()).await??;
    for n in 0..50 {
        equal("frame", context.hear_text(&mut subscription).await?, n.to_string())?;
    }
    let end = context.wait("the end of a subscription", subscription.next()).await?;
    equal("item after the last", end, None)
}

async fn a_gap_is_still_told_after_the_close(context: &Context) -> CaseResult {
    let subject = context.subject("events", "s1.tokens")?;
    let mut subscription = context.listen(&subject, 1).await?;
    for n in 0..5 {
        context.publish(&subject, &n.to_string()).await?;
    }
    context.let_arrive().await?;
    context.bus.close().await?;
    equal("frames missed", context.hear_gap(&mut subscription).await?, 4)?;
    equal("frame", context.hear_text(&mut subscription).await?, "4")?;
    let end = context.wait("the end of a subscription", subscription.next()).await?;
    equal("item after the last", end, None)
}

async fn a_waiting_subscriber_ends_with_the_close(context: &Context) -> CaseResult {
    let mut subscription = context.listen(&context.subject("events", "s1.tokens")?, 4).await?;
    let closing = async {
        tokio::task::yield_now().await;
        context.bus.close().await
    };
    let waiting = context.wait("the end of a subscription", subscription.next());
    let (end, closed) = tokio::join!(waiting, closing);
    closed?;
    equal("item", end?, None)
}

async fn a_waiting_member_ends_with_the_close(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let mut member = context.member(&stream, "coder").await?;
    let closing = async {
        tokio::task::yield_now().await;
        context.bus.close().await
    };
    let waiting = context.wait("the end of the deliveries", member.next());
    let (end, closed) = tokio::join!(waiting, closing);
    closed?;
    equal("a delivery came", end?.is_some(), false)
}

async fn a_closed_bus_refuses_the_live_plane(context: &Context) -> CaseResult {
    let subject = context.subject("events", "s1.tokens")?;
    let overflow = Overflow::DropOldest { capacity: std::num::NonZeroUsize::MIN };
    let bus = &context.bus;
    bus.close().await?;
    refused("publish", bus.publish(frame(&subject, "f")?).await, ErrorKind::Closed)?;
    let subscribed = bus.subscribe(Filter::from(&subject), overflow).await;
    refused("subscribe", subscribed, ErrorKind::Closed)?;
    let asked = bus.request(frame(&subject, "q")?, Duration::from_secs(1)).await;
    refused("request", asked, ErrorKind::Closed)
}

async fn a_closed_bus_refuses_the_durable_plane(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let subject = context.task("coder")?;
    let spec = context.spec("WORK", "work", Retention::WorkQueue)?;
    let bus = &context.bus;
    bus.close().await?;
    refused("declare", bus.declare(spec).await, ErrorKind::Closed)?;
    let appended = bus.append(frame(&subject, "t1")?, Expect::Any).await;
    refused("append", appended, ErrorKind::Closed)?;
    refused("last", bus.last(subject).await, ErrorKind::Closed)?;
    let consumed = bus.consume(context.consumer(&stream, "coder")?).await;
    refused("consume", consumed, ErrorKind::Closed)?;
    refused("replay", bus.replay(stream.clone(), Filter::all(), Seq(0)).await, ErrorKind::Closed)?;
    refused("lag", bus.lag(stream).await, ErrorKind::Closed)
}

async fn a_closed_bus_refuses_what_operators_do(context: &Context) -> CaseResult {
    let (stream, _member) = context.coder().await?;
    context.append(&context.task("coder")?, "t1").await?;
    let batch = vec![frame(&context.task("coder")?, "t2")?];
    let coder = ConsumerName::parse("coder")?;
    let bus = &context.bus;
    bus.close().await?;
    refused("append_all", bus.append_all(batch).await, ErrorKind::Closed)?;
    refused("read", bus.read(stream.clone(), Seq(1)).await, ErrorKind::Closed)?;
    refused("discard", bus.discard(stream.clone(), Seq(1)).await, ErrorKind::Closed)?;
    refused("consumers", bus.consumers(stream.clone()).await, ErrorKind::Closed)?;
    let paused = bus.pause(stream.clone(), coder.clone(), None).await;
    refused("pause", paused, ErrorKind::Closed)?;
    let removed = bus.remove_consumer(stream.clone(), coder).await;
    refused("remove_consumer", removed, ErrorKind::Closed)?;
    let other = context.connect("other").await?;
    equal("still stored", other.read(stream, Seq(1)).await?.is_some(), true)
}

async fn a_closed_bus_refuses_its_blobs(context: &Context) -> CaseResult {
    let (bucket, key) = (context.bucket("FILES")?, BucketKey::parse("b")?);
    let content = Bytes::from_static(b"content");
    let bus = &context.bus;
    bus.put_blob(bucket.clone(), key.clone(), content.clone().into()).await?;
    bus.close().await?;
    let put = bus.put_blob(bucket.clone(), key.clone(), content.into()).await;
    refused("put_blob", put, ErrorKind::Closed)?;
    let got = bus.get_blob(bucket.clone(), key.clone()).await;
    refused("get_blob", got, ErrorKind::Closed)?;
    refused("delete_blob", bus.delete_blob(bucket.clone(), key).await, ErrorKind::Closed)?;
    refused("list_blobs", bus.list_blobs(bucket).await, ErrorKind::Closed)
}

async fn a_closed_bus_refuses_its_buckets(context: &Context) -> CaseResult {
    let (bucket, key) = (context.bucket("CLAIMS")?, BucketKey::parse("k1")?);
    let (any, value) = (ExpectRevision::Any, Bytes::from_static(b"v"));
    let bus = &context.bus;
    bus.put(bucket.clone(), key.clone(), Put::new(value.clone())).await?;
    bus.close().await?;
    refused("get", bus.get(bucket.clone(), key.clone()).await, ErrorKind::Closed)?;
    let written = bus.put(bucket.clone(), key.clone(), Put::new(value)).await;
    refused("put", written, ErrorKind::Closed)?;
    refused("delete", bus.delete(bucket.clone(), key, any).await, ErrorKind::Closed)?;
    let watched = bus.watch(bucket, Filter::all(), Revision::START).await;
    refused("watch", watched, ErrorKind::Closed)
}

async fn a_settle_after_the_close_is_refused(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let mut member = context.member(&stream, "coder").await?;
    context.append(&context.task("coder")?, "t1").await?;
    let task = context.take_now(&mut member).await?;
    context.bus.close().await?;
    refused("extend", task.extend().await, ErrorKind::Closed)?;
    refused("settle", task.settle(Verdict::Ack).await, ErrorKind::Closed)
}

async fn a_close_leaves_other_connections_open(context: &Context) -> CaseResult {
    let subject = context.subject("events", "s1.tokens")?;
    let mut subscription = context.listen(&subject, 4).await?;
    context.connect("other").await?.close().await?;
    context.publish(&subject, "still-here").await?;
    equal("frame", context.hear_text(&mut subscription).await?, "still-here")
}

async fn what_was_appended_before_a_close_is_kept(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let other = context.connect("other").await?;
    other.append(frame(&context.task("coder")?, "t1")?, Expect::Any).await?;
    other.close().await?;
    equal("stored", context.stored_texts(&stream).await?, ["t1"])
}

async fn a_task_held_at_the_close_comes_back_after_its_lease(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let worker = context.connect("worker").await?;
    let mut theirs = worker.consume(context.consumer(&stream, "coder")?).await?;
    let mut mine = context.member(&stream, "coder").await?;
    context.append(&context.task("coder")?, "t1").await?;
    let _held = context.take_now(&mut theirs).await?;
    worker.close().await?;
    context.gets_nothing(&mut mine).await?;
    context.elapse(LEASE + A_MOMENT).await;
    let again = context.take_now(&mut mine).await?;
    equal("task and attempt", (text(&again.frame), again.attempt), ("t1".to_owned(), 2))?;
    Ok(again.settle(Verdict::Ack).await?)
}
