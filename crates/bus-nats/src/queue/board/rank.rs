//! Where a message stands among those that are ready.

use bus_core::Priority;
use bus_envelope::Timestamp;

use super::entry::{Due, Entry};

/// The place of a ready message: the smaller one comes first. The fields count in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// False for what was handed back without a rest: it is first in line.
    waits: bool,
    /// When it became ready, less the head start of its lane.
    aged_ns: i128,
    calm: u8,
    failed: bool,
    seq: u64,
}

impl Rank {
    /// Of a plain message that JetStream hands out for the first time.
    pub(crate) fn plain(seq: u64, stored: Timestamp) -> Self {
        Self::new(seq, Priority::NORMAL, stored)
    }

    /// Whether it stands before whatever waits.
    pub(crate) const fn is_in_front(&self) -> bool {
        !self.waits
    }

    /// Of an entry that is ready.
    pub(super) fn of(entry: &Entry, due: Due) -> Self {
        let rank = Self::new(entry.seq, entry.level, due.since);
        Self { waits: !due.is_front, failed: due.attempt > 1, ..rank }
    }

    fn new(seq: u64, level: Priority, since: Timestamp) -> Self {
        let head_start = HEAD_START_NS * i128::from(level.level());
        let calm = Priority::HIGHEST.level() - level.level();
        Self { waits: true, aged_ns: since.unix_ns() - head_start, calm, failed: false, seq }
    }
}

const HEAD_START_NS: i128 = Priority::HEAD_START.as_nanos() as i128;
