//! The durable plane behind its lock: the pure broker, who waits for it, and the next alarm.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
};

use bus_core::{Clock, ConsumerSpec, Durability, Result};
use bus_envelope::Timestamp;
use tokio::{runtime::Handle, sync::Notify};

use crate::{
    Limits,
    core::{Broker, ConsumerKey},
    timekeeper,
    waiters::Waiters,
};

/// The shared durable plane.
pub(crate) struct Durable {
    state: Mutex<State>,
    clock: Arc<dyn Clock>,
    /// Tells the timekeeper that the alarm is earlier now, or that this is gone.
    pub(crate) alarm_changed: Arc<Notify>,
}

/// What the lock holds.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) broker: Broker,
    /// By the number of their consumer.
    waiters: Vec<(ConsumerKey, Waiters)>,
    /// When the timekeeper looks next; `None` when there is none.
    alarm: Option<Timestamp>,
    /// Scratch space of `Locked::append`.
    pub(crate) touched: Vec<ConsumerKey>,
}

/// The lock with the time, and what is to be done once it is free again.
pub(crate) struct Locked<'a> {
    pub(crate) state: MutexGuard<'a, State>,
    pub(crate) now: Timestamp,
    durable: &'a Arc<Durable>,
    after: After,
}

#[derive(Debug, Default)]
struct After {
    wakers: Vec<Waker>,
    alarm_changed: bool,
    start_timekeeper: Option<Handle>,
}

impl Durable {
    pub(crate) fn new(clock: Arc<dyn Clock>, limits: Limits) -> Self {
        let state = State {
            broker: Broker::new(limits, Durability::Memory),
            waiters: Vec::new(),
            alarm: None,
            touched: Vec::new(),
        };
        Self { state: Mutex::new(state), clock, alarm_changed: Arc::new(Notify::new()) }
    }

    /// Takes the lock and reads the clock under it, so that times come in order.
    pub(crate) fn lock(self: &Arc<Self>) -> Locked<'_> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        Locked { state, now, durable: self, after: After::default() }
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
        // The timekeeper holds this only weakly and ends when it looks.
        self.alarm_changed.notify_one();
    }
}

impl Locked<'_> {
    /// Those who wait for `key`.
    pub(crate) fn waiters(&mut self, key: ConsumerKey) -> Option<&mut Waiters> {
        self.state.waiters.get_mut(key.number()).map(|(_, waiters)| waiters)
    }

    /// Joins the consumer of `spec`, creating it when it does not exist yet.
    pub(crate) fn consume(&mut self, spec: ConsumerSpec) -> Result<ConsumerKey> {
        let key = self.state.broker.consume(spec)?;
        // A new consumer has the next number.
        if key.number() == self.state.waiters.len() {
            self.state.waiters.push((key, Waiters::default()));
        }
        Ok(key)
    }

    /// Calls as many members of `key` as messages are ready, and sets the alarm for the next one.
    ///
    /// To be called after whatever may have made a message ready or a member wait or leave.
    pub(crate) fn look_after(&mut self, key: ConsumerKey) {
        let state = &mut *self.state;
        let Some((_, waiters)) = state.waiters.get_mut(key.number()) else { return };
        waiters.call(state.broker.ready(key), self.now, &mut self.after.wakers);
        let Some(due) = waiters.next_deadline(state.broker.next_deadline(key)) else { return };
        match state.alarm {
            Some(alarm) if alarm <= due => return,
            Some(_) => self.after.alarm_changed = true,
            // Outside a runtime nothing can ring; the next caller from within one sets the alarm.
            None => match Handle::try_current() {
                Ok(runtime) => self.after.start_timekeeper = Some(runtime),
                Err(_) => return,
            },
        }
        state.alarm = Some(due);
    }

    /// The timekeeper's round: serves every consumer that somebody waits for, and returns when
    /// the next one is due. `None` ends the timekeeper; the next alarm starts another.
    pub(crate) fn round(&mut self) -> Option<Timestamp> {
        let state = &mut *self.state;
        let mut next: Option<Timestamp> = None;
        for &mut (key, ref mut waiters) in &mut state.waiters {
            if waiters.next_deadline(Some(self.now)).is_none() {
                continue;
            }
            state.broker.tick(key, self.now);
            waiters.expire_calls(self.now);
            waiters.call(state.broker.ready(key), self.now, &mut self.after.wakers);
            let due = waiters.next_deadline(state.broker.next_deadline(key));
            next = next.into_iter().chain(due).min();
        }
        state.alarm = next;
        next
    }

    /// Notes that the timekeeper ended with its runtime.
    pub(crate) fn timekeeper_ended(&mut self) {
        self.state.alarm = None;
        // Whoever waits looks again and starts another one, in its own runtime.
        self.wake_all();
    }

    /// Frees the lock, then wakes whom this call made ready. A call that changed nothing that
    /// others wait for may just drop the lock.
    pub(crate) fn finish(self) {
        let Self { state, durable, after, .. } = self;
        drop(state);
        if after.alarm_changed {
            durable.alarm_changed.notify_one();
        }
        if let Some(runtime) = after.start_timekeeper {
            timekeeper::start(durable, &runtime);
        }
        after.wakers.into_iter().for_each(Waker::wake);
    }

    fn wake_all(&mut self) {
        let wakers = &mut self.after.wakers;
        self.state.waiters.iter_mut().for_each(|(_, waiters)| waiters.wake_all(wakers));
    }
}
