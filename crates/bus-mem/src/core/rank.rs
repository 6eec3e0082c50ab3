//! Where a message stands among those that are ready.

use bus_core::{OrderKey, Priority};
use bus_envelope::Timestamp;

/// What is known about a message that does not simply wait for its first turn.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    /// The number of the attempt that comes next, or that runs.
    pub(crate) attempt: u32,
    pub(crate) level: Priority,
    /// When it became ready.
    pub(crate) since: Timestamp,
    /// It was handed back without a rest.
    pub(crate) handed_back: bool,
    pub(crate) key: Option<OrderKey>,
}

/// The place of a ready message: the smaller one comes first. The fields count in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// False for what was handed back: it is first in line.
    waits: bool,
    /// When it became ready, less the head start of its lane.
    aged_ns: i128,
    calm: u8,
    failed: bool,
    seq: u64,
}

impl Rank {
    /// Of a message that was not tried yet and became ready when it was stored.
    pub(crate) fn fresh(seq: u64, level: Priority, stored: Timestamp) -> Self {
        Self::new(seq, level, stored)
    }

    /// Of any other message.
    pub(crate) fn of(seq: u64, waiting: &Waiting) -> Self {
        let rank = Self::new(seq, waiting.level, waiting.since);
        Self { waits: !waiting.handed_back, failed: waiting.attempt > 1, ..rank }
    }

    /// The position of the message.
    pub(crate) const fn seq(self) -> u64 {
        self.seq
    }

    fn new(seq: u64, level: Priority, since: Timestamp) -> Self {
        let head_start = HEAD_START_NS * i128::from(level.level());
        let calm = Priority::HIGHEST.level() - level.level();
        Self { waits: true, aged_ns: since.unix_ns() - head_start, calm, failed: false, seq }
    }
}

const HEAD_START_NS: i128 = Priority::HEAD_START.as_nanos() as i128;
