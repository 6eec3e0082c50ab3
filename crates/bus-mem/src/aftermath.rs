//! What must be done once no lock is held any more, on every plane.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
    task::Waker,
};

use bus_core::{Frame, Segment};

use crate::keepers::Home;

/// Whom to wake and what to drop: both may run whatever a stranger wrote, the drop of a
/// subscription or another publish included, so neither happens under a lock.
///
/// One list for everything, because most calls leave nothing and must not pay for four. The first
/// one has its own place: it is mostly the only one.
#[derive(Debug, Default)]
#[must_use = "those who wait must be woken"]
pub(crate) struct Aftermath {
    first: Option<Left>,
    more: Vec<Left>,
}

#[derive(Debug)]
#[expect(dead_code, reason = "most of it is here to be dropped")]
enum Left {
    Wake(Waker, Option<Arc<Home>>),
    Waker(Waker, Option<Arc<Home>>),
    Segment(Segment),
    Frame(Arc<Frame>),
}

impl Aftermath {
    /// A task to wake, which waits no longer where it did.
    pub(crate) fn wake(&mut self, waker: Waker, home: Option<Arc<Home>>) {
        self.push(Left::Wake(waker, home));
    }

    /// A waker that is not needed any more, and where it waited.
    pub(crate) fn forget(&mut self, waker: Waker, home: Option<Arc<Home>>) {
        self.push(Left::Waker(waker, home));
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Wakes and drops, in the order it came; to be called where no lock is held.
    #[inline]
    pub(crate) fn settle(&mut self) {
        match self.first.take() {
            None => {}
            Some(only) if self.more.is_empty() => only.settle(),
            Some(first) => self.settle_all(first),
        }
    }

    /// One that panics costs nobody else a wake-up: the first panic goes on when all is done.
    #[cold]
    fn settle_all(&mut self, first: Left) {
        let mut panicked = None;
        for left in std::iter::once(first).chain(self.more.drain(..)) {
            let settled = catch_unwind(AssertUnwindSafe(|| left.settle()));
            panicked = panicked.or(settled.err());
        }
        if let Some(panic) = panicked {
            resume_unwind(panic);
        }
    }

    #[inline]
    fn push(&mut self, left: Left) {
        if self.first.is_none() {
            self.first = Some(left);
        } else {
            self.more.push(left);
        }
    }
}

impl Left {
    fn settle(self) {
        if let Self::Wake(waker, _home) = self {
            waker.wake();
        }
    }
}

impl Extend<Segment> for Aftermath {
    fn extend<I: IntoIterator<Item = Segment>>(&mut self, segments: I) {
        segments.into_iter().for_each(|segment| self.push(Left::Segment(segment)));
    }
}

impl Extend<Arc<Frame>> for Aftermath {
    fn extend<I: IntoIterator<Item = Arc<Frame>>>(&mut self, frames: I) {
        frames.into_iter().for_each(|frame| self.push(Left::Frame(frame)));
    }
}

impl Extend<Waker> for Aftermath {
    /// Tasks to wake.
    fn extend<I: IntoIterator<Item = Waker>>(&mut self, wakers: I) {
        wakers.into_iter().for_each(|waker| self.wake(waker, None));
    }
}
