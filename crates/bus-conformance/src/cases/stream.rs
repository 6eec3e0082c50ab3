//! Streams: declared once, kept apart, and everything appended is stored.

use std::{num::NonZeroU64, time::Duration};

use bus_core::{ErrorKind, Expect, Frame, FrameId, Retention, Seq, StreamSpec, Verdict};
use bus_subjects::Filter;

use crate::{
    case::{Case, cases},
    check::{CaseResult, equal, holds, refused},
    context::{Context, frame, text},
};

pub(super) const CASES: &[Case] = cases![Nothing:
    the_engine_promises_what_its_harness_says,
    declaring_the_same_stream_twice_is_fine,
    declaring_a_stream_differently_is_a_conflict,
    a_refused_declaration_changes_nothing,
    streams_with_overlapping_subjects_conflict,
    a_stream_without_subjects_is_invalid,
    a_stream_over_reserved_subjects_is_invalid,
    an_append_that_returned_is_stored,
    an_append_is_seen_by_every_connection,
    a_stored_frame_is_read_back_unchanged,
    positions_count_from_one_without_a_hole,
    a_receipt_names_its_stream_and_durability,
    an_append_that_no_stream_keeps_is_not_found,
    an_append_that_is_too_large_is_refused,
    stored_times_never_go_back,
    a_message_is_read_by_its_position,
    a_message_that_left_its_stream_is_read_no_more,
    reading_in_an_unknown_stream_is_not_found,
    the_last_of_a_subject_is_its_newest,
    the_last_of_a_silent_subject_is_none,
    the_last_that_no_stream_keeps_is_not_found,
];

async fn the_engine_promises_what_its_harness_says(context: &Context) -> CaseResult {
    equal("promises", context.bus.promises(), context.promises())
}

async fn declaring_the_same_stream_twice_is_fine(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    context.append(&context.task("coder")?, "t1").await?;
    context.work_queue().await?;
    equal("stored after the second declaration", context.stored_texts(&stream).await?, ["t1"])
}

async fn declaring_a_stream_differently_is_a_conflict(context: &Context) -> CaseResult {
    let spec = context.spec("WORK", "work", Retention::WorkQueue)?;
    context.bus.declare(spec.clone()).await?;
    let fewer = NonZeroU64::MIN;
    for (what, other) in [
        ("retention", StreamSpec { retention: Retention::Kept, ..spec.clone() }),
        ("filters", StreamSpec { filters: vec![context.filter("work", "a.>")?], ..spec.clone() }),
        ("window", StreamSpec { dedupe_window: Duration::from_secs(1), ..spec.clone() }),
        ("bound", StreamSpec { messages_max: fewer, ..spec.clone() }),
        ("subject bound", StreamSpec { messages_per_subject_max: fewer, ..spec.clone() }),
    ] {
        let declared = context.bus.declare(other).await;
        refused(&format!("declaring with another {what}"), declared, ErrorKind::Conflict)?;
    }
    Ok(())
}

async fn a_refused_declaration_changes_nothing(context: &Context) -> CaseResult {
    let spec = context.spec("WORK", "work", Retention::WorkQueue)?;
    context.bus.declare(spec.clone()).await?;
    let smaller = StreamSpec { messages_max: NonZeroU64::MIN, ..spec.clone() };
    refused("declaring smaller", context.bus.declare(smaller).await, ErrorKind::Conflict)?;
    context.append_all(&context.task("coder")?, &["t1", "t2"]).await?;
    equal("stored", context.stored_texts(&spec.name).await?, ["t1", "t2"])
}

async fn streams_with_overlapping_subjects_conflict(context: &Context) -> CaseResult {
    context.work_queue().await?;
    for (number, tail) in [">", "*.task", "coder.task", "coder.>"].iter().enumerate() {
        let name = context.stream_name(&format!("OTHER{number}"))?;
        let filters = vec![context.filter("history", "x.y")?, context.filter("work", tail)?];
        let other = StreamSpec::new(name.clone(), filters, Retention::Kept);
        let what = format!("a stream that overlaps with {tail}");
        refused(&what, context.bus.declare(other).await, ErrorKind::Conflict)?;
        let lag = context.bus.lag(name).await;
        refused("lag of the refused stream", lag, ErrorKind::NotFound)?;
    }
    context.stream("APART", "history", Retention::Kept).await.map(drop)
}

async fn a_stream_without_subjects_is_invalid(context: &Context) -> CaseResult {
    let name = context.stream_name("NONE")?;
    let none = StreamSpec::new(name, Vec::new(), Retention::Kept);
    refused("a stream without subjects", context.bus.declare(none).await, ErrorKind::Invalid)
}

async fn a_stream_over_reserved_subjects_is_invalid(context: &Context) -> CaseResult {
    for filter in ["$JS.API.x", "$SYS.>", "_INBOX.>", "_INBOX.mem.1"] {
        let filters = vec![Filter::parse(filter)?];
        let reserved = StreamSpec::new(context.stream_name("RESERVED")?, filters, Retention::Kept);
        let declared = context.bus.declare(reserved).await;
        refused(&format!("a stream over {filter}"), declared, ErrorKind::Invalid)?;
    }
    Ok(())
}

async fn an_append_that_returned_is_stored(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let subject = context.task("coder")?;
    for n in 1..=10_u64 {
        let receipt = context.append(&subject, &format!("t{n}")).await?;
        let stored = context.stored(&stream, receipt.seq.0).await?;
        let texts: Vec<_> = stored.iter().map(|stored| text(&stored.frame)).collect();
        equal("stored at the position of the receipt", texts, [format!("t{n}")])?;
        equal("pending", context.bus.lag(stream.clone()).await?.pending, n)?;
    }
    Ok(())
}

async fn an_append_is_seen_by_every_connection(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let subject = context.task("coder")?;
    let other = context.connect("other").await?;
    let receipt = context.append(&subject, "t1").await?;
    let last = other.last(subject.clone()).await?;
    equal("last, seen by another", last.map(|stored| stored.seq), Some(receipt.seq))?;
    let theirs = other.append(frame(&subject, "t2")?, Expect::Any).await?;
    equal("their position", theirs.seq, Seq(2))?;
    equal("stored", context.stored_texts(&stream).await?, ["t1", "t2"])
}

async fn a_stored_frame_is_read_back_unchanged(context: &Context) -> CaseResult {
    let stream = context.stream("RECEIPTS", "receipts", Retention::AppendOnly).await?;
    let subject = context.subject("receipts", "s1.completed")?;
    let every_byte: Vec<u8> = (0..=u8::MAX).collect();
    let mut sent = Frame::new(subject.clone(), FrameId::parse("r:1/~*>")?, every_byte);
    for (name, value) in [("ce-id", "1"), ("again", "one"), ("again", "two")] {
        sent.headers.add(name, value).map_err(bus_core::Error::from)?;
    }
    context.bus.append(sent.clone(), Expect::Any).await?;
    let stored = context.stored(&stream, 1).await?;
    equal("replayed", stored.first().map(|stored| &stored.frame), Some(&sent))?;
    equal("last", context.bus.last(subject).await?.map(|stored| stored.frame), Some(sent))
}

async fn positions_count_from_one_without_a_hole(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    for n in 1..=20_u64 {
        let subject = context.task(if n % 3 == 0 { "tester" } else { "coder" })?;
        let receipt = context.append(&subject, &format!("t{n}")).await?;
        equal("position in the receipt", receipt.seq, Seq(n))?;
    }
    let stored: Vec<_> = context.stored(&stream, 1).await?.iter().map(|one| one.seq.0).collect();
    equal("positions stored", stored, (1..=20).collect::<Vec<_>>())
}

async fn a_receipt_names_its_stream_and_durability(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let receipt = context.append(&context.task("coder")?, "t1").await?;
    equal("stream", receipt.stream, stream)?;
    equal("duplicate", receipt.duplicate, false)?;
    equal("durability", receipt.durability, context.bus.promises().durability)
}

async fn an_append_that_no_stream_keeps_is_not_found(context: &Context) -> CaseResult {
    let homeless = frame(&context.task("coder")?, "t1")?;
    let appended = context.bus.append(homeless.clone(), Expect::Any).await;
    refused("an append without a stream", appended, ErrorKind::NotFound)?;
    context.stream("RECEIPTS", "receipts", Retention::Kept).await?;
    let appended = context.bus.append(homeless, Expect::Any).await;
    refused("an append beside a stream", appended, ErrorKind::NotFound)
}

async fn an_append_that_is_too_large_is_refused(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let subject = context.task("coder")?;
    let body = vec![7; Frame::BYTES_MAX + 1];
    let large = Frame::new(subject.clone(), FrameId::parse("large")?, body);
    refused("append", context.bus.append(large, Expect::Any).await, ErrorKind::TooLarge)?;
    let body = vec![7; Frame::BYTES_MAX];
    let largest = Frame::new(subject, FrameId::parse("largest")?, body);
    context.bus.append(largest, Expect::Any).await?;
    equal("messages stored", context.stored(&stream, 1).await?.len(), 1)
}

async fn stored_times_never_go_back(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let subject = context.task("coder")?;
    context.append(&subject, "t1").await?;
    context.append(&subject, "t2").await?;
    context.elapse(Duration::from_secs(1)).await;
    context.append(&subject, "t3").await?;
    let times: Vec<_> = context.stored(&stream, 1).await?.iter().map(|one| one.time).collect();
    holds(times.is_sorted(), || format!("times go back: {times:?}"))?;
    let apart = times.last().zip(times.first()).map(|(last, first)| last.since(*first));
    holds(apart >= Some(Duration::from_secs(1)), || format!("a second apart, got {apart:?}"))
}

async fn a_message_is_read_by_its_position(context: &Context) -> CaseResult {
    let stream = context.stream("RECEIPTS", "receipts", Retention::AppendOnly).await?;
    let subject = context.subject("receipts", "s1.completed")?;
    context.append_all(&subject, &["a", "b"]).await?;
    for (seq, expected) in [(1, Some("a")), (2, Some("b")), (3, None), (0, None)] {
        let read = context.bus.read(stream.clone(), Seq(seq)).await?;
        let read = read.map(|stored| (text(&stored.frame), stored.seq));
        equal("message", read, expected.map(|text| (text.to_owned(), Seq(seq))))?;
    }
    Ok(())
}

async fn a_message_that_left_its_stream_is_read_no_more(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    context.append(&context.task("coder")?, "t1").await?;
    let mut member = context.member(&stream, "coder").await?;
    context.take(&mut member).await?.settle(Verdict::Ack).await?;
    equal("message", context.bus.read(stream, Seq(1)).await?, None)
}

async fn reading_in_an_unknown_stream_is_not_found(context: &Context) -> CaseResult {
    let stream = context.stream_name("NOWHERE")?;
    let read = context.bus.read(stream, Seq(1)).await;
    refused("read without a stream", read, ErrorKind::NotFound)
}

async fn the_last_of_a_subject_is_its_newest(context: &Context) -> CaseResult {
    context.stream("RECEIPTS", "receipts", Retention::AppendOnly).await?;
    let one = context.subject("receipts", "s1.completed")?;
    let two = context.subject("receipts", "s2.completed")?;
    context.append_all(&one, &["a1", "a2"]).await?;
    context.append_all(&two, &["b1"]).await?;
    for (subject, newest, seq) in [(one, "a2", 2), (two, "b1", 3)] {
        let last = context.bus.last(subject).await?;
        let last = last.map(|stored| (text(&stored.frame), stored.seq));
        equal("last", last, Some((newest.to_owned(), Seq(seq))))?;
    }
    Ok(())
}

async fn the_last_of_a_silent_subject_is_none(context: &Context) -> CaseResult {
    context.work_queue().await?;
    context.append(&context.task("coder")?, "t1").await?;
    equal("last", context.bus.last(context.task("tester")?).await?, None)
}

async fn the_last_that_no_stream_keeps_is_not_found(context: &Context) -> CaseResult {
    let last = context.bus.last(context.task("coder")?).await;
    refused("last without a stream", last, ErrorKind::NotFound)
}
