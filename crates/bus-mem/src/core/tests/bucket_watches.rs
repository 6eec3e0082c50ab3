//! What a watch tells, when it is called, and what it costs.

use std::{collections::VecDeque, time::Duration};

use bus_core::{ErrorKind, ExpectRevision, KeyState, Put, Revision, WatchItem};
use bus_envelope::Timestamp;
use bus_subjects::{BucketKey, BucketName};

use super::{
    super::{BucketStore, Progress, WatchId},
    at, filter,
};
use crate::Limits;

struct Watched {
    store: BucketStore,
    now: Timestamp,
}

fn watched() -> Watched {
    with_tombstones(100)
}

fn with_tombstones(tombstones_per_bucket_max: usize) -> Watched {
    let limits = Limits { tombstones_per_bucket_max, watches_max: 3, ..Limits::default() };
    Watched { store: BucketStore::new(limits), now: at(0) }
}

fn bucket() -> BucketName {
    BucketName::parse("b").unwrap()
}

fn key(text: &str) -> BucketKey {
    BucketKey::parse(text).unwrap()
}

impl Watched {
    fn put(&mut self, of: &str) {
        self.store.put(&bucket(), &key(of), Put::new(of.to_owned()), self.now).unwrap();
    }

    fn put_all(&mut self, keys: &[&str]) {
        keys.iter().for_each(|of| self.put(of));
    }

    fn put_for(&mut self, of: &str, ms: u64) {
        let put = Put::new(of.to_owned()).ttl(Duration::from_millis(ms));
        self.store.put(&bucket(), &key(of), put, self.now).unwrap();
    }

    fn delete(&mut self, of: &str) {
        self.store.delete(&bucket(), &key(of), ExpectRevision::Any, self.now).unwrap();
    }

    fn watch(&mut self, keys: &str, after: u64) -> WatchId {
        self.store.watch(bucket(), filter(keys), Revision(after)).unwrap()
    }

    /// Everything that `watch` has to tell until it waits.
    fn read(&mut self, watch: WatchId) -> Vec<String> {
        let mut items = VecDeque::new();
        while self.store.read(watch, self.now, &mut items) != Progress::Waits {}
        items.into_iter().map(shown).collect()
    }

    fn called(&mut self) -> Vec<WatchId> {
        self.store.take_called().collect()
    }
}

fn shown(item: WatchItem) -> String {
    match item {
        WatchItem::Current => "current".to_owned(),
        WatchItem::Resync => "resync".to_owned(),
        WatchItem::Changed(change) => {
            let (revision, key) = (change.revision.0, change.key);
            match change.state {
                KeyState::Value(value) => {
                    assert_eq!(value, key.as_str(), "every value is its key here");
                    format!("{revision} {key}")
                }
                KeyState::Deleted => format!("{revision} {key} deleted"),
                KeyState::Expired => format!("{revision} {key} expired"),
            }
        }
    }
}

#[test]
fn a_watch_from_the_start_begins_with_the_current_values() {
    let mut watched = watched();
    watched.put_all(&["a", "b", "c"]);
    watched.delete("b");
    watched.put("a");
    let watch = watched.watch(">", 0);
    assert_eq!(watched.read(watch), ["3 c", "5 a", "current"]);
}

#[test]
fn a_watch_goes_on_with_what_happens() {
    let mut watched = watched();
    let watch = watched.watch(">", 0);
    assert_eq!(watched.read(watch), ["current"], "a bucket that does not exist can be watched");
    watched.put("a");
    watched.put_for("b", 1_000);
    assert_eq!(watched.read(watch), ["1 a", "2 b"]);
    watched.delete("a");
    watched.now = at(1_000);
    assert_eq!(watched.read(watch), ["3 a deleted", "4 b expired"]);
}

#[test]
fn a_watch_behind_a_revision_is_told_what_ended_too() {
    let mut watched = watched();
    watched.put_all(&["a", "b", "c"]);
    watched.delete("b");
    watched.put("d");
    let watch = watched.watch(">", 2);
    assert_eq!(watched.read(watch), ["3 c", "4 b deleted", "5 d", "current"]);
}

#[test]
fn a_watch_behind_the_last_revision_is_current_at_once() {
    let mut watched = watched();
    watched.put("a");
    let watch = watched.watch(">", 1);
    assert_eq!(watched.read(watch), ["current"]);
}

#[test]
fn changes_of_one_key_that_nobody_read_come_as_the_last_one() {
    let mut watched = watched();
    let watch = watched.watch(">", 0);
    watched.read(watch);
    for _ in 0..1_000 {
        watched.put("a");
    }
    watched.put("b");
    assert_eq!(watched.read(watch), ["1000 a", "1001 b"]);
}

#[test]
fn a_watch_tells_the_keys_of_its_filter_only() {
    let mut watched = watched();
    watched.put_all(&["a.x", "b.x", "a.y"]);
    let (levels, one) = (watched.watch("a.*", 0), watched.watch("b.x", 0));
    assert_eq!(watched.read(levels), ["1 a.x", "3 a.y", "current"]);
    assert_eq!(watched.read(one), ["2 b.x", "current"]);
    watched.delete("b.x");
    assert_eq!(watched.read(levels), [""; 0]);
    assert_eq!(watched.read(one), ["4 b.x deleted"]);
}

#[test]
fn a_filter_that_can_be_no_key_tells_nothing() {
    let mut watched = watched();
    watched.put("a");
    let watch = watched.watch("a~b", 0);
    assert_eq!(watched.read(watch), ["current"]);
}

#[test]
fn a_forgotten_end_is_told_by_a_resync() {
    let mut watched = with_tombstones(1);
    watched.put_all(&["a", "b", "c"]);
    let watch = watched.watch(">", 3);
    assert_eq!(watched.read(watch), ["current"]);
    watched.put("d");
    watched.delete("a");
    watched.delete("b");
    assert_eq!(watched.read(watch), ["resync", "3 c", "4 d", "current"]);
    watched.put("a");
    assert_eq!(watched.read(watch), ["7 a"]);
}

#[test]
fn an_end_that_was_told_may_be_forgotten() {
    let mut watched = with_tombstones(1);
    let watch = watched.watch(">", 0);
    for of in ["a", "b", "c"] {
        watched.put(of);
        watched.delete(of);
        watched.read(watch);
    }
    watched.put("d");
    assert_eq!(watched.read(watch), ["7 d"]);
}

#[test]
fn the_forgotten_ends_of_other_keys_are_nothing_to_a_watch_that_waits() {
    let mut watched = with_tombstones(1);
    watched.put("mine");
    let (watch, pattern) = (watched.watch("mine", 0), watched.watch("m*", 0));
    watched.read(watch);
    watched.read(pattern);
    for of in ["a", "b", "c"] {
        watched.put(of);
        watched.delete(of);
    }
    assert_eq!(watched.read(pattern), [""; 0], "it comes without having been called");
    watched.put("mine");
    assert_eq!(watched.read(watch), ["8 mine"]);
}

#[test]
fn an_end_that_is_forgotten_while_the_current_values_are_told_is_told_by_a_resync() {
    let mut watched = with_tombstones(1);
    for n in 0..100 {
        watched.put(&format!("k{n}"));
    }
    let watch = watched.watch(">", 0);
    let mut items = VecDeque::new();
    assert_eq!(watched.store.read(watch, watched.now, &mut items), Progress::Items);
    assert!(items.len() < 100, "some of them");
    watched.delete("k0");
    watched.delete("k99");
    let rest = watched.read(watch);
    assert_eq!((rest[0].as_str(), rest.len()), ("resync", 100));
}

#[test]
fn an_end_forgotten_before_the_watch_began_is_nothing_to_it() {
    let mut watched = with_tombstones(0);
    watched.put("a");
    watched.delete("a");
    watched.put("b");
    let watch = watched.watch(">", 0);
    assert_eq!(watched.read(watch), ["3 b", "current"]);
}

#[test]
fn a_watch_behind_a_revision_that_never_was_begins_with_a_resync() {
    let mut watched = watched();
    let (early, late) = (watched.watch(">", 7), watched.watch("a", 7));
    assert_eq!(watched.read(early), ["resync", "current"]);
    watched.put("a");
    assert_eq!(watched.read(late), ["resync", "1 a", "current"]);
}

#[test]
fn a_watch_that_waits_is_called_once() {
    let mut watched = watched();
    let watch = watched.watch(">", 0);
    watched.read(watch);
    watched.put("a");
    watched.put("b");
    assert_eq!(watched.called(), [watch]);
    watched.put("c");
    assert_eq!(watched.called(), [], "it has not come yet");
    watched.read(watch);
    watched.put("d");
    assert_eq!(watched.called(), [watch]);
}

#[test]
fn a_watch_is_called_for_its_own_keys_only() {
    let mut watched = watched();
    let (one, two) = (watched.watch("a", 0), watched.watch("b", 0));
    watched.read(one);
    watched.read(two);
    watched.put("b");
    assert_eq!(watched.called(), [two]);
}

#[test]
fn a_watch_is_called_for_what_expires() {
    let mut watched = watched();
    watched.put_for("a", 1_000);
    let watch = watched.watch("a", 0);
    watched.read(watch);
    assert_eq!(watched.store.next_deadline(), Some(at(1_000)));
    watched.now = at(1_000);
    watched.store.sweep(watched.now);
    assert_eq!(watched.called(), [watch]);
    assert_eq!(watched.store.next_deadline(), None, "nobody waits now");
    assert_eq!(watched.read(watch), ["2 a expired"]);
    assert_eq!(watched.store.next_deadline(), None, "nothing has an end now");
}

#[test]
fn a_watch_that_ended_is_not_called_and_makes_room() {
    let mut watched = watched();
    let watches = [">", "a", "*"].map(|keys| watched.watch(keys, 0));
    let refused = watched.store.watch(bucket(), filter(">"), Revision::START).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Full);
    for watch in watches {
        watched.read(watch);
        watched.store.unwatch(watch);
    }
    watched.put_for("a", 1_000);
    assert_eq!((watched.called(), watched.store.next_deadline()), (vec![], None));
    watched.watch(">", 0);
}

#[test]
fn a_read_takes_a_bounded_number_of_changes_and_bytes() {
    let mut watched = watched();
    let large = Put::new(vec![0; 10_000]);
    for n in 0..100 {
        let of = key(&format!("k{n}"));
        watched.store.put(&bucket(), &of, large.clone(), watched.now).unwrap();
    }
    let watch = watched.watch(">", 0);
    let mut items = VecDeque::new();
    watched.store.read(watch, watched.now, &mut items);
    assert_eq!(items.len(), 2, "16 KiB are in hand then");
    for n in 0..100 {
        watched.put(&format!("k{n}"));
    }
    items.clear();
    watched.store.read(watch, watched.now, &mut items);
    assert_eq!(items.len(), 64);
}

#[test]
fn others_have_their_turn_while_a_watch_looks_for_its_keys() {
    let mut watched = watched();
    for n in 0..300 {
        watched.put(&format!("k{n}"));
    }
    let watch = watched.watch("x.>", 0);
    let mut items = VecDeque::new();
    assert_eq!(watched.store.read(watch, watched.now, &mut items), Progress::Again);
    assert_eq!(watched.store.read(watch, watched.now, &mut items), Progress::Items);
    assert_eq!(items, [WatchItem::Current]);
}
