//! Buckets behind their lock: the pure store, who waits for a change, and the next end in time.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Waker},
};

use bus_core::Clock;
use bus_envelope::Timestamp;
use tokio::runtime::Id;

use crate::{
    aftermath::Aftermath,
    core::{BucketStore, WatchId},
    journal::Position,
    keepers::{Calls, Home, Keepers},
    timekeeper::{self, Timed},
};

/// The shared buckets.
pub(crate) struct State {
    held: Mutex<Held>,
    clock: Arc<dyn Clock>,
}

/// What the lock holds.
pub(crate) struct Held {
    pub(crate) store: BucketStore,
    /// Whom to wake, and where it waits: there somebody looks at the time for it.
    waiting: HashMap<WatchId, (Waker, Option<Arc<Home>>)>,
    keepers: Keepers,
}

/// The lock with the time. Freeing it with [`Locked::finish`] wakes whom a change concerns.
pub(crate) struct Locked<'a> {
    pub(crate) held: MutexGuard<'a, Held>,
    pub(crate) now: Timestamp,
    state: &'a Arc<State>,
    /// Settled after the lock, and dropped after it at least: fields are in this order.
    left: Aftermath,
}

impl State {
    pub(crate) fn new(clock: Arc<dyn Clock>, store: BucketStore) -> Self {
        let held = Held { store, waiting: HashMap::new(), keepers: Keepers::default() };
        Self { held: Mutex::new(held), clock }
    }

    /// Takes the lock and reads the clock under it, so that times come in order.
    pub(crate) fn lock(self: &Arc<Self>) -> Locked<'_> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        Locked { held, now, state: self, left: Aftermath::default() }
    }

    /// Does something with the buckets, and wakes whom a change concerns. Returns with it the
    /// position of the last change that it may have seen.
    pub(crate) fn with<T>(
        self: &Arc<Self>,
        act: impl FnOnce(&mut BucketStore, Timestamp) -> T,
    ) -> (T, Position) {
        let mut locked = self.lock();
        let now = locked.now;
        let answer = act(&mut locked.held.store, now);
        let position = locked.held.store.position();
        locked.finish();
        (answer, position)
    }

    /// Wakes every watch that waits.
    pub(crate) fn wake_all(self: &Arc<Self>) {
        let mut locked = self.lock();
        locked.wake_all();
        locked.finish();
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // The timekeepers hold this only weakly and end when they look.
        self.held.get_mut().unwrap_or_else(PoisonError::into_inner).keepers.notify_all();
    }
}

impl Timed for State {
    fn round(self: &Arc<Self>, id: Id) -> (Timestamp, Option<Timestamp>) {
        let mut locked = self.lock();
        let now = locked.now;
        let Held { store, keepers, .. } = &mut *locked.held;
        // When more is over than one sweep ends, the deadline is past and the next round at once.
        let _more_is_over = store.sweep(now);
        let due = keepers.looked(id, store.next_deadline());
        locked.finish();
        (now, due)
    }

    fn ended(self: &Arc<Self>, id: Id) {
        let mut locked = self.lock();
        locked.held.keepers.ended(id);
        // Whoever waits looks again, and has the time kept where it does.
        locked.wake_all();
        locked.finish();
    }
}

impl Locked<'_> {
    /// Lets `watch` wait until it is called.
    pub(crate) fn wait(&mut self, watch: WatchId, cx: &Context<'_>) {
        let Held { waiting, keepers, .. } = &mut *self.held;
        // What the old one drops is a stranger's and may end another watch.
        let old = waiting.insert(watch, (cx.waker().clone(), keepers.home()));
        old.into_iter().for_each(|(waker, home)| self.left.forget(waker, home));
    }

    /// Ends `watch`.
    pub(crate) fn unwatch(&mut self, watch: WatchId) {
        let gone = self.held.waiting.remove(&watch);
        gone.into_iter().for_each(|(waker, home)| self.left.forget(waker, home));
        self.held.store.unwatch(watch);
    }

    /// Frees the lock, wakes whom a change concerns, and sets the alarm for the next end.
    pub(crate) fn finish(self) {
        let Self { mut held, state, mut left, .. } = self;
        let Held { store, waiting, keepers } = &mut *held;
        for (waker, home) in store.take_called().filter_map(|watch| waiting.remove(&watch)) {
            left.wake(waker, home);
        }
        let mut calls = Calls::default();
        if let Some(due) = store.next_deadline() {
            keepers.keep(due, &mut calls);
        }
        drop(held);
        if !calls.is_empty() {
            timekeeper::call(state, calls);
        }
        left.settle();
    }

    fn wake_all(&mut self) {
        for (waker, home) in std::mem::take(&mut self.held.waiting).into_values() {
            self.left.wake(waker, home);
        }
    }
}
