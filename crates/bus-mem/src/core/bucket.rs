//! Buckets of current values: one value a key, a revision for each change, an end in time, watches.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use bus_core::{
    Entry, Error, ErrorKind, ExpectRevision, Frame, KeyState, Put, Result, Revision, WatchItem,
};
use bus_envelope::Timestamp;
use bus_subjects::{BucketKey, BucketName, Filter};

use super::recorder::Recorder;
use crate::{
    Limits,
    journal::{Journal, Position},
};

pub use watches::{Progress, WatchId};

mod journal;
mod picture;
mod records;
mod restore;
mod watches;

pub(crate) use records::Records;
use watches::Watches;

/// Every bucket of one bus, and who watches them.
///
/// A value whose time is over is gone for everybody at that moment. Its `Expired` change comes
/// with the next call that looks at the time: a put, a delete, [`BucketStore::read`] or
/// [`BucketStore::sweep`].
#[derive(Debug)]
pub struct BucketStore {
    limits: Limits,
    buckets: HashMap<BucketName, Records>,
    /// The first end of each bucket that has one.
    ends: BTreeSet<(Timestamp, Arc<BucketName>)>,
    /// What all records take.
    bytes: u64,
    /// The part of it that tombstones take, which can be had back.
    tombstone_bytes: u64,
    watches: Watches,
    recorder: Recorder,
}

impl BucketStore {
    /// No bucket yet; each comes with the first value put into it.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            buckets: HashMap::new(),
            ends: BTreeSet::new(),
            bytes: 0,
            tombstone_bytes: 0,
            watches: Watches::default(),
            recorder: Recorder::default(),
        }
    }

    /// From now on tells every change to `journal`.
    pub fn keep(&mut self, journal: Arc<dyn Journal>) {
        self.recorder = Recorder::to(journal);
    }

    /// Where the last change stands in the journal.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.recorder.position()
    }

    /// What can be said about a put without looking at its bucket.
    ///
    /// # Errors
    /// `Invalid` (a time to live of zero), `TooLarge` (over [`Frame::BYTES_MAX`]).
    pub fn check_put(bucket: &BucketName, key: &BucketKey, put: &Put) -> Result<()> {
        if put.ttl.is_some_and(|ttl| ttl.is_zero()) {
            let why = "a time to live of zero: expected at least 1 ns".to_owned();
            return Err(refused(bucket, key, ErrorKind::Invalid, why));
        }
        let (bytes, bytes_max) = (put.value.len(), Frame::BYTES_MAX);
        if bytes > bytes_max {
            let why = format!("value has {bytes} bytes: at most {bytes_max} are allowed");
            return Err(refused(bucket, key, ErrorKind::TooLarge, why));
        }
        Ok(())
    }

    /// The value under `key` at the time `now`.
    #[must_use]
    pub fn get(&self, bucket: &BucketName, key: &BucketKey, now: Timestamp) -> Option<Entry> {
        self.buckets.get(bucket)?.value(key, now)
    }

    /// Puts a value under `key` when its expectation holds.
    ///
    /// # Errors
    /// `Invalid` (a time to live of zero), `TooLarge` (over [`Frame::BYTES_MAX`]), `Conflict` (the
    /// expectation does not hold), `Full` (as many buckets, keys or bytes as allowed).
    pub fn put(
        &mut self,
        bucket: &BucketName,
        key: &BucketKey,
        put: Put,
        now: Timestamp,
    ) -> Result<Revision> {
        Self::check_put(bucket, key, &put)?;
        self.end_what_is_due(bucket, key, now);
        self.check(bucket, key, put.expect, "put")?;
        // What ended but was not swept yet holds no place against a new value.
        while let Err(why) = self.check_room(bucket, key, put.value.len()) {
            if self.sweep_some(now) == 0 {
                return Err(refused(bucket, key, ErrorKind::Full, why));
            }
        }
        let end = put.ttl.map(|ttl| now.plus(ttl));
        if !self.buckets.contains_key(bucket) {
            self.buckets.insert(bucket.clone(), Records::new(bucket.clone()));
        }
        let revision = self.set((bucket, key), KeyState::Value(put.value), end, now);
        Ok(Revision(revision))
    }

    /// Deletes `key` when `expect` holds; deleting what is not there is fine and no change.
    ///
    /// # Errors
    /// `Conflict` (the expectation does not hold).
    pub fn delete(
        &mut self,
        bucket: &BucketName,
        key: &BucketKey,
        expect: ExpectRevision,
        now: Timestamp,
    ) -> Result<()> {
        self.end_what_is_due(bucket, key, now);
        self.check(bucket, key, expect, "delete")?;
        if self.buckets.get(bucket).is_some_and(|records| records.revision(key).is_some()) {
            self.set((bucket, key), KeyState::Deleted, None, now);
        }
        Ok(())
    }

    /// Follows the keys of `bucket` that match `keys`, behind the revision `after`.
    ///
    /// # Errors
    /// `Full` (as many watches as allowed).
    pub fn watch(&mut self, bucket: BucketName, keys: Filter, after: Revision) -> Result<WatchId> {
        let watches_max = self.limits.watches_max;
        if self.watches.len() >= watches_max {
            let why = format!("{watches_max} watches exist already");
            return Err(Error::new(ErrorKind::Full, "watch", why).at(bucket));
        }
        Ok(self.watches.add(bucket, keys, after))
    }

    /// Ends a watch.
    pub fn unwatch(&mut self, watch: WatchId) {
        self.watches.remove(watch);
    }

    /// Adds what `watch` has not seen yet to `items`, some of it at a time.
    ///
    /// A watch that [`Progress::Waits`] is called once ([`BucketStore::take_called`]) when
    /// something it follows changes.
    pub fn read(
        &mut self,
        watch: WatchId,
        now: Timestamp,
        items: &mut VecDeque<WatchItem>,
    ) -> Progress {
        self.watches.comes(watch, |bucket| self.buckets.get(bucket).map_or(0, Records::last));
        if self.sweep(now) {
            return Progress::Again;
        }
        self.watches.read(watch, |bucket| self.buckets.get(bucket), items)
    }

    /// Ends values whose time is over, some of them at a time; true when more are left.
    pub fn sweep(&mut self, now: Timestamp) -> bool {
        self.sweep_some(now);
        self.ends.first().is_some_and(|(end, _)| *end <= now)
    }

    /// When [`BucketStore::sweep`] has something to tell next: `None` while no watch waits.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let awaited = self.watches.is_awaited();
        awaited.then(|| self.ends.first().map(|(end, _)| *end)).flatten()
    }

    /// The watches that waited and have something to read now, each once.
    pub fn take_called(&mut self) -> impl Iterator<Item = WatchId> + '_ {
        self.watches.take_called()
    }

    /// Lets one bucket forget a tombstone, and another, until `bytes` are free or none is left.
    fn forget_tombstones(&mut self, first: &BucketName, bytes: u64) {
        let bytes_max = self.limits.bucket_bytes_max;
        while self.bytes + bytes > bytes_max
            && self.alter(first, Records::forget_oldest).unwrap_or(false)
        {}
        if self.bytes + bytes <= bytes_max {
            return;
        }
        for records in self.buckets.values_mut() {
            let before = records.sizes();
            while records.forget_oldest() {}
            self.bytes -= before.bytes - records.sizes().bytes;
            self.tombstone_bytes -= before.tombstone_bytes;
            if self.bytes + bytes <= bytes_max {
                return;
            }
        }
    }

    /// Whether a value of this size has room, once tombstones give way to it.
    fn check_room(
        &mut self,
        bucket: &BucketName,
        key: &BucketKey,
        value_bytes: usize,
    ) -> Result<(), String> {
        let buckets_max = self.limits.buckets_max;
        let records = self.buckets.get(bucket);
        if records.is_none() && self.buckets.len() >= buckets_max {
            return Err(format!("{buckets_max} buckets exist already"));
        }
        let keys_max = self.limits.keys_per_bucket_max;
        if let Some(records) = records
            && records.values() >= keys_max
            && records.revision(key).is_none()
        {
            return Err(format!("the bucket holds {keys_max} keys"));
        }
        let bytes_max = self.limits.bucket_bytes_max;
        let added = Records::size_of(key, value_bytes);
        let replaced = records.map_or(0, |records| records.value_size(key));
        if self.bytes - self.tombstone_bytes - replaced + added > bytes_max {
            return Err(format!("the buckets hold {bytes_max} bytes"));
        }
        // A tombstone of this very key goes anyway, so this is at most one too many.
        self.forget_tombstones(bucket, added - replaced.min(added));
        Ok(())
    }

    /// Ends up to [`SWEPT_MAX`] values whose time is over, and returns how many.
    fn sweep_some(&mut self, now: Timestamp) -> usize {
        for swept in 0..SWEPT_MAX {
            let Some((end, bucket)) = self.ends.first() else { return swept };
            if *end > now {
                return swept;
            }
            let bucket = Arc::clone(bucket);
            let due = self.buckets.get(&*bucket).and_then(|records| records.first_ending());
            let Some(key) = due else { return swept };
            self.set((&bucket, &key), KeyState::Expired, None, now);
        }
        SWEPT_MAX
    }

    /// Sweeps some, and `key` in any case.
    fn end_what_is_due(&mut self, bucket: &BucketName, key: &BucketKey, now: Timestamp) {
        self.sweep_some(now);
        if self.buckets.get(bucket).is_some_and(|records| records.is_over(key, now)) {
            self.set((bucket, key), KeyState::Expired, None, now);
        }
    }

    /// Sets what is under `key` of a bucket that exists, calls its watches, returns the revision.
    fn set(
        &mut self,
        (bucket, key): (&BucketName, &BucketKey),
        state: KeyState,
        end: Option<Timestamp>,
        now: Timestamp,
    ) -> u64 {
        let tombstones_max = self.limits.tombstones_per_bucket_max;
        let kept = self.recorder.is_on().then(|| state.clone());
        let changed = self.alter(bucket, |records| {
            let revision = records.set(key, state, end);
            if records.tombstones() > tombstones_max {
                records.forget_oldest();
            }
            revision
        });
        let Some(revision) = changed else { return 0 };
        if let Some(state) = kept {
            self.record((bucket, key), &state, (revision, end), now);
        }
        self.watches.call(bucket, key, revision);
        revision
    }

    /// Changes a bucket and keeps what is known about all of them right.
    fn alter<T>(
        &mut self,
        bucket: &BucketName,
        change: impl FnOnce(&mut Records) -> T,
    ) -> Option<T> {
        let records = self.buckets.get_mut(bucket)?;
        let (sizes, end) = (records.sizes(), records.first_end());
        let answer = change(records);
        let (sizes_now, end_now) = (records.sizes(), records.first_end());
        self.bytes = self.bytes - sizes.bytes + sizes_now.bytes;
        self.tombstone_bytes =
            self.tombstone_bytes - sizes.tombstone_bytes + sizes_now.tombstone_bytes;
        if end != end_now {
            let name = records.name();
            if let Some(end) = end {
                self.ends.remove(&(end, Arc::clone(name)));
            }
            self.ends.extend(end_now.map(|end| (end, Arc::clone(name))));
        }
        Some(answer)
    }

    /// Holds `expect` against what is there, now that nothing under this key is over.
    fn check(
        &self,
        bucket: &BucketName,
        key: &BucketKey,
        expect: ExpectRevision,
        op: &'static str,
    ) -> Result<()> {
        let current = self.buckets.get(bucket).and_then(|records| records.revision(key));
        let holds = match expect {
            ExpectRevision::Any => true,
            ExpectRevision::Absent => current.is_none(),
            ExpectRevision::Exactly(revision) => current == Some(revision.0),
        };
        if holds {
            return Ok(());
        }
        let why = match current {
            Some(current) => format!("the key is at revision {current}"),
            None => "the key holds no value".to_owned(),
        };
        Err(Error::new(ErrorKind::Conflict, op, why).at(format_args!("{bucket}/{key}")))
    }
}

fn refused(bucket: &BucketName, key: &BucketKey, kind: ErrorKind, why: String) -> Error {
    Error::new(kind, "put", why).at(format_args!("{bucket}/{key}"))
}

/// How many values one call ends at most, so that it stays short when many end at once.
const SWEPT_MAX: usize = 256;
