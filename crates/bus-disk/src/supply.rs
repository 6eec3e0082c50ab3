//! The segments of a journal between the thread that fills them and the one that makes room.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::segment::Segment;

/// What the committer and the keeper hand to each other.
pub(crate) struct Supply {
    state: Mutex<Stock>,
    changed: Condvar,
}

/// The segments there are.
#[derive(Default)]
pub(crate) struct Stock {
    /// The segment that is filled after the current one.
    pub(crate) next: Option<Segment>,
    /// It shall be made, if it is not there.
    pub(crate) wants_next: bool,
    /// The number of the segment after the next one.
    pub(crate) number: u64,
    /// Segments in use and the first position of each; the current one last.
    pub(crate) live: VecDeque<(u64, u64)>,
    /// How far the current one is written.
    pub(crate) end: u64,
    /// Segments that nobody needs.
    pub(crate) spare: Vec<u64>,
    /// Bytes of the journal since the last picture.
    pub(crate) bytes: u64,
    /// With more than this a picture is due.
    pub(crate) due: u64,
    /// Pictures can be taken.
    pub(crate) has_source: bool,
    /// Somebody wants a picture now.
    pub(crate) wants_picture: bool,
    /// The keeper shall end.
    pub(crate) is_ending: bool,
}

impl Supply {
    /// Begins with what recovery found.
    pub(crate) fn new(stock: Stock) -> Self {
        Self { state: Mutex::new(stock), changed: Condvar::new() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Stock> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something and wakes whoever waits for it.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Stock) -> T) -> T {
        let changed = change(&mut self.lock());
        self.changed.notify_all();
        changed
    }

    /// Waits for a change, at most for `limit`.
    pub(crate) fn wait<'a>(
        &self,
        guard: MutexGuard<'a, Stock>,
        limit: Duration,
    ) -> MutexGuard<'a, Stock> {
        let waited = self.changed.wait_timeout(guard, limit);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// The next segment, which begins at position `first`, when it comes within `limit`.
    pub(crate) fn take_next(&self, first: u64, limit: Duration) -> Option<Segment> {
        let mut stock = self.lock();
        if stock.next.is_none() {
            stock.wants_next = true;
            self.changed.notify_all();
            stock = self.wait(stock, limit);
        }
        let next = stock.next.take()?;
        stock.wants_next = false;
        stock.end = next.end;
        stock.live.push_back((next.number, first));
        drop(stock);
        self.changed.notify_all();
        Some(next)
    }
}
