//! What the server has refused lately, so that a call can be told that it was.
//!
//! The client says `Ok` to what the server refuses, and tells of it through its queue of events.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// The refusals of one connection, the last ones by their subjects.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    last: Mutex<VecDeque<Refused>>,
    /// How many there were.
    count: AtomicU64,
    /// How many there were when the client had last dropped some.
    lost_at: AtomicU64,
    /// The connection on which the subscription to all answers was refused.
    deaf_since: AtomicU64,
}

/// What was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Publish,
    Subscribe,
}

/// A refusal.
#[derive(Debug)]
struct Refused {
    act: Act,
    subject: Box<str>,
}

impl Refusals {
    /// How many there were; what is refused later counts as since then.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    pub(super) fn add(&self, act: Act, subject: &str) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() == KEPT {
            last.pop_front();
        }
        last.push_back(Refused { act, subject: subject.into() });
        self.count.fetch_add(1, Ordering::Release);
    }

    /// Whether `subject` was refused after there had been `count` refusals. A longer look back
    /// than [`KEPT`] sees the last ones only.
    pub(super) fn has(&self, act: Act, subject: &str, count: u64) -> bool {
        if self.count() == count {
            return false;
        }
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let since = usize::try_from(self.count().saturating_sub(count)).unwrap_or(KEPT);
        last.iter().rev().take(since).any(|one| one.act == act && *one.subject == *subject)
    }

    /// The client may have dropped some.
    pub(super) fn lose(&self) {
        // It takes a number as if it were one, and so divides what was before from what follows.
        self.add(Act::Publish, "");
        self.lost_at.fetch_max(self.count(), Ordering::AcqRel);
    }

    /// Whether the client may have dropped some after there had been `count`.
    pub(super) fn has_lost(&self, count: u64) -> bool {
        count < self.lost_at.load(Ordering::Acquire)
    }

    /// No answer to a request reaches this connection, the `epoch`th.
    pub(super) fn deafen(&self, epoch: u64) {
        self.deaf_since.store(epoch, Ordering::Release);
    }

    /// Whether answers to requests reach the `epoch`th connection.
    pub(super) fn hears(&self, epoch: u64) -> bool {
        self.deaf_since.load(Ordering::Acquire) != epoch
    }
}

/// What was sent for its refusal's sake, on the present connection.
#[derive(Debug, Default)]
pub(super) struct Baits {
    /// On which connection, and how many.
    out: Mutex<(u64, u64)>,
    taken: AtomicU64,
    /// How many events there were in all, and at the last three of these.
    events: AtomicU64,
    at: Mutex<[u64; 3]>,
}

impl Baits {
    /// One more was sent on the `epoch`th connection. Returns how many must be refused until it is.
    pub(super) fn put_out(&self, epoch: u64) -> u64 {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let before = if out.0 == epoch { out.1 } else { 0 };
        *out = (epoch, before.saturating_add(1));
        out.1
    }

    /// The client told of something.
    pub(super) fn note_event(&self) {
        self.events.fetch_add(1, Ordering::AcqRel);
    }

    /// One was refused. Returns whether the client's queue may have been full before it, since
    /// the last one was sent: they go one at a time, so everything in a full queue was taken out
    /// of it after the last but one.
    pub(super) fn take(&self) -> bool {
        let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        let [_, before, last] = *at;
        let now = self.events.load(Ordering::Acquire);
        *at = [before, last, now];
        now.saturating_sub(before) >= QUEUE
    }

    /// What [`take`](Self::take) took counts.
    pub(super) fn count(&self) {
        self.taken.fetch_add(1, Ordering::AcqRel);
    }

    /// How many were refused.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }

    /// There is a new connection: what follows is of it.
    pub(super) fn begin_anew(&self) {
        self.taken.store(0, Ordering::Release);
    }

    /// The refusals of some were lost and are not waited for.
    pub(super) fn forget(&self) {
        self.out.lock().unwrap_or_else(PoisonError::into_inner).1 = self.taken();
    }
}

/// What the server says of a refusal: `Permissions Violation for Publish to "a.b"`.
pub(super) fn read(text: &str) -> Option<(Act, &str)> {
    const PUBLISH: &str = "permissions violation for publish to \"";
    const SUBSCRIBE: &str = "permissions violation for subscription to \"";
    let acts = [(Act::Publish, PUBLISH), (Act::Subscribe, SUBSCRIBE)];
    let (act, rest) = acts.into_iter().find_map(|(act, start)| {
        let head = text.get(..start.len())?;
        head.eq_ignore_ascii_case(start).then(|| Some((act, text.get(start.len()..)?)))?
    })?;
    Some((act, rest.split('"').next()?))
}

/// How many events the client's queue holds; what comes then is dropped.
const QUEUE: u64 = 128;
/// How many are kept: more than calls wait at once.
const KEPT: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_what_and_which_subject() {
        let text = "Permissions Violation for Publish to \"vak.work.w1.a.task\"";
        assert_eq!(read(text), Some((Act::Publish, "vak.work.w1.a.task")));
        let text = "Permissions Violation for Subscription to \"a.>\" using queue \"q\"";
        assert_eq!(read(text), Some((Act::Subscribe, "a.>")));
        assert_eq!(read("Authorization Violation"), None);
    }

    #[test]
    fn only_what_was_refused_since_then_counts() {
        let refusals = Refusals::default();
        refusals.add(Act::Publish, "a");
        let then = refusals.count();
        assert!(!refusals.has(Act::Publish, "a", then) && refusals.has(Act::Publish, "a", 0));
        refusals.add(Act::Subscribe, "b");
        assert!(refusals.has(Act::Subscribe, "b", then) && !refusals.has(Act::Publish, "b", then));
    }

    #[test]
    fn the_last_refusals_are_kept_and_no_more() {
        let refusals = Refusals::default();
        for number in 0..=KEPT {
            refusals.add(Act::Publish, &number.to_string());
        }
        assert!(!refusals.has(Act::Publish, "0", 0) && refusals.has(Act::Publish, "1", 0));
        assert_eq!(refusals.last.lock().unwrap().len(), KEPT);
    }
}
