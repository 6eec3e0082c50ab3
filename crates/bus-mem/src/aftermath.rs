//! What must be done once no lock is held any more.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
    task::Waker,
};

use bus_core::{Frame, Segment};

/// Whom to wake and what to drop: both may run whatever a stranger wrote, the drop of a
/// subscription or another publish included, so neither happens under a lock.
///
/// One list for everything, because most calls leave nothing and must not pay for four.
#[derive(Debug, Default)]
#[must_use = "those who wait must be woken"]
pub(crate) struct Aftermath(Vec<Left>);

#[derive(Debug)]
#[expect(dead_code, reason = "most of it is here to be dropped")]
enum Left {
    Wake(Waker),
    Waker(Waker),
    Segment(Segment),
    Frame(Arc<Frame>),
}

impl Aftermath {
    /// A waker that is not needed any more.
    pub(crate) fn forget(&mut self, waker: Waker) {
        self.0.push(Left::Waker(waker));
    }

    /// Wakes and drops; to be called where no lock is held.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if !self.0.is_empty() {
            self.settle_all();
        }
    }

    /// One that panics costs nobody else a wake-up: the first panic goes on when all is done.
    #[cold]
    fn settle_all(&mut self) {
        let mut panicked = None;
        for left in self.0.drain(..) {
            let settled = catch_unwind(AssertUnwindSafe(|| left.settle()));
            panicked = panicked.or(settled.err());
        }
        if let Some(panic) = panicked {
            resume_unwind(panic);
        }
    }
}

impl Left {
    fn settle(self) {
        if let Self::Wake(waker) = self {
            waker.wake();
        }
    }
}

impl Extend<Segment> for Aftermath {
    fn extend<I: IntoIterator<Item = Segment>>(&mut self, segments: I) {
        self.0.extend(segments.into_iter().map(Left::Segment));
    }
}

impl Extend<Arc<Frame>> for Aftermath {
    fn extend<I: IntoIterator<Item = Arc<Frame>>>(&mut self, frames: I) {
        self.0.extend(frames.into_iter().map(Left::Frame));
    }
}

impl Extend<Waker> for Aftermath {
    /// Tasks to wake.
    fn extend<I: IntoIterator<Item = Waker>>(&mut self, wakers: I) {
        self.0.extend(wakers.into_iter().map(Left::Wake));
    }
}
