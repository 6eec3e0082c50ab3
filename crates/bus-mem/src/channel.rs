//! One filter's log, shared by its subscribers: its lock, and who waits for its next frame.

use std::{
    num::NonZeroUsize,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Waker},
};

use bus_core::SegmentFrame;
use bus_subjects::Filter;

use crate::{
    aftermath::Aftermath,
    core::{CursorKey, FeedCounts, FeedLog, Heard, Read},
};

/// Everybody who subscribed to one filter and wants every frame.
#[derive(Debug)]
pub(crate) struct Channel {
    filter: Filter,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    log: FeedLog,
    sleepers: Sleepers,
}

/// The readers that had read everything when they last looked.
#[derive(Debug, Default)]
struct Sleepers {
    /// How often all were woken: a bed of an earlier round is empty.
    round: u64,
    beds: Vec<Option<Waker>>,
    free: Vec<usize>,
}

/// The place of one sleeper, which its reader keeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bed {
    round: u64,
    index: usize,
}

impl Channel {
    pub(crate) fn new(filter: Filter) -> Self {
        Self { filter, state: Mutex::default() }
    }

    pub(crate) fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Adds a subscriber that hears every frame from now on.
    pub(crate) fn join(&self, owner: u64, capacity: NonZeroUsize) -> CursorKey {
        self.lock().log.join(owner, capacity)
    }

    /// Appends `frame`, which stays with the caller when nobody hears it.
    pub(crate) fn push(
        &self,
        frame: &mut Option<SegmentFrame>,
        aftermath: &mut Aftermath,
    ) -> Heard {
        let mut state = self.lock();
        let heard = state.log.push(frame, aftermath);
        state.sleepers.wake(aftermath);
        heard
    }

    /// What the subscriber reads next; it is woken by the next frame when there is nothing.
    ///
    /// Beside it: whether the subscriber has read everything now, as others do who share the log.
    pub(crate) fn read(
        &self,
        key: CursorKey,
        bed: &mut Option<Bed>,
        cx: &Context<'_>,
        aftermath: &mut Aftermath,
    ) -> (Read, bool) {
        let mut state = self.lock();
        let read = state.log.read(key, aftermath);
        if matches!(read, Read::Nothing) {
            state.sleepers.wait(bed, cx, aftermath);
        }
        (read, state.log.cursors() > 1 && state.log.has_read_all(key))
    }

    /// Lets the subscribers of `owner` end after what they hold.
    pub(crate) fn close(&self, owner: u64, aftermath: &mut Aftermath) {
        let mut state = self.lock();
        if state.log.close(owner, aftermath) {
            state.sleepers.wake(aftermath);
        }
    }

    /// Ends a subscriber; says what became of its frames, and whether it was the last one.
    pub(crate) fn leave(
        &self,
        key: CursorKey,
        bed: Option<Bed>,
        aftermath: &mut Aftermath,
    ) -> (FeedCounts, bool) {
        let mut state = self.lock();
        state.sleepers.leave(bed, aftermath);
        let counts = state.log.leave(key, aftermath);
        (counts, state.log.cursors() == 0)
    }

    /// As [`FeedLog::counts`].
    pub(crate) fn counts(&self) -> (FeedCounts, u64) {
        self.lock().log.counts()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sleepers {
    /// Takes everybody out, to be woken.
    fn wake(&mut self, aftermath: &mut Aftermath) {
        if self.beds.is_empty() {
            return;
        }
        self.round += 1;
        self.free.clear();
        aftermath.extend(self.beds.drain(..).flatten());
    }

    /// Puts the task of `cx` into the `bed`, or into a new one.
    fn wait(&mut self, bed: &mut Option<Bed>, cx: &Context<'_>, aftermath: &mut Aftermath) {
        let mine = bed.filter(|bed| bed.round == self.round);
        if let Some(mine) = mine
            && let Some(Some(waker)) = self.beds.get_mut(mine.index)
        {
            if !waker.will_wake(cx.waker()) {
                aftermath.forget(std::mem::replace(waker, cx.waker().clone()), None);
            }
            return;
        }
        let index = self.free.pop().unwrap_or(self.beds.len());
        let waker = Some(cx.waker().clone());
        match self.beds.get_mut(index) {
            Some(place) => *place = waker,
            None => self.beds.push(waker),
        }
        *bed = Some(Bed { round: self.round, index });
    }

    fn leave(&mut self, bed: Option<Bed>, aftermath: &mut Aftermath) {
        if let Some(bed) = bed.filter(|bed| bed.round == self.round)
            && let Some(Some(waker)) = self.beds.get_mut(bed.index).map(Option::take)
        {
            aftermath.forget(waker, None);
            self.free.push(bed.index);
        }
    }
}
