//! Who waits for one consumer: in the order they came, woken one for each message.

use std::{
    collections::VecDeque,
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

use bus_envelope::Timestamp;

use crate::{aftermath::Aftermath, keepers::Home};

/// The members of a consumer that found nothing to claim.
///
/// A member that is woken is *called* until it comes to claim. One that does not come within
/// [`CALL_PATIENCE`] (its task turned to something else, or is stuck) loses its call to the next
/// one, because nobody tells us that a future which waited was dropped while its stream lives on.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// By their tickets, which only grow.
    waiting: VecDeque<Waiting>,
    /// Likewise: members are called in the order of their tickets.
    called: VecDeque<(u64, Timestamp)>,
    last_ticket: u64,
}

#[derive(Debug)]
struct Waiting {
    ticket: u64,
    waker: Waker,
    /// Where it waits: there somebody looks at the time for it.
    home: Option<Arc<Home>>,
}

impl Waiters {
    /// Lets the member with `ticket` wait on, or a new one join; returns its ticket.
    pub(crate) fn wait(
        &mut self,
        ticket: Option<u64>,
        cx: &Context<'_>,
        home: Option<Arc<Home>>,
        aftermath: &mut Aftermath,
    ) -> u64 {
        if let Some(ticket) = ticket {
            if let Some(waiting) = self.place(ticket).and_then(|at| self.waiting.get_mut(at)) {
                let stays =
                    waiting.home.as_ref().map(Arc::as_ptr) == home.as_ref().map(Arc::as_ptr);
                if !(stays && waiting.waker.will_wake(cx.waker())) {
                    let waker = std::mem::replace(&mut waiting.waker, cx.waker().clone());
                    aftermath.forget(waker, std::mem::replace(&mut waiting.home, home));
                }
                return ticket;
            }
            self.answer(ticket);
        }
        self.last_ticket += 1;
        let waker = cx.waker().clone();
        self.waiting.push_back(Waiting { ticket: self.last_ticket, waker, home });
        self.last_ticket
    }

    /// The member with `ticket` waits no longer, whether it was called or not.
    pub(crate) fn leave(&mut self, ticket: u64, aftermath: &mut Aftermath) {
        if !self.answer(ticket)
            && let Some(waiting) = self.place(ticket).and_then(|at| self.waiting.remove(at))
        {
            aftermath.forget(waiting.waker, waiting.home);
        }
    }

    /// Calls members until as many are called as messages are `ready`.
    pub(crate) fn call(&mut self, ready: usize, now: Timestamp, aftermath: &mut Aftermath) {
        while self.called.len() < ready
            && let Some(waiting) = self.waiting.pop_front()
        {
            self.called.push_back((waiting.ticket, now));
            aftermath.wake(waiting.waker, waiting.home);
        }
    }

    /// Forgets the calls that were not answered in time.
    pub(crate) fn expire_calls(&mut self, now: Timestamp) {
        while self.called.front().is_some_and(|(_, since)| since.plus(CALL_PATIENCE) <= now) {
            self.called.pop_front();
        }
    }

    /// Whether nobody waits who was not called.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// When somebody must look after this consumer next: `None` when nobody waits.
    pub(crate) fn next_deadline(&self, consumer: Option<Timestamp>) -> Option<Timestamp> {
        if self.waiting.is_empty() {
            return None;
        }
        let call = self.called.front().map(|(_, since)| since.plus(CALL_PATIENCE));
        call.into_iter().chain(consumer).min()
    }

    /// Wakes everybody who waits, for instance because the bus was closed.
    pub(crate) fn wake_all(&mut self, aftermath: &mut Aftermath) {
        for Waiting { waker, home, .. } in self.waiting.drain(..) {
            aftermath.wake(waker, home);
        }
    }

    fn place(&self, ticket: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&ticket, |waiting| waiting.ticket).ok()
    }

    /// A member that was called came; false when it was not called, or too long ago.
    fn answer(&mut self, ticket: u64) -> bool {
        match self.called.binary_search_by_key(&ticket, |called| called.0) {
            Ok(at) => self.called.remove(at).is_some(),
            Err(_) => false,
        }
    }
}

/// How long a called member has to come.
pub(crate) const CALL_PATIENCE: Duration = Duration::from_millis(10);
