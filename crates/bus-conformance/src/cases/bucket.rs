//! Buckets: one value a key, and writes that say what they expect.

use bus_core::{Entry, Error, ErrorKind, ExpectRevision, Put, Revision};
use bus_subjects::BucketKey;
use bytes::Bytes;

use crate::{
    case::{Case, cases},
    check::{CaseResult, equal, holds, refused},
    context::Context,
};

pub(super) const CASES: &[Case] = cases![Nothing:
    a_key_never_put_is_absent,
    a_value_is_read_back_with_its_revision,
    an_empty_value_is_a_value,
    a_put_is_seen_by_every_connection,
    revisions_grow_with_every_write,
    a_put_on_a_stale_revision_is_refused,
    a_put_on_the_exact_revision_is_taken,
    a_put_where_nothing_is_expected_takes_only_the_first,
    a_put_on_a_revision_of_an_absent_key_is_refused,
    racing_first_puts_let_one_through,
    a_deleted_key_is_absent,
    a_deleted_key_can_be_put_as_if_new,
    deleting_what_is_not_there_is_fine,
    a_delete_on_a_stale_revision_is_refused,
    a_delete_on_the_exact_revision_is_taken,
    a_revision_from_before_a_delete_is_stale,
    keys_and_buckets_are_apart,
];

/// Puts `value` under `key` of the case's bucket.
async fn put(
    context: &Context,
    key: &str,
    value: &str,
    expect: ExpectRevision,
) -> CaseResult<Result<Revision, Error>> {
    let (bucket, key) = (context.bucket("CLAIMS")?, BucketKey::parse(key)?);
    Ok(context.bus.put(bucket, key, Put::new(value.to_owned()).expect(expect)).await)
}

async fn put_any(context: &Context, key: &str, value: &str) -> CaseResult<Revision> {
    Ok(put(context, key, value, ExpectRevision::Any).await??)
}

async fn delete(
    context: &Context,
    key: &str,
    expect: ExpectRevision,
) -> CaseResult<Result<(), Error>> {
    let (bucket, key) = (context.bucket("CLAIMS")?, BucketKey::parse(key)?);
    Ok(context.bus.delete(bucket, key, expect).await)
}

async fn holds_value(context: &Context, key: &str, value: Option<&str>) -> CaseResult {
    let entry = context.bus.get(context.bucket("CLAIMS")?, BucketKey::parse(key)?).await?;
    let expected = value.map(|value| Bytes::from(value.to_owned()));
    equal(&format!("value under {key}"), entry.map(|entry| entry.value), expected)
}

async fn a_key_never_put_is_absent(context: &Context) -> CaseResult {
    holds_value(context, "k1", None).await?;
    put_any(context, "k2", "v").await?;
    holds_value(context, "k1", None).await
}

async fn a_value_is_read_back_with_its_revision(context: &Context) -> CaseResult {
    let (bucket, key) = (context.bucket("CLAIMS")?, BucketKey::parse("a.b/c=1_-")?);
    let value: Bytes = (0..=u8::MAX).collect();
    let put = context.bus.put(bucket.clone(), key.clone(), Put::new(value.clone()));
    let revision = put.await?;
    equal("entry", context.bus.get(bucket, key).await?, Some(Entry { value, revision }))
}

async fn an_empty_value_is_a_value(context: &Context) -> CaseResult {
    put_any(context, "k1", "").await?;
    holds_value(context, "k1", Some("")).await?;
    let again = put(context, "k1", "v", ExpectRevision::Absent).await?;
    refused("a put where an empty value stands", again, ErrorKind::Conflict)
}

async fn a_put_is_seen_by_every_connection(context: &Context) -> CaseResult {
    let other = context.connect("other").await?;
    for n in 0..20 {
        let revision = put_any(context, "k1", &n.to_string()).await?;
        let seen = other.get(context.bucket("CLAIMS")?, BucketKey::parse("k1")?).await?;
        equal("revision seen by another", seen.map(|entry| entry.revision), Some(revision))?;
    }
    Ok(())
}

async fn revisions_grow_with_every_write(context: &Context) -> CaseResult {
    let mut before = None;
    for (n, key) in ["k1", "k2", "k1", "k1", "k3", "k2"].iter().enumerate() {
        let revision = put_any(context, key, &n.to_string()).await?;
        holds(before < Some(revision), || format!("{revision:?} comes after {before:?}"))?;
        before = Some(revision);
    }
    Ok(())
}

async fn a_put_on_a_stale_revision_is_refused(context: &Context) -> CaseResult {
    let old = put_any(context, "k1", "one").await?;
    put_any(context, "k1", "two").await?;
    for stale in [old, Revision(0), Revision(u64::MAX)] {
        let written = put(context, "k1", "late", ExpectRevision::Exactly(stale)).await?;
        refused(&format!("a put on {stale:?}"), written, ErrorKind::Conflict)?;
    }
    holds_value(context, "k1", Some("two")).await
}

async fn a_put_on_the_exact_revision_is_taken(context: &Context) -> CaseResult {
    let mut revision = put_any(context, "k1", "0").await?;
    put_any(context, "k2", "other").await?;
    for n in 1..5 {
        let expect = ExpectRevision::Exactly(revision);
        revision = put(context, "k1", &n.to_string(), expect).await??;
    }
    holds_value(context, "k1", Some("4")).await
}

async fn a_put_where_nothing_is_expected_takes_only_the_first(context: &Context) -> CaseResult {
    put(context, "k1", "first", ExpectRevision::Absent).await??;
    let second = put(context, "k1", "second", ExpectRevision::Absent).await?;
    refused("a second first put", second, ErrorKind::Conflict)?;
    holds_value(context, "k1", Some("first")).await
}

async fn a_put_on_a_revision_of_an_absent_key_is_refused(context: &Context) -> CaseResult {
    let elsewhere = put_any(context, "k2", "v").await?;
    let written = put(context, "k1", "v", ExpectRevision::Exactly(elsewhere)).await?;
    refused("a put on another key's revision", written, ErrorKind::Conflict)?;
    holds_value(context, "k1", None).await
}

async fn racing_first_puts_let_one_through(context: &Context) -> CaseResult {
    let mut racing = Vec::new();
    for n in 0..8 {
        let bus = context.connect(&format!("writer-{n}")).await?;
        let (bucket, key) = (context.bucket("CLAIMS")?, BucketKey::parse("k1")?);
        racing.push(async move {
            let before = bus.get(bucket.clone(), key.clone()).await?;
            // Lets every other writer see that nothing is there.
            tokio::task::yield_now().await;
            let value = Bytes::from(n.to_string());
            let written =
                bus.put(bucket, key, Put::new(value).expect(ExpectRevision::Absent)).await;
            CaseResult::Ok((before, written))
        });
    }
    let mut winners = 0;
    for (before, written) in context.race(racing).await? {
        match written {
            Ok(_) => {
                equal("value before the write that won", before, None)?;
                winners += 1;
            }
            lost => refused("a put that lost the race", lost, ErrorKind::Conflict)?,
        }
    }
    equal("winners", winners, 1)
}

async fn a_deleted_key_is_absent(context: &Context) -> CaseResult {
    put_any(context, "k1", "v").await?;
    put_any(context, "k2", "stays").await?;
    delete(context, "k1", ExpectRevision::Any).await??;
    holds_value(context, "k1", None).await?;
    holds_value(context, "k2", Some("stays")).await
}

async fn a_deleted_key_can_be_put_as_if_new(context: &Context) -> CaseResult {
    let before = put_any(context, "k1", "old").await?;
    delete(context, "k1", ExpectRevision::Any).await??;
    let after = put(context, "k1", "new", ExpectRevision::Absent).await??;
    holds(after > before, || format!("{after:?} comes after {before:?}"))?;
    holds_value(context, "k1", Some("new")).await
}

async fn deleting_what_is_not_there_is_fine(context: &Context) -> CaseResult {
    delete(context, "never-put", ExpectRevision::Any).await??;
    put_any(context, "k1", "v").await?;
    delete(context, "k1", ExpectRevision::Any).await??;
    Ok(delete(context, "k1", ExpectRevision::Any).await??)
}

async fn a_delete_on_a_stale_revision_is_refused(context: &Context) -> CaseResult {
    let old = put_any(context, "k1", "one").await?;
    put_any(context, "k1", "two").await?;
    let deleted = delete(context, "k1", ExpectRevision::Exactly(old)).await?;
    refused("a delete on a stale revision", deleted, ErrorKind::Conflict)?;
    let deleted = delete(context, "k1", ExpectRevision::Absent).await?;
    refused("a delete that expects nothing there", deleted, ErrorKind::Conflict)?;
    holds_value(context, "k1", Some("two")).await
}

async fn a_delete_on_the_exact_revision_is_taken(context: &Context) -> CaseResult {
    let revision = put_any(context, "k1", "v").await?;
    delete(context, "k1", ExpectRevision::Exactly(revision)).await??;
    holds_value(context, "k1", None).await
}

async fn a_revision_from_before_a_delete_is_stale(context: &Context) -> CaseResult {
    let old = put_any(context, "k1", "old").await?;
    delete(context, "k1", ExpectRevision::Any).await??;
    let written = put(context, "k1", "late", ExpectRevision::Exactly(old)).await?;
    refused("a put on a deleted revision", written, ErrorKind::Conflict)?;
    holds_value(context, "k1", None).await
}

async fn keys_and_buckets_are_apart(context: &Context) -> CaseResult {
    put_any(context, "k", "one").await?;
    put_any(context, "k.k", "two").await?;
    put_any(context, "K", "three").await?;
    let (other, key) = (context.bucket("OTHER")?, BucketKey::parse("k")?);
    let value = Bytes::from_static(b"four");
    context
        .bus
        .put(other.clone(), key.clone(), Put::new(value.clone()).expect(ExpectRevision::Absent))
        .await?;
    for (key, value) in [("k", "one"), ("k.k", "two"), ("K", "three")] {
        holds_value(context, key, Some(value)).await?;
    }
    let elsewhere = context.bus.get(other, key).await?;
    equal("value in the other bucket", elsewhere.map(|entry| entry.value), Some(value))
}
