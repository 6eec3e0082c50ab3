//! Who waits for one consumer: in the order they came, woken one for each message.

use std::{
    collections::BTreeMap,
    task::{Context, Waker},
    time::Duration,
};

use bus_envelope::Timestamp;

/// The members of a consumer that found nothing to claim.
///
/// A member that is woken is *called* until it comes to claim. One that does not come within
/// [`CALL_PATIENCE`] (its task turned to something else, or is stuck) loses its call to the next
/// one, because nobody tells us that a future which waited was dropped while its stream lives on.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    waiting: BTreeMap<u64, Waker>,
    called: BTreeMap<u64, Timestamp>,
    last_ticket: u64,
}

impl Waiters {
    /// Lets the member with `ticket` wait on, or a new one join; returns its ticket.
    pub(crate) fn wait(&mut self, ticket: Option<u64>, cx: &Context<'_>) -> u64 {
        if let Some(ticket) = ticket
            && let Some(waker) = self.waiting.get_mut(&ticket)
        {
            waker.clone_from(cx.waker());
            return ticket;
        }
        if let Some(ticket) = ticket {
            self.called.remove(&ticket);
        }
        self.last_ticket += 1;
        self.waiting.insert(self.last_ticket, cx.waker().clone());
        self.last_ticket
    }

    /// The member with `ticket` waits no longer, whether it was called or not.
    pub(crate) fn leave(&mut self, ticket: u64) {
        if self.waiting.remove(&ticket).is_none() {
            self.called.remove(&ticket);
        }
    }

    /// Calls members until as many are called as messages are `ready`.
    pub(crate) fn call(&mut self, ready: usize, now: Timestamp, wakers: &mut Vec<Waker>) {
        while self.called.len() < ready
            && let Some((ticket, waker)) = self.waiting.pop_first()
        {
            self.called.insert(ticket, now);
            wakers.push(waker);
        }
    }

    /// Forgets the calls that were not answered in time.
    pub(crate) fn expire_calls(&mut self, now: Timestamp) {
        // Members are called in the order of their tickets, so the first call is the oldest.
        while let Some(oldest) = self.called.first_entry()
            && oldest.get().plus(CALL_PATIENCE) <= now
        {
            oldest.remove();
        }
    }

    /// When somebody must look after this consumer next: `None` when nobody waits.
    pub(crate) fn next_deadline(&self, consumer: Option<Timestamp>) -> Option<Timestamp> {
        if self.waiting.is_empty() {
            return None;
        }
        let call = self.called.first_key_value().map(|(_, since)| since.plus(CALL_PATIENCE));
        call.into_iter().chain(consumer).min()
    }

    /// Wakes everybody who waits, for instance because the bus was closed.
    pub(crate) fn wake_all(&mut self, wakers: &mut Vec<Waker>) {
        wakers.extend(std::mem::take(&mut self.waiting).into_values());
    }
}

/// How long a called member has to come.
pub(crate) const CALL_PATIENCE: Duration = Duration::from_millis(10);
