//! Order keys: the tasks of one key one after the other, also when one fails, and others beside.

use std::time::Duration;

use bus_core::{Deliveries, Expect, Placement, Verdict};
use bus_subjects::Filter;

use crate::{
    case::{Case, cases},
    check::{CaseResult, Failure, equal},
    context::{A_MOMENT, Context, LEASE, frame, text},
    steps::{fail_for, hand_back, keyed, urgent},
};

pub(super) const CASES: &[Case] = cases![Nothing:
    tasks_of_one_key_run_one_after_the_other,
    tasks_of_different_keys_run_beside_each_other,
    tasks_without_a_key_pass_a_held_key,
    a_waiting_member_gets_the_next_of_a_key_when_the_one_before_has_left,
    a_resting_task_holds_the_others_of_its_key,
    a_released_task_stays_before_the_others_of_its_key,
    a_released_task_that_rests_holds_the_others_of_its_key,
    a_lease_that_ran_out_keeps_the_order_of_its_key,
    a_rejected_task_frees_its_key,
    a_discarded_task_frees_its_key,
    an_urgent_task_waits_for_the_one_before_it_in_its_key,
    a_scheduled_task_takes_its_turn_in_its_key_when_its_time_comes,
    a_scheduled_task_stands_before_those_of_its_key_appended_after_it,
    a_key_spans_the_subjects_of_its_consumer,
    a_key_is_ordered_for_each_consumer_by_itself,
    a_key_is_free_again_after_its_last_task,
    order_within_keys_survives_failing_parallel_members,
];

/// Appends tasks named `<key>-<number>` under their keys.
async fn append_keyed(context: &Context, tasks: &[&str]) -> CaseResult {
    for task in tasks {
        let key = task.split('-').next().unwrap_or_default();
        context.append_placed(task, keyed(key)?).await?;
    }
    Ok(())
}

/// Two members of one consumer, and the tasks appended under their keys.
async fn two_members(context: &Context, tasks: &[&str]) -> CaseResult<(Deliveries, Deliveries)> {
    let (stream, first) = context.coder().await?;
    let second = context.member(&stream, "coder").await?;
    append_keyed(context, tasks).await?;
    Ok((first, second))
}

async fn tasks_of_one_key_run_one_after_the_other(context: &Context) -> CaseResult {
    let (mut first, mut second) = two_members(context, &["a-1", "a-2", "a-3"]).await?;
    for expected in ["a-1", "a-2", "a-3"] {
        let task = context.claims(&mut first, (expected, 1)).await?;
        context.gets_nothing(&mut second).await?;
        context.gets_nothing(&mut first).await?;
        task.settle(Verdict::Ack).await?;
        std::mem::swap(&mut first, &mut second);
    }
    Ok(())
}

async fn tasks_of_different_keys_run_beside_each_other(context: &Context) -> CaseResult {
    let (mut first, mut second) = two_members(context, &["a-1", "a-2", "b-1", "b-2"]).await?;
    let a = context.claims(&mut first, ("a-1", 1)).await?;
    let b = context.claims(&mut second, ("b-1", 1)).await?;
    context.gets_nothing(&mut first).await?;
    b.settle(Verdict::Ack).await?;
    context.works_off(&mut second, &["b-2"]).await?;
    context.gets_nothing(&mut second).await?;
    a.settle(Verdict::Ack).await?;
    context.works_off(&mut second, &["a-2"]).await
}

async fn tasks_without_a_key_pass_a_held_key(context: &Context) -> CaseResult {
    let (mut first, mut second) = two_members(context, &["a-1", "a-2"]).await?;
    context.append_all(&context.task("coder")?, &["t1", "t2"]).await?;
    let held = context.claims(&mut first, ("a-1", 1)).await?;
    context.works_off(&mut second, &["t1", "t2"]).await?;
    context.gets_nothing(&mut second).await?;
    held.settle(Verdict::Ack).await?;
    context.works_off(&mut second, &["a-2"]).await
}

async fn a_waiting_member_gets_the_next_of_a_key_when_the_one_before_has_left(
    context: &Context,
) -> CaseResult {
    let (mut first, mut second) = two_members(context, &["a-1", "a-2"]).await?;
    let held = context.claims(&mut first, ("a-1", 1)).await?;
    let settling = async {
        tokio::task::yield_now().await;
        held.settle(Verdict::Ack).await
    };
    let (next, settled) = tokio::join!(context.take(&mut second), settling);
    settled?;
    let next = next?;
    equal("task", (text(&next.frame), next.attempt), ("a-2".to_owned(), 1))?;
    Ok(next.settle(Verdict::Ack).await?)
}

async fn a_resting_task_holds_the_others_of_its_key(context: &Context) -> CaseResult {
    let (mut first, mut second) = two_members(context, &["a-1", "a-2", "b-1"]).await?;
    context.claims(&mut first, ("a-1", 1)).await?.settle(fail_for(LEASE)).await?;
    context.works_off(&mut second, &["b-1"]).await?;
    context.gets_nothing(&mut second).await?;
    context.elapse(LEASE + A_MOMENT).await;
    let again = context.claims(&mut second, ("a-1", 2)).await?;
    context.gets_nothing(&mut first).await?;
    again.settle(Verdict::Ack).await?;
    context.works_off(&mut first, &["a-2"]).await
}

async fn a_released_task_stays_before_the_others_of_its_key(context: &Context) -> CaseResult {
    let (mut first, mut second) = two_members(context, &["a-1", "a-2"]).await?;
    for _ in 0..3 {
        context.claims(&mut first, ("a-1", 1)).await?.settle(hand_back()).await?;
    }
    let held = context.claims(&mut second, ("a-1", 1)).await?;
    context.gets_nothing(&mut first).await?;
    held.settle(Verdict::Ack).await?;
    context.works_off(&mut first, &["a-2"]).await
}

async fn a_released_task_that_rests_holds_the_others_of_its_key(context: &Context) -> CaseResult {
    let (mut first, _second) = two_members(context, &["a-1", "a-2"]).await?;
    let rest = Verdict::Release { after: LEASE };
    context.claims(&mut first, ("a-1", 1)).await?.settle(rest).await?;
    context.gets_nothing(&mut first).await?;
    context.elapse(LEASE + A_MOMENT).await;
    context.works_off(&mut first, &["a-1", "a-2"]).await
}

async fn a_lease_that_ran_out_keeps_the_order_of_its_key(context: &Context) -> CaseResult {
    let (mut first, mut second) = two_members(context, &["a-1", "a-2"]).await?;
    drop(context.claims(&mut first, ("a-1", 1)).await?);
    drop(first);
    context.gets_nothing(&mut second).await?;
    context.elapse(LEASE + A_MOMENT).await;
    let again = context.claims(&mut second, ("a-1", 2)).await?;
    context.gets_nothing(&mut second).await?;
    again.settle(Verdict::Ack).await?;
    context.works_off(&mut second, &["a-2"]).await
}

async fn a_rejected_task_frees_its_key(context: &Context) -> CaseResult {
    let (mut first, mut second) = two_members(context, &["a-1", "a-2"]).await?;
    let reject = Verdict::Reject { reason: "cannot be decoded".to_owned() };
    context.claims(&mut first, ("a-1", 1)).await?.settle(reject).await?;
    context.works_off(&mut second, &["a-2"]).await
}

async fn a_discarded_task_frees_its_key(context: &Context) -> CaseResult {
    let (mut first, mut second) = two_members(context, &["a-1", "a-2", "a-3", "a-4"]).await?;
    let stream = context.stream_name("WORK")?;
    let held = context.claims(&mut first, ("a-1", 1)).await?;
    // The one that is held, and one that waits behind it.
    context.bus.discard(stream.clone(), held.seq).await?;
    context.bus.discard(stream, bus_core::Seq(held.seq.0 + 2)).await?;
    context.works_off(&mut second, &["a-2", "a-4"]).await?;
    drop(held);
    context.elapse(LEASE + A_MOMENT).await;
    context.gets_nothing(&mut second).await
}

async fn an_urgent_task_waits_for_the_one_before_it_in_its_key(context: &Context) -> CaseResult {
    let (_, mut member) = context.coder().await?;
    for (task, level) in [("a-1", 0), ("a-2", 9)] {
        context.append_placed(task, Placement { key: keyed("a")?.key, ..urgent(level)? }).await?;
    }
    let held = context.claims(&mut member, ("a-1", 1)).await?;
    context.gets_nothing(&mut member).await?;
    held.settle(Verdict::Ack).await?;
    context.works_off(&mut member, &["a-2"]).await
}

async fn a_scheduled_task_takes_its_turn_in_its_key_when_its_time_comes(
    context: &Context,
) -> CaseResult {
    let (_, mut member) = context.coder().await?;
    let later = Placement { key: keyed("a")?.key, ..context.due(A_MOMENT * 2).await? };
    context.append_placed("a-later", later).await?;
    append_keyed(context, &["a-now"]).await?;
    let held = context.claims(&mut member, ("a-now", 1)).await?;
    context.elapse(A_MOMENT * 2 + A_MOMENT / 2).await;
    held.extend().await?;
    context.gets_nothing(&mut member).await?;
    held.settle(Verdict::Ack).await?;
    context.works_off(&mut member, &["a-later"]).await
}

async fn a_scheduled_task_stands_before_those_of_its_key_appended_after_it(
    context: &Context,
) -> CaseResult {
    let (_, mut member) = context.coder().await?;
    append_keyed(context, &["a-1"]).await?;
    let later = Placement { key: keyed("a")?.key, ..context.due(A_MOMENT).await? };
    context.append_placed("a-later", later).await?;
    append_keyed(context, &["a-2"]).await?;
    let held = context.claims(&mut member, ("a-1", 1)).await?;
    context.elapse(A_MOMENT * 2).await;
    held.settle(Verdict::Ack).await?;
    context.works_off(&mut member, &["a-later", "a-2"]).await
}

async fn a_key_spans_the_subjects_of_its_consumer(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let mut spec = context.consumer(&stream, "all")?;
    spec.filter = context.filter("work", ">")?;
    let mut member = context.bus.consume(spec).await?;
    for role in ["coder", "tester"] {
        let task = frame(&context.task(role)?, role)?.placed(keyed("a")?);
        context.bus.append(task, Expect::Any).await?;
    }
    let held = context.claims(&mut member, ("coder", 1)).await?;
    context.gets_nothing(&mut member).await?;
    held.settle(Verdict::Ack).await?;
    context.works_off(&mut member, &["tester"]).await
}

async fn a_key_is_ordered_for_each_consumer_by_itself(context: &Context) -> CaseResult {
    let (stream, subject) = context.kept(&[]).await?;
    let mut members = Vec::new();
    for name in ["first", "second"] {
        let mut spec = context.consumer(&stream, name)?;
        spec.filter = Filter::from(&subject);
        members.push(context.bus.consume(spec).await?);
    }
    for message in ["a-1", "a-2"] {
        let message = frame(&subject, message)?.placed(keyed("a")?);
        context.bus.append(message, Expect::Any).await?;
    }
    let mut held = Vec::new();
    for member in &mut members {
        held.push(context.claims(member, ("a-1", 1)).await?);
        context.gets_nothing(member).await?;
    }
    for (member, held) in members.iter_mut().zip(held) {
        held.settle(Verdict::Ack).await?;
        context.works_off(member, &["a-2"]).await?;
    }
    Ok(())
}

async fn a_key_is_free_again_after_its_last_task(context: &Context) -> CaseResult {
    let (_, mut member) = context.coder().await?;
    for round in 0..20 {
        let task = format!("a-{round}");
        append_keyed(context, &[&task]).await?;
        context.works_off(&mut member, &[&task]).await?;
    }
    Ok(())
}

async fn order_within_keys_survives_failing_parallel_members(context: &Context) -> CaseResult {
    let names: Vec<_> =
        (0..10).flat_map(|n| ["a", "b", "c"].map(|key| format!("{key}-{n}"))).collect();
    let tasks: Vec<_> = names.iter().map(String::as_str).collect();
    let (mut first, mut second) = two_members(context, &tasks).await?;
    let (mut done, mut turn) = (Vec::new(), 0_usize);
    while done.len() < tasks.len() {
        let mut held = vec![context.take(&mut first).await?];
        if let Some(beside) = context.now_or_nothing(second.next()).await {
            held.push(beside.ok_or_else(|| Failure::new("the deliveries ended"))??);
        }
        // The one that was claimed last is settled first.
        for task in held.into_iter().rev() {
            turn += 1;
            match turn * turn % 7 {
                0 => task.settle(fail_for(Duration::from_millis(100))).await?,
                1 => task.settle(hand_back()).await?,
                _ => {
                    done.push(text(&task.frame));
                    task.settle(Verdict::Ack).await?;
                }
            }
        }
        std::mem::swap(&mut first, &mut second);
    }
    for key in ["a", "b", "c"] {
        let of_key: Vec<_> = done.iter().filter(|task| task.starts_with(key)).cloned().collect();
        let expected: Vec<_> = (0..10).map(|n| format!("{key}-{n}")).collect();
        equal(&format!("tasks of {key} in the order they were done"), of_key, expected)?;
    }
    Ok(())
}
