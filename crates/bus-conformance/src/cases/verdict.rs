//! Verdicts: what each does to its task, to the attempt number and to the tasks behind it.

use std::time::Duration;

use bus_core::{Deliveries, Verdict};

use crate::{
    case::{Case, cases},
    check::{CaseResult, equal},
    context::{A_MOMENT, Context, LEASE, text},
};

pub(super) const CASES: &[Case] = cases![Nothing:
    a_retried_task_rests_and_others_pass_it,
    a_retried_task_comes_back_after_its_delay,
    a_retry_without_a_delay_comes_back_at_once,
    attempt_numbers_grow_with_every_retry,
    a_long_rest_outlives_the_lease,
    rested_tasks_come_back_in_the_order_of_their_rests,
    a_release_is_not_counted,
    a_release_without_a_delay_comes_back_at_once,
    a_release_may_rest,
    a_release_after_a_retry_keeps_its_attempt_number,
    a_released_task_stands_in_front_of_newer_ones,
    a_rejected_task_is_gone,
    a_retried_task_may_go_to_another_member,
];

const REST: Duration = Duration::from_secs(5);

fn release(after: Duration) -> Verdict {
    Verdict::Release { after }
}

fn retry(after: Duration) -> Verdict {
    Verdict::Retry { after }
}

/// A member with the tasks appended and nothing taken yet.
async fn member_with(context: &Context, tasks: &[&str]) -> CaseResult<Deliveries> {
    let stream = context.work_queue().await?;
    let member = context.member(&stream, "coder").await?;
    context.append_all(&context.task("coder")?, tasks).await?;
    Ok(member)
}

/// Takes the next task, which must be there now, checks which it is and settles it.
async fn settle_next(
    context: &Context,
    member: &mut Deliveries,
    expected: (&str, u32),
    verdict: Verdict,
) -> CaseResult {
    let task = context.take_now(member).await?;
    let got = (text(&task.frame), task.attempt);
    equal("task and attempt", got, (expected.0.to_owned(), expected.1))?;
    Ok(task.settle(verdict).await?)
}

async fn a_retried_task_rests_and_others_pass_it(context: &Context) -> CaseResult {
    let mut member = member_with(context, &["bad", "t1", "t2"]).await?;
    settle_next(context, &mut member, ("bad", 1), retry(REST)).await?;
    settle_next(context, &mut member, ("t1", 1), Verdict::Ack).await?;
    settle_next(context, &mut member, ("t2", 1), Verdict::Ack).await?;
    context.gets_nothing(&mut member).await?;
    equal("task that comes later", text(&context.take(&mut member).await?.frame), "bad")
}

async fn a_retried_task_comes_back_after_its_delay(context: &Context) -> CaseResult {
    let mut member = member_with(context, &["t1"]).await?;
    settle_next(context, &mut member, ("t1", 1), retry(REST)).await?;
    context.elapse(REST - A_MOMENT).await;
    context.gets_nothing(&mut member).await?;
    context.elapse(A_MOMENT * 2).await;
    settle_next(context, &mut member, ("t1", 2), Verdict::Ack).await
}

async fn a_retry_without_a_delay_comes_back_at_once(context: &Context) -> CaseResult {
    let mut member = member_with(context, &["t1"]).await?;
    settle_next(context, &mut member, ("t1", 1), retry(Duration::ZERO)).await?;
    settle_next(context, &mut member, ("t1", 2), Verdict::Ack).await
}

async fn attempt_numbers_grow_with_every_retry(context: &Context) -> CaseResult {
    let mut member = member_with(context, &["t1"]).await?;
    for attempt in 1..=6 {
        let after = Duration::from_millis(200);
        settle_next(context, &mut member, ("t1", attempt), retry(after)).await?;
        context.elapse(after * 2).await;
    }
    settle_next(context, &mut member, ("t1", 7), Verdict::Ack).await
}

async fn a_long_rest_outlives_the_lease(context: &Context) -> CaseResult {
    let mut member = member_with(context, &["t1"]).await?;
    settle_next(context, &mut member, ("t1", 1), retry(LEASE * 3)).await?;
    context.elapse(LEASE * 2).await;
    context.gets_nothing(&mut member).await?;
    context.elapse(LEASE * 2).await;
    settle_next(context, &mut member, ("t1", 2), Verdict::Ack).await
}

async fn rested_tasks_come_back_in_the_order_of_their_rests(context: &Context) -> CaseResult {
    let mut member = member_with(context, &["long", "short"]).await?;
    settle_next(context, &mut member, ("long", 1), retry(LEASE * 2)).await?;
    settle_next(context, &mut member, ("short", 1), retry(LEASE)).await?;
    for expected in ["short", "long"] {
        let task = context.take(&mut member).await?;
        equal("task", text(&task.frame), expected)?;
        task.settle(Verdict::Ack).await?;
    }
    Ok(())
}

async fn a_release_is_not_counted(context: &Context) -> CaseResult {
    let mut member = member_with(context, &["t1"]).await?;
    for after in [Duration::ZERO, A_MOMENT, Duration::ZERO, A_MOMENT, LEASE] {
        settle_next(context, &mut member, ("t1", 1), release(after)).await?;
        context.elapse(after * 2).await;
    }
    settle_next(context, &mut member, ("t1", 1), Verdict::Ack).await
}

async fn a_release_without_a_delay_comes_back_at_once(context: &Context) -> CaseResult {
    let mut member = member_with(context, &["t1"]).await?;
    for _ in 0..5 {
        settle_next(context, &mut member, ("t1", 1), release(Duration::ZERO)).await?;
    }
    Ok(())
}

async fn a_release_may_rest(context: &Context) -> CaseResult {
    let mut member = member_with(context, &["t1", "t2"]).await?;
    settle_next(context, &mut member, ("t1", 1), release(REST)).await?;
    settle_next(context, &mut member, ("t2", 1), Verdict::Ack).await?;
    context.elapse(REST - A_MOMENT).await;
    context.gets_nothing(&mut member).await?;
    context.elapse(A_MOMENT * 2).await;
    settle_next(context, &mut member, ("t1", 1), Verdict::Ack).await
}

async fn a_release_after_a_retry_keeps_its_attempt_number(context: &Context) -> CaseResult {
    let mut member = member_with(context, &["t1"]).await?;
    settle_next(context, &mut member, ("t1", 1), retry(Duration::ZERO)).await?;
    settle_next(context, &mut member, ("t1", 2), release(Duration::ZERO)).await?;
    settle_next(context, &mut member, ("t1", 2), retry(Duration::ZERO)).await?;
    settle_next(context, &mut member, ("t1", 3), Verdict::Ack).await
}

async fn a_released_task_stands_in_front_of_newer_ones(context: &Context) -> CaseResult {
    let mut member = member_with(context, &["t1", "t2"]).await?;
    settle_next(context, &mut member, ("t1", 1), release(Duration::ZERO)).await?;
    settle_next(context, &mut member, ("t1", 1), Verdict::Ack).await?;
    settle_next(context, &mut member, ("t2", 1), Verdict::Ack).await
}

async fn a_rejected_task_is_gone(context: &Context) -> CaseResult {
    let mut member = member_with(context, &["bad", "t1"]).await?;
    let reject = Verdict::Reject { reason: "cannot be decoded".to_owned() };
    settle_next(context, &mut member, ("bad", 1), reject).await?;
    let stream = context.stream_name("WORK")?;
    equal("stored", context.stored_texts(&stream).await?, ["t1"])?;
    settle_next(context, &mut member, ("t1", 1), Verdict::Ack).await?;
    context.elapse(LEASE * 2).await;
    context.gets_nothing(&mut member).await
}

async fn a_retried_task_may_go_to_another_member(context: &Context) -> CaseResult {
    let mut member = member_with(context, &["t1"]).await?;
    let mut other = context.member(&context.stream_name("WORK")?, "coder").await?;
    settle_next(context, &mut member, ("t1", 1), retry(Duration::ZERO)).await?;
    settle_next(context, &mut other, ("t1", 2), release(Duration::ZERO)).await?;
    settle_next(context, &mut member, ("t1", 2), Verdict::Ack).await
}
