//! Work queues: each task to exactly one member, in order, claimed only when it is taken.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bus_core::{ConsumerSpec, Deliveries, Engine, Expect, Verdict};
use tokio::sync::Notify;

use crate::{
    case::{Case, cases},
    check::{CaseResult, Failure, equal, holds},
    context::{Context, LEASE, frame, text},
};

pub(super) const CASES: &[Case] = cases![Nothing:
    each_task_goes_to_exactly_one_member,
    tasks_come_in_order,
    a_delivery_is_the_frame_as_it_was_appended,
    a_settled_task_is_gone,
    a_task_appended_before_the_first_member_waits,
    a_waiting_member_gets_what_is_appended_later,
    every_waiting_member_gets_a_task_of_its_own,
    a_member_may_hold_several_tasks,
    a_dropped_wait_claims_nothing,
    a_dropped_wait_passes_its_turn_on,
    a_dropped_member_leaves_its_turn_to_others,
    members_on_two_connections_share_the_work,
    racing_members_never_share_a_task,
];

async fn members(context: &Context, count: usize) -> CaseResult<Vec<Deliveries>> {
    let stream = context.work_queue().await?;
    let mut members = Vec::new();
    for _ in 0..count {
        members.push(context.member(&stream, "coder").await?);
    }
    Ok(members)
}

async fn each_task_goes_to_exactly_one_member(context: &Context) -> CaseResult {
    let mut members = members(context, 4).await?;
    let subject = context.task("coder")?;
    let expected: BTreeSet<_> = (0..100).map(|n| format!("t{n}")).collect();
    for task in &expected {
        context.append(&subject, task).await?;
    }
    let mut got = BTreeSet::new();
    for _ in 0..25 {
        for member in &mut members {
            let task = context.take_now(member).await?;
            let name = text(&task.frame);
            holds(got.insert(name.clone()), || format!("{name} was delivered twice"))?;
            task.settle(Verdict::Ack).await?;
        }
    }
    equal("tasks delivered", got, expected)?;
    for member in &mut members {
        context.gets_nothing(member).await?;
    }
    Ok(())
}

async fn tasks_come_in_order(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let mut member = context.member(&stream, "coder").await?;
    for n in 0..50 {
        context.append(&context.task("coder")?, &format!("t{n}")).await?;
    }
    for n in 0..50 {
        let task = context.take_now(&mut member).await?;
        equal("task", text(&task.frame), format!("t{n}"))?;
        task.settle(Verdict::Ack).await?;
    }
    Ok(())
}

async fn a_delivery_is_the_frame_as_it_was_appended(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let mut member = context.member(&stream, "coder").await?;
    let mut sent = frame(&context.task("coder")?, "t1")?;
    sent.headers.add("ce-id", "1").map_err(bus_core::Error::from)?;
    sent.body = vec![0, 0xff, b'\r', b'\n'].into();
    let receipt = context.bus.append(sent.clone(), Expect::Any).await?;
    let task = context.take_now(&mut member).await?;
    equal("frame", &*task.frame, &sent)?;
    equal("stream", task.stream(), &stream)?;
    equal("position", task.seq, receipt.seq)?;
    equal("attempt", task.attempt, 1)?;
    equal("lease", task.lease, LEASE)?;
    let stored = context.stored(&stream, 1).await?.first().map(|stored| stored.time);
    equal("when it was stored", Some(task.stored), stored)?;
    Ok(task.settle(Verdict::Ack).await?)
}

async fn a_settled_task_is_gone(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let mut member = context.member(&stream, "coder").await?;
    context.append(&context.task("coder")?, "t1").await?;
    context.take_now(&mut member).await?.settle(Verdict::Ack).await?;
    equal("stored", context.stored_texts(&stream).await?, [""; 0])?;
    context.elapse(LEASE * 2).await;
    context.gets_nothing(&mut member).await
}

async fn a_task_appended_before_the_first_member_waits(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    context.append_all(&context.task("coder")?, &["t1", "t2"]).await?;
    context.elapse(LEASE * 2).await;
    let mut member = context.member(&stream, "coder").await?;
    for expected in ["t1", "t2"] {
        let task = context.take_now(&mut member).await?;
        equal("task", text(&task.frame), expected)?;
        equal("attempt", task.attempt, 1)?;
        task.settle(Verdict::Ack).await?;
    }
    Ok(())
}

async fn a_waiting_member_gets_what_is_appended_later(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let mut member = context.member(&stream, "coder").await?;
    let subject = context.task("coder")?;
    let appending = async {
        context.elapse(LEASE).await;
        context.append(&subject, "t1").await
    };
    let (task, appended) = tokio::join!(context.take(&mut member), appending);
    appended?;
    let task = task?;
    equal("task", text(&task.frame), "t1")?;
    equal("attempt", task.attempt, 1)?;
    Ok(task.settle(Verdict::Ack).await?)
}

async fn every_waiting_member_gets_a_task_of_its_own(context: &Context) -> CaseResult {
    let mut members = members(context, 3).await?;
    let [one, two, three] = members.as_mut_slice() else {
        return holds(false, || "the case needs three members".to_owned());
    };
    let subject = context.task("coder")?;
    let appending = async {
        tokio::task::yield_now().await;
        context.append_all(&subject, &["t1", "t2", "t3"]).await
    };
    let (one, two, three, appended) =
        tokio::join!(context.take(one), context.take(two), context.take(three), appending);
    appended?;
    let mut got = BTreeSet::new();
    for task in [one?, two?, three?] {
        got.insert(text(&task.frame));
        equal("attempt", task.attempt, 1)?;
        task.settle(Verdict::Ack).await?;
    }
    equal("tasks", got, ["t1", "t2", "t3"].map(str::to_owned).into())
}

async fn a_member_may_hold_several_tasks(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let mut member = context.member(&stream, "coder").await?;
    context.append_all(&context.task("coder")?, &["t1", "t2", "t3"]).await?;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(context.take_now(&mut member).await?);
    }
    // Settled in another order than they came.
    for task in held.into_iter().rev() {
        task.settle(Verdict::Ack).await?;
    }
    equal("stored", context.stored_texts(&stream).await?, [""; 0])
}

async fn a_dropped_wait_claims_nothing(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let mut member = context.member(&stream, "coder").await?;
    for n in 0..20 {
        context.gets_nothing(&mut member).await?;
        let task = format!("t{n}");
        context.append(&context.task("coder")?, &task).await?;
        let got = context.take_now(&mut member).await?;
        equal("task", text(&got.frame), task)?;
        equal("attempt", got.attempt, 1)?;
        got.settle(Verdict::Ack).await?;
    }
    Ok(())
}

async fn a_dropped_wait_passes_its_turn_on(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let mut first = context.member(&stream, "coder").await?;
    let mut second = context.member(&stream, "coder").await?;
    let subject = context.task("coder")?;
    let (mut gives_up, mut stays) = (Box::pin(first.next()), Box::pin(second.next()));
    // Both wait, the first in front; it is woken for the task and dropped before it runs.
    context.nothing("the first member", &mut gives_up).await?;
    context.nothing("the second member", &mut stays).await?;
    context.append(&subject, "t1").await?;
    drop(gives_up);
    let task = context.at_once("the member that stayed", stays).await?;
    let task = task.ok_or_else(|| Failure::new("the deliveries ended"))??;
    equal("task", text(&task.frame), "t1")?;
    equal("attempt", task.attempt, 1)?;
    Ok(task.settle(Verdict::Ack).await?)
}

async fn a_dropped_member_leaves_its_turn_to_others(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let mut gone = context.member(&stream, "coder").await?;
    let mut stays = context.member(&stream, "coder").await?;
    context.gets_nothing(&mut gone).await?;
    context.append_all(&context.task("coder")?, &["t1", "t2"]).await?;
    drop(gone);
    for expected in ["t1", "t2"] {
        let task = context.take_now(&mut stays).await?;
        equal("task", text(&task.frame), expected)?;
        task.settle(Verdict::Ack).await?;
    }
    Ok(())
}

async fn members_on_two_connections_share_the_work(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let other = context.connect("other").await?;
    let mut mine = context.member(&stream, "coder").await?;
    let mut theirs = other.consume(context.consumer(&stream, "coder")?).await?;
    context.append_all(&context.task("coder")?, &["t1", "t2"]).await?;
    let first = context.take_now(&mut mine).await?;
    let second = context.take_now(&mut theirs).await?;
    equal("tasks", [text(&first.frame), text(&second.frame)], ["t1", "t2"])?;
    first.settle(Verdict::Ack).await?;
    second.settle(Verdict::Ack).await?;
    context.gets_nothing(&mut mine).await?;
    context.gets_nothing(&mut theirs).await
}

/// Takes and settles tasks until all members together have none left to do.
///
/// The task that was stored last may be done while an earlier one is still on its way to somebody.
async fn work_off(
    bus: Arc<dyn Engine>,
    consumer: ConsumerSpec,
    left: Arc<AtomicUsize>,
    finished: Arc<Notify>,
) -> CaseResult<Vec<String>> {
    let mut member = bus.consume(consumer).await?;
    let mut got = Vec::new();
    loop {
        let next = tokio::select! {
            biased;
            next = member.next() => next,
            () = finished.notified() => {
                // Wakes the next of the others.
                finished.notify_one();
                return Ok(got);
            }
        };
        let task = next.ok_or_else(|| Failure::new("the deliveries ended"))??;
        got.push(text(&task.frame));
        // Lets the others run between the claim and the verdict.
        tokio::task::yield_now().await;
        task.settle(Verdict::Ack).await?;
        // One that is done twice ends it early, and another one is missing then.
        if left.fetch_sub(1, Ordering::AcqRel) == 1 {
            finished.notify_one();
        }
    }
}

async fn racing_members_never_share_a_task(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let (left, finished) = (Arc::new(AtomicUsize::new(201)), Arc::new(Notify::new()));
    let mut expected: Vec<_> = (0..201).map(|n| format!("t{n}")).collect();
    for name in &expected {
        context.append(&context.task("coder")?, name).await?;
    }
    let mut racing = Vec::new();
    for n in 0..8 {
        let bus = context.connect(&format!("worker-{n}")).await?;
        let consumer = context.consumer(&stream, "coder")?;
        racing.push(work_off(bus, consumer, Arc::clone(&left), Arc::clone(&finished)));
    }
    let mut got: Vec<_> = context.race(racing).await?.into_iter().flatten().collect();
    got.sort();
    expected.sort();
    equal("tasks done by all members together", got, expected)
}
