//! How many questions became what.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What an instance did since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CalloutStats {
    /// Messages that came.
    pub asked: u64,
    /// Users that were admitted.
    pub admitted: u64,
    /// Users that were not, those of `crowded` among them.
    pub refused: u64,
    /// Messages that were no server's question, and were not answered.
    pub garbage: u64,
    /// Questions that took too long, and were not answered.
    pub late: u64,
    /// Questions that came while as many as may be were thought about.
    pub crowded: u64,
    /// Admitted users whose tokens have not ended.
    pub known: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    asked: AtomicU64,
    admitted: AtomicU64,
    refused: AtomicU64,
    garbage: AtomicU64,
    late: AtomicU64,
    crowded: AtomicU64,
}

impl Counts {
    pub(super) fn asked(&self) {
        self.asked.fetch_add(1, Relaxed);
    }

    pub(super) fn admitted(&self) {
        self.admitted.fetch_add(1, Relaxed);
    }

    pub(super) fn refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    pub(super) fn garbage(&self) {
        self.garbage.fetch_add(1, Relaxed);
    }

    pub(super) fn late(&self) {
        self.late.fetch_add(1, Relaxed);
    }

    pub(super) fn crowded(&self) {
        self.crowded.fetch_add(1, Relaxed);
    }

    pub(super) fn read(&self, known: usize) -> CalloutStats {
        CalloutStats {
            asked: self.asked.load(Relaxed),
            admitted: self.admitted.load(Relaxed),
            refused: self.refused.load(Relaxed),
            garbage: self.garbage.load(Relaxed),
            late: self.late.load(Relaxed),
            crowded: self.crowded.load(Relaxed),
            known: known as u64,
        }
    }
}
