//! Pauses: a consumer hands out nothing for a while, and loses nothing by it.

use std::time::Duration;

use bus_core::{ErrorKind, Verdict};
use bus_subjects::ConsumerName;

use crate::{
    case::{Case, cases},
    check::{CaseResult, equal, refused},
    context::{A_MOMENT, Context, LEASE, text},
    steps::fail_for,
};

pub(super) const CASES: &[Case] = cases![Nothing:
    a_paused_consumer_hands_out_nothing,
    a_paused_consumer_goes_on_when_told,
    a_pause_ends_by_itself_at_its_time,
    a_pause_until_a_time_that_has_passed_goes_on,
    a_waiting_member_is_woken_by_the_end_of_a_pause,
    a_waiting_member_is_woken_when_its_pause_is_lifted,
    a_new_pause_takes_the_place_of_the_old_one,
    a_pause_keeps_what_is_appended_meanwhile,
    a_pause_holds_for_members_that_come_later,
    a_pause_holds_for_members_of_every_connection,
    a_pause_leaves_other_consumers_alone,
    a_task_held_at_the_pause_can_be_settled,
    a_lease_that_runs_out_in_a_pause_is_handed_out_after_it,
    a_paused_consumer_is_listed_as_such,
    pausing_what_does_not_exist_is_not_found,
];

/// Longer than anything a case waits for.
const LONG: Duration = Duration::from_secs(3600);

async fn a_paused_consumer_hands_out_nothing(context: &Context) -> CaseResult {
    let (stream, mut member) = context.coder().await?;
    let subject = context.task("coder")?;
    context.append(&subject, "t1").await?;
    context.pause_for(&stream, "coder", LONG).await?;
    context.gets_nothing(&mut member).await?;
    context.append(&subject, "t2").await?;
    context.gets_nothing(&mut member).await?;
    context.elapse(LEASE * 2).await;
    context.gets_nothing(&mut member).await?;
    equal("stored", context.stored_texts(&stream).await?, ["t1", "t2"])
}

async fn a_paused_consumer_goes_on_when_told(context: &Context) -> CaseResult {
    let (stream, mut member) = context.coder().await?;
    context.append_all(&context.task("coder")?, &["t1", "t2"]).await?;
    for task in ["t1", "t2"] {
        context.pause_for(&stream, "coder", LONG).await?;
        context.gets_nothing(&mut member).await?;
        context.resume(&stream, "coder").await?;
        context.works_off(&mut member, &[task]).await?;
    }
    // There is nothing to lift any more, and that is fine.
    context.resume(&stream, "coder").await
}

async fn a_pause_ends_by_itself_at_its_time(context: &Context) -> CaseResult {
    let (stream, mut member) = context.coder().await?;
    context.append(&context.task("coder")?, "t1").await?;
    context.pause_for(&stream, "coder", LEASE).await?;
    context.elapse(LEASE - A_MOMENT).await;
    context.gets_nothing(&mut member).await?;
    context.elapse(A_MOMENT * 2).await;
    context.works_off(&mut member, &["t1"]).await
}

async fn a_pause_until_a_time_that_has_passed_goes_on(context: &Context) -> CaseResult {
    let (stream, mut member) = context.coder().await?;
    context.append(&context.task("coder")?, "t1").await?;
    let past = context.now().await?.time;
    context.elapse(A_MOMENT).await;
    context.pause_for(&stream, "coder", LONG).await?;
    context.bus.pause(stream, ConsumerName::parse("coder")?, Some(past)).await?;
    context.works_off(&mut member, &["t1"]).await
}

async fn a_waiting_member_is_woken_by_the_end_of_a_pause(context: &Context) -> CaseResult {
    let (stream, mut member) = context.coder().await?;
    context.append(&context.task("coder")?, "t1").await?;
    context.pause_for(&stream, "coder", A_MOMENT * 2).await?;
    // Nobody does anything: the time alone must wake the waiting member.
    let task = context.take(&mut member).await?;
    equal("task and attempt", (text(&task.frame), task.attempt), ("t1".to_owned(), 1))?;
    Ok(task.settle(Verdict::Ack).await?)
}

async fn a_waiting_member_is_woken_when_its_pause_is_lifted(context: &Context) -> CaseResult {
    let (stream, mut member) = context.coder().await?;
    context.append(&context.task("coder")?, "t1").await?;
    context.pause_for(&stream, "coder", LONG).await?;
    let mut waiting = Box::pin(member.next());
    context.nothing("a member in a pause", &mut waiting).await?;
    context.resume(&stream, "coder").await?;
    let task = context.at_once("the member after the pause", waiting).await?;
    let task = task.ok_or_else(|| crate::check::Failure::new("the deliveries ended"))??;
    equal("task and attempt", (text(&task.frame), task.attempt), ("t1".to_owned(), 1))?;
    Ok(task.settle(Verdict::Ack).await?)
}

async fn a_new_pause_takes_the_place_of_the_old_one(context: &Context) -> CaseResult {
    let (stream, mut member) = context.coder().await?;
    context.append_all(&context.task("coder")?, &["t1", "t2"]).await?;
    context.pause_for(&stream, "coder", LONG).await?;
    context.pause_for(&stream, "coder", A_MOMENT).await?;
    context.elapse(A_MOMENT * 2).await;
    context.works_off(&mut member, &["t1"]).await?;
    context.pause_for(&stream, "coder", A_MOMENT).await?;
    context.pause_for(&stream, "coder", LONG).await?;
    context.elapse(A_MOMENT * 2).await;
    context.gets_nothing(&mut member).await
}

async fn a_pause_keeps_what_is_appended_meanwhile(context: &Context) -> CaseResult {
    let (stream, mut member) = context.coder().await?;
    context.pause_for(&stream, "coder", LONG).await?;
    context.append_all(&context.task("coder")?, &["t1", "t2", "t3"]).await?;
    equal("pending", context.bus.lag(stream.clone()).await?.pending, 3)?;
    context.resume(&stream, "coder").await?;
    context.works_off(&mut member, &["t1", "t2", "t3"]).await
}

async fn a_pause_holds_for_members_that_come_later(context: &Context) -> CaseResult {
    let (stream, member) = context.coder().await?;
    context.append(&context.task("coder")?, "t1").await?;
    context.pause_for(&stream, "coder", LONG).await?;
    drop(member);
    let mut later = context.member(&stream, "coder").await?;
    context.gets_nothing(&mut later).await?;
    context.resume(&stream, "coder").await?;
    context.works_off(&mut later, &["t1"]).await
}

async fn a_pause_holds_for_members_of_every_connection(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let other = context.connect("other").await?;
    let mut theirs = other.consume(context.consumer(&stream, "coder")?).await?;
    context.append(&context.task("coder")?, "t1").await?;
    context.pause_for(&stream, "coder", LONG).await?;
    context.gets_nothing(&mut theirs).await?;
    context.resume(&stream, "coder").await?;
    context.works_off(&mut theirs, &["t1"]).await
}

async fn a_pause_leaves_other_consumers_alone(context: &Context) -> CaseResult {
    let (stream, mut coder) = context.coder().await?;
    let mut tester = context.member(&stream, "tester").await?;
    context.pause_for(&stream, "coder", LONG).await?;
    context.append(&context.task("coder")?, "for-coder").await?;
    context.append(&context.task("tester")?, "for-tester").await?;
    context.works_off(&mut tester, &["for-tester"]).await?;
    context.gets_nothing(&mut coder).await
}

async fn a_task_held_at_the_pause_can_be_settled(context: &Context) -> CaseResult {
    let (stream, mut member) = context.coder().await?;
    context.append_all(&context.task("coder")?, &["t1", "t2"]).await?;
    let first = context.claims(&mut member, ("t1", 1)).await?;
    let second = context.claims(&mut member, ("t2", 1)).await?;
    context.pause_for(&stream, "coder", LONG).await?;
    first.extend().await?;
    first.settle(Verdict::Ack).await?;
    second.settle(fail_for(Duration::ZERO)).await?;
    context.gets_nothing(&mut member).await?;
    equal("stored", context.stored_texts(&stream).await?, ["t2"])?;
    context.resume(&stream, "coder").await?;
    Ok(context.claims(&mut member, ("t2", 2)).await?.settle(Verdict::Ack).await?)
}

async fn a_lease_that_runs_out_in_a_pause_is_handed_out_after_it(context: &Context) -> CaseResult {
    let (stream, mut member) = context.coder().await?;
    context.append(&context.task("coder")?, "t1").await?;
    let held = context.claims(&mut member, ("t1", 1)).await?;
    context.pause_for(&stream, "coder", LONG).await?;
    context.elapse(LEASE + A_MOMENT).await;
    context.gets_nothing(&mut member).await?;
    refused("a late ack", held.settle(Verdict::Ack).await, ErrorKind::LeaseLost)?;
    context.resume(&stream, "coder").await?;
    Ok(context.claims(&mut member, ("t1", 2)).await?.settle(Verdict::Ack).await?)
}

async fn a_paused_consumer_is_listed_as_such(context: &Context) -> CaseResult {
    let (stream, _member) = context.coder().await?;
    equal("a new consumer", context.state_of(&stream, "coder").await?.paused_until, None)?;
    let until = context.now().await?.time.plus(LONG);
    context.bus.pause(stream.clone(), ConsumerName::parse("coder")?, Some(until)).await?;
    equal("paused", context.state_of(&stream, "coder").await?.paused_until, Some(until))?;
    context.resume(&stream, "coder").await?;
    equal("lifted", context.state_of(&stream, "coder").await?.paused_until, None)?;
    context.pause_for(&stream, "coder", A_MOMENT).await?;
    context.elapse(A_MOMENT * 2).await;
    equal("over", context.state_of(&stream, "coder").await?.paused_until, None)
}

async fn pausing_what_does_not_exist_is_not_found(context: &Context) -> CaseResult {
    let unknown = context.stream_name("UNKNOWN")?;
    let name = ConsumerName::parse("coder")?;
    let paused = context.bus.pause(unknown, name.clone(), None).await;
    refused("a pause in an unknown stream", paused, ErrorKind::NotFound)?;
    let stream = context.work_queue().await?;
    let until = Some(context.now().await?.time.plus(LONG));
    for until in [until, None] {
        let paused = context.bus.pause(stream.clone(), name.clone(), until).await;
        refused("a pause of an unknown consumer", paused, ErrorKind::NotFound)?;
    }
    Ok(())
}
