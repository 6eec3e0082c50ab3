//! What the store of blobs keeps, counts and gives back.

use bus_core::{BlobInfo, BlobPiece, ErrorKind};
use bus_envelope::tree::{MerkleTree, leaf_hash};
use bus_subjects::{BucketKey, BucketName};
use bytes::Bytes;

use super::super::{BlobStore, Upload};
use crate::Limits;

fn store(blob_bytes_max: u64) -> BlobStore {
    BlobStore::new(Limits { blob_bytes_max, ..Limits::default() })
}

fn bucket() -> BucketName {
    BucketName::parse("b").unwrap()
}

fn key(text: &str) -> BucketKey {
    BucketKey::parse(text).unwrap()
}

fn piece(content: &'static str) -> BlobPiece {
    let bytes = Bytes::from_static(content.as_bytes());
    BlobPiece { leaf: leaf_hash(&bytes), bytes }
}

fn info(of: &str, content: &str) -> BlobInfo {
    let mut tree = MerkleTree::new();
    tree.append(content.as_bytes());
    BlobInfo { key: key(of), bytes: content.len() as u64, digest: tree.root() }
}

fn upload(store: &BlobStore, content: &'static str) -> Upload {
    let mut upload = store.begin().unwrap();
    upload.add(piece(content)).unwrap();
    upload
}

fn put(store: &mut BlobStore, of: &str, content: &'static str) {
    let upload = upload(store, content);
    store.finish(bucket(), info(of, content), upload);
}

#[test]
fn an_upload_is_invisible_until_it_is_complete() {
    let mut store = store(10_000);
    let upload = upload(&store, "content");
    assert!(store.get(&bucket(), &key("k")).is_none());
    store.finish(bucket(), info("k", "content"), upload);
    let blob = store.get(&bucket(), &key("k")).unwrap();
    assert_eq!(
        (blob.info(), blob.pieces()),
        (&info("k", "content"), &[piece("content").bytes][..])
    );
    assert_eq!(blob.leaves()[..], [piece("content").leaf]);
}

#[test]
fn an_upload_that_is_dropped_leaves_nothing() {
    let store = store(10_000);
    let upload = upload(&store, "content");
    assert_eq!(store.bytes(), 1_024 + 128 + 7);
    drop(upload);
    assert_eq!(store.bytes(), 0);
}

#[test]
fn uploads_and_blobs_share_the_bytes_allowed() {
    let mut store = store(2 * (1_024 + 128) + 10);
    put(&mut store, "k", "five5");
    let mut coming = upload(&store, "five5");
    assert_eq!(coming.add(piece("")).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(store.begin().unwrap_err().kind(), ErrorKind::Full);
    store.remove(&bucket(), &key("k"));
    coming.add(piece("")).unwrap();
}

#[test]
fn a_replaced_blob_counts_as_long_as_it_is_read() {
    let mut store = store(10_000);
    put(&mut store, "k", "old");
    let reader = store.get(&bucket(), &key("k")).unwrap();
    put(&mut store, "k", "new!");
    assert_eq!(store.bytes(), 2 * (1_024 + 128) + 7);
    assert_eq!(reader.pieces(), [piece("old").bytes]);
    drop(reader);
    assert_eq!(store.bytes(), 1_024 + 128 + 4);
}

#[test]
fn a_removed_blob_is_gone_and_can_be_removed_once() {
    let mut store = store(10_000);
    put(&mut store, "k", "content");
    assert!(store.remove(&bucket(), &key("k")).is_some());
    assert!(store.get(&bucket(), &key("k")).is_none());
    assert!(store.remove(&bucket(), &key("k")).is_none());
    assert_eq!(store.bytes(), 0);
}

#[test]
fn blobs_are_listed_by_key_some_at_a_time() {
    let mut store = store(10_000);
    for of in ["c", "a", "b"] {
        put(&mut store, of, "content");
    }
    let keys = |after: Option<&str>, blobs_max| -> Vec<String> {
        let after = after.map(key);
        let listed = store.list(&bucket(), after.as_ref(), blobs_max);
        listed.iter().map(|info| info.key.to_string()).collect()
    };
    assert_eq!(keys(None, 2), ["a", "b"]);
    assert_eq!(keys(Some("b"), 2), ["c"]);
    assert_eq!(keys(Some("c"), 2), [""; 0]);
    assert!(store.list(&BucketName::parse("other").unwrap(), None, 9).is_empty());
}
