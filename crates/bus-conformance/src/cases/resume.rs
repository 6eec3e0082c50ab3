//! Watches that go on where they were, and readers that end with what the bucket holds.

use std::time::Duration;

use bus_core::{KeyState, Put, Revision, Watch, WatchItem};
use bus_subjects::BucketName;

use super::watch::{bucket, change, delete, write};
use crate::{
    case::{Case, cases},
    check::{CaseResult, equal},
    context::Context,
    mirror::{Mirror, put, value},
};

pub(super) const CASES: &[Case] = cases![Nothing:
    a_watch_goes_on_where_it_was,
    a_watch_that_missed_nothing_goes_on_in_silence,
    a_watch_from_a_revision_that_never_was_is_told_everything_anew,
    a_watched_bucket_is_mirrored,
    a_slow_watch_ends_with_what_the_bucket_holds,
    a_watch_that_is_dropped_in_the_middle_misses_nothing,
];

const KEYS: [&str; 4] = ["a", "a.b", "a.c", "d"];

async fn a_watch_goes_on_where_it_was(context: &Context) -> CaseResult {
    let (bucket, last) = bucket(context, &[("a", "1"), ("a.b", "2"), ("d", "3")]).await?;
    let short = Put::new("ends").ttl(Duration::from_secs(1));
    let last = last.max(put(context.bus.as_ref(), &bucket, "a.c", short).await?);
    // Between the two watches: one key changes, one goes, one ends with its time, one comes.
    write(context, &bucket, "a", "4").await?;
    delete(context, &bucket, "d").await?;
    write(context, &bucket, "e", "5").await?;
    context.elapse(Duration::from_millis(2_100)).await;
    let mut watch = context.watch(&bucket, last).await?;
    let mut told = Vec::new();
    for _ in 0..4 {
        told.push(context.see(&mut watch).await?);
    }
    told.sort_by(|one, other| one.0.cmp(&other.0));
    let expected = [
        change("a", value("4")),
        change("a.c", KeyState::Expired),
        change("d", KeyState::Deleted),
        change("e", value("5")),
    ];
    equal("what came behind the last revision", told, expected)?;
    context.see_current(&mut watch, &mut Mirror::default()).await?;
    context.sees_nothing(&mut watch).await
}

async fn a_watch_that_missed_nothing_goes_on_in_silence(context: &Context) -> CaseResult {
    let (bucket, last) = bucket(context, &[("a", "1"), ("d", "2")]).await?;
    let mut watch = context.watch(&bucket, last).await?;
    let first = context.at_once("the mark", watch.next()).await?;
    equal("first item", first.transpose()?, Some(WatchItem::Current))?;
    context.sees_nothing(&mut watch).await?;
    write(context, &bucket, "a", "3").await?;
    equal("next change", context.see(&mut watch).await?, change("a", value("3")))
}

async fn a_watch_from_a_revision_that_never_was_is_told_everything_anew(
    context: &Context,
) -> CaseResult {
    let (bucket, last) = bucket(context, &[("a", "1"), ("d", "2")]).await?;
    let mut watch = context.watch(&bucket, Revision(last.0 + 1_000_000)).await?;
    let mut mirror = Mirror::default();
    // What this reader thinks to know is from another life of the bucket.
    mirror.values.insert("a.b".to_owned(), "from another life".to_owned());
    let first = context.see_item(&mut watch).await?;
    equal("first item", &first, &WatchItem::Resync)?;
    mirror.apply(first);
    context.see_current(&mut watch, &mut mirror).await?;
    context.mirrors(&mirror, &bucket, &KEYS).await?;
    write(context, &bucket, "a", "3").await?;
    equal("next change", context.see(&mut watch).await?, change("a", value("3")))
}

/// Writes that put, delete and let end, in an order that only looks random.
async fn churn(context: &Context, bucket: &BucketName, round: usize) -> CaseResult {
    for step in 0..12 {
        let n = (round * 12 + step) * 7;
        let key = KEYS.get(n % KEYS.len()).copied().unwrap_or("a");
        match n % 5 {
            0 => delete(context, bucket, key).await?,
            1 => {
                let ends = Put::new(n.to_string()).ttl(Duration::from_secs(1));
                put(context.bus.as_ref(), bucket, key, ends).await?;
            }
            _ => {
                write(context, bucket, key, &n.to_string()).await?;
            }
        }
    }
    Ok(())
}

async fn a_watched_bucket_is_mirrored(context: &Context) -> CaseResult {
    let (bucket, _) = bucket(context, &[("a", "first")]).await?;
    let mut watch = context.watch(&bucket, Revision::START).await?;
    let mut mirror = Mirror::default();
    for round in 0..4 {
        churn(context, &bucket, round).await?;
        // Read in part, so that the reader is somewhere in the middle of the changes.
        for _ in 0..round {
            mirror.apply(context.see_item(&mut watch).await?);
        }
        context.elapse(Duration::from_millis(700)).await;
    }
    catches_up(context, &bucket, &mut watch, &mut mirror).await
}

/// Reads until a last write is seen and no resync goes on, and compares with the bucket.
async fn catches_up(
    context: &Context,
    bucket: &BucketName,
    watch: &mut Watch,
    mirror: &mut Mirror,
) -> CaseResult {
    context.elapse(Duration::from_millis(2_100)).await;
    write(context, bucket, "end", "end").await?;
    while !mirror.knows("end") {
        mirror.apply(context.see_item(watch).await?);
    }
    let mut keys = KEYS.to_vec();
    keys.push("end");
    context.mirrors(mirror, bucket, &keys).await
}

async fn a_slow_watch_ends_with_what_the_bucket_holds(context: &Context) -> CaseResult {
    let (bucket, _) = bucket(context, &[]).await?;
    let mut watch = context.watch(&bucket, Revision::START).await?;
    let mut mirror = Mirror::default();
    context.see_current(&mut watch, &mut mirror).await?;
    for round in 0..40 {
        churn(context, &bucket, round).await?;
    }
    catches_up(context, &bucket, &mut watch, &mut mirror).await
}

async fn a_watch_that_is_dropped_in_the_middle_misses_nothing(context: &Context) -> CaseResult {
    let (bucket, _) = bucket(context, &[]).await?;
    let mut mirror = Mirror::default();
    let mut watch = context.watch(&bucket, Revision::START).await?;
    context.see_current(&mut watch, &mut mirror).await?;
    for round in 0..10 {
        churn(context, &bucket, round).await?;
        mirror.apply(context.see_item(&mut watch).await?);
        drop(watch);
        churn(context, &bucket, round + 1).await?;
        watch = context.watch(&bucket, mirror.last).await?;
    }
    catches_up(context, &bucket, &mut watch, &mut mirror).await
}
