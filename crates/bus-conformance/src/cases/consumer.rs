//! Consumers: their filters, their positions, and how much work waits.

use std::time::Duration;

use bus_core::{ConsumerSpec, ErrorKind, Lag, Retention, Verdict};

use crate::{
    case::{Case, cases},
    check::{CaseResult, equal, holds, refused},
    context::{Context, LEASE, text},
};

pub(super) const CASES: &[Case] = cases![Nothing:
    a_consumer_reads_only_its_filter,
    consumers_with_overlapping_filters_conflict_on_a_work_queue,
    a_consumer_joined_with_another_lease_conflicts,
    a_consumer_joined_with_another_filter_conflicts,
    a_consumer_of_an_unknown_stream_is_not_found,
    a_consumer_position_outlives_its_members,
    every_consumer_of_a_kept_stream_reads_all_of_it,
    lag_counts_what_waits_and_what_is_held,
    lag_counts_a_resting_task_as_waiting,
    lag_counts_work_that_nobody_consumes_yet,
    the_lag_of_an_unknown_stream_is_not_found,
];

async fn a_consumer_reads_only_its_filter(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let mut coder = context.member(&stream, "coder").await?;
    let mut tester = context.member(&stream, "tester").await?;
    context.append(&context.task("tester")?, "for-tester").await?;
    context.append(&context.task("coder")?, "for-coder").await?;
    for (member, expected) in [(&mut coder, "for-coder"), (&mut tester, "for-tester")] {
        let task = context.take_now(member).await?;
        equal("task", text(&task.frame), expected)?;
        task.settle(Verdict::Ack).await?;
        context.gets_nothing(member).await?;
    }
    Ok(())
}

async fn consumers_with_overlapping_filters_conflict_on_a_work_queue(
    context: &Context,
) -> CaseResult {
    let stream = context.work_queue().await?;
    let _coder = context.member(&stream, "coder").await?;
    for tail in ["coder.task", "*.task", ">"] {
        let mut spec = context.consumer(&stream, "greedy")?;
        spec.filter = context.filter("work", tail)?;
        let what = format!("a consumer of {tail} beside one of coder.task");
        refused(&what, context.bus.consume(spec).await, ErrorKind::Conflict)?;
    }
    context.member(&stream, "tester").await.map(drop)
}

async fn a_consumer_joined_with_another_lease_conflicts(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let _member = context.member(&stream, "coder").await?;
    let spec = ConsumerSpec { lease: LEASE * 2, ..context.consumer(&stream, "coder")? };
    refused("joining", context.bus.consume(spec).await, ErrorKind::Conflict)
}

async fn a_consumer_joined_with_another_filter_conflicts(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let _member = context.member(&stream, "coder").await?;
    let mut spec = context.consumer(&stream, "coder")?;
    spec.filter = context.filter("work", "tester.task")?;
    refused("joining", context.bus.consume(spec).await, ErrorKind::Conflict)
}

async fn a_consumer_of_an_unknown_stream_is_not_found(context: &Context) -> CaseResult {
    let spec = context.consumer(&context.stream_name("UNKNOWN")?, "coder")?;
    refused("consume", context.bus.consume(spec).await, ErrorKind::NotFound)
}

async fn a_consumer_position_outlives_its_members(context: &Context) -> CaseResult {
    let stream = context.stream("RECEIPTS", "receipts", Retention::AppendOnly).await?;
    let subject = context.subject("receipts", "s1.completed")?;
    let mut spec = context.consumer(&stream, "auditor")?;
    spec.filter = context.filter("receipts", ">")?;
    for (appended, expected) in [(["r1", "r2"], "r1"), (["r3", "r4"], "r2")] {
        context.append_all(&subject, &appended).await?;
        let mut member = context.bus.consume(spec.clone()).await?;
        let receipt = context.take_now(&mut member).await?;
        equal("next receipt", text(&receipt.frame), expected)?;
        receipt.settle(Verdict::Ack).await?;
    }
    Ok(())
}

async fn every_consumer_of_a_kept_stream_reads_all_of_it(context: &Context) -> CaseResult {
    let stream = context.stream("ROOMS", "room", Retention::Kept).await?;
    context.append_all(&context.subject("room", "r1.message")?, &["m1", "m2"]).await?;
    for name in ["first", "second"] {
        let mut spec = context.consumer(&stream, name)?;
        spec.filter = context.filter("room", ">")?;
        let mut member = context.bus.consume(spec).await?;
        for expected in ["m1", "m2"] {
            let message = context.take_now(&mut member).await?;
            equal(&format!("for the {name}"), text(&message.frame), expected)?;
            message.settle(Verdict::Ack).await?;
        }
    }
    Ok(())
}

async fn lag_is(context: &Context, pending: u64, in_flight: u64) -> CaseResult<Lag> {
    let lag = context.bus.lag(context.stream_name("WORK")?).await?;
    equal("pending and in flight", (lag.pending, lag.in_flight), (pending, in_flight))?;
    Ok(lag)
}

async fn lag_counts_what_waits_and_what_is_held(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let mut member = context.member(&stream, "coder").await?;
    equal("age of the oldest in an empty stream", lag_is(context, 0, 0).await?.oldest, None)?;
    context.append_all(&context.task("coder")?, &["t1", "t2", "t3"]).await?;
    context.elapse(Duration::from_secs(1)).await;
    let oldest = lag_is(context, 3, 0).await?.oldest;
    holds(oldest >= Some(Duration::from_secs(1)), || format!("the oldest is {oldest:?} old"))?;
    let first = context.take_now(&mut member).await?;
    lag_is(context, 2, 1).await?;
    let second = context.take_now(&mut member).await?;
    lag_is(context, 1, 2).await?;
    first.settle(Verdict::Ack).await?;
    lag_is(context, 1, 1).await?;
    second.settle(Verdict::Release { after: Duration::ZERO }).await?;
    lag_is(context, 2, 0).await?;
    for _ in 0..2 {
        context.take_now(&mut member).await?.settle(Verdict::Ack).await?;
    }
    equal("age of the oldest at the end", lag_is(context, 0, 0).await?.oldest, None)
}

async fn lag_counts_a_resting_task_as_waiting(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let mut member = context.member(&stream, "coder").await?;
    context.append(&context.task("coder")?, "t1").await?;
    let retry = Verdict::Retry { after: LEASE };
    context.take_now(&mut member).await?.settle(retry).await?;
    lag_is(context, 1, 0).await.map(drop)
}

async fn lag_counts_work_that_nobody_consumes_yet(context: &Context) -> CaseResult {
    context.work_queue().await?;
    context.append(&context.task("coder")?, "t1").await?;
    context.append(&context.task("tester")?, "t2").await?;
    lag_is(context, 2, 0).await.map(drop)
}

async fn the_lag_of_an_unknown_stream_is_not_found(context: &Context) -> CaseResult {
    let lag = context.bus.lag(context.stream_name("UNKNOWN")?).await;
    refused("lag", lag, ErrorKind::NotFound)
}
