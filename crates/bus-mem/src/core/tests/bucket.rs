//! Bounds and sizes of buckets; the promises are cases of the conformance suite.

use bus_core::{ErrorKind, ExpectRevision, Frame, Revision};
use bus_subjects::{BucketKey, BucketName};
use bytes::Bytes;

use super::super::BucketStore;
use crate::Limits;

fn store(buckets_max: usize, keys_per_bucket_max: usize) -> BucketStore {
    BucketStore::new(Limits { buckets_max, keys_per_bucket_max, ..Limits::default() })
}

fn put(store: &mut BucketStore, bucket: &str, key: &str) -> bus_core::Result<Revision> {
    let (bucket, key) = (BucketName::parse(bucket).unwrap(), BucketKey::parse(key).unwrap());
    store.put(&bucket, &key, Bytes::from_static(b"v"), ExpectRevision::Any)
}

#[test]
fn a_full_bucket_still_takes_new_values_of_its_keys() {
    let mut store = store(1, 1);
    put(&mut store, "b", "k").unwrap();
    assert_eq!(put(&mut store, "b", "l").unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(put(&mut store, "c", "k").unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(put(&mut store, "b", "k").unwrap(), Revision(2));
}

#[test]
fn a_deleted_key_makes_room() {
    let mut store = store(1, 1);
    put(&mut store, "b", "k").unwrap();
    let (bucket, key) = (BucketName::parse("b").unwrap(), BucketKey::parse("k").unwrap());
    store.delete(&bucket, &key, ExpectRevision::Exactly(Revision(1))).unwrap();
    assert!(put(&mut store, "b", "l").unwrap() > Revision(1));
}

#[test]
fn a_value_over_the_size_of_a_frame_is_too_large() {
    let (bucket, key) = (BucketName::parse("b").unwrap(), BucketKey::parse("k").unwrap());
    let value = Bytes::from(vec![0; Frame::BYTES_MAX + 1]);
    let refused = store(1, 1).put(&bucket, &key, value, ExpectRevision::Any).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
}
