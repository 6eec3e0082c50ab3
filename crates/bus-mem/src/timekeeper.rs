//! The one short-lived task that lets leases run out and retries come back while members wait.
//!
//! It is there only while somebody waits for a consumer that has a lease or a retry out; a claim
//! looks at the time by itself. One task rather than a timer for each waiting member, because a
//! member whose `next` was dropped keeps its place and would let its timer ring unheard, and
//! because a thousand waiting members must not all wake for one message.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use bus_envelope::Timestamp;
use tokio::{runtime::Handle, sync::Notify, time::Instant};

use crate::durable::Durable;

/// Starts the timekeeper of `durable` in `runtime`.
///
/// Not to be called under the lock: a runtime that is shutting down drops the task at once, and
/// its guard takes the lock then.
pub(crate) fn start(durable: &Arc<Durable>, runtime: &Handle) {
    let guard = Guard { durable: Arc::downgrade(durable), running: true };
    let changed = Arc::clone(&durable.alarm_changed);
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

/// Tells the bus when the task ends, also when its runtime does.
struct Guard {
    durable: Weak<Durable>,
    running: bool,
}

impl Guard {
    fn round(&mut self) -> Option<Instant> {
        let durable = self.durable.upgrade()?;
        let mut locked = durable.lock();
        let due = locked.round();
        let now = locked.now;
        self.running = due.is_some();
        locked.finish();
        due.map(|due| instant_of(due, now))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let (true, Some(durable)) = (self.running, self.durable.upgrade()) {
            let mut locked = durable.lock();
            locked.timekeeper_ended();
            locked.finish();
        }
    }
}

/// Far deadlines are looked at once a day, which keeps every sum within the timer's range.
fn instant_of(due: Timestamp, now: Timestamp) -> Instant {
    const DAY: Duration = Duration::from_secs(86_400);
    Instant::now() + due.since(now).min(DAY)
}
