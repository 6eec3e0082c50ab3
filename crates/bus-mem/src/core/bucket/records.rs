//! One bucket: the last change of each key, its end included, in the order of revisions.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use bus_core::{Entry, KeyState, Revision};
use bus_envelope::Timestamp;
use bus_subjects::{BucketKey, BucketName};

/// The records of one bucket. Only the last change of a key is kept, so a watch needs nothing but
/// the revision it has seen; what ended stays as a tombstone for those that have not seen it.
#[derive(Debug)]
pub(crate) struct Records {
    name: Arc<BucketName>,
    by_key: HashMap<Arc<BucketKey>, Record>,
    by_revision: BTreeMap<u64, Arc<BucketKey>>,
    tombstones: BTreeSet<u64>,
    /// By end in time, then by revision.
    ends: BTreeSet<(Timestamp, u64)>,
    last: u64,
    forgotten: u64,
    sizes: Sizes,
}

/// The last change of one key.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) state: KeyState,
    pub(super) revision: u64,
    pub(super) end: Option<Timestamp>,
}

/// What records take in memory.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sizes {
    /// All of them.
    pub(super) bytes: u64,
    /// The tombstones among them.
    pub(super) tombstone_bytes: u64,
}

impl Records {
    pub(crate) fn new(name: BucketName) -> Self {
        Self {
            name: Arc::new(name),
            by_key: HashMap::new(),
            by_revision: BTreeMap::new(),
            tombstones: BTreeSet::new(),
            ends: BTreeSet::new(),
            last: 0,
            forgotten: 0,
            sizes: Sizes::default(),
        }
    }

    /// What a value of this size under `key` counts for.
    pub(super) fn size_of(key: &BucketKey, value_bytes: usize) -> u64 {
        (RECORD_BYTES + key.as_str().len() + value_bytes) as u64
    }

    pub(super) fn name(&self) -> &Arc<BucketName> {
        &self.name
    }

    /// The last revision.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// The highest revision of a tombstone that was forgotten.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    pub(super) fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// How many keys hold a value, one whose time is over included.
    pub(super) fn values(&self) -> usize {
        self.by_key.len() - self.tombstones.len()
    }

    pub(crate) fn tombstones(&self) -> usize {
        self.tombstones.len()
    }

    /// The value under `key` unless its time is over.
    pub(super) fn value(&self, key: &BucketKey, now: Timestamp) -> Option<Entry> {
        let record = self.by_key.get(key)?;
        match &record.state {
            KeyState::Value(value) if !record.is_over(now) => {
                Some(Entry { value: value.clone(), revision: Revision(record.revision) })
            }
            _ => None,
        }
    }

    /// The revision of the value under `key`.
    pub(super) fn revision(&self, key: &BucketKey) -> Option<u64> {
        self.by_key.get(key).filter(|record| record.is_value()).map(|record| record.revision)
    }

    /// What the value under `key` counts for; nothing without a value.
    pub(super) fn value_size(&self, key: &BucketKey) -> u64 {
        match self.by_key.get(key) {
            Some(Record { state: KeyState::Value(value), .. }) => Self::size_of(key, value.len()),
            _ => 0,
        }
    }

    /// Whether the value under `key` is there although its time is over.
    pub(super) fn is_over(&self, key: &BucketKey, now: Timestamp) -> bool {
        self.by_key.get(key).is_some_and(|record| record.is_over(now))
    }

    pub(super) fn first_end(&self) -> Option<Timestamp> {
        self.ends.first().map(|(end, _)| *end)
    }

    /// The key whose value ends first.
    pub(super) fn first_ending(&self) -> Option<Arc<BucketKey>> {
        let (_, revision) = self.ends.first()?;
        self.by_revision.get(revision).cloned()
    }

    /// The last change of `key`.
    pub(super) fn change(&self, key: &BucketKey) -> Option<&Record> {
        self.by_key.get(key)
    }

    /// The last changes of all keys behind the revision `after`, in order.
    pub(super) fn changes(&self, after: u64) -> impl Iterator<Item = (&BucketKey, &Record)> {
        let behind = self.by_revision.range(after.saturating_add(1)..);
        behind.filter_map(|(_, key)| Some((&**key, self.by_key.get(key)?)))
    }

    /// Sets what is under `key` and returns the revision that did it.
    pub(super) fn set(&mut self, key: &BucketKey, state: KeyState, end: Option<Timestamp>) -> u64 {
        self.last += 1;
        self.put(key, Record { state, revision: self.last, end });
        self.last
    }

    /// Sets what was under `key` since `revision`, unless something newer is known.
    pub(crate) fn restore(
        &mut self,
        key: &BucketKey,
        state: KeyState,
        revision: u64,
        end: Option<Timestamp>,
    ) {
        self.last = self.last.max(revision);
        if self.by_key.get(key).is_none_or(|known| known.revision < revision) {
            self.put(key, Record { state, revision, end });
        }
    }

    /// Revisions went up to `last`, and ends up to `forgotten` may not be known.
    pub(crate) fn is_at(&mut self, last: u64, forgotten: u64) {
        self.last = self.last.max(last);
        self.forgotten = self.forgotten.max(forgotten);
    }

    fn put(&mut self, key: &BucketKey, record: Record) {
        let key = match self.by_key.get_key_value(key) {
            Some((key, _)) => Arc::clone(key),
            None => Arc::new(key.clone()),
        };
        self.remove(&key);
        self.sizes.add(&key, &record);
        let revision = record.revision;
        if !record.is_value() {
            self.tombstones.insert(revision);
        }
        self.ends.extend(record.end.map(|end| (end, revision)));
        self.by_revision.insert(revision, Arc::clone(&key));
        self.by_key.insert(key, record);
    }

    /// Forgets the oldest tombstone; false when there is none.
    pub(crate) fn forget_oldest(&mut self) -> bool {
        let Some(revision) = self.tombstones.first().copied() else { return false };
        self.forgotten = self.forgotten.max(revision);
        match self.by_revision.get(&revision).cloned() {
            Some(key) => self.remove(&key),
            None => drop(self.tombstones.remove(&revision)),
        }
        true
    }

    fn remove(&mut self, key: &BucketKey) {
        let Some(record) = self.by_key.remove(key) else { return };
        self.sizes.subtract(key, &record);
        self.by_revision.remove(&record.revision);
        self.tombstones.remove(&record.revision);
        if let Some(end) = record.end {
            self.ends.remove(&(end, record.revision));
        }
    }
}

impl Record {
    pub(super) fn is_value(&self) -> bool {
        matches!(self.state, KeyState::Value(_))
    }

    /// The size of the value.
    pub(super) fn value_bytes(&self) -> usize {
        match &self.state {
            KeyState::Value(value) => value.len(),
            KeyState::Deleted | KeyState::Expired => 0,
        }
    }

    fn is_over(&self, now: Timestamp) -> bool {
        self.end.is_some_and(|end| end <= now)
    }
}

impl Sizes {
    fn add(&mut self, key: &BucketKey, record: &Record) {
        let bytes = Records::size_of(key, record.value_bytes());
        self.bytes += bytes;
        if !record.is_value() {
            self.tombstone_bytes += bytes;
        }
    }

    fn subtract(&mut self, key: &BucketKey, record: &Record) {
        let bytes = Records::size_of(key, record.value_bytes());
        self.bytes -= bytes;
        if !record.is_value() {
            self.tombstone_bytes -= bytes;
        }
    }
}

/// What a record takes beside its key and value, indexes included.
const RECORD_BYTES: usize = 256;
