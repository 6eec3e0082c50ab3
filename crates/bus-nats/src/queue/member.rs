//! A member of a consumer: takes what was claimed for those that wait.

use std::{
    num::NonZeroUsize,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bus_core::{Claiming, Delivery, Result};
use futures_core::Stream;

use super::desk::{Desk, Waiter};

/// One member. It claims while it is polled, and tells the desk when it stops.
pub(super) struct Member {
    desk: Arc<Desk>,
    /// Its place among those that wait.
    place: Option<u64>,
    was_told: bool,
}

impl Member {
    /// A member that was counted.
    pub(super) fn new(desk: Arc<Desk>) -> Self {
        Self { desk, place: None, was_told: false }
    }

    fn poll(&mut self, cx: &Context<'_>, max: usize) -> Poll<Option<Result<Vec<Delivery>>>> {
        let mut state = self.desk.state();
        if let Some(end) = state.end {
            drop(state);
            let is_first = !std::mem::replace(&mut self.was_told, true);
            let word = self.desk.last_word(end).filter(|_| is_first);
            return Poll::Ready(word.map(Err));
        }
        if !state.hand.is_empty() {
            let count = max.min(state.hand.len());
            let taken: Vec<_> = state.hand.drain(..count).collect();
            if let Some(place) = self.place.take() {
                state.waiters.remove(&place);
            }
            state.wake_for_hand();
            let is_left_over = !state.hand.is_empty() && state.waiters.is_empty();
            drop(state);
            if is_left_over {
                // Nobody is there for it: it goes back.
                self.desk.wake.notify_one();
            }
            let taken = taken.into_iter().map(|claimed| self.desk.delivery(claimed));
            return Poll::Ready(Some(Ok(taken.collect())));
        }
        if let Some(fault) = state.fault.take() {
            if let Some(place) = self.place.take() {
                state.waiters.remove(&place);
            }
            return Poll::Ready(Some(Err(fault)));
        }
        let is_new = self.place.is_none();
        let place = self.place.unwrap_or_else(|| state.number());
        self.place = Some(place);
        let waiter = Waiter { waker: cx.waker().clone(), max };
        let before = state.waiters.insert(place, waiter);
        drop(state);
        if is_new || before.is_none_or(|before| before.max != max) {
            self.desk.wake.notify_one();
        }
        Poll::Pending
    }

    fn leave(&mut self) {
        let Some(place) = self.place.take() else { return };
        let mut state = self.desk.state();
        state.waiters.remove(&place);
        // What was claimed for this one goes to the next, or back.
        state.wake_for_hand();
        drop(state);
        self.desk.wake.notify_one();
    }
}

impl Stream for Member {
    type Item = Result<Delivery>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.poll(cx, 1);
        polled.map(|item| item.and_then(|taken| taken.map(|mut one| one.pop()).transpose()))
    }
}

impl Claiming for Member {
    fn poll_many(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        max: NonZeroUsize,
    ) -> Poll<Option<Result<Vec<Delivery>>>> {
        self.poll(cx, max.get())
    }

    fn give_up(mut self: Pin<&mut Self>) {
        self.leave();
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.leave();
        self.desk.state().members -= 1;
        self.desk.wake.notify_one();
    }
}
