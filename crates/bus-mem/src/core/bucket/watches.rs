//! Who watches which keys: a watch is a revision it has seen, so a slow one costs nothing.

use std::collections::{HashMap, VecDeque};

use bus_core::{Change, Revision, WatchItem};
use bus_subjects::{BucketKey, BucketName, Filter, Subject, SubjectTable, TableKey};

use super::records::{Record, Records};

/// One watch of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WatchId(u64);

/// What came of reading a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// There are items.
    Items,
    /// Nothing yet, but there may be more to look at: others should have their turn first.
    Again,
    /// Nothing: the watch will be called.
    Waits,
}

/// Every watch, and the filters of each bucket.
#[derive(Debug, Default)]
pub(super) struct Watches {
    slots: HashMap<WatchId, Slot>,
    tables: HashMap<BucketName, SubjectTable<WatchId>>,
    called: Vec<WatchId>,
    waiting: usize,
    last_id: u64,
}

#[derive(Debug)]
struct Slot {
    bucket: BucketName,
    keys: Filter,
    /// The one key that `keys` names, when it names one.
    only: Option<BucketKey>,
    place: TableKey,
    /// Every change up to here has been told.
    cursor: u64,
    /// The end of a key up to here needs no telling, because the reader was told of no value of
    /// it; `None` until the first look at the bucket.
    silent: Option<u64>,
    is_current: bool,
    waits: bool,
}

impl Watches {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether any watch waits for a change.
    pub(super) fn is_awaited(&self) -> bool {
        self.waiting > 0
    }

    pub(super) fn add(&mut self, bucket: BucketName, keys: Filter, after: Revision) -> WatchId {
        self.last_id += 1;
        let id = WatchId(self.last_id);
        let place = self.tables.entry(bucket.clone()).or_default().insert(keys.clone(), id);
        let only = keys.is_literal().then(|| BucketKey::parse(keys.as_str()).ok()).flatten();
        let silent = (after != Revision::START).then_some(0);
        let slot = Slot {
            bucket,
            keys,
            only,
            place,
            cursor: after.0,
            silent,
            is_current: false,
            waits: false,
        };
        self.slots.insert(id, slot);
        id
    }

    pub(super) fn remove(&mut self, id: WatchId) {
        let Some(slot) = self.slots.remove(&id) else { return };
        self.waiting -= usize::from(slot.waits);
        if let Some(table) = self.tables.get_mut(&slot.bucket) {
            table.remove(slot.place);
            if table.is_empty() {
                self.tables.remove(&slot.bucket);
            }
        }
    }

    /// The watch comes by itself and waits no longer. Nothing that it follows changed while it
    /// waited, so all of its bucket up to now counts as seen.
    pub(super) fn comes(&mut self, id: WatchId, last_of: impl FnOnce(&BucketName) -> u64) {
        if let Some(slot) = self.slots.get_mut(&id)
            && slot.waits
        {
            slot.waits = false;
            slot.cursor = last_of(&slot.bucket);
            self.waiting -= 1;
        }
    }

    pub(super) fn read<'a>(
        &mut self,
        id: WatchId,
        bucket: impl FnOnce(&BucketName) -> Option<&'a Records>,
        items: &mut VecDeque<WatchItem>,
    ) -> Progress {
        let Some(slot) = self.slots.get_mut(&id) else { return Progress::Waits };
        let had = items.len();
        let saw_all = slot.read(bucket(&slot.bucket), items);
        if items.len() > had {
            return Progress::Items;
        }
        if !saw_all {
            return Progress::Again;
        }
        slot.waits = true;
        self.waiting += 1;
        Progress::Waits
    }

    /// Calls those that wait for `key`, which changed with `revision`.
    pub(super) fn call(&mut self, bucket: &BucketName, key: &BucketKey, revision: u64) {
        if self.waiting == 0 {
            return;
        }
        let Some(table) = self.tables.get(bucket) else { return };
        // Every key is a subject.
        let Ok(key) = Subject::parse(key.as_str()) else { return };
        table.for_each_match(&key, |id| {
            if let Some(slot) = self.slots.get_mut(id)
                && slot.waits
            {
                slot.waits = false;
                // Nothing it follows changed while it waited, so it is told all before this, too.
                slot.cursor = revision - 1;
                self.waiting -= 1;
                self.called.push(*id);
            }
        });
    }

    pub(super) fn take_called(&mut self) -> impl Iterator<Item = WatchId> + '_ {
        self.called.drain(..)
    }
}

impl Slot {
    /// Adds the next changes; true when there are no others.
    fn read(&mut self, records: Option<&Records>, items: &mut VecDeque<WatchItem>) -> bool {
        let (last, forgotten) =
            records.map_or((0, 0), |records| (records.last(), records.forgotten()));
        let silent = self.silent.get_or_insert(last);
        // A revision that never was comes from before the bucket was lost and made anew.
        if self.cursor > last || forgotten > self.cursor.max(*silent) {
            items.push_back(WatchItem::Resync);
            *silent = last;
            self.cursor = 0;
            self.is_current = false;
        }
        let saw_all = records.is_none_or(|records| match &self.only {
            Some(key) => {
                let change = records.change(key).filter(|record| record.revision > self.cursor);
                items.extend(change.and_then(|record| self.tell(key, record)));
                true
            }
            None => self.read_many(records, items),
        });
        if saw_all {
            self.cursor = last;
            if !self.is_current {
                self.is_current = true;
                items.push_back(WatchItem::Current);
            }
        }
        saw_all
    }

    fn read_many(&mut self, records: &Records, items: &mut VecDeque<WatchItem>) -> bool {
        let (items_max, mut bytes) = (items.len() + ITEMS_MAX, 0);
        for (looked_at, (key, record)) in records.changes(self.cursor).enumerate() {
            if looked_at >= LOOKED_AT_MAX || items.len() >= items_max || bytes >= BYTES_MAX {
                return false;
            }
            if self.keys.matches_key(key) {
                items.extend(self.tell(key, record));
                bytes += record.value_bytes();
            }
            self.cursor = record.revision;
        }
        true
    }

    fn tell(&self, key: &BucketKey, record: &Record) -> Option<WatchItem> {
        let is_silent = !record.is_value() && Some(record.revision) <= self.silent;
        (!is_silent).then(|| {
            WatchItem::Changed(Change {
                key: key.clone(),
                revision: Revision(record.revision),
                state: record.state.clone(),
            })
        })
    }
}

/// How many changes one call reads at most.
const ITEMS_MAX: usize = 64;

/// How many changes one call looks at, those of other keys included.
const LOOKED_AT_MAX: usize = 256;

/// With this much in hand a call takes no further value; so a watch that is not read holds at
/// most this and one value more of what is no longer in the bucket.
const BYTES_MAX: usize = 16 * 1024;
