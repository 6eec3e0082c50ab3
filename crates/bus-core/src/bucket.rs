//! Small current values under keys, with revisions.

use bus_subjects::{BucketKey, BucketName};
use bytes::Bytes;

use crate::{BoxFuture, Result};

/// Buckets of current state: one value a key, each write a new revision.
///
/// A bucket exists as soon as something is put into it.
pub trait Buckets: Send + Sync + 'static {
    /// The current value under `key`, or `None` (never put, or deleted).
    ///
    /// # Errors
    /// `Denied`, `Closed`, `Unavailable`.
    fn get(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<Option<Entry>>>;

    /// Puts `value` under `key` when `expect` holds, and returns the new revision
    /// (`a_put_on_a_stale_revision_is_refused`).
    ///
    /// # Errors
    /// `Conflict` (the expectation does not hold), `TooLarge`, `Full`, `Denied`, `Closed`;
    /// `Timeout` and `Unavailable` with outcome unknown.
    fn put(
        &self,
        bucket: BucketName,
        key: BucketKey,
        value: Bytes,
        expect: ExpectRevision,
    ) -> BoxFuture<'_, Result<Revision>>;

    /// Deletes `key` when `expect` holds; deleting what is not there is fine.
    ///
    /// # Errors
    /// As [`Buckets::put`].
    fn delete(
        &self,
        bucket: BucketName,
        key: BucketKey,
        expect: ExpectRevision,
    ) -> BoxFuture<'_, Result<()>>;
}

/// A value and the revision that put it there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The value.
    pub value: Bytes,
    /// The write it came from.
    pub revision: Revision,
}

/// The number of a write within a bucket; grows with every write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// What must hold for a write to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectRevision {
    /// Nothing.
    Any,
    /// The key holds no value now.
    Absent,
    /// The key's value is of exactly this revision.
    Exactly(Revision),
}
