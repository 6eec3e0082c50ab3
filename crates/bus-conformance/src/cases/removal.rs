//! Consumers as operators see them: listed with what waits for them, and removed.

use bus_core::{Delivery, ErrorKind, Verdict};
use bus_subjects::{ConsumerName, StreamName};

use crate::{
    case::{Case, cases},
    check::{CaseResult, Failure, equal, holds, refused},
    context::{A_MOMENT, Context, LEASE},
    steps::fail_for,
};

pub(super) const CASES: &[Case] = cases![Nothing:
    consumers_are_listed_by_name,
    a_stream_without_consumers_lists_none,
    the_consumers_of_an_unknown_stream_are_not_found,
    a_listed_consumer_shows_what_waits_and_what_is_held,
    a_listed_consumer_shows_the_age_of_its_oldest,
    a_listed_consumer_counts_its_own_messages_only,
    a_work_queue_keeps_its_tasks_when_its_consumer_goes,
    removing_a_consumer_says_whether_there_was_one,
    removing_a_consumer_of_an_unknown_stream_is_not_found,
    a_removed_consumer_is_listed_no_more,
    a_removed_consumer_takes_its_leases_along,
    a_waiting_member_learns_that_its_consumer_is_gone,
    a_member_that_asks_later_learns_that_its_consumer_is_gone,
    a_consumer_made_again_starts_at_the_beginning,
    a_removed_consumer_makes_room_for_another_filter,
    a_removal_leaves_other_consumers_alone,
    a_pause_goes_with_its_consumer,
];

async fn remove(context: &Context, stream: &StreamName, name: &str) -> CaseResult<bool> {
    let name = ConsumerName::parse(name)?;
    Ok(context.bus.remove_consumer(stream.clone(), name).await?)
}

async fn consumers_are_listed_by_name(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let mut members = Vec::new();
    for role in ["tester", "coder", "writer"] {
        members.push(context.member(&stream, role).await?);
        members.push(context.member(&stream, role).await?);
    }
    let listed = context.bus.consumers(stream.clone()).await?;
    let listed: Vec<_> = listed.into_iter().map(|state| state.spec).collect();
    let mut expected = Vec::new();
    for role in ["coder", "tester", "writer"] {
        expected.push(context.consumer(&stream, role)?);
    }
    equal("consumers", &listed, &expected)?;
    drop(members);
    let left = context.bus.consumers(stream).await?;
    equal("consumers without members", left.len(), expected.len())
}

async fn a_stream_without_consumers_lists_none(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    equal("consumers", context.bus.consumers(stream).await?, [])
}

async fn the_consumers_of_an_unknown_stream_are_not_found(context: &Context) -> CaseResult {
    let unknown = context.stream_name("UNKNOWN")?;
    refused("a listing", context.bus.consumers(unknown).await, ErrorKind::NotFound)
}

async fn a_listed_consumer_shows_what_waits_and_what_is_held(context: &Context) -> CaseResult {
    let (stream, mut member) = context.coder().await?;
    let is = async |pending: u64, in_flight: u64| {
        let lag = context.state_of(&stream, "coder").await?.lag;
        equal("pending and in flight", (lag.pending, lag.in_flight), (pending, in_flight))
    };
    is(0, 0).await?;
    context.append_all(&context.task("coder")?, &["t1", "t2", "t3"]).await?;
    is(3, 0).await?;
    let first = context.take_now(&mut member).await?;
    is(2, 1).await?;
    let second = context.take_now(&mut member).await?;
    is(1, 2).await?;
    first.settle(Verdict::Ack).await?;
    is(1, 1).await?;
    second.settle(fail_for(LEASE * 4)).await?;
    is(2, 0).await?;
    drop(context.take_now(&mut member).await?);
    is(1, 1).await?;
    context.elapse(LEASE + A_MOMENT).await;
    is(2, 0).await
}

async fn a_listed_consumer_shows_the_age_of_its_oldest(context: &Context) -> CaseResult {
    let (stream, mut member) = context.coder().await?;
    let oldest = async || CaseResult::Ok(context.state_of(&stream, "coder").await?.lag.oldest);
    equal("age of the oldest of none", oldest().await?, None)?;
    context.append(&context.task("coder")?, "t1").await?;
    context.elapse(A_MOMENT).await;
    context.append(&context.task("coder")?, "t2").await?;
    let first = context.take_now(&mut member).await?;
    let age = oldest().await?;
    holds(age >= Some(A_MOMENT), || format!("the oldest is held for a second, got {age:?}"))?;
    first.settle(Verdict::Ack).await?;
    let age = oldest().await?;
    holds(age.is_some_and(|age| age < A_MOMENT), || format!("the younger is left, got {age:?}"))?;
    context.works_off(&mut member, &["t2"]).await?;
    equal("age of the oldest at the end", oldest().await?, None)
}

async fn a_listed_consumer_counts_its_own_messages_only(context: &Context) -> CaseResult {
    let (stream, _coder) = context.coder().await?;
    let _tester = context.member(&stream, "tester").await?;
    context.append_all(&context.task("tester")?, &["t1", "t2"]).await?;
    context.append(&context.task("coder")?, "t3").await?;
    for (name, pending) in [("coder", 1), ("tester", 2)] {
        let lag = context.state_of(&stream, name).await?.lag;
        equal(&format!("pending for the {name}"), lag.pending, pending)?;
    }
    Ok(())
}

async fn a_work_queue_keeps_its_tasks_when_its_consumer_goes(context: &Context) -> CaseResult {
    let (stream, mut member) = context.coder().await?;
    context.append_all(&context.task("coder")?, &["done", "held", "waits"]).await?;
    context.works_off(&mut member, &["done"]).await?;
    let _held = context.claims(&mut member, ("held", 1)).await?;
    equal("there was one", remove(context, &stream, "coder").await?, true)?;
    equal("stored", context.stored_texts(&stream).await?, ["held", "waits"])?;
    context.append(&context.task("coder")?, "new").await?;
    let mut next = context.member(&stream, "coder").await?;
    context.works_off(&mut next, &["held", "waits", "new"]).await?;
    context.elapse(LEASE * 2).await;
    context.gets_nothing(&mut next).await
}

async fn removing_a_consumer_says_whether_there_was_one(context: &Context) -> CaseResult {
    let (stream, _member) = context.coder().await?;
    equal("one that never was", remove(context, &stream, "tester").await?, false)?;
    equal("one that is there", remove(context, &stream, "coder").await?, true)?;
    equal("one that is gone", remove(context, &stream, "coder").await?, false)
}

async fn removing_a_consumer_of_an_unknown_stream_is_not_found(context: &Context) -> CaseResult {
    let unknown = context.stream_name("UNKNOWN")?;
    let removed = context.bus.remove_consumer(unknown, ConsumerName::parse("coder")?).await;
    refused("a removal", removed, ErrorKind::NotFound)
}

async fn a_removed_consumer_is_listed_no_more(context: &Context) -> CaseResult {
    let (stream, _coder) = context.coder().await?;
    let _tester = context.member(&stream, "tester").await?;
    remove(context, &stream, "coder").await?;
    let listed = context.bus.consumers(stream).await?;
    let names: Vec<_> = listed.iter().map(|state| state.spec.name.as_str()).collect();
    equal("consumers", names, ["tester"])
}

/// A task that was held when its consumer was removed.
async fn held_at_the_removal(context: &Context) -> CaseResult<(StreamName, Delivery)> {
    let (stream, mut member) = context.coder().await?;
    context.append(&context.task("coder")?, "t1").await?;
    let held = context.claims(&mut member, ("t1", 1)).await?;
    remove(context, &stream, "coder").await?;
    Ok((stream, held))
}

async fn a_removed_consumer_takes_its_leases_along(context: &Context) -> CaseResult {
    let (stream, held) = held_at_the_removal(context).await?;
    refused("an extension", held.extend().await, ErrorKind::LeaseLost)?;
    let mut next = context.member(&stream, "coder").await?;
    let task = context.claims(&mut next, ("t1", 1)).await?;
    refused("an ack of the old lease", held.settle(Verdict::Ack).await, ErrorKind::LeaseLost)?;
    equal("stored", context.stored_texts(&stream).await?, ["t1"])?;
    Ok(task.settle(Verdict::Ack).await?)
}

async fn a_waiting_member_learns_that_its_consumer_is_gone(context: &Context) -> CaseResult {
    let (stream, mut member) = context.coder().await?;
    let mut waiting = Box::pin(member.next());
    context.nothing("a member without a task", &mut waiting).await?;
    remove(context, &stream, "coder").await?;
    let item = context.at_once("the member of the removed consumer", waiting).await?;
    let item = item.ok_or_else(|| Failure::new("the deliveries ended without a word"))?;
    refused("the next item", item, ErrorKind::NotFound)
}

async fn a_member_that_asks_later_learns_that_its_consumer_is_gone(
    context: &Context,
) -> CaseResult {
    let (stream, mut member) = context.coder().await?;
    context.append(&context.task("coder")?, "t1").await?;
    remove(context, &stream, "coder").await?;
    // Somebody else makes a consumer of that name: the old member is none of its members.
    let mut next = context.member(&stream, "coder").await?;
    let item = context.at_once("the member of the removed consumer", member.next()).await?;
    let item = item.ok_or_else(|| Failure::new("the deliveries ended without a word"))?;
    refused("the next item", item, ErrorKind::NotFound)?;
    context.works_off(&mut next, &["t1"]).await
}

async fn a_consumer_made_again_starts_at_the_beginning(context: &Context) -> CaseResult {
    let (stream, _) = context.kept(&["m1", "m2"]).await?;
    let mut spec = context.consumer(&stream, "reader")?;
    spec.filter = context.filter("room", ">")?;
    for _ in 0..2 {
        let mut member = context.bus.consume(spec.clone()).await?;
        context.works_off(&mut member, &["m1"]).await?;
        drop(context.claims(&mut member, ("m2", 1)).await?);
        remove(context, &stream, "reader").await?;
    }
    Ok(())
}

async fn a_removed_consumer_makes_room_for_another_filter(context: &Context) -> CaseResult {
    let (stream, _member) = context.coder().await?;
    context.append(&context.task("coder")?, "t1").await?;
    let mut spec = context.consumer(&stream, "all")?;
    spec.filter = context.filter("work", ">")?;
    let beside = context.bus.consume(spec.clone()).await;
    refused("a consumer that overlaps", beside, ErrorKind::Conflict)?;
    remove(context, &stream, "coder").await?;
    let mut all = context.bus.consume(spec).await?;
    context.works_off(&mut all, &["t1"]).await
}

async fn a_removal_leaves_other_consumers_alone(context: &Context) -> CaseResult {
    let (stream, _coder) = context.coder().await?;
    let mut tester = context.member(&stream, "tester").await?;
    context.append_all(&context.task("tester")?, &["t1", "t2"]).await?;
    let held = context.claims(&mut tester, ("t1", 1)).await?;
    remove(context, &stream, "coder").await?;
    held.settle(Verdict::Ack).await?;
    context.works_off(&mut tester, &["t2"]).await
}

async fn a_pause_goes_with_its_consumer(context: &Context) -> CaseResult {
    let (stream, _member) = context.coder().await?;
    context.append(&context.task("coder")?, "t1").await?;
    context.pause_for(&stream, "coder", LEASE * 100).await?;
    remove(context, &stream, "coder").await?;
    let mut next = context.member(&stream, "coder").await?;
    context.works_off(&mut next, &["t1"]).await
}
