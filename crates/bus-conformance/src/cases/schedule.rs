//! Schedules: a task waits its time, is seen while it waits, and holds nobody up.

use std::time::Duration;

use bus_core::{ErrorKind, Lag, Placement, Retention, Verdict};

use crate::{
    case::{Case, cases},
    check::{CaseResult, Failure, equal, refused},
    context::{A_MOMENT, Context, LEASE, frame, text},
    steps::{fail_for, urgent},
};

pub(super) const CASES: &[Case] = cases![Nothing:
    a_scheduled_task_waits_its_time,
    a_waiting_member_gets_a_scheduled_task_when_its_time_comes,
    a_time_that_has_passed_schedules_nothing,
    others_pass_a_scheduled_task,
    scheduled_tasks_come_in_the_order_of_their_times,
    a_scheduled_task_counts_as_waiting,
    a_scheduled_task_that_fails_rests_only_as_long_as_its_verdict_says,
    a_schedule_holds_for_every_consumer,
    a_schedule_holds_for_a_consumer_that_comes_later,
    a_placement_is_read_back_as_it_was_appended,
    a_second_copy_on_another_schedule_is_a_duplicate,
    a_live_frame_with_a_placement_is_refused,
];

/// How long the tasks of these cases wait.
const DELAY: Duration = Duration::from_secs(3);

async fn a_scheduled_task_waits_its_time(context: &Context) -> CaseResult {
    let (_, mut member) = context.coder().await?;
    let later = context.due(DELAY).await?;
    context.append_placed("later", later).await?;
    context.gets_nothing(&mut member).await?;
    context.elapse(DELAY / 2).await;
    context.gets_nothing(&mut member).await?;
    context.elapse(A_MOMENT * 2).await;
    context.works_off(&mut member, &["later"]).await
}

async fn a_waiting_member_gets_a_scheduled_task_when_its_time_comes(
    context: &Context,
) -> CaseResult {
    let (_, mut member) = context.coder().await?;
    let later = context.due(DELAY).await?;
    let due = later.not_before;
    context.append_placed("later", later).await?;
    // Nobody appends or settles anything: the time alone must wake the waiting member.
    let task = context.take(&mut member).await?;
    equal("task", text(&task.frame), "later")?;
    let now = context.now().await?.time;
    equal("it came before its time", due.is_some_and(|due| now < due), false)?;
    Ok(task.settle(Verdict::Ack).await?)
}

async fn a_time_that_has_passed_schedules_nothing(context: &Context) -> CaseResult {
    let (_, mut member) = context.coder().await?;
    let past = Some(context.now().await?.time);
    context.elapse(A_MOMENT).await;
    context.append_placed("t1", Placement { not_before: past, ..Placement::default() }).await?;
    context.append(&context.task("coder")?, "t2").await?;
    context.works_off(&mut member, &["t1", "t2"]).await
}

async fn others_pass_a_scheduled_task(context: &Context) -> CaseResult {
    let (_, mut member) = context.coder().await?;
    let later = context.due(DELAY).await?;
    context.append_placed("later", later).await?;
    context.append_all(&context.task("coder")?, &["t1", "t2"]).await?;
    context.works_off(&mut member, &["t1", "t2"]).await?;
    context.gets_nothing(&mut member).await?;
    context.elapse(DELAY + A_MOMENT).await;
    context.works_off(&mut member, &["later"]).await
}

async fn scheduled_tasks_come_in_the_order_of_their_times(context: &Context) -> CaseResult {
    let (_, mut member) = context.coder().await?;
    for (task, delay) in [("third", 3), ("first", 1), ("second", 2)] {
        let due = context.due(Duration::from_secs(delay)).await?;
        context.append_placed(task, due).await?;
    }
    context.elapse(DELAY + A_MOMENT).await;
    context.works_off(&mut member, &["first", "second", "third"]).await
}

async fn a_scheduled_task_counts_as_waiting(context: &Context) -> CaseResult {
    let (stream, mut member) = context.coder().await?;
    let later = context.due(DELAY).await?;
    context.append_placed("later", later).await?;
    for lag in
        [context.bus.lag(stream.clone()).await?, context.state_of(&stream, "coder").await?.lag]
    {
        let Lag { pending, in_flight, .. } = lag;
        equal("pending and in flight", (pending, in_flight), (1, 0))?;
    }
    context.elapse(DELAY + A_MOMENT).await;
    context.works_off(&mut member, &["later"]).await?;
    equal("pending at the end", context.bus.lag(stream).await?.pending, 0)
}

async fn a_scheduled_task_that_fails_rests_only_as_long_as_its_verdict_says(
    context: &Context,
) -> CaseResult {
    let (_, mut member) = context.coder().await?;
    let later = context.due(DELAY).await?;
    context.append_placed("later", later).await?;
    context.elapse(DELAY + A_MOMENT).await;
    context.claims(&mut member, ("later", 1)).await?.settle(fail_for(Duration::ZERO)).await?;
    context.claims(&mut member, ("later", 2)).await?.settle(Verdict::Ack).await?;
    context.elapse(LEASE * 2).await;
    context.gets_nothing(&mut member).await
}

async fn a_schedule_holds_for_every_consumer(context: &Context) -> CaseResult {
    let (stream, subject) = context.kept(&[]).await?;
    let mut members = Vec::new();
    for name in ["first", "second"] {
        let mut spec = context.consumer(&stream, name)?;
        spec.filter = context.filter("room", ">")?;
        members.push(context.bus.consume(spec).await?);
    }
    let later = frame(&subject, "later")?.placed(context.due(DELAY).await?);
    context.bus.append(later, bus_core::Expect::Any).await?;
    for member in &mut members {
        context.gets_nothing(member).await?;
    }
    context.elapse(DELAY + A_MOMENT).await;
    for member in &mut members {
        context.works_off(member, &["later"]).await?;
    }
    Ok(())
}

async fn a_schedule_holds_for_a_consumer_that_comes_later(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let later = context.due(DELAY).await?;
    context.append_placed("later", later).await?;
    context.append_placed("now", Placement::default()).await?;
    let mut member = context.member(&stream, "coder").await?;
    context.works_off(&mut member, &["now"]).await?;
    context.gets_nothing(&mut member).await?;
    context.elapse(DELAY + A_MOMENT).await;
    context.works_off(&mut member, &["later"]).await
}

async fn a_placement_is_read_back_as_it_was_appended(context: &Context) -> CaseResult {
    let stream = context.stream("RECEIPTS", "receipts", Retention::AppendOnly).await?;
    let subject = context.subject("receipts", "s1.completed")?;
    let due = context.due(DELAY).await?.not_before;
    let key = Some(bus_core::OrderKey::parse("case/4711:*>.~")?);
    let placement = Placement { not_before: due, key, ..urgent(9)? };
    let sent = frame(&subject, "r1")?.placed(placement);
    context.bus.append(sent.clone(), bus_core::Expect::Any).await?;
    let stored = context.stored(&stream, 1).await?;
    equal("replayed", stored.first().map(|stored| &stored.frame), Some(&sent))?;
    let mut spec = context.consumer(&stream, "auditor")?;
    spec.filter = context.filter("receipts", ">")?;
    let mut member = context.bus.consume(spec).await?;
    context.elapse(DELAY + A_MOMENT).await;
    let task = context.take_now(&mut member).await?;
    equal("delivered", &*task.frame, &sent)
}

async fn a_second_copy_on_another_schedule_is_a_duplicate(context: &Context) -> CaseResult {
    let (stream, mut member) = context.coder().await?;
    let later = context.due(DELAY).await?;
    let first = context.append_placed("t1", later).await?;
    let second = context.append_placed("t1", Placement::default()).await?;
    equal("the second is a duplicate", (second.duplicate, second.seq), (true, first.seq))?;
    equal("stored", context.stored_texts(&stream).await?, ["t1"])?;
    context.gets_nothing(&mut member).await
}

async fn a_live_frame_with_a_placement_is_refused(context: &Context) -> CaseResult {
    let subject = context.subject("events", "s1.tokens")?;
    let mut subscription = context.listen(&subject, 4).await?;
    let due = context.due(DELAY).await?;
    for placement in [due, urgent(9)?, crate::steps::keyed("k")?] {
        let placed = frame(&subject, "f")?.placed(placement);
        let published = context.bus.publish(placed.clone()).await;
        refused("publish", published, ErrorKind::Invalid)?;
        let asked = context.bus.request(placed, A_MOMENT).await;
        refused("request", asked, ErrorKind::Invalid)?;
    }
    context.publish(&subject, "unplaced").await?;
    let heard = context.hear_text(&mut subscription).await?;
    if heard == "unplaced" { Ok(()) } else { Err(Failure::new(format!("heard {heard:?}"))) }
}
