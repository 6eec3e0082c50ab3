//! What is known about a message beside its place.

use bus_core::{OrderKey, Priority, Rank};
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

impl Waiting {
    /// The place of the message at `seq`.
    pub(crate) fn rank(&self, seq: u64) -> Rank {
        Rank::new(seq, self.level, self.since).in_front(self.handed_back).attempt(self.attempt)
    }
}
