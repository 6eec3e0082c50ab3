//! What callers declare and what engines answer: streams, consumers, expectations, receipts.

use std::{num::NonZeroU64, time::Duration};

use bus_envelope::Timestamp;
use bus_subjects::{ConsumerName, Filter, StreamName};

/// A declared stream: which subjects it keeps and for how long.
///
/// Declaring the same specification twice is fine; a different one under the same name, or a
/// filter that overlaps another stream's, is a `Conflict`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSpec {
    /// The stream's name.
    pub name: StreamName,
    /// The subjects it keeps; at least one, none overlapping another stream's.
    pub filters: Vec<Filter>,
    /// When a message leaves the stream.
    pub retention: Retention,
    /// How long a frame id is remembered, so that a repeat is not stored twice.
    pub dedupe_window: Duration,
    /// The most messages kept; an append beyond it is `Full`, nothing is dropped.
    pub messages_max: NonZeroU64,
    /// The most messages kept under one subject, likewise.
    pub messages_per_subject_max: NonZeroU64,
}

impl StreamSpec {
    /// A stream over `filters` with the defaults: a window of 10 minutes, 1,000,000 messages.
    #[must_use]
    pub fn new(name: StreamName, filters: Vec<Filter>, retention: Retention) -> Self {
        const MESSAGES_MAX: NonZeroU64 = NonZeroU64::new(1_000_000).unwrap();
        Self {
            name,
            filters,
            retention,
            dedupe_window: Duration::from_secs(600),
            messages_max: MESSAGES_MAX,
            messages_per_subject_max: MESSAGES_MAX,
        }
    }
}

/// When a stored message leaves its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retention {
    /// One acknowledgement removes it; consumers' filters must not overlap.
    WorkQueue,
    /// It never leaves: no delete, no purge, by nobody.
    AppendOnly,
    /// It stays until an operator deletes it.
    Kept,
}

/// A competing consumer: members under one name share its messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerSpec {
    /// The stream it reads.
    pub stream: StreamName,
    /// The name its members share; its position outlives them.
    pub name: ConsumerName,
    /// Which of the stream's subjects it reads.
    pub filter: Filter,
    /// How long a delivery belongs to the member that got it, unless extended.
    pub lease: Duration,
}

/// A consumer as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerState {
    /// What it was made as.
    pub spec: ConsumerSpec,
    /// What waits for it and what its members hold; `oldest` is the age of the oldest of both.
    pub lag: Lag,
    /// Until when it hands out nothing.
    pub paused_until: Option<Timestamp>,
}

/// What must hold for an append to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Any,
    /// The last message under the frame's subject has this sequence (0: there is none).
    LastOfSubject(Seq),
}

/// A position in a stream; the first message is 1 and 0 means "none".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Seq(pub u64);

/// The engine's word that a frame is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The stream that keeps it.
    pub stream: StreamName,
    /// Its position there.
    pub seq: Seq,
    /// Whether its id was already stored within the window, so that this call stored nothing.
    pub duplicate: bool,
    /// What "stored" survives.
    pub durability: Durability,
}

/// What a stored message survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Nothing beyond this process.
    Memory,
    /// A crash of the process, not of the machine.
    Written,
    /// A power cut.
    Synced,
}

/// How much work waits in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lag {
    /// Messages stored and not delivered now, delayed ones included.
    pub pending: u64,
    /// Messages under a lease now.
    pub in_flight: u64,
    /// Age of the oldest message that is stored.
    pub oldest: Option<Duration>,
}

/// What happens when a live subscriber is slower than its publishers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// The oldest frames go; the subscriber gets `Gap` with their number and stays subscribed.
    DropOldest {
        /// How many frames may wait; at least 1. An engine may hand them to a reader in runs of at
        /// most an eighth of this: what a reader has begun to take is not dropped any more.
        capacity: std::num::NonZeroUsize,
    },
    /// Only the newest frame of each subject waits; superseded ones are not a gap.
    ///
    /// Of the subjects in [`latest_value_filters`](crate::planes::latest_value_filters), the newest
    /// frame of the last 10 seconds waits as soon as `subscribe` returns, though it was published
    /// before (`a_late_reader_sees_the_newest_sample`). Of more than `subjects` of them the newest
    /// ones wait, and that is no gap.
    Latest {
        /// How many subjects may wait; beyond it the oldest go as in `DropOldest`.
        subjects: std::num::NonZeroUsize,
    },
}
