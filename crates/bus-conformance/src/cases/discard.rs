//! An operator's hand: what is discarded is gone for everybody, where discarding is allowed.

use std::num::NonZeroU64;

use bus_core::{ErrorKind, Expect, Retention, Seq, StreamSpec};

use crate::{
    case::{Case, cases},
    check::{CaseResult, equal, refused},
    context::{A_MOMENT, Context, LEASE, frame, text},
    steps::fail_for,
};

pub(super) const CASES: &[Case] = cases![Nothing:
    a_discarded_message_is_gone,
    an_append_only_stream_discards_nothing,
    discarding_what_is_not_there_says_so,
    discarding_in_an_unknown_stream_is_not_found,
    a_discarded_task_is_handed_out_to_nobody,
    a_discarded_task_leaves_the_others_in_their_order,
    a_task_discarded_under_its_lease_never_comes_back,
    a_discarded_task_that_rests_never_comes_back,
    a_discarded_message_is_read_by_no_consumer,
    a_discard_makes_room,
    a_discarded_message_no_longer_waits,
    a_discarded_id_is_still_remembered,
    the_position_of_a_discarded_message_is_never_used_again,
    the_last_of_a_subject_is_what_a_discard_left,
];

async fn a_discarded_message_is_gone(context: &Context) -> CaseResult {
    let (stream, _) = context.kept(&["m1", "m2", "m3"]).await?;
    equal("there was one", context.bus.discard(stream.clone(), Seq(2)).await?, true)?;
    equal("stored", context.stored_texts(&stream).await?, ["m1", "m3"])?;
    equal("read", context.bus.read(stream.clone(), Seq(2)).await?, None)?;
    equal("there was one still", context.bus.discard(stream, Seq(2)).await?, false)
}

async fn an_append_only_stream_discards_nothing(context: &Context) -> CaseResult {
    let stream = context.stream("RECEIPTS", "receipts", Retention::AppendOnly).await?;
    let subject = context.subject("receipts", "s1.completed")?;
    context.append_all(&subject, &["r1", "r2"]).await?;
    for seq in [1, 2] {
        let discarded = context.bus.discard(stream.clone(), Seq(seq)).await;
        refused(&format!("discarding position {seq}"), discarded, ErrorKind::Denied)?;
    }
    equal("stored", context.stored_texts(&stream).await?, ["r1", "r2"])
}

async fn discarding_what_is_not_there_says_so(context: &Context) -> CaseResult {
    let (stream, _) = context.kept(&["m1"]).await?;
    for seq in [0, 2, u64::MAX] {
        let discarded = context.bus.discard(stream.clone(), Seq(seq)).await?;
        equal(&format!("there was one at {seq}"), discarded, false)?;
    }
    equal("stored", context.stored_texts(&stream).await?, ["m1"])
}

async fn discarding_in_an_unknown_stream_is_not_found(context: &Context) -> CaseResult {
    let unknown = context.stream_name("UNKNOWN")?;
    refused("discard", context.bus.discard(unknown, Seq(1)).await, ErrorKind::NotFound)
}

async fn a_discarded_task_is_handed_out_to_nobody(context: &Context) -> CaseResult {
    let (stream, mut member) = context.coder().await?;
    context.append(&context.task("coder")?, "t1").await?;
    context.bus.discard(stream, Seq(1)).await?;
    context.gets_nothing(&mut member).await?;
    context.elapse(LEASE * 2).await;
    context.gets_nothing(&mut member).await
}

async fn a_discarded_task_leaves_the_others_in_their_order(context: &Context) -> CaseResult {
    let (stream, mut member) = context.coder().await?;
    context.append_all(&context.task("coder")?, &["t1", "t2", "t3", "t4", "t5"]).await?;
    for seq in [1, 3, 4] {
        context.bus.discard(stream.clone(), Seq(seq)).await?;
    }
    context.works_off(&mut member, &["t2", "t5"]).await?;
    context.gets_nothing(&mut member).await
}

async fn a_task_discarded_under_its_lease_never_comes_back(context: &Context) -> CaseResult {
    let (stream, mut member) = context.coder().await?;
    for (n, verdict) in [Some(fail_for(A_MOMENT / 2)), Some(crate::steps::hand_back()), None]
        .into_iter()
        .enumerate()
    {
        context.append(&context.task("coder")?, &format!("t{n}")).await?;
        let held = context.take_now(&mut member).await?;
        equal("there was one", context.bus.discard(stream.clone(), held.seq).await?, true)?;
        equal("stored", context.stored_texts(&stream).await?, [""; 0])?;
        if let Some(verdict) = verdict {
            // Whether the verdict is refused is left to the engine; it must not bring it back.
            let _either = held.settle(verdict).await;
        }
        context.elapse(LEASE + A_MOMENT).await;
        context.gets_nothing(&mut member).await?;
    }
    Ok(())
}

async fn a_discarded_task_that_rests_never_comes_back(context: &Context) -> CaseResult {
    let (stream, mut member) = context.coder().await?;
    context.append(&context.task("coder")?, "t1").await?;
    context.take_now(&mut member).await?.settle(fail_for(A_MOMENT)).await?;
    let later = context.due(A_MOMENT).await?;
    context.append_placed("t2", later).await?;
    for seq in [1, 2] {
        equal("there was one", context.bus.discard(stream.clone(), Seq(seq)).await?, true)?;
    }
    context.elapse(A_MOMENT * 3).await;
    context.gets_nothing(&mut member).await
}

async fn a_discarded_message_is_read_by_no_consumer(context: &Context) -> CaseResult {
    let (stream, _) = context.kept(&["m1", "m2", "m3"]).await?;
    let mut members = Vec::new();
    for name in ["first", "second"] {
        let mut spec = context.consumer(&stream, name)?;
        spec.filter = context.filter("room", ">")?;
        members.push(context.bus.consume(spec).await?);
    }
    context.bus.discard(stream, Seq(2)).await?;
    for member in &mut members {
        context.works_off(member, &["m1", "m3"]).await?;
        context.gets_nothing(member).await?;
    }
    Ok(())
}

async fn a_discard_makes_room(context: &Context) -> CaseResult {
    let bound = NonZeroU64::MIN;
    let spec = context.spec("ROOMS", "room", Retention::Kept)?;
    let spec = StreamSpec { messages_max: bound, messages_per_subject_max: bound, ..spec };
    context.bus.declare(spec.clone()).await?;
    let subject = context.subject("room", "r1.message")?;
    context.append(&subject, "m1").await?;
    let beyond = context.bus.append(frame(&subject, "m2")?, Expect::Any).await;
    refused("an append beyond the bound", beyond, ErrorKind::Full)?;
    context.bus.discard(spec.name.clone(), Seq(1)).await?;
    context.append(&subject, "m2").await?;
    equal("stored", context.stored_texts(&spec.name).await?, ["m2"])
}

async fn a_discarded_message_no_longer_waits(context: &Context) -> CaseResult {
    let (stream, mut member) = context.coder().await?;
    context.append_all(&context.task("coder")?, &["t1", "t2", "t3"]).await?;
    let _held = context.take_now(&mut member).await?;
    for (seq, expected) in [(3, (1, 1)), (1, (1, 0)), (2, (0, 0))] {
        context.bus.discard(stream.clone(), Seq(seq)).await?;
        let of_stream = context.bus.lag(stream.clone()).await?;
        let of_consumer = context.state_of(&stream, "coder").await?.lag;
        for (whose, lag) in [("stream", of_stream), ("consumer", of_consumer)] {
            let what = format!("pending and in flight of the {whose} without {seq}");
            equal(&what, (lag.pending, lag.in_flight), expected)?;
        }
    }
    Ok(())
}

async fn a_discarded_id_is_still_remembered(context: &Context) -> CaseResult {
    let (stream, subject) = context.kept(&["m1"]).await?;
    context.bus.discard(stream.clone(), Seq(1)).await?;
    equal("duplicate", context.append(&subject, "m1").await?.duplicate, true)?;
    equal("stored", context.stored_texts(&stream).await?, [""; 0])
}

async fn the_position_of_a_discarded_message_is_never_used_again(context: &Context) -> CaseResult {
    let (stream, subject) = context.kept(&["m1", "m2"]).await?;
    context.bus.discard(stream.clone(), Seq(2)).await?;
    equal("next position", context.append(&subject, "m3").await?.seq, Seq(3))?;
    context.bus.discard(stream.clone(), Seq(3)).await?;
    context.bus.discard(stream, Seq(1)).await?;
    equal("next position", context.append(&subject, "m4").await?.seq, Seq(4))
}

async fn the_last_of_a_subject_is_what_a_discard_left(context: &Context) -> CaseResult {
    let (stream, subject) = context.kept(&["m1", "m2", "m3"]).await?;
    for (seq, left) in [(3, Some("m2")), (1, Some("m2")), (2, None)] {
        context.bus.discard(stream.clone(), Seq(seq)).await?;
        let last = context.bus.last(subject.clone()).await?;
        let last = last.map(|stored| text(&stored.frame));
        equal(&format!("last without {seq}"), last.as_deref(), left)?;
    }
    let first = frame(&subject, "m4")?;
    let receipt = context.bus.append(first, Expect::LastOfSubject(Seq(0))).await?;
    equal("position", receipt.seq, Seq(4))
}
