//! Where a message stands among those of its queue that are ready: one rule for every engine.

use bus_envelope::Timestamp;

use crate::Priority;

/// The place of a ready message: the smaller one comes first.
///
/// What was handed back without a rest stands before all else. Then what became ready earlier,
/// where each level of priority counts as [`Priority::HEAD_START`]; of equals the more urgent, then
/// what did not fail yet, then the position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    // The fields count in their order.
    waits: bool,
    aged_ns: i128,
    calm: u8,
    failed: bool,
    seq: u64,
}

impl Rank {
    /// Of the message at `seq`, of priority `level`, that became ready at `since`.
    #[must_use]
    pub fn new(seq: u64, level: Priority, since: Timestamp) -> Self {
        let head_start = HEAD_START_NS * i128::from(level.level());
        let calm = Priority::HIGHEST.level() - level.level();
        Self { waits: true, aged_ns: since.unix_ns() - head_start, calm, failed: false, seq }
    }

    /// The same when it was handed back without a rest.
    #[must_use]
    pub const fn in_front(mut self, is_in_front: bool) -> Self {
        self.waits = !is_in_front;
        self
    }

    /// The same when its next attempt is the `attempt`th; an earlier one has failed when that is
    /// not the first.
    #[must_use]
    pub const fn attempt(mut self, attempt: u32) -> Self {
        self.failed = attempt > 1;
        self
    }

    /// The position of the message.
    #[must_use]
    pub const fn seq(self) -> u64 {
        self.seq
    }

    /// Whether it stands before whatever waits.
    #[must_use]
    pub const fn is_in_front(self) -> bool {
        !self.waits
    }
}

const HEAD_START_NS: i128 = Priority::HEAD_START.as_nanos() as i128;

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(seq: u64, level: u8, ready_ns: i128) -> Rank {
        Rank::new(seq, Priority::new(level).unwrap(), Timestamp::from_unix_ns(ready_ns))
    }

    #[test]
    fn a_level_is_worth_its_head_start_and_no_more() {
        let late = HEAD_START_NS;
        assert!(rank(2, 5, late - 1) < rank(1, 4, 0));
        assert!(rank(2, 5, late) < rank(1, 4, 0), "of equals the more urgent");
        assert!(rank(2, 5, late + 1) > rank(1, 4, 0));
    }

    #[test]
    fn what_is_handed_back_stands_before_all_else() {
        assert!(rank(9, 0, 1_000).in_front(true) < rank(1, 9, 0));
        assert!(rank(1, 4, 0).in_front(true).is_in_front());
    }

    #[test]
    fn of_equals_what_did_not_fail_comes_first_then_the_position() {
        assert!(rank(2, 4, 0) < rank(1, 4, 0).attempt(2));
        assert!(rank(1, 4, 0) < rank(2, 4, 0).attempt(1));
    }
}
