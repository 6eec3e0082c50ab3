//! Blobs: whole or not there, read as they were begun, and known by what they hold.

use std::sync::Arc;

use bus_core::{Blob, BlobBody, BlobInfo, Error, ErrorKind, Put, Result};
use bus_subjects::{BucketKey, BucketName};
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::Notify;

use crate::{
    case::{Case, cases},
    check::{CaseResult, Failure, equal, holds, refused},
    context::Context,
    mirror::put,
};

pub(super) const CASES: &[Case] = cases![Nothing:
    a_blob_is_read_back_whole,
    a_blob_in_odd_parts_is_read_back_whole,
    an_empty_blob_is_a_blob,
    the_digest_of_a_blob_is_the_root_of_its_pieces,
    the_digest_of_a_blob_does_not_depend_on_its_parts,
    what_is_said_of_a_blob_is_the_same_everywhere,
    a_blob_is_seen_by_every_connection,
    a_blob_never_put_is_absent,
    a_blob_takes_the_place_of_the_one_before,
    an_unfinished_blob_is_invisible,
    an_aborted_blob_is_invisible,
    a_dropped_upload_is_invisible,
    an_aborted_upload_leaves_the_blob_before,
    the_error_of_a_body_is_the_answer,
    a_reader_keeps_the_blob_it_began,
    a_deleted_blob_is_gone,
    blobs_are_listed_by_key,
    blobs_and_values_and_buckets_are_apart,
    racing_uploads_of_one_blob_leave_one_of_them,
];

const PIECE: usize = BlobInfo::PIECE_BYTES;

/// Bytes without a pattern that a piece could hide.
fn content(bytes: usize) -> Bytes {
    (0..bytes).map(|i| (i.wrapping_mul(31) + (i >> 8) * 7 + (i >> 16)).to_le_bytes()[0]).collect()
}

/// `content` in parts whose sizes go round `sizes`.
fn in_parts(content: &Bytes, sizes: &[usize]) -> Vec<Result<Bytes>> {
    let (mut left, mut parts) = (content.clone(), Vec::new());
    let mut sizes = sizes.iter().cycle();
    while !left.is_empty() {
        let size = sizes.next().copied().unwrap_or(1).min(left.len());
        parts.push(Ok(left.split_to(size)));
    }
    parts
}

fn key(key: &str) -> CaseResult<BucketKey> {
    Ok(BucketKey::parse(key)?)
}

async fn upload(context: &Context, name: &str, body: impl Into<BlobBody>) -> CaseResult<BlobInfo> {
    Ok(context.bus.put_blob(context.bucket("FILES")?, key(name)?, body.into()).await?)
}

async fn get(context: &Context, name: &str) -> CaseResult<Option<Blob>> {
    Ok(context.bus.get_blob(context.bucket("FILES")?, key(name)?).await?)
}

async fn read(context: &Context, mut body: BlobBody) -> CaseResult<Bytes> {
    let mut all = Vec::new();
    while let Some(part) = context.wait("a blob", body.next()).await? {
        all.extend_from_slice(&part?);
    }
    Ok(all.into())
}

/// Fails unless the blob `name` holds exactly `expected`; says where it differs.
async fn holds_blob(context: &Context, name: &str, expected: &Bytes) -> CaseResult {
    let blob = get(context, name).await?;
    let blob = blob.ok_or_else(|| Failure::new(format!("there is no blob {name}")))?;
    equal("bytes announced", blob.info.bytes, expected.len() as u64)?;
    is_content(&read(context, blob.body).await?, expected)
}

fn is_content(got: &Bytes, expected: &Bytes) -> CaseResult {
    equal("bytes read", got.len(), expected.len())?;
    let at = got.iter().zip(expected).position(|(got, expected)| got != expected);
    equal("first byte that differs", at, None)
}

async fn is_absent(context: &Context, name: &str) -> CaseResult {
    holds(get(context, name).await?.is_none(), || format!("{name} is there"))?;
    let listed = context.bus.list_blobs(context.bucket("FILES")?).await?;
    holds(listed.iter().all(|info| info.key.as_str() != name), || format!("{name} is listed"))
}

async fn a_blob_is_read_back_whole(context: &Context) -> CaseResult {
    for bytes in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 1 << 20] {
        let content = content(bytes);
        let name = format!("b-{bytes}");
        let info = upload(context, &name, content.clone()).await?;
        equal("bytes in the answer", info.bytes, bytes as u64)?;
        equal("key in the answer", info.key.as_str(), name.as_str())?;
        holds_blob(context, &name, &content).await?;
    }
    Ok(())
}

async fn a_blob_in_odd_parts_is_read_back_whole(context: &Context) -> CaseResult {
    let content = content((1 << 20) + 12_345);
    for (name, sizes) in [
        ("small", &[17_usize][..]),
        ("odd", &[1, 65_535, 3, 65_537, 100_000]),
        ("large", &[700_001]),
    ] {
        upload(context, name, BlobBody::new(stream::iter(in_parts(&content, sizes)))).await?;
        holds_blob(context, name, &content).await?;
    }
    let (empty, half) = (Bytes::new(), content.slice(..PIECE / 2));
    let parts = [Ok(empty.clone()), Ok(half.clone()), Ok(empty.clone()), Ok(half), Ok(empty)];
    upload(context, "holes", BlobBody::new(stream::iter(parts))).await?;
    let blob = get(context, "holes").await?.map(|blob| blob.info.bytes);
    equal("bytes of the one with empty parts", blob, Some(PIECE as u64))
}

async fn an_empty_blob_is_a_blob(context: &Context) -> CaseResult {
    upload(context, "empty", Bytes::new()).await?;
    holds_blob(context, "empty", &Bytes::new()).await?;
    upload(context, "no-parts", BlobBody::new(stream::iter([]))).await?;
    holds_blob(context, "no-parts", &Bytes::new()).await?;
    let listed = context.bus.list_blobs(context.bucket("FILES")?).await?;
    equal("blobs listed", listed.len(), 2)
}

/// Roots of the RFC 6962 tree over [`content`], computed by another implementation.
const ROOTS: [(usize, &str); 7] = [
    (0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    (1, "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7"),
    (65_535, "f440fc676566bd701dccfad56e0d207af0e2ef175bdc53b832f38dc8f1bc901f"),
    (65_536, "afaae09a0db7a42d46f065a96a0b92346dbdcd40e7c24b9395e1f5f1cbc90c53"),
    (65_537, "5fe258c293d3b4377f5d2769415fbf9984025b99027a6279fa493a2cf01418f7"),
    (196_608, "0ddd193f020c65632bafba08dbed4a642ee6f3591973aee17495bc623d87f73a"),
    (1_060_921, "a7df063ae32f4474f5ca3423a47e2b6cb5f26bc0c4ef463db5605ec0186249f3"),
];

async fn the_digest_of_a_blob_is_the_root_of_its_pieces(context: &Context) -> CaseResult {
    for (bytes, root) in ROOTS {
        let info = upload(context, "b", content(bytes)).await?;
        equal(&format!("digest of {bytes} bytes"), info.digest.to_string(), root)?;
    }
    Ok(())
}

async fn the_digest_of_a_blob_does_not_depend_on_its_parts(context: &Context) -> CaseResult {
    let content = content(200_000);
    let whole = upload(context, "whole", content.clone()).await?.digest;
    for sizes in [&[1_000_usize][..], &[65_536], &[65_537, 1], &[7, 99_991]] {
        let body = BlobBody::new(stream::iter(in_parts(&content, sizes)));
        let digest = upload(context, "parts", body).await?.digest;
        equal(&format!("digest of parts of {sizes:?}"), digest, whole)?;
    }
    let other = upload(context, "other", content.slice(1..)).await?.digest;
    holds(other != whole, || "other content has the same digest".to_owned())
}

async fn what_is_said_of_a_blob_is_the_same_everywhere(context: &Context) -> CaseResult {
    let info = upload(context, "b", content(PIECE * 2 + 1)).await?;
    let got = get(context, "b").await?.map(|blob| blob.info);
    equal("when it is read", got.as_ref(), Some(&info))?;
    let listed = context.bus.list_blobs(context.bucket("FILES")?).await?;
    equal("when it is listed", listed, [info])
}

async fn a_blob_is_seen_by_every_connection(context: &Context) -> CaseResult {
    let other = context.connect("other").await?;
    let info = upload(context, "b", content(PIECE + 1)).await?;
    let seen = other.get_blob(context.bucket("FILES")?, key("b")?).await?;
    let seen = seen.ok_or_else(|| Failure::new("the other connection sees no blob"))?;
    equal("what the other connection sees", &seen.info, &info)?;
    is_content(&read(context, seen.body).await?, &content(PIECE + 1))?;
    other.delete_blob(context.bucket("FILES")?, key("b")?).await?;
    is_absent(context, "b").await
}

async fn a_blob_never_put_is_absent(context: &Context) -> CaseResult {
    is_absent(context, "b").await?;
    upload(context, "other", content(1)).await?;
    is_absent(context, "b").await
}

async fn a_blob_takes_the_place_of_the_one_before(context: &Context) -> CaseResult {
    for bytes in [100_000, 5, 0, 70_000] {
        upload(context, "b", content(bytes)).await?;
        holds_blob(context, "b", &content(bytes)).await?;
    }
    let listed = context.bus.list_blobs(context.bucket("FILES")?).await?;
    let listed: Vec<_> = listed.iter().map(|info| info.bytes).collect();
    equal("sizes listed", listed, [70_000])
}

/// A body that yields `content` and then waits before it ends.
fn held_back(content: &Bytes, go_on: &Arc<Notify>) -> BlobBody {
    let parts = in_parts(content, &[PIECE / 2]).into_iter();
    BlobBody::new(stream::unfold((parts, Arc::clone(go_on)), |(mut parts, go_on)| async {
        match parts.next() {
            Some(part) => Some((part, (parts, go_on))),
            None => {
                go_on.notified().await;
                None
            }
        }
    }))
}

async fn an_unfinished_blob_is_invisible(context: &Context) -> CaseResult {
    let (bucket, content) = (context.bucket("FILES")?, content(PIECE * 3));
    let go_on = Arc::new(Notify::new());
    let body = held_back(&content, &go_on);
    let mut uploading = context.bus.put_blob(bucket, key("b")?, body);
    context.nothing("the answer to an unfinished upload", &mut uploading).await?;
    is_absent(context, "b").await?;
    go_on.notify_one();
    context.wait("the upload", uploading).await??;
    holds_blob(context, "b", &content).await
}

/// A body that yields `content` and then fails with an error of `kind`.
fn broken_off(content: &Bytes, kind: ErrorKind) -> BlobBody {
    let mut parts = in_parts(content, &[PIECE / 3]);
    parts.push(Err(Error::new(kind, "read", "the source broke off")));
    BlobBody::new(stream::iter(parts))
}

async fn an_aborted_blob_is_invisible(context: &Context) -> CaseResult {
    for bytes in [0, 1, PIECE, PIECE * 3 + 1] {
        let body = broken_off(&content(bytes), ErrorKind::Unavailable);
        let put = context.bus.put_blob(context.bucket("FILES")?, key("b")?, body).await;
        holds(put.is_err(), || format!("it was taken after {bytes} bytes"))?;
        is_absent(context, "b").await?;
    }
    Ok(())
}

/// Begins an upload and drops it after `content` was taken.
async fn drop_upload(context: &Context, name: &str, content: &Bytes) -> CaseResult {
    let never = Arc::new(Notify::new());
    let body = held_back(content, &never);
    let mut uploading = context.bus.put_blob(context.bucket("FILES")?, key(name)?, body);
    context.nothing("the answer to an unfinished upload", &mut uploading).await
}

async fn a_dropped_upload_is_invisible(context: &Context) -> CaseResult {
    for bytes in [0, 1, PIECE, PIECE * 3 + 1] {
        drop_upload(context, "b", &content(bytes)).await?;
        is_absent(context, "b").await?;
    }
    Ok(())
}

async fn an_aborted_upload_leaves_the_blob_before(context: &Context) -> CaseResult {
    let before = content(PIECE + 5);
    upload(context, "b", before.clone()).await?;
    let body = broken_off(&content(PIECE * 4), ErrorKind::Unavailable);
    let put = context.bus.put_blob(context.bucket("FILES")?, key("b")?, body).await;
    holds(put.is_err(), || "an upload that broke off was taken".to_owned())?;
    holds_blob(context, "b", &before).await?;
    drop_upload(context, "b", &content(PIECE * 4)).await?;
    holds_blob(context, "b", &before).await
}

async fn the_error_of_a_body_is_the_answer(context: &Context) -> CaseResult {
    for kind in [ErrorKind::Corrupt, ErrorKind::Denied, ErrorKind::UnknownKey] {
        let body = broken_off(&content(PIECE * 2), kind);
        let put = context.bus.put_blob(context.bucket("FILES")?, key("b")?, body).await;
        refused("an upload that broke off", put, kind)?;
    }
    Ok(())
}

async fn a_reader_keeps_the_blob_it_began(context: &Context) -> CaseResult {
    let first = content(PIECE * 4 + 3);
    upload(context, "b", first.clone()).await?;
    let began = async || {
        let blob = get(context, "b").await?.ok_or_else(|| Failure::new("there is no blob"))?;
        let mut body = blob.body;
        let part = context.wait("the first part", body.next()).await?;
        let part = part.ok_or_else(|| Failure::new("the blob is empty"))??;
        CaseResult::Ok((part.to_vec(), body))
    };
    let (before_replaced, before_deleted) = (began().await?, began().await?);
    upload(context, "b", content(10)).await?;
    let (mut got, rest) = before_replaced;
    got.extend_from_slice(&read(context, rest).await?);
    is_content(&got.into(), &first)?;
    context.bus.delete_blob(context.bucket("FILES")?, key("b")?).await?;
    let (mut got, rest) = before_deleted;
    got.extend_from_slice(&read(context, rest).await?);
    is_content(&got.into(), &first)
}

async fn a_deleted_blob_is_gone(context: &Context) -> CaseResult {
    let bucket = context.bucket("FILES")?;
    let delete = async || CaseResult::Ok(context.bus.delete_blob(bucket.clone(), key("b")?).await?);
    equal("there was one before any", delete().await?, false)?;
    upload(context, "b", content(PIECE + 1)).await?;
    upload(context, "stays", content(1)).await?;
    equal("there was one", delete().await?, true)?;
    is_absent(context, "b").await?;
    equal("there was one still", delete().await?, false)?;
    holds_blob(context, "stays", &content(1)).await?;
    upload(context, "b", content(3)).await?;
    holds_blob(context, "b", &content(3)).await
}

async fn blobs_are_listed_by_key(context: &Context) -> CaseResult {
    equal(
        "blobs of an unknown bucket",
        context.bus.list_blobs(context.bucket("NONE")?).await?,
        [],
    )?;
    let mut expected = Vec::new();
    for name in ["b", "a/z", "a.b", "A", "c"] {
        expected.push(upload(context, name, content(name.len())).await?);
    }
    expected.sort_by(|one, other| one.key.cmp(&other.key));
    equal("blobs", context.bus.list_blobs(context.bucket("FILES")?).await?, expected)
}

async fn blobs_and_values_and_buckets_are_apart(context: &Context) -> CaseResult {
    let (files, other) = (context.bucket("FILES")?, context.bucket("OTHER")?);
    upload(context, "k", content(3)).await?;
    context.bus.put_blob(other.clone(), key("k")?, content(5).into()).await?;
    let value = context.bus.get(files.clone(), key("k")?).await?;
    equal("value under the key of a blob", value, None)?;
    put(context.bus.as_ref(), &files, "k", Put::new("v")).await?;
    holds_blob(context, "k", &content(3)).await?;
    context.bus.delete_blob(files.clone(), key("k")?).await?;
    let value = context.bus.get(files, key("k")?).await?.map(|entry| entry.value);
    equal("value after the blob went", value, Some(Bytes::from_static(b"v")))?;
    let left = context.bus.list_blobs(other).await?;
    equal("blobs in the other bucket", left.len(), 1)
}

async fn racing_uploads_of_one_blob_leave_one_of_them(context: &Context) -> CaseResult {
    let mut racing = Vec::new();
    for n in 0..4_usize {
        let bus = context.connect(&format!("writer-{n}")).await?;
        let bucket: BucketName = context.bucket("FILES")?;
        let content = content(PIECE * n + n);
        racing.push(async move {
            let parts = stream::iter(in_parts(&content, &[10_000 + n]));
            Ok(bus.put_blob(bucket, key("b")?, BlobBody::new(parts)).await?)
        });
    }
    let written = context.race(racing).await?;
    let blob = get(context, "b").await?.ok_or_else(|| Failure::new("there is no blob"))?;
    holds(written.contains(&blob.info), || format!("nobody wrote {:?}", blob.info))?;
    let bytes = usize::try_from(blob.info.bytes).unwrap_or(usize::MAX);
    holds_blob(context, "b", &content(bytes)).await
}
