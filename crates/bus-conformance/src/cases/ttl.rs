//! Values with an end: there for their time, gone after it, and how they ended is told.

use std::time::Duration;

use bus_core::{ErrorKind, ExpectRevision, KeyState, Put, Revision};
use bus_subjects::{BucketKey, BucketName};

use crate::{
    case::{Case, cases},
    check::{CaseResult, equal, holds, refused},
    context::{A_MOMENT, Context},
    mirror::{put, value},
};

pub(super) const CASES: &[Case] = cases![Nothing:
    a_value_ends_with_its_time,
    a_value_put_anew_without_an_end_stays,
    a_value_put_anew_begins_a_new_time,
    a_value_put_anew_with_a_shorter_time_ends_earlier,
    a_refused_put_leaves_the_end_as_it_was,
    an_expired_key_counts_as_absent,
    an_expired_key_can_be_deleted,
    a_time_to_live_of_zero_is_invalid,
    a_waiting_watch_sees_a_value_end,
    an_expiry_is_a_write_of_its_own,
    an_end_by_time_and_an_end_by_hand_are_told_apart,
    a_deleted_value_does_not_expire_as_well,
];

/// How long the values of these cases stay.
const TTL: Duration = Duration::from_secs(2);
/// An engine may be late by a second; by then the value is gone.
const GONE: Duration = Duration::from_millis(3_100);

async fn holds_value(context: &Context, bucket: &BucketName, expected: Option<&str>) -> CaseResult {
    let entry = context.bus.get(bucket.clone(), BucketKey::parse("k")?).await?;
    let got = entry.map(|entry| String::from_utf8_lossy(&entry.value).into_owned());
    equal("value", got.as_deref(), expected)
}

async fn put_k(context: &Context, bucket: &BucketName, new: Put) -> CaseResult<Revision> {
    put(context.bus.as_ref(), bucket, "k", new).await
}

/// A bucket whose key `k` holds `v` for a while.
async fn with_an_end(context: &Context) -> CaseResult<(BucketName, Revision)> {
    let bucket = context.bucket("LEASES")?;
    let revision = put_k(context, &bucket, Put::new("v").ttl(TTL)).await?;
    Ok((bucket, revision))
}

async fn a_value_ends_with_its_time(context: &Context) -> CaseResult {
    let (bucket, _) = with_an_end(context).await?;
    context.elapse(TTL - A_MOMENT).await;
    holds_value(context, &bucket, Some("v")).await?;
    context.elapse(GONE - TTL + A_MOMENT).await;
    holds_value(context, &bucket, None).await
}

async fn a_value_put_anew_without_an_end_stays(context: &Context) -> CaseResult {
    let (bucket, _) = with_an_end(context).await?;
    put_k(context, &bucket, Put::new("w")).await?;
    context.elapse(GONE).await;
    holds_value(context, &bucket, Some("w")).await
}

async fn a_value_put_anew_begins_a_new_time(context: &Context) -> CaseResult {
    let (bucket, _) = with_an_end(context).await?;
    for n in 0..4 {
        context.elapse(TTL / 2).await;
        put_k(context, &bucket, Put::new(n.to_string()).ttl(TTL)).await?;
    }
    context.elapse(TTL / 2).await;
    holds_value(context, &bucket, Some("3")).await?;
    context.elapse(GONE).await;
    holds_value(context, &bucket, None).await
}

async fn a_value_put_anew_with_a_shorter_time_ends_earlier(context: &Context) -> CaseResult {
    let bucket = context.bucket("LEASES")?;
    put_k(context, &bucket, Put::new("long").ttl(TTL * 100)).await?;
    put_k(context, &bucket, Put::new("short").ttl(TTL)).await?;
    context.elapse(GONE).await;
    holds_value(context, &bucket, None).await
}

async fn a_refused_put_leaves_the_end_as_it_was(context: &Context) -> CaseResult {
    let (bucket, _) = with_an_end(context).await?;
    let late = Put::new("w").expect(ExpectRevision::Absent).ttl(TTL * 100);
    let refusal = context.bus.put(bucket.clone(), BucketKey::parse("k")?, late).await;
    refused("a put where something is", refusal, ErrorKind::Conflict)?;
    holds_value(context, &bucket, Some("v")).await?;
    context.elapse(GONE).await;
    holds_value(context, &bucket, None).await
}

async fn an_expired_key_counts_as_absent(context: &Context) -> CaseResult {
    let (bucket, before) = with_an_end(context).await?;
    context.elapse(GONE).await;
    let stale = Put::new("stale").expect(ExpectRevision::Exactly(before));
    let refusal = context.bus.put(bucket.clone(), BucketKey::parse("k")?, stale).await;
    refused("a put on the revision that expired", refusal, ErrorKind::Conflict)?;
    let after = put_k(context, &bucket, Put::new("new").expect(ExpectRevision::Absent)).await?;
    holds(after > before, || format!("{after:?} comes after {before:?}"))?;
    context.elapse(GONE).await;
    holds_value(context, &bucket, Some("new")).await
}

async fn an_expired_key_can_be_deleted(context: &Context) -> CaseResult {
    let (bucket, _) = with_an_end(context).await?;
    context.elapse(GONE).await;
    let key = BucketKey::parse("k")?;
    context.bus.delete(bucket.clone(), key.clone(), ExpectRevision::Absent).await?;
    Ok(context.bus.delete(bucket, key, ExpectRevision::Any).await?)
}

async fn a_time_to_live_of_zero_is_invalid(context: &Context) -> CaseResult {
    let bucket = context.bucket("LEASES")?;
    let none = Put::new("v").ttl(Duration::ZERO);
    let refusal = context.bus.put(bucket.clone(), BucketKey::parse("k")?, none).await;
    refused("a put for no time", refusal, ErrorKind::Invalid)?;
    holds_value(context, &bucket, None).await
}

async fn a_waiting_watch_sees_a_value_end(context: &Context) -> CaseResult {
    let (bucket, _) = with_an_end(context).await?;
    let mut watch = context.watch(&bucket, Revision::START).await?;
    equal("at first", context.see(&mut watch).await?, ("k".to_owned(), value("v")))?;
    // Nobody reads or writes the key: the time alone must tell the watch.
    equal("then", context.see(&mut watch).await?, ("k".to_owned(), KeyState::Expired))?;
    context.sees_nothing(&mut watch).await
}

async fn an_expiry_is_a_write_of_its_own(context: &Context) -> CaseResult {
    let (bucket, put_at) = with_an_end(context).await?;
    context.elapse(GONE).await;
    let mut mirror = crate::mirror::Mirror::default();
    let mut watch = context.watch(&bucket, put_at).await?;
    context.see_current(&mut watch, &mut mirror).await?;
    let expired_at = mirror.last;
    holds(expired_at > put_at, || format!("it ended at {expired_at:?}, put at {put_at:?}"))?;
    let again = put_k(context, &bucket, Put::new("w")).await?;
    holds(again > expired_at, || format!("{again:?} comes after {expired_at:?}"))
}

async fn an_end_by_time_and_an_end_by_hand_are_told_apart(context: &Context) -> CaseResult {
    let bucket = context.bucket("LEASES")?;
    let last = put(context.bus.as_ref(), &bucket, "by-time", Put::new("v").ttl(TTL)).await?;
    let last = last.max(put(context.bus.as_ref(), &bucket, "by-hand", Put::new("v")).await?);
    context.bus.delete(bucket.clone(), BucketKey::parse("by-hand")?, ExpectRevision::Any).await?;
    context.elapse(GONE).await;
    let mut watch = context.watch(&bucket, last).await?;
    let mut got = [context.see(&mut watch).await?, context.see(&mut watch).await?];
    got.sort_by(|one, other| one.0.cmp(&other.0));
    let by_hand = ("by-hand".to_owned(), KeyState::Deleted);
    equal("ends", got, [by_hand, ("by-time".to_owned(), KeyState::Expired)])
}

async fn a_deleted_value_does_not_expire_as_well(context: &Context) -> CaseResult {
    let (bucket, last) = with_an_end(context).await?;
    context.bus.delete(bucket.clone(), BucketKey::parse("k")?, ExpectRevision::Any).await?;
    let mut watch = context.watch(&bucket, last).await?;
    equal("end", context.see(&mut watch).await?, ("k".to_owned(), KeyState::Deleted))?;
    context.see_current(&mut watch, &mut crate::mirror::Mirror::default()).await?;
    context.elapse(GONE).await;
    context.sees_nothing(&mut watch).await
}
