//! Restarts: what was acknowledged is still there, and so is how far everybody was.

use std::time::Duration;

use bus_core::{BlobInfo, ExpectRevision, Placement, Put, Retention, Revision, Seq, Verdict};
use bus_subjects::{BucketKey, ConsumerName, Filter};
use bytes::Bytes;

use crate::{
    case::{Case, cases},
    check::{CaseResult, equal, holds},
    context::{Context, LEASE, frame, text},
    mirror::{Mirror, put},
    steps::{keyed, urgent},
};

pub(super) const CASES: &[Case] = cases![Restart:
    a_restart_keeps_everything_acknowledged,
    a_restart_keeps_positions_and_attempts,
    a_restart_keeps_what_ids_were_seen,
    a_restart_keeps_buckets,
    a_restart_keeps_schedules_priorities_and_keys,
    a_restart_keeps_pauses_discards_and_removals,
    a_restart_keeps_the_ends_of_values,
    a_restart_lets_a_watch_go_on,
    a_restart_keeps_blobs,
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
    let mut replay = bus.replay(stream, Filter::all(), Seq(0)).await?;
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

async fn a_restart_keeps_schedules_priorities_and_keys(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    // Longer than a server takes to come back.
    let delay = LEASE * 5;
    let later = context.due(delay).await?;
    context.append_placed("later", later).await?;
    for (task, level) in [("a-1", 1), ("a-2", 9)] {
        let placement = Placement { key: keyed("a")?.key, ..urgent(level)? };
        context.append_placed(task, placement).await?;
    }
    context.append_placed("urgent", urgent(9)?).await?;
    context.restart().await?;
    let bus = context.connect("afterwards").await?;
    let mut member = bus.consume(context.consumer(&stream, "coder")?).await?;
    context.works_off(&mut member, &["urgent"]).await?;
    let held = context.claims(&mut member, ("a-1", 1)).await?;
    context.gets_nothing(&mut member).await?;
    held.settle(Verdict::Ack).await?;
    context.works_off(&mut member, &["a-2"]).await?;
    context.gets_nothing(&mut member).await?;
    context.elapse(delay).await;
    context.works_off(&mut member, &["later"]).await
}

async fn a_restart_keeps_pauses_discards_and_removals(context: &Context) -> CaseResult {
    let stream = context.work_queue().await?;
    for role in ["coder", "tester", "writer"] {
        drop(context.member(&stream, role).await?);
        context.append(&context.task(role)?, &format!("for-{role}")).await?;
    }
    context.pause_for(&stream, "coder", Duration::from_secs(3600)).await?;
    context.bus.discard(stream.clone(), Seq(2)).await?;
    context.bus.remove_consumer(stream.clone(), ConsumerName::parse("writer")?).await?;
    context.restart().await?;
    let bus = context.connect("afterwards").await?;
    let listed = bus.consumers(stream.clone()).await?;
    let listed: Vec<_> = listed
        .iter()
        .map(|state| (state.spec.name.as_str(), state.paused_until.is_some(), state.lag.pending))
        .collect();
    equal("name, paused, pending", listed, [("coder", true, 1), ("tester", false, 0)])?;
    equal("discarded", bus.read(stream.clone(), Seq(2)).await?, None)?;
    let mut coder = bus.consume(context.consumer(&stream, "coder")?).await?;
    context.gets_nothing(&mut coder).await
}

async fn a_restart_keeps_the_ends_of_values(context: &Context) -> CaseResult {
    let bucket = context.bucket("LEASES")?;
    let ttl = LEASE * 2;
    put(context.bus.as_ref(), &bucket, "ends", Put::new("v").ttl(ttl)).await?;
    put(context.bus.as_ref(), &bucket, "stays", Put::new("v")).await?;
    context.restart().await?;
    let bus = context.connect("afterwards").await?;
    context.elapse(ttl + Duration::from_millis(1_100)).await;
    for (key, is_there) in [("ends", false), ("stays", true)] {
        let entry = bus.get(bucket.clone(), BucketKey::parse(key)?).await?;
        equal(&format!("{key} is there"), entry.is_some(), is_there)?;
    }
    Ok(())
}

async fn a_restart_lets_a_watch_go_on(context: &Context) -> CaseResult {
    let bucket = context.bucket("STATE")?;
    for key in ["a", "b", "c"] {
        put(context.bus.as_ref(), &bucket, key, Put::new(key)).await?;
    }
    let mut mirror = Mirror::default();
    let mut watch = context.watch(&bucket, Revision::START).await?;
    context.see_current(&mut watch, &mut mirror).await?;
    drop(watch);
    put(context.bus.as_ref(), &bucket, "a", Put::new("changed")).await?;
    let any = ExpectRevision::Any;
    context.bus.delete(bucket.clone(), BucketKey::parse("b")?, any).await?;
    context.restart().await?;
    let bus = context.connect("afterwards").await?;
    let mut watch = bus.watch(bucket.clone(), Filter::all(), mirror.last).await?;
    put(bus.as_ref(), &bucket, "d", Put::new("new")).await?;
    while !mirror.knows("d") {
        mirror.apply(context.see_item(&mut watch).await?);
    }
    let known: Vec<_> = mirror.values.iter().map(|(key, value)| format!("{key}={value}")).collect();
    equal("what the reader knows", known, ["a=changed", "c=c", "d=new"])
}

async fn a_restart_keeps_blobs(context: &Context) -> CaseResult {
    let (bucket, key) = (context.bucket("FILES")?, BucketKey::parse("b")?);
    let content = Bytes::from(vec![7; 3 * BlobInfo::PIECE_BYTES + 1]);
    let put = context.bus.put_blob(bucket.clone(), key.clone(), content.clone().into());
    let info = put.await?;
    context.restart().await?;
    let bus = context.connect("afterwards").await?;
    equal("listed", bus.list_blobs(bucket.clone()).await?, [info])?;
    let mut got = Vec::new();
    if let Some(mut blob) = bus.get_blob(bucket, key).await? {
        while let Some(part) = context.wait("a blob", blob.body.next()).await? {
            got.extend_from_slice(&part?);
        }
    }
    equal("the content is the same", got == content, true)
}
