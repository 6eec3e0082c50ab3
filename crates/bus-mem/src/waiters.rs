//! Who waits for one consumer: in the order they came, woken one for each message.

use std::{
    collections::VecDeque,
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
    /// By their tickets, which only grow.
    waiting: VecDeque<(u64, Waker)>,
    /// Likewise: members are called in the order of their tickets.
    called: VecDeque<(u64, Timestamp)>,
    last_ticket: u64,
}

/// Those that are to be woken once the lock is free: mostly nobody or one.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    first: Option<Waker>,
    more: Vec<Waker>,
}

impl Waiters {
    /// Lets the member with `ticket` wait on, or a new one join; returns its ticket.
    pub(crate) fn wait(&mut self, ticket: Option<u64>, cx: &Context<'_>) -> u64 {
        if let Some(ticket) = ticket {
            if let Ok(at) = self.waiting.binary_search_by_key(&ticket, |waiting| waiting.0)
                && let Some((_, waker)) = self.waiting.get_mut(at)
            {
                waker.clone_from(cx.waker());
                return ticket;
            }
            self.answer(ticket);
        }
        self.last_ticket += 1;
        self.waiting.push_back((self.last_ticket, cx.waker().clone()));
        self.last_ticket
    }

    /// The member with `ticket` waits no longer, whether it was called or not.
    pub(crate) fn leave(&mut self, ticket: u64) {
        if !self.answer(ticket)
            && let Ok(at) = self.waiting.binary_search_by_key(&ticket, |waiting| waiting.0)
        {
            self.waiting.remove(at);
        }
    }

    /// Calls members until as many are called as messages are `ready`.
    pub(crate) fn call(&mut self, ready: usize, now: Timestamp, wakers: &mut Wakers) {
        while self.called.len() < ready
            && let Some((ticket, waker)) = self.waiting.pop_front()
        {
            self.called.push_back((ticket, now));
            wakers.push(waker);
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
    pub(crate) fn wake_all(&mut self, wakers: &mut Wakers) {
        self.waiting.drain(..).for_each(|(_, waker)| wakers.push(waker));
    }

    /// A member that was called came; false when it was not called, or too long ago.
    fn answer(&mut self, ticket: u64) -> bool {
        match self.called.binary_search_by_key(&ticket, |called| called.0) {
            Ok(at) => self.called.remove(at).is_some(),
            Err(_) => false,
        }
    }
}

impl Wakers {
    pub(crate) fn push(&mut self, waker: Waker) {
        match &self.first {
            None => self.first = Some(waker),
            Some(_) => self.more.push(waker),
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Wakes them in the order they were called.
    pub(crate) fn wake(self) {
        if let Some(first) = self.first {
            first.wake();
        }
        self.more.into_iter().for_each(Waker::wake);
    }
}

/// How long a called member has to come.
pub(crate) const CALL_PATIENCE: Duration = Duration::from_millis(10);
