//! Buckets of current values: one value a key, a revision for each write.

use std::collections::{BTreeMap, HashMap};

use bus_core::{Entry, Error, ErrorKind, ExpectRevision, Frame, Result, Revision};
use bus_subjects::{BucketKey, BucketName};
use bytes::Bytes;

use crate::Limits;

/// Every bucket of one bus.
#[derive(Debug)]
pub struct BucketStore {
    limits: Limits,
    buckets: HashMap<BucketName, Bucket>,
}

#[derive(Debug, Default)]
struct Bucket {
    entries: BTreeMap<BucketKey, Entry>,
    last: u64,
}

impl BucketStore {
    /// No bucket yet; each comes with the first value put into it.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, buckets: HashMap::new() }
    }

    /// The current value under `key`.
    #[must_use]
    pub fn get(&self, bucket: &BucketName, key: &BucketKey) -> Option<Entry> {
        self.buckets.get(bucket)?.entries.get(key).cloned()
    }

    /// Puts `value` under `key` when `expect` holds.
    ///
    /// # Errors
    /// `Conflict` (the expectation does not hold), `TooLarge` (over [`Frame::BYTES_MAX`]), `Full`
    /// (as many buckets or keys as allowed).
    pub fn put(
        &mut self,
        bucket: &BucketName,
        key: &BucketKey,
        value: Bytes,
        expect: ExpectRevision,
    ) -> Result<Revision> {
        let refuse = |kind, why: String| {
            Err(Error::new(kind, "put", why).at(format_args!("{bucket}/{key}")))
        };
        if value.len() > Frame::BYTES_MAX {
            let (bytes, bytes_max) = (value.len(), Frame::BYTES_MAX);
            let why = format!("value has {bytes} bytes: at most {bytes_max} are allowed");
            return refuse(ErrorKind::TooLarge, why);
        }
        self.check(bucket, key, expect, "put")?;
        let (buckets, buckets_max) = (self.buckets.len(), self.limits.buckets_max);
        let Some(state) = self.buckets.get_mut(bucket) else {
            if buckets >= buckets_max {
                return refuse(ErrorKind::Full, format!("{buckets_max} buckets exist already"));
            }
            let state = self.buckets.entry(bucket.clone()).or_default();
            return Ok(state.put(key, value));
        };
        let keys_max = self.limits.keys_per_bucket_max;
        if state.entries.len() >= keys_max && !state.entries.contains_key(key) {
            return refuse(ErrorKind::Full, format!("the bucket holds {keys_max} keys"));
        }
        Ok(state.put(key, value))
    }

    /// Deletes `key` when `expect` holds; deleting what is not there is fine.
    ///
    /// # Errors
    /// `Conflict` (the expectation does not hold).
    pub fn delete(
        &mut self,
        bucket: &BucketName,
        key: &BucketKey,
        expect: ExpectRevision,
    ) -> Result<()> {
        self.check(bucket, key, expect, "delete")?;
        if let Some(state) = self.buckets.get_mut(bucket)
            && state.entries.remove(key).is_some()
        {
            state.last += 1;
        }
        Ok(())
    }

    fn check(
        &self,
        bucket: &BucketName,
        key: &BucketKey,
        expect: ExpectRevision,
        op: &'static str,
    ) -> Result<()> {
        let entry = self.buckets.get(bucket).and_then(|state| state.entries.get(key));
        let current = entry.map(|entry| entry.revision);
        let holds = match expect {
            ExpectRevision::Any => true,
            ExpectRevision::Absent => current.is_none(),
            ExpectRevision::Exactly(revision) => current == Some(revision),
        };
        if holds {
            return Ok(());
        }
        let why = match current {
            Some(Revision(current)) => format!("the key is at revision {current}"),
            None => "the key holds no value".to_owned(),
        };
        Err(Error::new(ErrorKind::Conflict, op, why).at(format_args!("{bucket}/{key}")))
    }
}

impl Bucket {
    fn put(&mut self, key: &BucketKey, value: Bytes) -> Revision {
        self.last += 1;
        let revision = Revision(self.last);
        self.entries.insert(key.clone(), Entry { value, revision });
        revision
    }
}
