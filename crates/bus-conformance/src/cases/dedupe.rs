//! Repeated ids: stored once per stream and window, and told apart from new ones.

use std::time::Duration;

use bus_core::{Expect, Retention, Seq, StreamSpec};
use bus_subjects::StreamName;

use crate::{
    case::{Case, cases},
    check::{CaseResult, equal},
    context::{Context, frame},
};

pub(super) const CASES: &[Case] = cases![Nothing:
    a_second_copy_is_a_duplicate,
    a_second_copy_is_a_duplicate_from_any_connection,
    a_second_copy_is_a_duplicate_after_its_task_was_done,
    another_id_with_the_same_body_is_stored,
    an_id_is_remembered_within_its_window,
    an_id_is_free_again_after_its_window,
    an_id_is_remembered_per_stream,
];

const WINDOW: Duration = Duration::from_secs(2);

async fn stream_with_a_short_window(context: &Context) -> CaseResult<StreamName> {
    let spec = context.spec("WORK", "work", Retention::WorkQueue)?;
    let spec = StreamSpec { dedupe_window: WINDOW, ..spec };
    context.bus.declare(spec.clone()).await?;
    Ok(spec.name)
}

async fn a_second_copy_is_a_duplicate(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let subject = context.task("coder")?;
    context.append(&subject, "t0").await?;
    let first = context.append(&subject, "t1").await?;
    let second = context.append(&subject, "t1").await?;
    equal("the first is a duplicate", first.duplicate, false)?;
    equal("the second is a duplicate", second.duplicate, true)?;
    equal("position of the duplicate", second.seq, first.seq)?;
    equal("stored", context.stored_texts(&stream).await?, ["t0", "t1"])
}

async fn a_second_copy_is_a_duplicate_from_any_connection(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let subject = context.task("coder")?;
    let other = context.connect("other").await?;
    context.append(&subject, "t1").await?;
    let second = other.append(frame(&subject, "t1")?, Expect::Any).await?;
    equal("the second is a duplicate", second.duplicate, true)?;
    equal("stored", context.stored_texts(&stream).await?, ["t1"])
}

async fn a_second_copy_is_a_duplicate_after_its_task_was_done(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let subject = context.task("coder")?;
    let mut member = context.member(&stream, "coder").await?;
    context.append(&subject, "t1").await?;
    context.take_now(&mut member).await?.settle(bus_core::Verdict::Ack).await?;
    let second = context.append(&subject, "t1").await?;
    equal("the second is a duplicate", second.duplicate, true)?;
    context.gets_nothing(&mut member).await
}

async fn another_id_with_the_same_body_is_stored(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let subject = context.task("coder")?;
    let one = frame(&subject, "t1")?;
    let mut two = frame(&subject, "t2")?;
    two.body = one.body.clone();
    context.bus.append(one, Expect::Any).await?;
    let receipt = context.bus.append(two, Expect::Any).await?;
    equal("duplicate", receipt.duplicate, false)?;
    equal("messages stored", context.stored(&stream, 1).await?.len(), 2)
}

async fn an_id_is_remembered_within_its_window(context: &Context) -> CaseResult {
    let stream = stream_with_a_short_window(context).await?;
    let subject = context.task("coder")?;
    context.append(&subject, "t1").await?;
    context.elapse(WINDOW / 2).await;
    equal("duplicate", context.append(&subject, "t1").await?.duplicate, true)?;
    equal("stored", context.stored_texts(&stream).await?, ["t1"])
}

async fn an_id_is_free_again_after_its_window(context: &Context) -> CaseResult {
    let stream = stream_with_a_short_window(context).await?;
    let subject = context.task("coder")?;
    context.append(&subject, "t1").await?;
    context.elapse(WINDOW * 2).await;
    let again = context.append(&subject, "t1").await?;
    equal("duplicate", again.duplicate, false)?;
    equal("position", again.seq, Seq(2))?;
    equal("stored", context.stored_texts(&stream).await?, ["t1", "t1"])
}

async fn an_id_is_remembered_per_stream(context: &Context) -> CaseResult {
    context.work_queue().await?;
    context.stream("DLQ", "dlq", Retention::Kept).await?;
    context.append(&context.task("coder")?, "t1").await?;
    let elsewhere = context.append(&context.subject("dlq", "a1.failed")?, "t1").await?;
    equal("duplicate", elsewhere.duplicate, false)
}
