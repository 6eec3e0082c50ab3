//! A backlog between the task that hears and the one that takes.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use bus_core::{Frame, Overflow};

use super::backlog::{Backlog, Taken};
use crate::connection::rouse;

/// A backlog with the task that waits for it.
pub(super) struct Feed(Mutex<State>);

struct State {
    backlog: Backlog,
    waker: Option<Waker>,
    has_ended: bool,
}

impl Feed {
    pub(super) fn new(overflow: Overflow) -> Self {
        Self(Mutex::new(State { backlog: Backlog::new(overflow), waker: None, has_ended: false }))
    }

    /// Takes in what was heard; `gone` gets what has to go for it.
    pub(super) fn push(&self, heard: &mut Vec<Frame>, gone: &mut Vec<Frame>) {
        self.change(|backlog| {
            for frame in heard.drain(..) {
                backlog.push(frame, gone);
            }
        });
    }

    /// As [`Backlog::add_samples`].
    pub(super) fn add_samples(&self, samples: Vec<Frame>) {
        self.change(|backlog| backlog.add_samples(samples));
    }

    /// As [`Backlog::note_loss`].
    pub(super) fn note_loss(&self) {
        self.change(Backlog::note_loss);
    }

    /// As [`Backlog::note_break`].
    pub(super) fn note_break(&self) {
        self.change(Backlog::note_break);
    }

    /// As [`Backlog::note_mended`].
    pub(super) fn note_mended(&self) {
        self.change(Backlog::note_mended);
    }

    /// Nothing more will come.
    pub(super) fn end(&self) {
        self.change_state(|state| {
            state.has_ended = true;
            state.backlog.note_mended();
        });
    }

    /// Takes what is next, or waits for it; never `Nothing`. `None` at the end.
    pub(super) fn poll_take(&self, cx: &Context<'_>) -> Poll<Option<Taken>> {
        let _gone;
        let mut state = self.lock();
        match state.backlog.take() {
            Taken::Nothing if state.has_ended => Poll::Ready(None),
            Taken::Nothing => {
                if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                    _gone = state.waker.replace(cx.waker().clone());
                }
                Poll::Pending
            }
            taken => Poll::Ready(Some(taken)),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Backlog)) {
        self.change_state(|state| change(&mut state.backlog));
    }

    fn change_state(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            rouse(waker);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
