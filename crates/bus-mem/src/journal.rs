//! What a broker that outlives its process writes down, and the promise of whoever keeps it.
//!
//! Both sides refined it: [`Journal::record_all`] came because a batch survives whole or not at
//! all, [`Statement`] because pictures and tests keep changes beyond a call.

use std::sync::Arc;

use bus_core::{BoxFuture, ConsumerSpec, Durability, Frame, Result, StreamSpec};
use bus_envelope::Timestamp;
use bus_subjects::{BucketKey, BucketName};
use bytes::Bytes;

pub use statement::Statement;

mod statement;

/// Keeps the changes of one broker, in the order in which they took effect.
///
/// The broker changes in memory first, under the lock of a plane, and says so here before it frees
/// the lock; whoever asked for the change gets an answer only when it is safe. What is not safe yet
/// is shown to nobody: not handed out, not read, not watched; and who has left holds its order key
/// until that is safe.
pub trait Journal: Send + Sync + 'static {
    /// Whether a change of about `bytes` may be made; asked before anything is changed. `frees` is
    /// set for changes that make room in the end (verdicts, deletions): they are still admitted
    /// when little room is left. It must not block: for leases it is asked under a lock, and one
    /// that is refused is granted and not recorded.
    ///
    /// # Errors
    /// `Full` (no room), `Unavailable` (writing failed before) or `Closed`, not done.
    fn admit(&self, op: &'static str, bytes: usize, frees: bool) -> Result<()>;

    /// Takes a change down and returns where it stands. It must neither block nor wait for I/O:
    /// it is called under a lock. Positions rise by each call.
    fn record(&self, change: Change<'_>) -> Position;

    /// As [`Journal::record`], for changes that are one: after a crash all of them are there or
    /// none is. Returns the position of the last one.
    fn record_all(&self, changes: &[Change<'_>]) -> Position;

    /// The position of the last change that was recorded.
    fn last(&self) -> Position;

    /// Whether everything up to `position` is safe.
    fn is_safe(&self, position: Position) -> bool;

    /// Waits until everything up to `position` is safe; asking is what makes it urgent.
    ///
    /// # Errors
    /// `Unavailable`, outcome unknown, when it could not be written.
    fn safe(&self, position: Position) -> BoxFuture<'static, Result<()>>;

    /// Has `observer` called with the safe position whenever it moved on, before those who wait
    /// in [`Journal::safe`] learn it; never under a lock of the journal.
    fn observe(&self, observer: Arc<dyn Fn(Position) + Send + Sync>);

    /// What "safe" survives.
    fn durability(&self) -> Durability;
}

/// A place in a journal; the first change is at 1, and 0 stands before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub u64);

/// One change, as an absolute statement: to apply one again, or one that is older than what is
/// known already, changes nothing once all that came after it are applied, too. So a picture that
/// was taken piece by piece while changes went on is made whole by the changes since it was begun:
/// first the picture, then those changes in their order, up to the last one that was recorded when
/// its last piece was taken, or further.
///
/// What follows from these by the mere passing of time is not said: that a lease ended, that a
/// rest is over, that an id is forgotten.
///
/// Streams are numbered in the order of their declaration, from 0; consumers in the order of their
/// creation, over all streams, as [`ConsumerKey::number`](crate::core::ConsumerKey::number) says.
#[derive(Debug, Clone, PartialEq)]
pub enum Change<'a> {
    /// A stream was declared; its id memory uses `key`.
    Declared {
        /// Its number.
        stream: u32,
        /// What it was declared as.
        spec: &'a StreamSpec,
        /// The key of its hashed ids.
        key: [u8; 16],
    },
    /// A message was stored.
    Stored {
        /// The stream that keeps it.
        stream: u32,
        /// Its position there.
        seq: u64,
        /// When.
        time: Timestamp,
        /// The message.
        frame: &'a Arc<Frame>,
    },
    /// A message is in its stream no longer.
    Removed {
        /// The stream that kept it.
        stream: u32,
        /// Its position there.
        seq: u64,
    },
    /// A consumer was made.
    ConsumerMade {
        /// Its number.
        consumer: u64,
        /// The number of its stream.
        stream: u32,
        /// What it was made as.
        spec: &'a ConsumerSpec,
    },
    /// A consumer was removed. A picture begins with one for the highest number that was ever
    /// given; if that consumer is there, it follows.
    ConsumerRemoved {
        /// Its number.
        consumer: u64,
    },
    /// A consumer hands out nothing before a time, or goes on.
    Paused {
        /// Its number.
        consumer: u64,
        /// Until when.
        until: Option<Timestamp>,
    },
    /// A message was handed out, or its lease was extended; not said when it was not admitted.
    Leased {
        /// The consumer's number.
        consumer: u64,
        /// The message.
        seq: u64,
        /// What settles it.
        token: u64,
        /// Which attempt runs.
        attempt: u32,
        /// When it became ready before it was handed out.
        since: Timestamp,
        /// When the lease ends.
        deadline: Timestamp,
    },
    /// A message that was handed out before waits again; in a picture also one that has no key and
    /// waits for the time of its first turn.
    Waits {
        /// The consumer's number.
        consumer: u64,
        /// The message.
        seq: u64,
        /// Which attempt comes next.
        attempt: u32,
        /// When it is, or was, ready.
        since: Timestamp,
        /// It was handed back unworked.
        handed_back: bool,
    },
    /// A consumer is through with a message.
    Done {
        /// The consumer's number.
        consumer: u64,
        /// The message.
        seq: u64,
    },
    /// A value was put into a bucket.
    Put {
        /// The bucket.
        bucket: &'a BucketName,
        /// The key.
        key: &'a BucketKey,
        /// The revision it got.
        revision: u64,
        /// When.
        time: Timestamp,
        /// When it ends by itself.
        end: Option<Timestamp>,
        /// The value.
        value: &'a Bytes,
    },
    /// A value of a bucket ended.
    Ended {
        /// The bucket.
        bucket: &'a BucketName,
        /// The key.
        key: &'a BucketKey,
        /// The revision of its end.
        revision: u64,
        /// When.
        time: Timestamp,
        /// It ran out, and was not deleted.
        expired: bool,
    },
    /// In a picture only: what a stream remembers beside its messages; several add up.
    StreamAt {
        /// The stream.
        stream: u32,
        /// The last position it ever gave.
        last: u64,
        /// Ids within the window whose messages may be gone: hash, position, when stored.
        ids: &'a [([u64; 2], u64, Timestamp)],
    },
    /// In a picture only: what a consumer still has to hand out for the first time; what several
    /// of these say of one consumer adds up.
    ConsumerAt {
        /// The consumer's number.
        consumer: u64,
        /// Everything that matches from here on is still to come.
        from: u64,
        /// Before that, these positions.
        fresh: &'a [u64],
        /// The last token it ever gave.
        token: u64,
    },
    /// In a picture only: how far the revisions of a bucket went, and which ends it forgot.
    BucketAt {
        /// The bucket.
        bucket: &'a BucketName,
        /// The last revision.
        last: u64,
        /// The highest revision of an end that is not remembered.
        forgotten: u64,
    },
}
