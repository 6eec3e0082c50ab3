//! Watches: what is there, every change after it, and nothing missed by whoever comes back.

use std::time::Duration;

use bus_core::{ErrorKind, ExpectRevision, KeyState, Put, Revision, WatchItem};
use bus_subjects::{BucketKey, BucketName, Filter};

use crate::{
    case::{Case, cases},
    check::{CaseResult, Failure, equal, holds, refused},
    context::Context,
    mirror::{Mirror, put, value},
};

pub(super) const CASES: &[Case] = cases![Nothing:
    a_watch_begins_with_what_is_there,
    a_watch_says_once_when_it_is_current,
    a_bucket_that_does_not_exist_yet_can_be_watched,
    a_watch_sees_what_is_put_later,
    a_watch_sees_the_writes_of_every_connection,
    a_waiting_watch_is_woken_by_a_write,
    a_watch_sees_deletions,
    a_change_is_told_with_the_revision_of_its_write,
    a_refused_write_is_no_change,
    a_watch_sees_only_its_filter,
    a_watch_of_one_bucket_sees_nothing_of_another,
    two_watches_each_see_every_change,
    a_dropped_wait_for_a_change_loses_none,
    a_watch_ends_with_the_close,
];

pub(super) async fn bucket(
    context: &Context,
    entries: &[(&str, &str)],
) -> CaseResult<(BucketName, Revision)> {
    let bucket = context.bucket("STATE")?;
    let mut last = Revision::START;
    for (key, text) in entries {
        last = write(context, &bucket, key, text).await?;
    }
    Ok((bucket, last))
}

pub(super) async fn write(
    context: &Context,
    bucket: &BucketName,
    key: &str,
    text: &str,
) -> CaseResult<Revision> {
    put(context.bus.as_ref(), bucket, key, Put::new(text.to_owned())).await
}

pub(super) async fn delete(context: &Context, bucket: &BucketName, key: &str) -> CaseResult {
    let key = BucketKey::parse(key)?;
    Ok(context.bus.delete(bucket.clone(), key, ExpectRevision::Any).await?)
}

pub(super) fn change(key: &str, state: KeyState) -> (String, KeyState) {
    (key.to_owned(), state)
}

async fn a_watch_begins_with_what_is_there(context: &Context) -> CaseResult {
    let (bucket, _) =
        bucket(context, &[("a", "old"), ("d", "4"), ("a.b", "2"), ("gone", "x"), ("a", "1")])
            .await?;
    delete(context, &bucket, "gone").await?;
    let mut watch = context.watch(&bucket, Revision::START).await?;
    let mut told = Vec::new();
    loop {
        match context.see_item(&mut watch).await? {
            WatchItem::Changed(one) => told.push((one.key.as_str().to_owned(), one.state)),
            WatchItem::Current => break,
            WatchItem::Resync => return Err(Failure::new("a resync at the beginning")),
        }
    }
    told.sort_by(|one, other| one.0.cmp(&other.0));
    let expected = [change("a", value("1")), change("a.b", value("2")), change("d", value("4"))];
    equal("what was told at the beginning", told, expected)?;
    context.sees_nothing(&mut watch).await
}

async fn a_watch_says_once_when_it_is_current(context: &Context) -> CaseResult {
    let (bucket, _) = bucket(context, &[("a", "1")]).await?;
    let mut watch = context.watch(&bucket, Revision::START).await?;
    let mut mirror = Mirror::default();
    context.see_current(&mut watch, &mut mirror).await?;
    for n in 0..5 {
        write(context, &bucket, "a", &n.to_string()).await?;
        let item = context.see_item(&mut watch).await?;
        holds(item != WatchItem::Current, || "it said so again".to_owned())?;
    }
    context.sees_nothing(&mut watch).await
}

async fn a_bucket_that_does_not_exist_yet_can_be_watched(context: &Context) -> CaseResult {
    let bucket = context.bucket("STATE")?;
    let mut watch = context.watch(&bucket, Revision::START).await?;
    let first = context.at_once("the mark of an empty bucket", watch.next()).await?;
    equal("first item", first.transpose()?, Some(WatchItem::Current))?;
    write(context, &bucket, "a", "1").await?;
    equal("change", context.see(&mut watch).await?, change("a", value("1")))
}

async fn a_watch_sees_what_is_put_later(context: &Context) -> CaseResult {
    let (bucket, _) = bucket(context, &[]).await?;
    let mut watch = context.watch(&bucket, Revision::START).await?;
    for (key, text) in [("a", "1"), ("d", "2"), ("a", "3"), ("a.b", ""), ("a", "3")] {
        write(context, &bucket, key, text).await?;
        equal("change", context.see(&mut watch).await?, change(key, value(text)))?;
    }
    context.sees_nothing(&mut watch).await
}

async fn a_watch_sees_the_writes_of_every_connection(context: &Context) -> CaseResult {
    let (bucket, _) = bucket(context, &[]).await?;
    let mut watch = context.watch(&bucket, Revision::START).await?;
    for who in ["one", "two"] {
        let other = context.connect(who).await?;
        put(other.as_ref(), &bucket, "a", Put::new(who)).await?;
        equal("change", context.see(&mut watch).await?, change("a", value(who)))?;
        other.close().await?;
    }
    Ok(())
}

async fn a_waiting_watch_is_woken_by_a_write(context: &Context) -> CaseResult {
    let (bucket, _) = bucket(context, &[]).await?;
    let mut watch = context.watch(&bucket, Revision::START).await?;
    context.see_current(&mut watch, &mut Mirror::default()).await?;
    let writing = async {
        context.elapse(Duration::from_secs(1)).await;
        write(context, &bucket, "a", "1").await
    };
    let (seen, written) = tokio::join!(context.see(&mut watch), writing);
    written?;
    equal("change", seen?, change("a", value("1")))
}

async fn a_watch_sees_deletions(context: &Context) -> CaseResult {
    let (bucket, _) = bucket(context, &[("a", "1"), ("d", "2")]).await?;
    let mut watch = context.watch(&bucket, Revision::START).await?;
    let mut mirror = Mirror::default();
    context.see_current(&mut watch, &mut mirror).await?;
    delete(context, &bucket, "a").await?;
    equal("change", context.see(&mut watch).await?, change("a", KeyState::Deleted))?;
    write(context, &bucket, "a", "3").await?;
    equal("change", context.see(&mut watch).await?, change("a", value("3")))?;
    context.sees_nothing(&mut watch).await
}

async fn a_change_is_told_with_the_revision_of_its_write(context: &Context) -> CaseResult {
    let (bucket, before) = bucket(context, &[("a", "0")]).await?;
    let mut watch = context.watch(&bucket, Revision::START).await?;
    let mut mirror = Mirror::default();
    context.see_current(&mut watch, &mut mirror).await?;
    equal("revision of what was there", mirror.last, before)?;
    for text in ["1", "2"] {
        let written = write(context, &bucket, "a", text).await?;
        mirror.apply(context.see_item(&mut watch).await?);
        equal("revision of the change", mirror.last, written)?;
    }
    delete(context, &bucket, "a").await?;
    let before = mirror.last;
    mirror.apply(context.see_item(&mut watch).await?);
    holds(mirror.last > before, || format!("deleted at {:?} after {before:?}", mirror.last))?;
    let written = write(context, &bucket, "d", "3").await?;
    holds(written > mirror.last, || format!("{written:?} comes after {:?}", mirror.last))
}

async fn a_refused_write_is_no_change(context: &Context) -> CaseResult {
    let (bucket, last) = bucket(context, &[("a", "0"), ("a", "1")]).await?;
    let mut watch = context.watch(&bucket, last).await?;
    let refusal = Put::new("2").expect(ExpectRevision::Absent);
    let refusal = context.bus.put(bucket.clone(), BucketKey::parse("a")?, refusal).await;
    refused("a put where something is", refusal, ErrorKind::Conflict)?;
    context.see_current(&mut watch, &mut Mirror::default()).await?;
    context.sees_nothing(&mut watch).await?;
    write(context, &bucket, "a", "3").await?;
    equal("next change", context.see(&mut watch).await?, change("a", value("3")))
}

async fn a_watch_sees_only_its_filter(context: &Context) -> CaseResult {
    let (bucket, _) = bucket(context, &[("a", "1"), ("a.b", "2"), ("a.b.c", "3")]).await?;
    for (filter, at_first, later) in [
        ("a.*", vec!["a.b"], vec!["a.b", "a.c"]),
        ("a.>", vec!["a.b", "a.b.c"], vec!["a.b", "a.c", "a.d.e"]),
        ("a", vec!["a"], vec!["a"]),
        ("z", vec![], vec![]),
    ] {
        let keys = Filter::parse(filter)?;
        let mut watch = context.bus.watch(bucket.clone(), keys, Revision::START).await?;
        let mut mirror = Mirror::default();
        context.see_current(&mut watch, &mut mirror).await?;
        let known: Vec<_> = mirror.values.keys().map(String::as_str).collect();
        equal(&format!("keys of {filter}"), known, at_first)?;
        for key in ["a", "a.b", "a.c", "d", "a.d.e"] {
            write(context, &bucket, key, filter).await?;
        }
        for expected in later {
            equal("change", context.see(&mut watch).await?, change(expected, value(filter)))?;
        }
        context.sees_nothing(&mut watch).await?;
        for key in ["a.c", "a.d.e"] {
            delete(context, &bucket, key).await?;
        }
    }
    Ok(())
}

async fn a_watch_of_one_bucket_sees_nothing_of_another(context: &Context) -> CaseResult {
    let (bucket, _) = bucket(context, &[("a", "1")]).await?;
    let other = context.bucket("OTHER")?;
    write(context, &other, "b", "2").await?;
    let mut watch = context.watch(&bucket, Revision::START).await?;
    let mut mirror = Mirror::default();
    context.see_current(&mut watch, &mut mirror).await?;
    write(context, &other, "a", "3").await?;
    delete(context, &other, "b").await?;
    context.sees_nothing(&mut watch).await?;
    context.mirrors(&mirror, &bucket, &["a", "b"]).await
}

async fn two_watches_each_see_every_change(context: &Context) -> CaseResult {
    let (bucket, _) = bucket(context, &[("a", "0")]).await?;
    let mut one = context.watch(&bucket, Revision::START).await?;
    let mut other = context.watch(&bucket, Revision::START).await?;
    for watch in [&mut one, &mut other] {
        equal("at first", context.see(watch).await?, change("a", value("0")))?;
    }
    for text in ["1", "2"] {
        write(context, &bucket, "a", text).await?;
        for watch in [&mut one, &mut other] {
            equal("change", context.see(watch).await?, change("a", value(text)))?;
        }
    }
    drop(one);
    write(context, &bucket, "a", "3").await?;
    equal("change", context.see(&mut other).await?, change("a", value("3")))
}

async fn a_dropped_wait_for_a_change_loses_none(context: &Context) -> CaseResult {
    let (bucket, _) = bucket(context, &[]).await?;
    let mut watch = context.watch(&bucket, Revision::START).await?;
    context.see_current(&mut watch, &mut Mirror::default()).await?;
    for n in 0..20 {
        context.sees_nothing(&mut watch).await?;
        let text = n.to_string();
        write(context, &bucket, "a", &text).await?;
        equal("change", context.see(&mut watch).await?, change("a", value(&text)))?;
    }
    Ok(())
}

async fn a_watch_ends_with_the_close(context: &Context) -> CaseResult {
    let (bucket, _) = bucket(context, &[]).await?;
    let mut watch = context.watch(&bucket, Revision::START).await?;
    context.see_current(&mut watch, &mut Mirror::default()).await?;
    let closing = async {
        tokio::task::yield_now().await;
        context.bus.close().await
    };
    let waiting = context.wait("the end of a watch", watch.next());
    let (end, closed) = tokio::join!(waiting, closing);
    closed?;
    equal("an item came", end?.is_some(), false)
}
