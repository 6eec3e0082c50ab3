//! Restarts: what was acknowledged is still there, and so is how far everybody was.

use std::time::Duration;

use bus_core::{Put, Retention, Verdict};
use bus_subjects::{BucketKey, Filter};
use bytes::Bytes;

use crate::{
    case::{Case, cases},
    check::{CaseResult, equal, holds},
    context::{Context, LEASE, frame, text},
};

pub(super) const CASES: &[Case] = cases![Restart:
    a_restart_keeps_everything_acknowledged,
    a_restart_keeps_positions_and_attempts,
    a_restart_keeps_what_ids_were_seen,
    a_restart_keeps_buckets,
];

async fn a_restart_keeps_everything_acknowledged(context: &Context) -> CaseResult {
    let stream = context.stream("RECEIPTS", "receipts", Retention::AppendOnly).await?;
    let subject = context.subject("receipts", "s1.completed")?;
    let mut receipts = Vec::new();
    for n in 0..50 {
        receipts.push(context.append(&subject, &format!("r{n}")).await?.seq);
    }
    context.restart().await?;
    let bus = context.connect("afterwards").await?;
    let mut replay = bus.replay(stream, Filter::all(), bus_core::Seq(0)).await?;
    for (n, seq) in receipts.into_iter().enumerate() {
        let stored = context.wait("a replay", replay.next()).await?.transpose()?;
        let got = stored.map(|stored| (text(&stored.frame), stored.seq));
        equal("stored", got, Some((format!("r{n}"), seq)))?;
    }
    Ok(())
}

async fn a_restart_keeps_positions_and_attempts(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    let mut member = context.member(&stream, "coder").await?;
    context.append_all(&context.task("coder")?, &["done", "failed", "new"]).await?;
    context.take_now(&mut member).await?.settle(Verdict::Ack).await?;
    let retry = Verdict::Retry { after: Duration::ZERO };
    context.take_now(&mut member).await?.settle(retry).await?;
    context.restart().await?;
    let bus = context.connect("afterwards").await?;
    let mut member = bus.consume(context.consumer(&stream, "coder")?).await?;
    let mut got = Vec::new();
    for _ in 0..2 {
        let task = context.take(&mut member).await?;
        got.push((text(&task.frame), task.attempt));
        task.settle(Verdict::Ack).await?;
    }
    got.sort();
    equal("tasks and attempts", got, [("failed".to_owned(), 2), ("new".to_owned(), 1)])?;
    context.elapse(LEASE * 2).await;
    context.gets_nothing(&mut member).await
}

async fn a_restart_keeps_what_ids_were_seen(context: &Context) -> CaseResult {
    context.work_queue().await?;
    let subject = context.task("coder")?;
    let first = context.append(&subject, "t1").await?;
    context.restart().await?;
    let bus = context.connect("afterwards").await?;
    let again = bus.append(frame(&subject, "t1")?, bus_core::Expect::Any).await?;
    equal("the repeat is a duplicate", (again.duplicate, again.seq), (true, first.seq))
}

async fn a_restart_keeps_buckets(context: &Context) -> CaseResult {
    let (bucket, key) = (context.bucket("CLAIMS")?, BucketKey::parse("k1")?);
    let value = Bytes::from_static(b"v");
    let before = context.bus.put(bucket.clone(), key.clone(), Put::new(value.clone())).await?;
    context.restart().await?;
    let bus = context.connect("afterwards").await?;
    let entry = bus.get(bucket.clone(), key.clone()).await?;
    let got = entry.map(|entry| (entry.value, entry.revision));
    equal("entry", got, Some((value.clone(), before)))?;
    let after = bus.put(bucket, key, Put::new(value)).await?;
    holds(after > before, || format!("{after:?} comes after {before:?}"))
}
