//! The durable plane behind its lock: the pure broker, who waits for it, and the next alarm.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Context,
};

use bus_core::{Clock, ConsumerSpec, Result};
use bus_envelope::Timestamp;
use bus_subjects::{ConsumerName, StreamName};
use tokio::runtime::Id;

use crate::{
    aftermath::Aftermath,
    core::{Broker, ConsumerKey, Removed},
    journal::Position,
    keepers::{Calls, Keepers},
    seats::Seats,
    timekeeper::{self, Timed},
};

/// The shared durable plane.
pub(crate) struct Durable {
    state: Mutex<State>,
    clock: Arc<dyn Clock>,
}

/// What the lock holds.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) broker: Broker,
    seats: Seats,
    keepers: Keepers,
    /// Scratch space of whoever appends.
    pub(crate) touched: Vec<ConsumerKey>,
    /// What whoever holds the lock does once it is free again. It lies here because most have
    /// nothing to do, and would pay for an empty one of their own.
    after: After,
}

/// The lock with the time.
pub(crate) struct Locked<'a> {
    pub(crate) state: MutexGuard<'a, State>,
    pub(crate) now: Timestamp,
    /// `now` is the coarse time.
    is_coarse: bool,
    durable: &'a Arc<Durable>,
}

/// Mostly nothing.
#[derive(Debug, Default)]
struct After {
    left: Aftermath,
    calls: Calls,
}

impl Durable {
    pub(crate) fn new(clock: Arc<dyn Clock>, broker: Broker) -> Self {
        let mut seats = Seats::default();
        broker.consumer_keys().for_each(|key| seats.add(key));
        let state = State {
            broker,
            seats,
            keepers: Keepers::default(),
            touched: Vec::new(),
            after: After::default(),
        };
        Self { state: Mutex::new(state), clock }
    }

    /// Reads the clock and takes the lock, in this order so that the lock is held no longer than
    /// needed. Times may come to the broker out of order therefore, which it is made for.
    #[inline]
    pub(crate) fn lock(self: &Arc<Self>) -> Locked<'_> {
        self.lock_at(self.clock.now(), false)
    }

    /// As `lock`, but with the coarse time: for changes that store no time.
    #[inline]
    pub(crate) fn lock_coarsely(self: &Arc<Self>) -> Locked<'_> {
        self.lock_at(self.clock.coarse(), true)
    }

    #[inline]
    fn lock_at(self: &Arc<Self>, now: Timestamp, is_coarse: bool) -> Locked<'_> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Locked { state, now, is_coarse, durable: self }
    }

    /// Does something under the lock, then wakes whom it made ready. Returns with it the position
    /// of the last change that it may have seen.
    pub(crate) fn ask<T>(
        self: &Arc<Self>,
        act: impl FnOnce(&mut Locked<'_>) -> T,
    ) -> (T, Position) {
        let mut locked = self.lock();
        let answer = act(&mut locked);
        let position = locked.state.broker.position();
        locked.finish();
        (answer, position)
    }

    /// Wakes everybody who waits for any consumer.
    pub(crate) fn wake_all(self: &Arc<Self>) {
        let mut locked = self.lock();
        locked.wake_all();
        locked.finish();
    }
}

impl Drop for Durable {
    fn drop(&mut self) {
        // The timekeepers hold this only weakly and end when they look.
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner).keepers.notify_all();
    }
}

impl Timed for Durable {
    fn round(self: &Arc<Self>, id: Id) -> (Timestamp, Option<Timestamp>) {
        let mut locked = self.lock();
        let next = locked.round();
        let due = locked.state.keepers.looked(id, next);
        let now = locked.now;
        locked.finish();
        (now, due)
    }

    fn ended(self: &Arc<Self>, id: Id) {
        let mut locked = self.lock();
        locked.state.keepers.ended(id);
        // Whoever waits looks again, and has the time kept where it does.
        locked.wake_all();
        locked.finish();
    }
}

impl Locked<'_> {
    /// Lets the member with `ticket` wait for `key` on, or a new one join; returns its ticket.
    pub(crate) fn wait(
        &mut self,
        key: ConsumerKey,
        ticket: Option<u64>,
        cx: &Context<'_>,
    ) -> Option<u64> {
        let State { seats, keepers, after, .. } = &mut *self.state;
        let home = keepers.home();
        Some(seats.get_mut(key)?.waiters.wait(ticket, cx, home, &mut after.left))
    }

    /// The member with `ticket` waits for `key` no longer.
    pub(crate) fn leave(&mut self, key: ConsumerKey, ticket: u64) {
        let State { seats, after, .. } = &mut *self.state;
        if let Some(seat) = seats.get_mut(key) {
            seat.waiters.leave(ticket, &mut after.left);
        }
    }

    /// Joins the consumer of `spec`, creating it when it does not exist yet.
    pub(crate) fn consume(&mut self, spec: ConsumerSpec) -> Result<ConsumerKey> {
        let key = self.state.broker.consume(spec)?;
        self.state.seats.add(key);
        Ok(key)
    }

    /// Removes a consumer; whoever waits for it is woken to learn that. What is left of it is for
    /// the caller to drop, without the lock.
    pub(crate) fn remove_consumer(
        &mut self,
        stream: &StreamName,
        name: &ConsumerName,
    ) -> Result<Option<Removed>> {
        let State { broker, seats, after, .. } = &mut *self.state;
        let removed = broker.remove_consumer(stream, name)?;
        if let Some(removed) = &removed {
            seats.remove(removed.key, &mut after.left);
        }
        Ok(removed)
    }

    /// Changes the broker, then looks after every consumer that the change names.
    pub(crate) fn change<T>(
        &mut self,
        change: impl FnOnce(&mut Broker, Timestamp, &mut Vec<ConsumerKey>) -> T,
    ) -> T {
        let mut touched = std::mem::take(&mut self.state.touched);
        let answer = change(&mut self.state.broker, self.now, &mut touched);
        touched.drain(..).for_each(|key| self.look_after(key));
        self.state.touched = touched;
        answer
    }

    /// Calls as many members of `key` as messages are ready, and sets the alarm for the next one.
    ///
    /// To be called after whatever may have made a message ready or a member wait or leave.
    #[inline]
    pub(crate) fn look_after(&mut self, key: ConsumerKey) {
        if self.state.seats.get_mut(key).is_some_and(|seat| !seat.waiters.is_empty()) {
            self.look_after_waiters(key);
        }
    }

    // Apart, so that where nobody waits the caller holds but the question.
    #[inline(never)]
    fn look_after_waiters(&mut self, key: ConsumerKey) {
        let State { broker, seats, keepers, after, .. } = &mut *self.state;
        let Some(seat) = seats.get_mut(key) else { return };
        let waiters = &mut seat.waiters;
        if std::mem::take(&mut self.is_coarse) {
            // Those who are called have some milliseconds to come.
            self.now = self.durable.clock.now();
        }
        waiters.call(broker.ready(key), self.now, &mut after.left);
        let Some(due) = waiters.next_deadline(broker.next_deadline(key)) else { return };
        seats.set_alarm(key, due);
        if let Some(next) = seats.next_alarm() {
            keepers.keep(next, &mut after.calls);
        }
    }

    /// A timekeeper's round: serves every consumer whose alarm rings, and returns when the next
    /// one does.
    fn round(&mut self) -> Option<Timestamp> {
        let State { broker, seats, after, .. } = &mut *self.state;
        for key in seats.ring(self.now) {
            let Some(seat) = seats.get_mut(key).filter(|seat| !seat.waiters.is_empty()) else {
                continue;
            };
            broker.tick(key, self.now);
            seat.waiters.expire_calls(self.now);
            seat.waiters.call(broker.ready(key), self.now, &mut after.left);
            if let Some(due) = seat.waiters.next_deadline(broker.next_deadline(key)) {
                seats.set_alarm(key, due);
            }
        }
        self.state.seats.next_alarm()
    }

    /// Frees the lock, then wakes whom this call made ready. A call that changed nothing that
    /// others wait for may just drop the lock.
    #[inline]
    pub(crate) fn finish(self) {
        // Whoever has nothing to do pays for nothing: this ends every append, claim and verdict.
        if !self.state.after.is_empty() {
            self.finish_the_rest();
        }
    }

    // Apart, as above.
    #[inline(never)]
    fn finish_the_rest(self) {
        let Self { mut state, durable, .. } = self;
        let After { mut left, calls } = std::mem::take(&mut state.after);
        drop(state);
        if !calls.is_empty() {
            timekeeper::call(durable, calls);
        }
        left.settle();
    }

    fn wake_all(&mut self) {
        let State { seats, after, .. } = &mut *self.state;
        seats.wake_all(&mut after.left);
    }
}

impl After {
    const fn is_empty(&self) -> bool {
        self.left.is_empty() && self.calls.is_empty()
    }
}
