//! A subscription with a queue of its own: the newest frame of each subject, or one answer.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use bus_core::Frame;

use crate::{
    aftermath::Aftermath,
    core::{FeedCounts, FeedQueue, Popped},
};

/// The queue of one subscription with the task that waits for it.
#[derive(Debug)]
pub(crate) struct Feed(Mutex<FeedState>);

#[derive(Debug)]
struct FeedState {
    queue: FeedQueue,
    waker: Option<Waker>,
    open: bool,
}

impl Feed {
    pub(crate) fn new(queue: FeedQueue) -> Self {
        Self(Mutex::new(FeedState { queue, waker: None, open: true }))
    }

    /// Offers `frame` and says whether it was heard.
    pub(crate) fn push(&self, frame: &Arc<Frame>, aftermath: &mut Aftermath) -> bool {
        let mut state = self.lock();
        if state.open {
            aftermath.extend(state.queue.push(Arc::clone(frame)));
            aftermath.extend(state.waker.take());
        }
        state.open
    }

    /// The next item; `None` once the subscription was closed and everything was taken.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Option<Popped>> {
        let _gone;
        let mut state = self.lock();
        if let Some(item) = state.queue.pop() {
            return Poll::Ready(Some(item));
        }
        if !state.open {
            return Poll::Ready(None);
        }
        if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            _gone = state.waker.replace(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Lets the subscription end after what it holds.
    pub(crate) fn close(&self, aftermath: &mut Aftermath) {
        let mut state = self.lock();
        state.open = false;
        aftermath.extend(state.waker.take());
    }

    /// Ends the subscription; what it did not take counts as dropped.
    pub(crate) fn end(&self, aftermath: &mut Aftermath) -> FeedCounts {
        let mut state = self.lock();
        state.open = false;
        state.waker.take().into_iter().for_each(|waker| aftermath.forget(waker, None));
        let mut counts = state.queue.counts();
        counts.dropped += state.queue.len() as u64;
        aftermath.extend(state.queue.take_all());
        counts
    }

    /// What became of the frames that were offered, and how many of them wait.
    pub(crate) fn counts(&self) -> (FeedCounts, u64) {
        let state = self.lock();
        (state.queue.counts(), state.queue.len() as u64)
    }

    fn lock(&self) -> MutexGuard<'_, FeedState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
