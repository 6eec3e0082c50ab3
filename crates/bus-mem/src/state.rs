//! Buckets behind their lock: the pure store, who waits for a change, and the next end in time.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Waker},
};

use bus_core::Clock;
use bus_envelope::Timestamp;
use tokio::{runtime::Handle, sync::Notify};

use crate::{
    Limits,
    core::{BucketStore, WatchId},
    sweeper,
};

/// The shared buckets.
pub(crate) struct State {
    held: Mutex<Held>,
    clock: Arc<dyn Clock>,
    /// Tells the sweeper that something ends earlier now, or that this is gone.
    pub(crate) alarm_changed: Arc<Notify>,
}

/// What the lock holds.
pub(crate) struct Held {
    pub(crate) store: BucketStore,
    waiting: HashMap<WatchId, Waker>,
    /// When the sweeper looks next; `None` when there is none.
    alarm: Option<Timestamp>,
}

/// The lock with the time. Freeing it with [`Locked::finish`] wakes whom a change concerns.
pub(crate) struct Locked<'a> {
    pub(crate) held: MutexGuard<'a, Held>,
    pub(crate) now: Timestamp,
    state: &'a Arc<State>,
    /// A waker that is not needed any more. What it drops with it is a stranger's and may end
    /// another watch, so it goes after the lock: fields are dropped in this order.
    left: Option<Waker>,
}

impl State {
    pub(crate) fn new(clock: Arc<dyn Clock>, limits: Limits) -> Self {
        let store = BucketStore::new(limits);
        let held = Held { store, waiting: HashMap::new(), alarm: None };
        Self { held: Mutex::new(held), clock, alarm_changed: Arc::new(Notify::new()) }
    }

    /// Takes the lock and reads the clock under it, so that times come in order.
    pub(crate) fn lock(self: &Arc<Self>) -> Locked<'_> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        Locked { held, now, state: self, left: None }
    }

    /// Does something with the buckets, and wakes whom a change concerns.
    pub(crate) fn with<T>(
        self: &Arc<Self>,
        act: impl FnOnce(&mut BucketStore, Timestamp) -> T,
    ) -> T {
        let mut locked = self.lock();
        let now = locked.now;
        let answer = act(&mut locked.held.store, now);
        locked.finish();
        answer
    }

    /// Wakes every watch that waits.
    pub(crate) fn wake_all(self: &Arc<Self>) {
        let waiting = std::mem::take(&mut self.lock().held.waiting);
        waiting.into_values().for_each(Waker::wake);
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // The sweeper holds this only weakly and ends when it looks.
        self.alarm_changed.notify_one();
    }
}

impl Locked<'_> {
    /// Lets `watch` wait until it is called.
    pub(crate) fn wait(&mut self, watch: WatchId, cx: &Context<'_>) {
        match self.held.waiting.get_mut(&watch) {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            _ => self.left = self.held.waiting.insert(watch, cx.waker().clone()),
        }
    }

    /// Ends `watch`.
    pub(crate) fn unwatch(&mut self, watch: WatchId) {
        self.left = self.held.waiting.remove(&watch);
        self.held.store.unwatch(watch);
    }

    /// The sweeper's round: ends what is over, and returns when the next value ends. `None` ends
    /// the sweeper; the next alarm starts another.
    pub(crate) fn round(&mut self) -> Option<Timestamp> {
        // When more is over than one sweep ends, the deadline is past and the next round at once.
        let _more_is_over = self.held.store.sweep(self.now);
        let due = self.held.store.next_deadline();
        self.held.alarm = due;
        due
    }

    /// Notes that the sweeper ended with its runtime. Whoever waits looks again and starts
    /// another one, in its own runtime.
    pub(crate) fn sweeper_ended(&mut self) -> impl Iterator<Item = Waker> + use<> {
        self.held.alarm = None;
        std::mem::take(&mut self.held.waiting).into_values()
    }

    /// Frees the lock, wakes whom a change concerns, and sets the alarm for the next end.
    pub(crate) fn finish(self) {
        let Self { mut held, state, left, .. } = self;
        let Held { store, waiting, alarm } = &mut *held;
        let called: Vec<Waker> =
            store.take_called().filter_map(|watch| waiting.remove(&watch)).collect();
        let (mut alarm_changed, mut start_in) = (false, None);
        if let Some(due) = store.next_deadline() {
            match *alarm {
                Some(set) if set <= due => {}
                Some(_) => (*alarm, alarm_changed) = (Some(due), true),
                // Outside a runtime nothing can ring; the next caller from within one does it.
                None => {
                    start_in = Handle::try_current().ok();
                    *alarm = start_in.is_some().then_some(due);
                }
            }
        }
        drop(held);
        drop(left);
        if alarm_changed {
            state.alarm_changed.notify_one();
        }
        if let Some(runtime) = start_in {
            sweeper::start(state, &runtime);
        }
        called.into_iter().for_each(Waker::wake);
    }
}
