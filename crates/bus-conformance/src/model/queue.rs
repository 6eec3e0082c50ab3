//! The model of a consumer: what waits, rests and is held, and who may come next.

use std::{collections::BTreeMap, time::Duration};

use bus_core::Priority;

use super::{operation::How, stored::Kept};

/// A consumer.
#[derive(Debug)]
pub(super) struct Queue {
    /// The one subject it reads; `None`: all.
    pub(super) subject: Option<u8>,
    pub(super) lease: Duration,
    pub(super) paused_until: Option<Duration>,
    /// What it still has to do, by position.
    pub(super) items: BTreeMap<u64, Item>,
}

/// A message that the consumer is not through with.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) message: Kept,
    pub(super) attempt: u32,
    pub(super) state: State,
    /// It was handed out at least once: from then on it holds its key.
    was_out: bool,
}

/// What a message is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Since that time; handed back without a rest or not.
    Waiting(Duration, bool),
    /// Until that time.
    Resting(Duration),
    /// Under the lease of that number until that time.
    Held(u64, Duration),
}

impl Queue {
    pub(super) fn take_in(&mut self, seq: u64, message: &Kept, now: Duration) {
        if self.subject.is_some_and(|subject| subject != message.subject) {
            return;
        }
        let ready = message.not_before.map_or(message.stored, |due| due.max(message.stored));
        let state = if ready > now { State::Resting(ready) } else { State::Waiting(ready, false) };
        let item = Item { message: message.clone(), attempt: 1, state, was_out: false };
        self.items.insert(seq, item);
    }

    /// Ends leases and rests that are over.
    pub(super) fn tick(&mut self, now: Duration) {
        self.paused_until = self.paused_until.filter(|until| *until > now);
        for item in self.items.values_mut() {
            match item.state {
                State::Held(_, until) if until <= now => {
                    item.attempt += 1;
                    item.state = State::Waiting(until, false);
                }
                State::Resting(until) if until <= now => item.state = State::Waiting(until, false),
                _ => {}
            }
        }
    }

    pub(super) fn held(&self) -> usize {
        self.items.values().filter(|item| matches!(item.state, State::Held(..))).count()
    }

    /// Waiting, held, age of the oldest.
    pub(super) fn lag(&self, now: Duration) -> (u64, u64, Option<Duration>) {
        let oldest = self.items.values().map(|item| now - item.message.stored).max();
        let held = self.held();
        ((self.items.len() - held) as u64, held as u64, oldest)
    }

    /// The positions one of which must be handed out now; none: nothing may be.
    ///
    /// There are several where the promises leave the order open.
    pub(super) fn next(&self) -> Vec<u64> {
        if self.paused_until.is_some() {
            return Vec::new();
        }
        let free: Vec<_> = self.items.iter().filter(|(seq, _)| self.is_free(**seq)).collect();
        let back = |item: &Item| matches!(item.state, State::Waiting(_, true));
        if free.iter().any(|(_, item)| back(item)) {
            return free.iter().filter(|(_, item)| back(item)).map(|(seq, _)| **seq).collect();
        }
        let Some(first) = free.iter().map(|(_, item)| item.place()).min() else {
            return Vec::new();
        };
        let equals: Vec<_> = free.iter().filter(|(_, item)| item.place() == first).collect();
        // Of those that were never out and became ready when they were stored, the order is known.
        let oldest = equals.iter().find(|(_, item)| item.is_plain()).map(|(seq, _)| **seq);
        let may = |item: &Item, seq: u64| !item.is_plain() || Some(seq) == oldest;
        equals.iter().filter(|(seq, item)| may(item, **seq)).map(|(seq, _)| **seq).collect()
    }

    /// Whether it waits and no other message of its key stands before it.
    fn is_free(&self, seq: u64) -> bool {
        let Some(item) = self.items.get(&seq) else { return false };
        if !matches!(item.state, State::Waiting(..)) {
            return false;
        }
        let (Some(key), false) = (item.message.key, item.was_out) else { return true };
        !self.items.iter().any(|(other_seq, other)| {
            let is_ready = !matches!(other.state, State::Resting(_));
            let is_before = other.was_out || is_ready && *other_seq < seq;
            other.message.key == Some(key) && *other_seq != seq && is_before
        })
    }

    pub(super) fn claim(&mut self, seq: u64, lease: u64, now: Duration) {
        let until = now + self.lease;
        if let Some(item) = self.items.get_mut(&seq) {
            item.state = State::Held(lease, until);
            item.was_out = true;
        }
    }

    /// Whether the lease of that number is still there.
    pub(super) fn holds(&self, seq: u64, lease: u64) -> bool {
        let state = self.items.get(&seq).map(|item| item.state);
        matches!(state, Some(State::Held(number, _)) if number == lease)
    }

    pub(super) fn extend(&mut self, seq: u64, lease: u64, now: Duration) {
        self.claim(seq, lease, now);
    }

    /// Ends the lease; `true` when the consumer is through with the message.
    pub(super) fn settle(&mut self, seq: u64, how: How, now: Duration) -> bool {
        let Some(item) = self.items.get_mut(&seq) else { return false };
        let rest = |seconds: u8| Duration::from_secs(u64::from(seconds));
        match how {
            How::Ack | How::Reject => {
                self.items.remove(&seq);
                return true;
            }
            How::Retry { seconds } => {
                item.attempt += 1;
                item.state = State::Resting(now + rest(seconds));
            }
            How::Release { seconds: 0 } => item.state = State::Waiting(now, true),
            How::Release { seconds } => item.state = State::Resting(now + rest(seconds)),
        }
        self.tick(now);
        false
    }
}

impl Item {
    /// Smaller comes first: when it became ready less the head start of its lane, then the more
    /// urgent, then what did not fail.
    fn place(&self) -> (i128, u8, bool) {
        let since = match self.state {
            State::Waiting(since, _) => since,
            State::Resting(until) | State::Held(_, until) => until,
        };
        let head_start = Priority::HEAD_START.as_nanos() as i128 * i128::from(self.message.level);
        let calm = Priority::HIGHEST.level() - self.message.level;
        (since.as_nanos() as i128 - head_start, calm, self.attempt > 1)
    }

    fn is_plain(&self) -> bool {
        !self.was_out && self.state == State::Waiting(self.message.stored, false)
    }
}
