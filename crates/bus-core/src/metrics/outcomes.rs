//! How deliveries of tasks ended, by a fixed list of reasons.

use std::sync::atomic::{AtomicU64, Ordering};

/// How one delivery of a task ended, and for a dead letter why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskOutcome {
    /// Done and removed.
    Completed,
    /// Failed; it rests and comes again.
    Retried,
    /// Handed back without using up an attempt: a stop, a limit, a missing key.
    Released,
    /// The lease ran out first; the result was not taken.
    LeaseLost,
    /// The verdict got no answer, or its dead letter could not be stored; it comes again.
    Unsettled,
    /// Dead letter: it failed in every attempt that it had.
    Exhausted,
    /// Dead letter: its handler said that no other attempt can do better.
    Hopeless,
    /// Dead letter: its attempts ended without a verdict, as when a worker vanishes.
    Vanished,
    /// Dead letter: it is damaged, forged or from nobody who may send it.
    Refused,
    /// Dead letter: its key was withdrawn.
    KeyWithdrawn,
    /// Dead letter: its deadline was over.
    Expired,
    /// Dead letter: it was cancelled.
    Cancelled,
}

/// How often deliveries ended in each way. The last seven are dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct OutcomeCounts {
    /// As [`TaskOutcome::Completed`].
    pub completed: u64,
    /// As [`TaskOutcome::Retried`].
    pub retried: u64,
    /// As [`TaskOutcome::Released`].
    pub released: u64,
    /// As [`TaskOutcome::LeaseLost`].
    pub lease_lost: u64,
    /// As [`TaskOutcome::Unsettled`].
    pub unsettled: u64,
    /// As [`TaskOutcome::Exhausted`].
    pub exhausted: u64,
    /// As [`TaskOutcome::Hopeless`].
    pub hopeless: u64,
    /// As [`TaskOutcome::Vanished`].
    pub vanished: u64,
    /// As [`TaskOutcome::Refused`].
    pub refused: u64,
    /// As [`TaskOutcome::KeyWithdrawn`].
    pub key_withdrawn: u64,
    /// As [`TaskOutcome::Expired`].
    pub expired: u64,
    /// As [`TaskOutcome::Cancelled`].
    pub cancelled: u64,
}

/// The counters behind [`OutcomeCounts`].
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    completed: AtomicU64,
    retried: AtomicU64,
    released: AtomicU64,
    lease_lost: AtomicU64,
    unsettled: AtomicU64,
    exhausted: AtomicU64,
    hopeless: AtomicU64,
    vanished: AtomicU64,
    refused: AtomicU64,
    key_withdrawn: AtomicU64,
    expired: AtomicU64,
    cancelled: AtomicU64,
}

impl Outcomes {
    pub(super) fn count(&self, outcome: TaskOutcome) {
        let counter = match outcome {
            TaskOutcome::Completed => &self.completed,
            TaskOutcome::Retried => &self.retried,
            TaskOutcome::Released => &self.released,
            TaskOutcome::LeaseLost => &self.lease_lost,
            TaskOutcome::Unsettled => &self.unsettled,
            TaskOutcome::Exhausted => &self.exhausted,
            TaskOutcome::Hopeless => &self.hopeless,
            TaskOutcome::Vanished => &self.vanished,
            TaskOutcome::Refused => &self.refused,
            TaskOutcome::KeyWithdrawn => &self.key_withdrawn,
            TaskOutcome::Expired => &self.expired,
            TaskOutcome::Cancelled => &self.cancelled,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> OutcomeCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        OutcomeCounts {
            completed: read(&self.completed),
            retried: read(&self.retried),
            released: read(&self.released),
            lease_lost: read(&self.lease_lost),
            unsettled: read(&self.unsettled),
            exhausted: read(&self.exhausted),
            hopeless: read(&self.hopeless),
            vanished: read(&self.vanished),
            refused: read(&self.refused),
            key_withdrawn: read(&self.key_withdrawn),
            expired: read(&self.expired),
            cancelled: read(&self.cancelled),
        }
    }
}

impl OutcomeCounts {
    /// All dead letters together.
    #[must_use]
    pub const fn dead_lettered(&self) -> u64 {
        self.exhausted
            .saturating_add(self.hopeless)
            .saturating_add(self.vanished)
            .saturating_add(self.refused)
            .saturating_add(self.key_withdrawn)
            .saturating_add(self.expired)
            .saturating_add(self.cancelled)
    }
}
