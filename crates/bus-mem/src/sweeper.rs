//! The one short-lived task that tells waiting watches which values ended with their time.
//!
//! It is there only while a watch waits and some value has an end; every other call looks at the
//! time by itself. One task rather than a timer for each watch, because a watch whose `next` was
//! dropped keeps its place and would let its timer ring unheard.

use std::{
    sync::{Arc, Weak},
    task::Waker,
    time::Duration,
};

use bus_envelope::Timestamp;
use tokio::{runtime::Handle, sync::Notify, time::Instant};

use crate::state::State;

/// Starts the sweeper of `state` in `runtime`.
///
/// Not to be called under the lock: a runtime that is shutting down drops the task at once, and
/// its guard takes the lock then.
pub(crate) fn start(state: &Arc<State>, runtime: &Handle) {
    let guard = Guard { state: Arc::downgrade(state), running: true };
    let changed = Arc::clone(&state.alarm_changed);
    // The task ends by itself, so nobody waits for it.
    drop(runtime.spawn(keep(guard, changed)));
}

async fn keep(mut guard: Guard, changed: Arc<Notify>) {
    while let Some(wait) = guard.round() {
        tokio::select! {
            () = tokio::time::sleep_until(wait) => {}
            () = changed.notified() => {}
        }
    }
}

/// Tells the buckets when the task ends, also when its runtime does.
struct Guard {
    state: Weak<State>,
    running: bool,
}

impl Guard {
    fn round(&mut self) -> Option<Instant> {
        let state = self.state.upgrade()?;
        let mut locked = state.lock();
        let due = locked.round();
        let now = locked.now;
        self.running = due.is_some();
        locked.finish();
        due.map(|due| instant_of(due, now))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let (true, Some(state)) = (self.running, self.state.upgrade()) {
            let wakers = state.lock().sweeper_ended();
            wakers.for_each(Waker::wake);
        }
    }
}

/// Far ends are looked at once a day, which keeps every sum within the timer's range.
fn instant_of(due: Timestamp, now: Timestamp) -> Instant {
    const DAY: Duration = Duration::from_secs(86_400);
    Instant::now() + due.since(now).min(DAY)
}
