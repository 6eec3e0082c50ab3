//! Batches: stored whole or not at all, in order, with nobody between.

use std::{num::NonZeroU64, sync::Arc};

use bus_core::{Engine, ErrorKind, Expect, Frame, FrameId, Retention, StreamSpec, Verdict};
use bus_subjects::{StreamName, Subject};

use crate::{
    case::{Case, cases},
    check::{CaseResult, Failure, equal, holds, refused},
    context::{Context, frame, text},
    steps::{keyed, urgent},
};

pub(super) const CASES: &[Case] = cases![Nothing:
    a_batch_is_stored_whole_or_not,
    a_batch_is_stored_in_its_order,
    a_batch_goes_to_the_subjects_of_its_frames,
    a_batch_of_the_most_frames_is_stored,
    a_batch_that_is_too_long_is_refused,
    an_empty_batch_is_refused,
    a_batch_that_was_stored_in_part_is_a_conflict,
    a_batch_sent_again_is_a_duplicate_as_a_whole,
    a_single_copy_of_a_frame_of_a_batch_is_a_duplicate,
    an_id_twice_in_a_batch_is_refused,
    a_batch_over_two_streams_is_refused,
    a_batch_that_no_stream_keeps_is_not_found,
    a_batch_with_a_frame_that_is_too_large_is_refused,
    a_batch_beyond_the_bound_of_a_subject_is_refused,
    a_batch_sent_again_needs_no_room,
    a_refused_batch_leaves_its_ids_free,
    a_refused_batch_is_handed_out_to_nobody,
    a_batch_wakes_every_waiting_member,
    the_placements_of_a_batch_hold,
    racing_batches_never_mix,
];

fn frames(subject: &Subject, texts: &[&str]) -> CaseResult<Vec<Frame>> {
    texts.iter().map(|text| frame(subject, text)).collect()
}

async fn append_batch(
    context: &Context,
    subject: &Subject,
    texts: &[&str],
) -> CaseResult<Vec<(u64, bool)>> {
    let receipts = context.bus.append_all(frames(subject, texts)?).await?;
    Ok(receipts.into_iter().map(|receipt| (receipt.seq.0, receipt.duplicate)).collect())
}

/// A work queue with room for `total` tasks, `per_subject` of them of one role.
async fn bounded(context: &Context, total: u64, per_subject: u64) -> CaseResult<StreamName> {
    let some = |bound| {
        NonZeroU64::new(bound).ok_or_else(|| Failure::new("the case asks for a bound of 0"))
    };
    let spec = StreamSpec {
        messages_max: some(total)?,
        messages_per_subject_max: some(per_subject)?,
        ..context.spec("WORK", "work", Retention::WorkQueue)?
    };
    context.bus.declare(spec.clone()).await?;
    Ok(spec.name)
}

async fn a_batch_is_stored_whole_or_not(context: &Context) -> CaseResult {
    let stream = bounded(context, 4, 4).await?;
    let subject = context.task("coder")?;
    append_batch(context, &subject, &["t1", "t2"]).await?;
    let three = frames(&subject, &["t3", "t4", "t5"])?;
    refused("a batch beyond the bound", context.bus.append_all(three).await, ErrorKind::Full)?;
    equal("stored after the refusal", context.stored_texts(&stream).await?, ["t1", "t2"])?;
    append_batch(context, &subject, &["t3", "t4"]).await?;
    equal("stored", context.stored_texts(&stream).await?, ["t1", "t2", "t3", "t4"])
}

async fn a_batch_is_stored_in_its_order(context: &Context) -> CaseResult {
    let (stream, mut member) = context.coder().await?;
    let subject = context.task("coder")?;
    let got = append_batch(context, &subject, &["t3", "t1", "t2"]).await?;
    equal("positions and duplicates", got, [(1, false), (2, false), (3, false)])?;
    equal("stored", context.stored_texts(&stream).await?, ["t3", "t1", "t2"])?;
    let receipts = context.bus.append_all(frames(&subject, &["t4"])?).await?;
    let got: Vec<_> = receipts.into_iter().map(|one| (one.stream, one.durability)).collect();
    equal("stream and durability", got, [(stream, context.promises().durability)])?;
    context.works_off(&mut member, &["t3", "t1", "t2", "t4"]).await
}

async fn a_batch_goes_to_the_subjects_of_its_frames(context: &Context) -> CaseResult {
    let (stream, mut coder) = context.coder().await?;
    let mut tester = context.member(&stream, "tester").await?;
    let batch = vec![
        frame(&context.task("coder")?, "c1")?,
        frame(&context.task("tester")?, "t1")?,
        frame(&context.task("coder")?, "c2")?,
    ];
    context.bus.append_all(batch).await?;
    context.works_off(&mut coder, &["c1", "c2"]).await?;
    context.works_off(&mut tester, &["t1"]).await
}

/// As many frames as said, named by their numbers.
fn numbered(subject: &Subject, count: usize) -> CaseResult<Vec<Frame>> {
    (0..count).map(|n| frame(subject, &n.to_string())).collect()
}

async fn a_batch_of_the_most_frames_is_stored(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let batch = numbered(&context.task("coder")?, Frame::BATCH_MAX)?;
    equal("receipts", context.bus.append_all(batch).await?.len(), Frame::BATCH_MAX)?;
    let expected: Vec<_> = (0..Frame::BATCH_MAX).map(|n| n.to_string()).collect();
    equal("stored", context.stored_texts(&stream).await?, expected)
}

async fn a_batch_that_is_too_long_is_refused(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let batch = numbered(&context.task("coder")?, Frame::BATCH_MAX + 1)?;
    refused("a long batch", context.bus.append_all(batch).await, ErrorKind::Invalid)?;
    equal("stored", context.stored_texts(&stream).await?, [""; 0])
}

async fn an_empty_batch_is_refused(context: &Context) -> CaseResult {
    context.work_queue().await?;
    refused("an empty batch", context.bus.append_all(Vec::new()).await, ErrorKind::Invalid)
}

async fn a_batch_that_was_stored_in_part_is_a_conflict(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let subject = context.task("coder")?;
    context.append_all(&subject, &["t1", "t2"]).await?;
    for texts in [["t3", "t2", "t4"], ["t1", "t2", "t5"], ["t6", "t7", "t1"]] {
        let appended = context.bus.append_all(frames(&subject, &texts)?).await;
        refused(&format!("the batch {texts:?}"), appended, ErrorKind::Conflict)?;
    }
    equal("stored", context.stored_texts(&stream).await?, ["t1", "t2"])
}

async fn a_batch_sent_again_is_a_duplicate_as_a_whole(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let subject = context.task("coder")?;
    append_batch(context, &subject, &["t1", "t2", "t3"]).await?;
    let again = append_batch(context, &subject, &["t1", "t2", "t3"]).await?;
    equal("positions and duplicates", again, [(1, true), (2, true), (3, true)])?;
    equal("stored", context.stored_texts(&stream).await?, ["t1", "t2", "t3"])
}

async fn a_single_copy_of_a_frame_of_a_batch_is_a_duplicate(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let subject = context.task("coder")?;
    append_batch(context, &subject, &["t1", "t2"]).await?;
    let again = context.append(&subject, "t2").await?;
    equal("position and duplicate", (again.seq.0, again.duplicate), (2, true))?;
    equal("stored", context.stored_texts(&stream).await?, ["t1", "t2"])
}

async fn an_id_twice_in_a_batch_is_refused(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let subject = context.task("coder")?;
    for texts in [["t1", "t2", "t1"], ["t3", "t3", "t4"]] {
        let appended = context.bus.append_all(frames(&subject, &texts)?).await;
        refused(&format!("the batch {texts:?}"), appended, ErrorKind::Invalid)?;
    }
    equal("stored", context.stored_texts(&stream).await?, [""; 0])
}

async fn a_batch_over_two_streams_is_refused(context: &Context) -> CaseResult {
    let work = context.work_queue().await?;
    let letters = context.stream("DLQ", "dlq", Retention::Kept).await?;
    let batch = vec![
        frame(&context.task("coder")?, "t1")?,
        frame(&context.subject("dlq", "a1.failed")?, "t2")?,
    ];
    refused("a mixed batch", context.bus.append_all(batch).await, ErrorKind::Invalid)?;
    equal("tasks stored", context.stored_texts(&work).await?, [""; 0])?;
    equal("dead letters stored", context.stored_texts(&letters).await?, [""; 0])
}

async fn a_batch_that_no_stream_keeps_is_not_found(context: &Context) -> CaseResult {
    let homeless = frames(&context.task("coder")?, &["t1", "t2"])?;
    refused("a batch", context.bus.append_all(homeless).await, ErrorKind::NotFound)
}

async fn a_batch_with_a_frame_that_is_too_large_is_refused(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let subject = context.task("coder")?;
    let large = Frame::new(subject.clone(), FrameId::parse("l")?, vec![7; Frame::BYTES_MAX + 1]);
    let batch = vec![frame(&subject, "t1")?, large, frame(&subject, "t2")?];
    refused("a batch", context.bus.append_all(batch).await, ErrorKind::TooLarge)?;
    equal("stored", context.stored_texts(&stream).await?, [""; 0])
}

async fn a_batch_beyond_the_bound_of_a_subject_is_refused(context: &Context) -> CaseResult {
    let stream = bounded(context, 100, 2).await?;
    let (coder, tester) = (context.task("coder")?, context.task("tester")?);
    context.append(&coder, "c1").await?;
    let batch = vec![frame(&tester, "t1")?, frame(&coder, "c2")?, frame(&coder, "c3")?];
    refused("a batch", context.bus.append_all(batch).await, ErrorKind::Full)?;
    let batch = vec![frame(&tester, "t1")?, frame(&coder, "c2")?, frame(&tester, "t2")?];
    context.bus.append_all(batch).await?;
    equal("stored", context.stored_texts(&stream).await?, ["c1", "t1", "c2", "t2"])
}

async fn a_batch_sent_again_needs_no_room(context: &Context) -> CaseResult {
    let stream = bounded(context, 2, 2).await?;
    let subject = context.task("coder")?;
    append_batch(context, &subject, &["t1", "t2"]).await?;
    let again = append_batch(context, &subject, &["t1", "t2"]).await?;
    equal("positions and duplicates", again, [(1, true), (2, true)])?;
    equal("stored", context.stored_texts(&stream).await?, ["t1", "t2"])
}

async fn a_refused_batch_leaves_its_ids_free(context: &Context) -> CaseResult {
    let stream = bounded(context, 2, 2).await?;
    let subject = context.task("coder")?;
    let three = frames(&subject, &["t1", "t2", "t3"])?;
    refused("a batch beyond the bound", context.bus.append_all(three).await, ErrorKind::Full)?;
    let got = append_batch(context, &subject, &["t1", "t2"]).await?;
    equal("positions and duplicates", got, [(1, false), (2, false)])?;
    equal("stored", context.stored_texts(&stream).await?, ["t1", "t2"])
}

async fn a_refused_batch_is_handed_out_to_nobody(context: &Context) -> CaseResult {
    let stream = bounded(context, 2, 2).await?;
    let mut member = context.member(&stream, "coder").await?;
    let three = frames(&context.task("coder")?, &["t1", "t2", "t3"])?;
    refused("a batch beyond the bound", context.bus.append_all(three).await, ErrorKind::Full)?;
    context.gets_nothing(&mut member).await?;
    equal("pending", context.bus.lag(stream).await?.pending, 0)
}

async fn a_batch_wakes_every_waiting_member(context: &Context) -> CaseResult {
    let (stream, mut first) = context.coder().await?;
    let mut second = context.member(&stream, "coder").await?;
    let subject = context.task("coder")?;
    let appending = async {
        tokio::task::yield_now().await;
        append_batch(context, &subject, &["t1", "t2"]).await
    };
    let (first, second, appended) =
        tokio::join!(context.take(&mut first), context.take(&mut second), appending);
    appended?;
    let (first, second) = (first?, second?);
    let mut got = [text(&first.frame), text(&second.frame)];
    got.sort();
    equal("tasks", got, ["t1", "t2"])?;
    first.settle(Verdict::Ack).await?;
    Ok(second.settle(Verdict::Ack).await?)
}

async fn the_placements_of_a_batch_hold(context: &Context) -> CaseResult {
    let (_, mut member) = context.coder().await?;
    let subject = context.task("coder")?;
    let later = context.due(std::time::Duration::from_secs(2)).await?;
    let batch = vec![
        frame(&subject, "later")?.placed(later),
        frame(&subject, "a-1")?.placed(keyed("a")?),
        frame(&subject, "a-2")?.placed(keyed("a")?),
        frame(&subject, "urgent")?.placed(urgent(9)?),
    ];
    context.bus.append_all(batch).await?;
    context.works_off(&mut member, &["urgent"]).await?;
    let held = context.claims(&mut member, ("a-1", 1)).await?;
    context.gets_nothing(&mut member).await?;
    held.settle(Verdict::Ack).await?;
    context.works_off(&mut member, &["a-2"]).await?;
    context.gets_nothing(&mut member).await?;
    context.elapse(std::time::Duration::from_secs(3)).await;
    context.works_off(&mut member, &["later"]).await
}

async fn send_batches(bus: Arc<dyn Engine>, subject: Subject, who: usize) -> CaseResult {
    for round in 0..8 {
        let texts: Vec<_> = (0..5).map(|n| format!("{who}-{round}-{n}")).collect();
        let batch: CaseResult<_> = texts.iter().map(|text| frame(&subject, text)).collect();
        bus.append_all(batch?).await?;
        tokio::task::yield_now().await;
        bus.append(frame(&subject, &format!("{who}-{round}-single"))?, Expect::Any).await?;
    }
    Ok(())
}

async fn racing_batches_never_mix(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let mut racing = Vec::new();
    for who in 0..6 {
        let bus = context.connect(&format!("sender-{who}")).await?;
        racing.push(send_batches(bus, context.task("coder")?, who));
    }
    context.race(racing).await?;
    let stored = context.stored_texts(&stream).await?;
    equal("messages stored", stored.len(), 6 * 8 * 6)?;
    let batches: Vec<_> = stored.iter().filter(|text| !text.ends_with("single")).collect();
    for batch in batches.chunks(5) {
        let place =
            |text: &str| text.rsplit_once('-').map(|(batch, n)| (batch.to_owned(), n.to_owned()));
        let first = batch.first().and_then(|text| place(text));
        for (n, text) in batch.iter().enumerate() {
            let expected = first.as_ref().map(|(batch, _)| (batch.clone(), n.to_string()));
            holds(place(text) == expected, || format!("{text} stands at place {n} of {batch:?}"))?;
        }
    }
    Ok(())
}
