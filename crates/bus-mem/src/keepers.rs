//! The runtimes where somebody waits, and when the timekeeper in each of them looks next.
//!
//! One in each, because a runtime may stand still although it is there: a program that has one for
//! its callbacks, a thread that left `block_on`. Who waits elsewhere must not depend on it.

use std::sync::{Arc, Weak};

use bus_envelope::Timestamp;
use tokio::{
    runtime::{Handle, Id},
    sync::Notify,
};

/// A runtime where somebody waits: it counts as one for as long as any of them holds this.
#[derive(Debug)]
pub(crate) struct Home(Handle);

/// Where people wait. Kept under the lock of its plane.
#[derive(Debug, Default)]
pub(crate) struct Keepers(Vec<Keeper>);

#[derive(Debug)]
struct Keeper {
    id: Id,
    home: Weak<Home>,
    /// When its timekeeper looks next; `None` when there is none.
    alarm: Option<Timestamp>,
    /// Tells it that the alarm is earlier now, or that the plane is gone.
    changed: Arc<Notify>,
}

/// What is to be done about timekeepers once the lock is free: mostly nothing.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    pub(crate) notify: Vec<Arc<Notify>>,
    pub(crate) start: Vec<Start>,
}

/// A timekeeper to start.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) home: Arc<Home>,
    pub(crate) changed: Arc<Notify>,
}

impl Home {
    pub(crate) const fn runtime(&self) -> &Handle {
        &self.0
    }
}

impl Keepers {
    /// The runtime of the caller, who waits there. `None` outside of any: nothing rings there.
    pub(crate) fn home(&mut self) -> Option<Arc<Home>> {
        let runtime = Handle::try_current().ok()?;
        let id = runtime.id();
        let keeper = self.0.iter_mut().find(|keeper| keeper.id == id);
        if let Some(home) = keeper.as_ref().and_then(|keeper| keeper.home.upgrade()) {
            return Some(home);
        }
        let home = Arc::new(Home(runtime));
        let held = Arc::downgrade(&home);
        match keeper {
            Some(keeper) => keeper.home = held,
            None => {
                // Those where nobody waits go when another one comes, so there are never many.
                self.0.retain(Keeper::is_needed);
                self.0.push(Keeper { id, home: held, alarm: None, changed: Arc::default() });
            }
        }
        Some(home)
    }

    /// Makes sure that every timekeeper looks at `next` or before.
    #[inline]
    pub(crate) fn keep(&mut self, next: Timestamp, calls: &mut Calls) {
        for keeper in &mut self.0 {
            match keeper.alarm {
                Some(alarm) if alarm <= next => continue,
                Some(_) => calls.notify.push(Arc::clone(&keeper.changed)),
                None => {
                    let Some(home) = keeper.home.upgrade() else { continue };
                    calls.start.push(Start { home, changed: Arc::clone(&keeper.changed) });
                }
            }
            keeper.alarm = Some(next);
        }
    }

    /// The timekeeper of the runtime `id` looked; returns when it looks again. `None` ends it:
    /// there is no next time, or nobody waits there any more.
    pub(crate) fn looked(&mut self, id: Id, next: Option<Timestamp>) -> Option<Timestamp> {
        let keeper = self.0.iter_mut().find(|keeper| keeper.id == id)?;
        keeper.alarm = next.filter(|_| keeper.home.strong_count() > 0);
        keeper.alarm
    }

    /// Forgets the runtime `id`, whose timekeeper ended with it.
    pub(crate) fn ended(&mut self, id: Id) {
        self.0.retain(|keeper| keeper.id != id);
    }

    /// Lets every timekeeper look.
    pub(crate) fn notify_all(&self) {
        self.0.iter().for_each(|keeper| keeper.changed.notify_one());
    }
}

impl Keeper {
    fn is_needed(&self) -> bool {
        self.alarm.is_some() || self.home.strong_count() > 0
    }
}

impl Calls {
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.notify.is_empty() && self.start.is_empty()
    }
}
