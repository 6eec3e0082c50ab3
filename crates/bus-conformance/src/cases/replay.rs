//! Replays: from any position to the head of the call, disturbing nobody.

use bus_core::{ErrorKind, Retention, Seq, Verdict};
use bus_subjects::{Filter, StreamName};

use crate::{
    case::{Case, cases},
    check::{CaseResult, equal, refused},
    context::{Context, text},
};

pub(super) const CASES: &[Case] = cases![Nothing:
    a_replay_reads_everything_in_order,
    a_replay_starts_at_its_position,
    a_replay_ends_at_the_head_of_its_call,
    a_replay_of_an_empty_stream_ends_at_once,
    a_replay_of_an_unknown_stream_is_not_found,
    a_replay_claims_nothing,
    a_replay_reads_only_its_filter,
    a_filtered_replay_starts_at_its_position_and_ends_at_the_head,
    a_replay_of_a_filter_that_matches_nothing_ends_at_once,
    an_append_only_stream_keeps_what_was_acknowledged,
    a_kept_stream_keeps_what_was_acknowledged,
];

async fn five_receipts(context: &Context, retention: Retention) -> CaseResult<StreamName> {
    let stream = context.stream("RECEIPTS", "receipts", retention).await?;
    let subject = context.subject("receipts", "s1.completed")?;
    context.append_all(&subject, &["r1", "r2", "r3", "r4", "r5"]).await?;
    Ok(stream)
}

async fn a_replay_reads_everything_in_order(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let mut expected = Vec::new();
    for n in 0..300 {
        let task = format!("t{n}");
        let role = if n % 2 == 0 { "coder" } else { "tester" };
        context.append(&context.task(role)?, &task).await?;
        expected.push(task);
    }
    equal("replayed", context.stored_texts(&stream).await?, expected)
}

async fn a_replay_starts_at_its_position(context: &Context) -> CaseResult {
    let stream = five_receipts(context, Retention::AppendOnly).await?;
    for (from, expected) in [
        (0, vec![1, 2, 3, 4, 5]),
        (1, vec![1, 2, 3, 4, 5]),
        (4, vec![4, 5]),
        (5, vec![5]),
        (6, vec![]),
        (u64::MAX, vec![]),
    ] {
        let stored: Vec<_> =
            context.stored(&stream, from).await?.iter().map(|one| one.seq.0).collect();
        equal(&format!("positions from {from}"), stored, expected)?;
    }
    Ok(())
}

async fn a_replay_ends_at_the_head_of_its_call(context: &Context) -> CaseResult {
    let stream = five_receipts(context, Retention::AppendOnly).await?;
    let mut replay = context.bus.replay(stream, Filter::all(), Seq(4)).await?;
    context.append(&context.subject("receipts", "s1.completed")?, "r6").await?;
    let mut texts = Vec::new();
    while let Some(stored) = context.wait("a replay", replay.next()).await? {
        texts.push(text(&stored?.frame));
    }
    equal("replayed", texts, ["r4", "r5"])
}

async fn a_replay_of_an_empty_stream_ends_at_once(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let mut replay = context.bus.replay(stream, Filter::all(), Seq(0)).await?;
    let first = context.at_once("the end of the replay", replay.next()).await?;
    equal("items of the replay", first.is_some(), false)
}

async fn a_replay_of_an_unknown_stream_is_not_found(context: &Context) -> CaseResult {
    let unknown = context.stream_name("UNKNOWN")?;
    refused("replay", context.bus.replay(unknown, Filter::all(), Seq(0)).await, ErrorKind::NotFound)
}

async fn a_replay_claims_nothing(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let mut member = context.member(&stream, "coder").await?;
    context.append(&context.task("coder")?, "t1").await?;
    equal("replayed", context.stored_texts(&stream).await?, ["t1"])?;
    let task = context.take_now(&mut member).await?;
    equal("attempt", task.attempt, 1)?;
    equal("replayed while it is held", context.stored_texts(&stream).await?, ["t1"])?;
    Ok(task.settle(Verdict::Ack).await?)
}

/// Four roles' tasks in turn, twelve in all.
async fn tasks_of_four_roles(context: &Context) -> CaseResult<StreamName> {
    let stream = context.work_queue().await?;
    for n in 1..=12 {
        let role = ["coder", "tester", "writer", "coder-2"].get(n % 4).copied().unwrap_or("coder");
        context.append(&context.task(role)?, &format!("{role}-{n}")).await?;
    }
    Ok(stream)
}

/// The positions that a replay of `filter` yields.
async fn positions(
    context: &Context,
    stream: &StreamName,
    filter: Filter,
    from: u64,
) -> CaseResult<Vec<u64>> {
    let mut replay = context.bus.replay(stream.clone(), filter, Seq(from)).await?;
    let mut positions = Vec::new();
    while let Some(stored) = context.wait("a replay", replay.next()).await? {
        positions.push(stored?.seq.0);
    }
    Ok(positions)
}

async fn a_replay_reads_only_its_filter(context: &Context) -> CaseResult {
    let stream = tasks_of_four_roles(context).await?;
    let all: Vec<u64> = (1..=12).collect();
    for (filter, expected) in [
        (context.filter("work", "coder.task")?, vec![4, 8, 12]),
        (context.filter("work", "*.task")?, all.clone()),
        (context.filter("work", ">")?, all.clone()),
        (Filter::all(), all),
        (Filter::parse("vak.*.*.writer.>")?, vec![2, 6, 10]),
    ] {
        let what = format!("positions of {filter}");
        equal(&what, positions(context, &stream, filter, 1).await?, expected)?;
    }
    Ok(())
}

async fn a_filtered_replay_starts_at_its_position_and_ends_at_the_head(
    context: &Context,
) -> CaseResult {
    let stream = tasks_of_four_roles(context).await?;
    let filter = context.filter("work", "tester.task")?;
    for (from, expected) in [(0, vec![1, 5, 9]), (2, vec![5, 9]), (9, vec![9]), (10, vec![])] {
        let got = positions(context, &stream, filter.clone(), from).await?;
        equal(&format!("positions from {from}"), got, expected)?;
    }
    let mut replay = context.bus.replay(stream, filter, Seq(9)).await?;
    context.append(&context.task("tester")?, "afterwards").await?;
    let mut got = Vec::new();
    while let Some(stored) = context.wait("a replay", replay.next()).await? {
        got.push(text(&stored?.frame));
    }
    equal("replayed", got, ["tester-9"])
}

async fn a_replay_of_a_filter_that_matches_nothing_ends_at_once(context: &Context) -> CaseResult {
    let stream = tasks_of_four_roles(context).await?;
    for filter in [context.filter("work", "nobody.task")?, context.filter("room", ">")?] {
        let mut replay = context.bus.replay(stream.clone(), filter, Seq(0)).await?;
        let first = context.at_once("the end of the replay", replay.next()).await?;
        equal("items of the replay", first.is_some(), false)?;
    }
    Ok(())
}

async fn an_append_only_stream_keeps_what_was_acknowledged(context: &Context) -> CaseResult {
    keeps_what_was_acknowledged(context, Retention::AppendOnly).await
}

async fn a_kept_stream_keeps_what_was_acknowledged(context: &Context) -> CaseResult {
    keeps_what_was_acknowledged(context, Retention::Kept).await
}

async fn keeps_what_was_acknowledged(context: &Context, retention: Retention) -> CaseResult {
    let stream = five_receipts(context, retention).await?;
    let mut spec = context.consumer(&stream, "auditor")?;
    spec.filter = context.filter("receipts", ">")?;
    let mut member = context.bus.consume(spec).await?;
    for n in 1..=5 {
        let receipt = context.take_now(&mut member).await?;
        equal("position", receipt.seq, Seq(n))?;
        let verdict =
            if n == 3 { Verdict::Reject { reason: "bad".to_owned() } } else { Verdict::Ack };
        receipt.settle(verdict).await?;
    }
    context.gets_nothing(&mut member).await?;
    let expected = ["r1", "r2", "r3", "r4", "r5"];
    equal("stored", context.stored_texts(&stream).await?, expected)
}
