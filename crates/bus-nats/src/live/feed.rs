//! A backlog between the task that hears and the one that takes.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use async_nats::Message;
use bus_core::Overflow;

use super::backlog::{Backlog, Taken};

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
    pub(super) fn push(&self, heard: &mut Vec<Message>, gone: &mut Vec<Message>) {
        self.change(|backlog| {
            for message in heard.drain(..) {
                backlog.push(message, gone);
            }
        });
    }

    /// As [`Backlog::add_samples`].
    pub(super) fn add_samples(&self, samples: Vec<(String, Message)>) {
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
        self.lock().has_ended = true;
        self.change(Backlog::note_mended);
    }

    /// Takes what is next; never `Nothing`. `None` at the end.
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
        let mut state = self.lock();
        change(&mut state.backlog);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
