//! Small current values under keys, with revisions, an end in time, and a watch.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bus_subjects::{BucketKey, BucketName, Filter};
use bytes::Bytes;
use futures_core::Stream;

use crate::{BoxFuture, Result};

pub use mirror::BucketMirror;

mod mirror;

/// Buckets of current state: one value a key, each write a new revision.
///
/// A bucket exists as soon as something is put into it.
pub trait Buckets: Send + Sync + 'static {
    /// The current value under `key`, or `None` (never put, deleted or expired).
    ///
    /// # Errors
    /// `Denied`, `Closed`, `Unavailable`.
    fn get(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<Option<Entry>>>;

    /// Puts a value under `key` when its expectation holds, and returns the new revision
    /// (`a_put_on_a_stale_revision_is_refused`).
    ///
    /// # Errors
    /// `Conflict` (the expectation does not hold), `TooLarge`, `Full`, `Invalid` (a time to live
    /// of zero), `Denied`, `Closed`; `Timeout` and `Unavailable` with outcome unknown.
    fn put(&self, bucket: BucketName, key: BucketKey, put: Put) -> BoxFuture<'_, Result<Revision>>;

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

    /// Follows the keys that match `keys` (`>`: all of them), from the write after `after` on.
    ///
    /// With [`Revision::START`] the watch begins with every current value
    /// (`a_watch_begins_with_what_is_there`); with the last revision seen it goes on behind it,
    /// deletions and expiries included (`a_watch_goes_on_where_it_was`). When the engine does not
    /// remember every change behind it, or never had such a revision, the watch begins with
    /// [`WatchItem::Resync`]. Changes come in the order of their revisions. Several changes of one
    /// key that nobody took yet may come as the last one only; a reader that applies the items
    /// ([`BucketMirror`]) ends with what the bucket holds (`a_watched_bucket_is_mirrored`).
    ///
    /// # Errors
    /// `Denied`, `Full` (too many watches), `Closed`, `Unavailable`. A bucket that does not exist
    /// yet can be watched.
    fn watch(
        &self,
        bucket: BucketName,
        keys: Filter,
        after: Revision,
    ) -> BoxFuture<'_, Result<Watch>>;
}

/// A value and the revision that put it there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The value.
    pub value: Bytes,
    /// The write it came from.
    pub revision: Revision,
}

/// One write into a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    /// The value.
    pub value: Bytes,
    /// What must hold for it to be taken.
    pub expect: ExpectRevision,
    /// How long it stays unless written anew (`a_value_ends_with_its_time`); `None`: until it is
    /// deleted. It is there for this long and gone at most a second later.
    pub ttl: Option<Duration>,
}

/// The number of a write within a bucket; grows with every write, deletions and expiries included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// The changes of a bucket as they happen. Dropping it ends the watch.
#[must_use = "a dropped watch sees nothing"]
pub struct Watch(Pin<Box<dyn Stream<Item = Result<WatchItem>> + Send>>);

/// What a watch yields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchItem {
    /// A key changed.
    Changed(Change),
    /// Everything up to now has been told: once at the beginning, and once after a `Resync`. Under
    /// writes that never pause it comes when the reader has caught up with them.
    Current,
    /// What lay between was lost: every current value comes again, then `Current`. A key that was
    /// known before and is not named by then is gone. Another `Resync` may come before `Current`,
    /// which begins this anew.
    Resync,
}

/// What became of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: BucketKey,
    /// The write that did it.
    pub revision: Revision,
    /// What is there now.
    pub state: KeyState,
}

/// What a key holds after a change; every way a key can end has its own name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyState {
    /// A value.
    Value(Bytes),
    /// Nothing: it was deleted.
    Deleted,
    /// Nothing: its time to live ended.
    Expired,
}

impl Put {
    /// Puts `value` whatever is there, to stay.
    pub fn new(value: impl Into<Bytes>) -> Self {
        Self { value: value.into(), expect: ExpectRevision::Any, ttl: None }
    }

    /// Only when `expect` holds.
    #[must_use]
    pub const fn expect(mut self, expect: ExpectRevision) -> Self {
        self.expect = expect;
        self
    }

    /// Only for this long.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }
}

impl Revision {
    /// Before every write.
    pub const START: Self = Self(0);
}

impl Watch {
    /// Wraps an engine's stream.
    pub fn new(stream: impl Stream<Item = Result<WatchItem>> + Send + 'static) -> Self {
        Self(Box::pin(stream))
    }

    /// The next item; `None` when the bus was closed. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<WatchItem>> {
        std::future::poll_fn(|cx| self.0.as_mut().poll_next(cx)).await
    }
}

impl Stream for Watch {
    type Item = Result<WatchItem>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(cx)
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watch")
    }
}

#[cfg(test)]
mod tests;
