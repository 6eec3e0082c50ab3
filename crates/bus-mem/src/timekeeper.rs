//! The short-lived task that looks at the time for those who wait: for leases that run out, for
//! retries that come back, for values that end.
//!
//! It is there only while somebody waits in its runtime for something that has its time; every
//! other call looks at the time by itself. One task rather than a timer for each who waits, because
//! one whose `next` was dropped keeps its place and would let its timer ring unheard, and because a
//! thousand waiting members must not all wake for one message.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use bus_envelope::Timestamp;
use tokio::{runtime::Id, sync::Notify, time::Instant};

use crate::keepers::{Calls, Start};

/// A plane where things happen at their time.
pub(crate) trait Timed: Send + Sync + 'static {
    /// Does what is due; returns the time now, and when the timekeeper of the runtime `id` looks
    /// next. `None` ends it; the next alarm starts another.
    fn round(self: &Arc<Self>, id: Id) -> (Timestamp, Option<Timestamp>);

    /// Notes that the timekeeper ended with its runtime `id`.
    fn ended(self: &Arc<Self>, id: Id);
}

/// Does what is to be done about the timekeepers of `plane`.
///
/// Not to be called under the lock: a runtime that is shutting down drops the task at once, and
/// its guard takes the lock then.
pub(crate) fn call<T: Timed>(plane: &Arc<T>, calls: Calls) {
    let Calls { notify, start } = calls;
    notify.iter().for_each(|changed| changed.notify_one());
    for Start { home, changed } in start {
        let id = home.runtime().id();
        let guard = Guard { plane: Arc::downgrade(plane), id, running: true };
        // The task ends by itself, so nobody waits for it.
        drop(home.runtime().spawn(keep(guard, changed)));
    }
}

async fn keep<T: Timed>(mut guard: Guard<T>, changed: Arc<Notify>) {
    while let Some(wait) = guard.round() {
        tokio::select! {
            () = tokio::time::sleep_until(wait) => {}
            () = changed.notified() => {}
        }
    }
}

/// Tells the plane when the task ends, also when its runtime does.
struct Guard<T: Timed> {
    plane: Weak<T>,
    id: Id,
    running: bool,
}

impl<T: Timed> Guard<T> {
    fn round(&mut self) -> Option<Instant> {
        let (now, due) = self.plane.upgrade()?.round(self.id);
        self.running = due.is_some();
        due.map(|due| instant_of(due, now))
    }
}

impl<T: Timed> Drop for Guard<T> {
    fn drop(&mut self) {
        if let (true, Some(plane)) = (self.running, self.plane.upgrade()) {
            plane.ended(self.id);
        }
    }
}

/// Far times are looked at once a day, which keeps every sum within the timer's range.
fn instant_of(due: Timestamp, now: Timestamp) -> Instant {
    const DAY: Duration = Duration::from_secs(86_400);
    Instant::now() + due.since(now).min(DAY)
}
