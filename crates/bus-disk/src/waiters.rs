//! Those who wait until a position is safe.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use bus_core::Result;
use bus_mem::journal::Position;

use crate::journal::Shared;

/// The waiters of one journal.
///
/// One whose future was dropped stays in the list until its position is safe: the next commit.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// The last position that waiters may be told of.
    told: AtomicU64,
    list: Mutex<Vec<(u64, Waker)>>,
}

impl Waiters {
    /// Waiters of a journal that is safe up to `position`.
    pub(crate) fn from(position: u64) -> Self {
        Self { told: AtomicU64::new(position), list: Mutex::default() }
    }

    /// Tells everybody up to `position`, and returns how many were woken.
    pub(crate) fn tell(&self, position: u64) -> usize {
        self.told.store(position, Ordering::Release);
        let mut ready = Vec::new();
        {
            let mut list = self.lock();
            if list.iter().all(|(at, _)| *at <= position) {
                std::mem::swap(&mut *list, &mut ready);
            } else {
                ready.extend(list.extract_if(.., |(at, _)| *at <= position));
            }
        }
        let woken = ready.len();
        // Outside of the lock: who is woken may ask again at once.
        ready.into_iter().for_each(|(_, waker)| waker.wake());
        woken
    }

    /// Wakes everybody, to look what has become of the journal.
    pub(crate) fn wake_all(&self) {
        let all = std::mem::take(&mut *self.lock());
        all.into_iter().for_each(|(_, waker)| waker.wake());
    }

    fn is_told(&self, position: u64) -> bool {
        self.told.load(Ordering::Acquire) >= position
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u64, Waker)>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends when a position is safe, or never will be.
pub(crate) struct Safe {
    pub(crate) shared: Arc<Shared>,
    pub(crate) position: Position,
    /// What is in the list already.
    pub(crate) waker: Option<Waker>,
}

impl Future for Safe {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let position = self.position.0;
        let waiters = &self.shared.waiters;
        if waiters.is_told(position) {
            return Poll::Ready(Ok(()));
        }
        if self.waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
            let waker = cx.waker().clone();
            waiters.lock().push((position, waker.clone()));
            self.waker = Some(waker);
        }
        // Looked at again behind the list: told or ended meanwhile, nobody would wake this.
        let waiters = &self.shared.waiters;
        if waiters.is_told(position) {
            return Poll::Ready(Ok(()));
        }
        match self.shared.last_end() {
            Some(error) => Poll::Ready(Err(error.unknown())),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests;
