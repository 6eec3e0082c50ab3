//! Priorities: the urgent overtakes, order holds within a lane, and nobody starves.

use std::time::Duration;

use bus_core::{Placement, Priority, Verdict};

use crate::{
    case::{Case, cases},
    check::{CaseResult, equal},
    context::{A_MOMENT, Context, text},
    steps::{fail_for, hand_back, urgent},
};

pub(super) const CASES: &[Case] = cases![Nothing:
    an_urgent_task_overtakes,
    every_level_stands_before_the_ones_below,
    tasks_of_one_priority_come_in_order,
    a_task_without_a_priority_is_of_the_normal_one,
    an_urgent_task_takes_nothing_from_who_holds_it,
    a_failed_task_keeps_its_priority,
    a_released_urgent_task_is_first_in_line,
    a_released_task_is_first_in_line_whatever_its_lane,
    of_those_ready_at_the_same_time_the_failed_one_comes_last,
    a_scheduled_task_keeps_its_priority,
    priorities_hold_for_a_consumer_that_comes_later,
];

pub(super) const AGEING: &[Case] = cases![MovableTime:
    a_patient_task_is_not_starved,
    an_urgent_task_overtakes_within_its_head_start,
    a_scheduled_task_ages_from_its_time_on,
];

/// Appends each task in its lane.
async fn lanes(context: &Context, tasks: &[(&str, u8)]) -> CaseResult {
    for (task, level) in tasks {
        context.append_placed(task, urgent(*level)?).await?;
    }
    Ok(())
}

async fn an_urgent_task_overtakes(context: &Context) -> CaseResult {
    let (_, mut member) = context.coder().await?;
    lanes(context, &[("low", 0), ("normal", 4), ("high", 9)]).await?;
    context.works_off(&mut member, &["high", "normal", "low"]).await
}

async fn every_level_stands_before_the_ones_below(context: &Context) -> CaseResult {
    let (_, mut member) = context.coder().await?;
    for level in [3, 9, 0, 5, 1, 8, 2, 7, 4, 6] {
        context.append_placed(&format!("level-{level}"), urgent(level)?).await?;
    }
    for level in (0..=9).rev() {
        let task = context.claims(&mut member, (&format!("level-{level}"), 1)).await?;
        task.settle(Verdict::Ack).await?;
    }
    Ok(())
}

async fn tasks_of_one_priority_come_in_order(context: &Context) -> CaseResult {
    let (_, mut member) = context.coder().await?;
    lanes(context, &[("l1", 1), ("h1", 8), ("l2", 1), ("h2", 8), ("h3", 8), ("l3", 1)]).await?;
    context.works_off(&mut member, &["h1", "h2", "h3", "l1", "l2", "l3"]).await
}

async fn a_task_without_a_priority_is_of_the_normal_one(context: &Context) -> CaseResult {
    let (_, mut member) = context.coder().await?;
    lanes(context, &[("below", 3)]).await?;
    context.append_placed("plain", Placement::default()).await?;
    lanes(context, &[("normal", Priority::NORMAL.level()), ("above", 5)]).await?;
    context.works_off(&mut member, &["above", "plain", "normal", "below"]).await
}

async fn an_urgent_task_takes_nothing_from_who_holds_it(context: &Context) -> CaseResult {
    let (_, mut member) = context.coder().await?;
    lanes(context, &[("low", 0)]).await?;
    let held = context.claims(&mut member, ("low", 1)).await?;
    lanes(context, &[("high", 9)]).await?;
    context.works_off(&mut member, &["high"]).await?;
    held.settle(Verdict::Ack).await?;
    context.gets_nothing(&mut member).await
}

async fn a_failed_task_keeps_its_priority(context: &Context) -> CaseResult {
    let (_, mut member) = context.coder().await?;
    lanes(context, &[("high", 9), ("normal", 4), ("low", 0)]).await?;
    let rest = Duration::from_millis(200);
    context.claims(&mut member, ("high", 1)).await?.settle(fail_for(rest)).await?;
    context.elapse(rest + A_MOMENT).await;
    context.claims(&mut member, ("high", 2)).await?.settle(Verdict::Ack).await?;
    context.works_off(&mut member, &["normal", "low"]).await
}

async fn a_released_urgent_task_is_first_in_line(context: &Context) -> CaseResult {
    let (_, mut member) = context.coder().await?;
    lanes(context, &[("h1", 9), ("low", 0), ("h2", 9)]).await?;
    context.claims(&mut member, ("h1", 1)).await?.settle(hand_back()).await?;
    context.works_off(&mut member, &["h1", "h2", "low"]).await
}

async fn a_released_task_is_first_in_line_whatever_its_lane(context: &Context) -> CaseResult {
    let (_, mut member) = context.coder().await?;
    lanes(context, &[("low", 0)]).await?;
    let held = context.claims(&mut member, ("low", 1)).await?;
    lanes(context, &[("high", 9)]).await?;
    held.settle(hand_back()).await?;
    context.works_off(&mut member, &["low", "high"]).await
}

async fn of_those_ready_at_the_same_time_the_failed_one_comes_last(
    context: &Context,
) -> CaseResult {
    let (_, mut member) = context.coder().await?;
    lanes(context, &[("bad", 4), ("t1", 4)]).await?;
    context.claims(&mut member, ("bad", 1)).await?.settle(fail_for(Duration::ZERO)).await?;
    context.works_off(&mut member, &["t1"]).await?;
    Ok(context.claims(&mut member, ("bad", 2)).await?.settle(Verdict::Ack).await?)
}

async fn a_scheduled_task_keeps_its_priority(context: &Context) -> CaseResult {
    let (_, mut member) = context.coder().await?;
    let due = context.due(A_MOMENT).await?.not_before;
    context.append_placed("later", Placement { not_before: due, ..urgent(9)? }).await?;
    lanes(context, &[("n1", 4), ("n2", 4)]).await?;
    context.works_off(&mut member, &["n1"]).await?;
    context.elapse(A_MOMENT * 2).await;
    context.works_off(&mut member, &["later", "n2"]).await
}

async fn priorities_hold_for_a_consumer_that_comes_later(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    lanes(context, &[("low", 0), ("normal", 4), ("high", 9)]).await?;
    let mut member = context.member(&stream, "coder").await?;
    context.works_off(&mut member, &["high", "normal", "low"]).await
}

async fn a_patient_task_is_not_starved(context: &Context) -> CaseResult {
    let (_, mut member) = context.coder().await?;
    lanes(context, &[("patient", 0)]).await?;
    // A new urgent task every minute, and a worker that takes one task a minute.
    for minute in 0..=(9 * Priority::HEAD_START.as_secs() / 60 + 1) {
        lanes(context, &[(&format!("urgent-{minute}"), 9)]).await?;
        let task = context.take_now(&mut member).await?;
        let is_it = text(&task.frame) == "patient";
        task.settle(Verdict::Ack).await?;
        if is_it {
            return Ok(());
        }
        context.elapse(Duration::from_secs(60)).await;
    }
    equal("the patient task got its turn", false, true)
}

async fn an_urgent_task_overtakes_within_its_head_start(context: &Context) -> CaseResult {
    let (_, mut member) = context.coder().await?;
    lanes(context, &[("below", 4)]).await?;
    context.elapse(Priority::HEAD_START - A_MOMENT).await;
    lanes(context, &[("in-time", 5)]).await?;
    context.elapse(A_MOMENT * 2).await;
    lanes(context, &[("too-late", 5)]).await?;
    context.works_off(&mut member, &["in-time", "below", "too-late"]).await
}

async fn a_scheduled_task_ages_from_its_time_on(context: &Context) -> CaseResult {
    let (_, mut member) = context.coder().await?;
    let due = context.due(Priority::HEAD_START).await?.not_before;
    context.append_placed("later", Placement { not_before: due, ..urgent(4)? }).await?;
    context.elapse(Priority::HEAD_START + A_MOMENT).await;
    // Appended as long ago as its head start is worth, but waiting for a second only.
    lanes(context, &[("above", 5)]).await?;
    context.works_off(&mut member, &["above", "later"]).await
}
