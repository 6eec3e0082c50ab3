//! A copy of a bucket, kept by what its watch tells.

use std::collections::BTreeMap;

use bus_subjects::BucketKey;

use super::{Change, Entry, KeyState, Revision, WatchItem};

/// What a bucket holds, as far as a watch of it has told.
///
/// ```
/// use bus_core::{BucketMirror, Change, KeyState, Revision, WatchItem};
/// use bus_subjects::BucketKey;
///
/// let key = BucketKey::parse("worker-1")?;
/// let mut mirror = BucketMirror::new();
/// let state = KeyState::Value("idle".into());
/// mirror.apply(WatchItem::Changed(Change { key: key.clone(), revision: Revision(1), state }));
/// mirror.apply(WatchItem::Current);
/// assert!(mirror.is_current());
/// assert_eq!(mirror.get(&key).map(|entry| &entry.value[..]), Some(&b"idle"[..]));
/// // When the watch ends, the next one goes on here.
/// assert_eq!(mirror.seen(), Revision(1));
/// # Ok::<(), bus_subjects::SubjectError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct BucketMirror {
    /// Each entry with the round of telling that named it last.
    entries: BTreeMap<BucketKey, (Entry, u64)>,
    /// How many times everything was told anew.
    round: u64,
    seen: Revision,
    is_current: bool,
}

impl BucketMirror {
    /// Of a bucket of which nothing was told yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { entries: BTreeMap::new(), round: 0, seen: Revision::START, is_current: false }
    }

    /// Takes the next item of the watch, and returns the keys that are gone without having been
    /// named: only a `Current` after a `Resync` finds such.
    pub fn apply(&mut self, item: WatchItem) -> Vec<BucketKey> {
        match item {
            WatchItem::Changed(change) => {
                self.change(change);
                Vec::new()
            }
            WatchItem::Resync => {
                self.round += 1;
                // The bucket may have been made anew, and its revisions with it.
                self.seen = Revision::START;
                self.is_current = false;
                Vec::new()
            }
            WatchItem::Current => {
                self.is_current = true;
                let round = self.round;
                let gone = self.entries.extract_if(.., |_, (_, told)| *told != round);
                gone.map(|(key, _)| key).collect()
            }
        }
    }

    /// The value under `key`.
    #[must_use]
    pub fn get(&self, key: &BucketKey) -> Option<&Entry> {
        self.entries.get(key).map(|(entry, _)| entry)
    }

    /// Every value, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&BucketKey, &Entry)> {
        self.entries.iter().map(|(key, (entry, _))| (key, entry))
    }

    /// How many keys hold a value.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no key holds a value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether it was equal to the bucket once and has been told every loss since: false before
    /// the first `Current`, and between a `Resync` and its `Current`.
    #[must_use]
    pub const fn is_current(&self) -> bool {
        self.is_current
    }

    /// The last revision seen: the next watch goes on behind it, when this one ended.
    #[must_use]
    pub const fn seen(&self) -> Revision {
        self.seen
    }

    fn change(&mut self, change: Change) {
        let Change { key, revision, state } = change;
        self.seen = self.seen.max(revision);
        match state {
            KeyState::Value(value) => {
                self.entries.insert(key, (Entry { value, revision }, self.round));
            }
            KeyState::Deleted | KeyState::Expired => drop(self.entries.remove(&key)),
        }
    }
}
