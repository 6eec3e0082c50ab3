//! What a stream knows about each subject: how many messages it holds and which is the last.

use std::collections::{HashMap, VecDeque};

use bus_subjects::Subject;

/// Positions by subject; a subject without messages takes no room.
#[derive(Debug, Default)]
pub(crate) struct SubjectIndex(HashMap<Subject, Positions>);

/// Positions in order; those of removed messages stay as long as they lie between two others.
#[derive(Debug, Default)]
struct Positions {
    seqs: VecDeque<u64>,
    count: u64,
}

impl SubjectIndex {
    /// How many messages are stored under `subject`.
    pub(crate) fn count(&self, subject: &Subject) -> u64 {
        self.0.get(subject).map_or(0, |positions| positions.count)
    }

    /// The position of the last message stored under `subject`; 0 when there is none.
    pub(crate) fn last(&self, subject: &Subject) -> u64 {
        self.0.get(subject).and_then(|positions| positions.seqs.back().copied()).unwrap_or(0)
    }

    /// Notes that the newest message lies under `subject` at `seq`.
    pub(crate) fn push(&mut self, subject: &Subject, seq: u64) {
        let positions = match self.0.get_mut(subject) {
            Some(positions) => positions,
            None => self.0.entry(subject.clone()).or_default(),
        };
        positions.seqs.push_back(seq);
        positions.count += 1;
    }

    /// Notes that one message under `subject` went; `is_stored` tells which are left.
    pub(crate) fn remove(&mut self, subject: &Subject, is_stored: impl Fn(u64) -> bool) {
        let Some(positions) = self.0.get_mut(subject) else { return };
        positions.count = positions.count.saturating_sub(1);
        if positions.count == 0 {
            self.0.remove(subject);
            return;
        }
        let seqs = &mut positions.seqs;
        while seqs.front().is_some_and(|&seq| !is_stored(seq)) {
            seqs.pop_front();
        }
        while seqs.back().is_some_and(|&seq| !is_stored(seq)) {
            seqs.pop_back();
        }
        if seqs.len() as u64 > positions.count.saturating_mul(2).saturating_add(SLACK) {
            seqs.retain(|&seq| is_stored(seq));
        }
    }
}

/// Positions of removed messages that are never worth a clean-up.
const SLACK: u64 = 32;
