//! What was stored before a consumer came, taken in piece by piece.
//!
//! A consumer that is created over a million messages must not stop everybody else while it looks
//! at each of them.

use bus_core::Placement;
use bus_envelope::Timestamp;
use bus_subjects::{Filter, Subject};

use super::{
    index::{SubjectIndex, literal},
    log::Log,
};

/// The messages of a consumer that it did not look at yet: all that match from `next` on.
#[derive(Debug)]
pub(crate) struct Backlog {
    next: u64,
    /// How many match.
    left: u64,
    /// The one subject of a filter without wildcards.
    subject: Option<Subject>,
}

impl Backlog {
    /// Counts what is stored under `filter`; `None` when that is nothing. Takes time linear in the
    /// subjects of the stream when the filter has wildcards, and none otherwise.
    pub(crate) fn new(filter: &Filter, index: &SubjectIndex) -> Option<Self> {
        let subject = literal(filter);
        let (left, next) = match &subject {
            Some(subject) => (index.count(subject), index.first(subject)),
            None => index.count_matching(filter),
        };
        (left > 0).then_some(Self { next, left, subject })
    }

    /// The position from which on all is left that matches.
    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    /// How many messages are left.
    pub(crate) const fn left(&self) -> u64 {
        self.left
    }

    /// One more was stored, behind all others.
    pub(crate) const fn push(&mut self) {
        self.left += 1;
    }

    /// The oldest message that is left.
    pub(crate) fn oldest(&self, filter: &Filter, index: &SubjectIndex, log: &Log) -> Option<u64> {
        match &self.subject {
            Some(subject) => index.from(subject, self.next).find(|&seq| log.get(seq).is_some()),
            None => {
                let mut rest = log.iter_from(self.next);
                rest.find(|(_, slot)| filter.matches(&slot.frame.subject)).map(|(seq, _)| seq)
            }
        }
    }

    /// The message at `seq` was discarded; false when this does not hold it.
    pub(crate) const fn discard(&mut self, seq: u64) -> bool {
        if seq < self.next || self.left == 0 {
            return false;
        }
        self.left -= 1;
        true
    }

    /// Looks at the next messages, not more than [`LOOKS_MAX`], and calls `take` with each that
    /// matches: its position, its placement and when it was stored.
    pub(crate) fn advance(
        &mut self,
        filter: &Filter,
        index: &SubjectIndex,
        log: &Log,
        mut take: impl FnMut(u64, Option<&Placement>, Timestamp),
    ) {
        let mut looks = 0;
        let mut visit = |seq: u64, next: &mut u64, left: &mut u64| {
            *next = seq + 1;
            looks += 1;
            if let Some(slot) = log.get(seq).filter(|slot| filter.matches(&slot.frame.subject)) {
                *left = left.saturating_sub(1);
                take(seq, slot.frame.placement.as_deref(), slot.time);
            }
            looks < LOOKS_MAX && *left > 0
        };
        let (next, left) = (&mut self.next, &mut self.left);
        let all_seen = match &self.subject {
            Some(subject) => index.from(subject, *next).all(|seq| visit(seq, next, left)),
            None => log.iter_from(*next).all(|(seq, _)| visit(seq, next, left)),
        };
        debug_assert!(!all_seen, "{left} messages were counted that are not there");
        if all_seen {
            *left = 0;
        }
    }
}

/// Messages looked at under one lock.
const LOOKS_MAX: usize = 1024;
