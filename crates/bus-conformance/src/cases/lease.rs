//! Leases: a task belongs to one member for a time, and what comes too late is refused.

use std::time::Duration;

use bus_core::{Deliveries, Delivery, ErrorKind, Verdict};

use crate::{
    case::{Case, cases},
    check::{CaseResult, equal, refused},
    context::{A_MOMENT, Context, LEASE, text},
};

pub(super) const CASES: &[Case] = cases![Nothing:
    a_held_task_is_not_redelivered_within_its_lease,
    a_lease_that_ran_out_counts_as_an_attempt,
    a_waiting_member_gets_a_task_whose_lease_runs_out,
    a_delivery_dropped_without_a_verdict_comes_back_after_its_lease,
    a_member_that_vanished_loses_its_task_after_the_lease,
    every_vanished_worker_is_counted,
    an_extended_lease_is_not_redelivered,
    a_task_that_outlives_many_leases_runs_once,
    a_late_settle_is_refused,
    a_late_settle_leaves_the_new_holder_alone,
    a_late_settle_is_refused_before_anybody_took_the_task,
    a_late_extend_is_refused,
    a_poison_task_in_front_blocks_nobody,
];

/// Two members of one consumer, and the tasks appended.
async fn two_members(context: &Context, tasks: &[&str]) -> CaseResult<(Deliveries, Deliveries)> {
    let stream = context.work_queue().await?;
    let first = context.member(&stream, "coder").await?;
    let second = context.member(&stream, "coder").await?;
    context.append_all(&context.task("coder")?, tasks).await?;
    Ok((first, second))
}

/// A delivery whose lease ran out, and the member that may take the task now.
async fn too_late(context: &Context) -> CaseResult<(Delivery, Deliveries)> {
    let (mut first, second) = two_members(context, &["t1"]).await?;
    let late = context.take_now(&mut first).await?;
    context.elapse(LEASE + A_MOMENT).await;
    Ok((late, second))
}

fn release() -> Verdict {
    Verdict::Release { after: Duration::ZERO }
}

fn every_verdict() -> [Verdict; 4] {
    [
        Verdict::Ack,
        Verdict::Retry { after: A_MOMENT },
        release(),
        Verdict::Reject { reason: "too late".to_owned() },
    ]
}

async fn a_held_task_is_not_redelivered_within_its_lease(context: &Context) -> CaseResult {
    let (mut first, mut second) = two_members(context, &["t1"]).await?;
    let held = context.take_now(&mut first).await?;
    context.gets_nothing(&mut second).await?;
    context.elapse(LEASE / 2).await;
    context.gets_nothing(&mut second).await?;
    Ok(held.settle(Verdict::Ack).await?)
}

async fn a_lease_that_ran_out_counts_as_an_attempt(context: &Context) -> CaseResult {
    let (_late, mut second) = too_late(context).await?;
    let again = context.take_now(&mut second).await?;
    equal("task", text(&again.frame), "t1")?;
    equal("attempt", again.attempt, 2)?;
    Ok(again.settle(Verdict::Ack).await?)
}

async fn a_waiting_member_gets_a_task_whose_lease_runs_out(context: &Context) -> CaseResult {
    let (mut first, mut second) = two_members(context, &["t1"]).await?;
    let _held = context.take_now(&mut first).await?;
    // Nobody appends or settles anything: the lease alone must wake the waiting member.
    let again = context.take(&mut second).await?;
    equal("attempt", again.attempt, 2)?;
    Ok(again.settle(Verdict::Ack).await?)
}

async fn a_delivery_dropped_without_a_verdict_comes_back_after_its_lease(
    context: &Context,
) -> CaseResult {
    let (mut first, mut second) = two_members(context, &["t1"]).await?;
    drop(context.take_now(&mut first).await?);
    context.gets_nothing(&mut second).await?;
    context.elapse(LEASE + A_MOMENT).await;
    let again = context.take_now(&mut second).await?;
    equal("attempt", again.attempt, 2)?;
    Ok(again.settle(Verdict::Ack).await?)
}

async fn a_member_that_vanished_loses_its_task_after_the_lease(context: &Context) -> CaseResult {
    let (mut first, mut second) = two_members(context, &["t1", "t2"]).await?;
    let held = context.take_now(&mut first).await?;
    drop(first);
    drop(held);
    let other = context.take_now(&mut second).await?;
    equal("task that nobody held", text(&other.frame), "t2")?;
    other.settle(Verdict::Ack).await?;
    let again = context.take(&mut second).await?;
    equal("task of the vanished member", text(&again.frame), "t1")?;
    equal("attempt", again.attempt, 2)?;
    Ok(again.settle(Verdict::Ack).await?)
}

async fn every_vanished_worker_is_counted(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    context.append(&context.task("coder")?, "boom").await?;
    for attempt in 1..=4 {
        let worker = context.connect(&format!("worker-{attempt}")).await?;
        let mut member = worker.consume(context.consumer(&stream, "coder")?).await?;
        let task = context.take(&mut member).await?;
        equal("attempt", task.attempt, attempt)?;
    }
    Ok(())
}

async fn an_extended_lease_is_not_redelivered(context: &Context) -> CaseResult {
    let (mut first, mut second) = two_members(context, &["t1"]).await?;
    let held = context.take_now(&mut first).await?;
    context.elapse(LEASE - A_MOMENT).await;
    held.extend().await?;
    context.elapse(LEASE - A_MOMENT).await;
    context.gets_nothing(&mut second).await?;
    held.settle(Verdict::Ack).await?;
    context.elapse(LEASE * 2).await;
    context.gets_nothing(&mut second).await
}

async fn a_task_that_outlives_many_leases_runs_once(context: &Context) -> CaseResult {
    let (mut first, mut second) = two_members(context, &["t1"]).await?;
    let held = context.take_now(&mut first).await?;
    for _ in 0..8 {
        context.elapse(A_MOMENT).await;
        held.extend().await?;
        context.gets_nothing(&mut second).await?;
    }
    equal("attempt", held.attempt, 1)?;
    held.settle(Verdict::Ack).await?;
    let stream = context.stream_name("WORK")?;
    equal("stored", context.stored_texts(&stream).await?, [""; 0])
}

async fn a_late_settle_is_refused(context: &Context) -> CaseResult {
    let (mut first, mut second) = two_members(context, &["t1"]).await?;
    for verdict in every_verdict() {
        let late = context.take(&mut first).await?;
        context.elapse(LEASE + A_MOMENT).await;
        let holder = context.take_now(&mut second).await?;
        let what = format!("{verdict:?} after the lease");
        refused(&what, late.settle(verdict).await, ErrorKind::LeaseLost)?;
        holder.settle(release()).await?;
    }
    Ok(())
}

async fn a_late_settle_leaves_the_new_holder_alone(context: &Context) -> CaseResult {
    let (mut first, mut second) = two_members(context, &["t1"]).await?;
    for verdict in every_verdict() {
        let late = context.take(&mut first).await?;
        context.elapse(LEASE + A_MOMENT).await;
        let holder = context.take_now(&mut second).await?;
        let _refused_elsewhere = late.settle(verdict).await;
        context.gets_nothing(&mut first).await?;
        holder.extend().await?;
        holder.settle(Verdict::Retry { after: A_MOMENT / 2 }).await?;
    }
    let stream = context.stream_name("WORK")?;
    equal("stored", context.stored_texts(&stream).await?, ["t1"])
}

async fn a_late_settle_is_refused_before_anybody_took_the_task(context: &Context) -> CaseResult {
    let (late, mut second) = too_late(context).await?;
    refused("a late ack", late.settle(Verdict::Ack).await, ErrorKind::LeaseLost)?;
    let again = context.take_now(&mut second).await?;
    equal("attempt", again.attempt, 2)?;
    Ok(again.settle(Verdict::Ack).await?)
}

async fn a_late_extend_is_refused(context: &Context) -> CaseResult {
    let (late, mut second) = too_late(context).await?;
    refused("an extension after the lease", late.extend().await, ErrorKind::LeaseLost)?;
    let holder = context.take_now(&mut second).await?;
    refused("an extension of what another holds", late.extend().await, ErrorKind::LeaseLost)?;
    Ok(holder.settle(Verdict::Ack).await?)
}

async fn a_poison_task_in_front_blocks_nobody(context: &Context) -> CaseResult {
    let good: Vec<_> = (0..10).map(|n| format!("good{n}")).collect();
    let (mut first, mut second) = two_members(context, &["boom"]).await?;
    for task in &good {
        context.append(&context.task("coder")?, task).await?;
    }
    // The worker that takes it dies without a word.
    drop(context.take_now(&mut first).await?);
    drop(first);
    for expected in &good {
        let task = context.take_now(&mut second).await?;
        equal("task", &text(&task.frame), expected)?;
        task.settle(Verdict::Ack).await?;
    }
    let again = context.take(&mut second).await?;
    equal("the poison task", (text(&again.frame), again.attempt), ("boom".to_owned(), 2))
}
