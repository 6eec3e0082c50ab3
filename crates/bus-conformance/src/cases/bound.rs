//! Bounds: a full stream refuses, and what it holds stays.

use std::num::NonZeroU64;

use bus_core::{ErrorKind, Expect, Retention, StreamSpec, Verdict};
use bus_subjects::StreamName;

use crate::{
    case::{Case, cases},
    check::{CaseResult, Failure, equal, refused},
    context::{Context, frame},
};

pub(super) const CASES: &[Case] = cases![Nothing:
    a_full_stream_refuses_and_drops_nothing,
    a_full_subject_refuses_and_others_stay_open,
    an_append_refused_as_full_leaves_its_id_free,
    a_second_copy_is_a_duplicate_also_at_the_bound,
    a_finished_task_makes_room,
];

async fn bounded(context: &Context, total: u64, per_subject: u64) -> CaseResult<StreamName> {
    let some = |bound| {
        NonZeroU64::new(bound).ok_or_else(|| Failure::new("the case asks for a bound of 0"))
    };
    let spec = context.spec("WORK", "work", Retention::WorkQueue)?;
    let spec = StreamSpec {
        messages_max: some(total)?,
        messages_per_subject_max: some(per_subject)?,
        ..spec
    };
    context.bus.declare(spec.clone()).await?;
    Ok(spec.name)
}

async fn is_full(context: &Context, role: &str, text: &str) -> CaseResult {
    let appended = context.bus.append(frame(&context.task(role)?, text)?, Expect::Any).await;
    refused("an append beyond the bound", appended, ErrorKind::Full)
}

async fn a_full_stream_refuses_and_drops_nothing(context: &Context) -> CaseResult {
    let stream = bounded(context, 3, 3).await?;
    context.append_all(&context.task("coder")?, &["t1", "t2"]).await?;
    context.append_all(&context.task("tester")?, &["t3"]).await?;
    is_full(context, "coder", "t4").await?;
    is_full(context, "writer", "t5").await?;
    equal("stored", context.stored_texts(&stream).await?, ["t1", "t2", "t3"])
}

async fn a_full_subject_refuses_and_others_stay_open(context: &Context) -> CaseResult {
    let stream = bounded(context, 10, 2).await?;
    context.append_all(&context.task("coder")?, &["t1", "t2"]).await?;
    is_full(context, "coder", "t3").await?;
    context.append(&context.task("tester")?, "t4").await?;
    equal("stored", context.stored_texts(&stream).await?, ["t1", "t2", "t4"])
}

async fn an_append_refused_as_full_leaves_its_id_free(context: &Context) -> CaseResult {
    let stream = bounded(context, 1, 1).await?;
    let mut member = context.member(&stream, "coder").await?;
    context.append(&context.task("coder")?, "t1").await?;
    is_full(context, "coder", "t2").await?;
    context.take_now(&mut member).await?.settle(Verdict::Ack).await?;
    let receipt = context.append(&context.task("coder")?, "t2").await?;
    equal("the repeat after a refusal is a duplicate", receipt.duplicate, false)?;
    equal("stored", context.stored_texts(&stream).await?, ["t2"])
}

async fn a_second_copy_is_a_duplicate_also_at_the_bound(context: &Context) -> CaseResult {
    bounded(context, 1, 1).await?;
    let first = context.append(&context.task("coder")?, "t1").await?;
    let second = context.append(&context.task("coder")?, "t1").await?;
    equal("the second is a duplicate", second.duplicate, true)?;
    equal("position of the duplicate", second.seq, first.seq)
}

async fn a_finished_task_makes_room(context: &Context) -> CaseResult {
    let stream = bounded(context, 1, 1).await?;
    let mut member = context.member(&stream, "coder").await?;
    for (n, verdict) in [Verdict::Ack, Verdict::Reject { reason: "bad".to_owned() }, Verdict::Ack]
        .into_iter()
        .enumerate()
    {
        context.append(&context.task("coder")?, &format!("t{n}")).await?;
        is_full(context, "coder", &format!("more-{n}")).await?;
        let task = context.take_now(&mut member).await?;
        is_full(context, "coder", &format!("held-{n}")).await?;
        task.settle(verdict).await?;
    }
    Ok(())
}
