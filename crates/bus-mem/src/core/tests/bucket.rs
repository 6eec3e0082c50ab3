//! Ends, revisions, bounds and sizes of buckets.

use std::time::Duration;

use bus_core::{ErrorKind, ExpectRevision, Frame, Put, Revision};
use bus_envelope::Timestamp;
use bus_subjects::{BucketKey, BucketName};
use bytes::Bytes;

use super::{super::BucketStore, at};
use crate::Limits;

/// What a record counts for beside its key and value.
const RECORD: u64 = 256;

/// A store with the time, so that tests read as sentences.
struct Shelf {
    store: BucketStore,
    now: Timestamp,
}

fn shelf(limits: Limits) -> Shelf {
    Shelf { store: BucketStore::new(limits), now: at(0) }
}

/// Room for so many bytes.
fn bytes_max(bucket_bytes_max: u64) -> Shelf {
    shelf(Limits { bucket_bytes_max, ..Limits::default() })
}

fn name(text: &str) -> BucketName {
    BucketName::parse(text).unwrap()
}

fn key(text: &str) -> BucketKey {
    BucketKey::parse(text).unwrap()
}

fn value() -> Put {
    Put::new(Bytes::from_static(b"v"))
}

fn ttl(ms: u64) -> Put {
    value().ttl(Duration::from_millis(ms))
}

impl Shelf {
    fn put(&mut self, of: &str, put: Put) -> bus_core::Result<Revision> {
        self.store.put(&name("b"), &key(of), put, self.now)
    }

    fn put_elsewhere(&mut self, of: &str) -> bus_core::Result<Revision> {
        self.store.put(&name("c"), &key(of), value(), self.now)
    }

    fn delete(&mut self, of: &str, expect: ExpectRevision) -> bus_core::Result<()> {
        self.store.delete(&name("b"), &key(of), expect, self.now)
    }

    fn revision(&self, of: &str) -> Option<Revision> {
        self.store.get(&name("b"), &key(of), self.now).map(|entry| entry.revision)
    }
}

fn kind<T: std::fmt::Debug>(answer: bus_core::Result<T>) -> ErrorKind {
    answer.unwrap_err().kind()
}

#[test]
fn a_value_is_there_until_its_time_is_over() {
    let mut shelf = shelf(Limits::default());
    shelf.put("k", ttl(1_000)).unwrap();
    shelf.now = at(999);
    assert!(shelf.revision("k").is_some());
    shelf.now = at(1_000);
    assert_eq!(shelf.revision("k"), None, "nobody swept, and it is gone all the same");
}

#[test]
fn a_put_without_an_end_makes_a_value_stay() {
    let mut shelf = shelf(Limits::default());
    shelf.put("k", ttl(1_000)).unwrap();
    let last = shelf.put("k", value()).unwrap();
    shelf.now = at(5_000);
    assert!(!shelf.store.sweep(shelf.now));
    assert_eq!(shelf.revision("k"), Some(last));
}

#[test]
fn a_put_with_an_end_replaces_the_end_before() {
    let mut shelf = shelf(Limits::default());
    shelf.put("k", ttl(1_000)).unwrap();
    shelf.now = at(900);
    shelf.put("k", ttl(1_000)).unwrap();
    shelf.now = at(1_899);
    assert!(shelf.revision("k").is_some());
    shelf.now = at(1_900);
    assert_eq!(shelf.revision("k"), None);
}

#[test]
fn the_longest_time_to_live_is_as_good_as_none() {
    let mut shelf = shelf(Limits::default());
    shelf.put("k", value().ttl(Duration::MAX)).unwrap();
    shelf.now = at(u64::from(u32::MAX));
    assert!(shelf.revision("k").is_some());
}

#[test]
fn a_time_to_live_of_zero_is_invalid() {
    assert_eq!(kind(shelf(Limits::default()).put("k", ttl(0))), ErrorKind::Invalid);
}

#[test]
fn an_expired_key_is_absent_to_a_write() {
    let mut shelf = shelf(Limits::default());
    let old = shelf.put("k", ttl(1_000)).unwrap();
    shelf.now = at(1_000);
    let stale = value().expect(ExpectRevision::Exactly(old));
    assert_eq!(kind(shelf.put("k", stale)), ErrorKind::Conflict);
    assert_eq!(kind(shelf.delete("k", ExpectRevision::Exactly(old))), ErrorKind::Conflict);
    shelf.put("k", value().expect(ExpectRevision::Absent)).unwrap();
}

#[test]
fn an_expiry_and_a_deletion_have_revisions_of_their_own() {
    let mut shelf = shelf(Limits::default());
    assert_eq!(shelf.put("k", ttl(1_000)).unwrap(), Revision(1));
    shelf.now = at(1_000);
    shelf.store.sweep(shelf.now);
    assert_eq!(shelf.put("l", value()).unwrap(), Revision(3));
    shelf.delete("l", ExpectRevision::Any).unwrap();
    assert_eq!(shelf.put("m", value()).unwrap(), Revision(5));
}

#[test]
fn deleting_what_is_not_there_is_no_change() {
    let mut shelf = shelf(Limits::default());
    shelf.delete("k", ExpectRevision::Any).unwrap();
    shelf.put("k", value()).unwrap();
    shelf.delete("k", ExpectRevision::Any).unwrap();
    shelf.delete("k", ExpectRevision::Any).unwrap();
    assert_eq!(shelf.put("k", value()).unwrap(), Revision(3));
}

#[test]
fn a_sweep_ends_a_bounded_number_of_values() {
    let mut shelf = shelf(Limits::default());
    for n in 0..600 {
        shelf.put(&n.to_string(), ttl(1_000)).unwrap();
    }
    shelf.now = at(1_000);
    assert!(shelf.store.sweep(shelf.now), "256 ended");
    assert!(shelf.store.sweep(shelf.now), "512 ended");
    assert!(!shelf.store.sweep(shelf.now));
    assert_eq!(shelf.put("k", value()).unwrap(), Revision(1_201));
}

#[test]
fn a_key_whose_end_was_not_swept_yet_is_put_as_if_new() {
    let mut shelf = shelf(Limits::default());
    for n in 0..600 {
        shelf.put(&n.to_string(), ttl(1_000)).unwrap();
    }
    shelf.now = at(1_000);
    shelf.put("599", value().expect(ExpectRevision::Absent)).unwrap();
}

#[test]
fn a_full_bucket_still_takes_new_values_of_its_keys() {
    let mut shelf = shelf(Limits { buckets_max: 1, keys_per_bucket_max: 1, ..Limits::default() });
    shelf.put("k", value()).unwrap();
    assert_eq!(kind(shelf.put("l", value())), ErrorKind::Full);
    assert_eq!(kind(shelf.put_elsewhere("k")), ErrorKind::Full);
    assert_eq!(shelf.put("k", value()).unwrap(), Revision(2));
}

#[test]
fn a_key_that_ended_makes_room() {
    let mut shelf = shelf(Limits { keys_per_bucket_max: 1, ..Limits::default() });
    shelf.put("k", value()).unwrap();
    shelf.delete("k", ExpectRevision::Exactly(Revision(1))).unwrap();
    shelf.put("l", ttl(1_000)).unwrap();
    shelf.now = at(1_000);
    shelf.put("m", value()).unwrap();
}

#[test]
fn a_value_that_ended_makes_room_however_many_ended_before_it() {
    let mut shelf = shelf(Limits { keys_per_bucket_max: 1, ..Limits::default() });
    for n in 0..600 {
        shelf.store.put(&name(&format!("c{n}")), &key("k"), ttl(1), shelf.now).unwrap();
    }
    shelf.put("k", ttl(2)).unwrap();
    shelf.now = at(2);
    shelf.put("l", value()).unwrap();
}

#[test]
fn a_value_over_the_size_of_a_frame_is_too_large() {
    let put = Put::new(vec![0; Frame::BYTES_MAX + 1]);
    assert_eq!(kind(shelf(Limits::default()).put("k", put)), ErrorKind::TooLarge);
}

#[test]
fn keys_and_values_over_the_bytes_allowed_are_refused() {
    let mut shelf = bytes_max(2 * RECORD + 4 + 90);
    shelf.put("k1", Put::new(vec![0; 90])).unwrap();
    assert_eq!(kind(shelf.put("k2", value())), ErrorKind::Full);
    assert_eq!(kind(shelf.put_elsewhere("k2")), ErrorKind::Full, "all buckets count together");
    shelf.put("k2", Put::new("")).unwrap();
}

#[test]
fn a_value_that_is_replaced_makes_room_for_the_new_one() {
    let mut shelf = bytes_max(RECORD + 1 + 90);
    shelf.put("k", Put::new(vec![0; 90])).unwrap();
    shelf.put("k", Put::new(vec![1; 90])).unwrap();
    assert_eq!(kind(shelf.put("k", Put::new(vec![1; 91]))), ErrorKind::Full);
    assert_eq!(shelf.revision("k"), Some(Revision(2)), "a refused put changes nothing");
}

#[test]
fn the_ends_of_keys_are_forgotten_before_a_put_is_refused() {
    let mut shelf = bytes_max(2 * RECORD + 4);
    shelf.put("k1", Put::new("")).unwrap();
    shelf.delete("k1", ExpectRevision::Any).unwrap();
    shelf.put_elsewhere("k").unwrap();
    shelf.put("k2", Put::new("")).unwrap();
    assert_eq!(kind(shelf.put("k3", Put::new(""))), ErrorKind::Full);
}

#[test]
fn the_ends_of_keys_of_other_buckets_make_room_too() {
    let mut shelf = bytes_max(2 * RECORD + 5);
    for of in ["k1", "k2"] {
        shelf.put(of, Put::new("")).unwrap();
        shelf.delete(of, ExpectRevision::Any).unwrap();
    }
    shelf.put_elsewhere("k3").unwrap();
    assert_eq!(shelf.put("k1", Put::new("")).unwrap(), Revision(5), "revisions go on");
}
