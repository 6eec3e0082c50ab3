//! What a mirror makes of the items of a watch.

use bus_subjects::BucketKey;

use super::{BucketMirror, Change, KeyState, Revision, WatchItem};

fn key(text: &str) -> BucketKey {
    BucketKey::parse(text).unwrap()
}

fn put(of: &str, revision: u64) -> WatchItem {
    changed(of, revision, KeyState::Value(format!("{of}{revision}").into()))
}

fn changed(of: &str, revision: u64, state: KeyState) -> WatchItem {
    WatchItem::Changed(Change { key: key(of), revision: Revision(revision), state })
}

fn mirror(items: impl IntoIterator<Item = WatchItem>) -> BucketMirror {
    let mut mirror = BucketMirror::new();
    for item in items {
        assert_eq!(mirror.apply(item), [], "nothing was lost, so nothing is found gone");
    }
    mirror
}

fn keys(mirror: &BucketMirror) -> Vec<&str> {
    mirror.iter().map(|(key, _)| key.as_str()).collect()
}

#[test]
fn a_mirror_holds_the_last_value_of_each_key() {
    let mirror = mirror([put("a", 1), put("b", 2), WatchItem::Current, put("a", 3)]);
    assert_eq!((keys(&mirror), mirror.len()), (vec!["a", "b"], 2));
    let entry = mirror.get(&key("a")).unwrap();
    assert_eq!((&entry.value[..], entry.revision), (&b"a3"[..], Revision(3)));
}

#[test]
fn a_key_that_was_deleted_or_expired_is_gone() {
    let ends =
        [changed("a", 3, KeyState::Deleted), changed("b", 4, KeyState::Expired), put("c", 5)];
    let mirror = mirror([put("a", 1), put("b", 2)].into_iter().chain(ends));
    assert_eq!(keys(&mirror), ["c"]);
    assert!(!mirror.is_empty());
}

#[test]
fn a_mirror_is_current_until_something_was_lost() {
    let mut mirror = BucketMirror::new();
    assert!(!mirror.is_current(), "nothing was told yet");
    mirror.apply(WatchItem::Current);
    assert!(mirror.is_current());
    mirror.apply(WatchItem::Resync);
    assert!(!mirror.is_current());
}

#[test]
fn what_a_resync_does_not_name_is_gone_once_it_is_over() {
    let mut mirror = mirror([put("a", 1), put("b", 2), put("c", 3), WatchItem::Current]);
    mirror.apply(WatchItem::Resync);
    mirror.apply(put("b", 2));
    assert_eq!(keys(&mirror), ["a", "b", "c"], "until then it is what was known last");
    assert_eq!(mirror.apply(WatchItem::Current), [key("a"), key("c")]);
    assert_eq!(keys(&mirror), ["b"]);
    assert_eq!(mirror.apply(WatchItem::Current), [], "what is gone is told once");
}

#[test]
fn a_second_resync_begins_anew() {
    let mut mirror = mirror([put("a", 1), put("b", 2), WatchItem::Current]);
    mirror.apply(WatchItem::Resync);
    mirror.apply(put("a", 1));
    mirror.apply(WatchItem::Resync);
    mirror.apply(put("b", 2));
    assert_eq!(mirror.apply(WatchItem::Current), [key("a")]);
}

#[test]
fn a_mirror_knows_where_the_next_watch_goes_on() {
    let mut mirror = mirror([put("a", 7), changed("b", 9, KeyState::Deleted)]);
    assert_eq!(mirror.seen(), Revision(9));
    // A bucket that was made anew counts from the beginning.
    mirror.apply(WatchItem::Resync);
    assert_eq!(mirror.seen(), Revision::START);
    mirror.apply(put("a", 2));
    assert_eq!(mirror.seen(), Revision(2));
}
