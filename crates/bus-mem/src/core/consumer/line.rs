//! How messages of a consumer move between their places.

use bus_core::{OrderKey, Placement, Priority};
use bus_envelope::Timestamp;

use super::{Arrival, Consumer, Log, Message, Place, Rank, Settled, SubjectIndex, Waiting};

impl Consumer {
    /// Lets a message wait for its first turn; `ready` is when it became ready if nothing else
    /// says so.
    pub(super) fn place(
        &mut self,
        seq: u64,
        placement: &Placement,
        ready: Timestamp,
        now: Timestamp,
    ) {
        let Placement { not_before, priority: level, key } = placement;
        let since = not_before.map_or(ready, |not_before| not_before.max(ready));
        if key.is_none() && since == ready {
            return self.lanes.push(seq, *level);
        }
        let waiting =
            Waiting { attempt: 1, level: *level, since, handed_back: false, key: key.clone() };
        if since > now {
            self.rest_until(seq, waiting, since);
        } else {
            self.stand(seq, waiting);
        }
    }

    /// Takes in some of what was stored before this consumer came.
    #[inline]
    pub(super) fn catch_up(&mut self, index: &SubjectIndex, log: &Log, now: Timestamp) {
        let Some(mut backlog) = self.backlog.take() else { return };
        let filter = self.spec.filter.clone();
        backlog.advance(&filter, index, log, |seq, placement, stored| match placement {
            None => self.lanes.push(seq, Priority::NORMAL),
            Some(placement) => self.place(seq, placement, stored, now),
        });
        self.backlog = (backlog.left() > 0).then_some(backlog);
    }

    /// Takes the first message out of the line, whichever place it stands in.
    #[inline]
    pub(super) fn take_first(&mut self, log: &Log) -> Option<(Message, Waiting)> {
        let fresh = match self.lanes.single() {
            Some(seq) => seq.map(|seq| (seq, Priority::NORMAL)),
            None => self.lanes.heads().min_by_key(|&(seq, level)| fresh_rank(log, seq, level)),
        };
        let ranked = self.ranked.first_key_value().map(|(&rank, _)| rank);
        if let Some((seq, level)) = fresh
            && ranked.is_none_or(|rank| fresh_rank(log, seq, level) < rank)
        {
            if !log.shows(seq) {
                return None;
            }
            self.lanes.pop(level);
            // A consumer holds no position that its stream does not.
            let message = log.message(seq);
            debug_assert!(message.is_some(), "a consumer waits for what is not stored");
            let message = message?;
            let since = message.time;
            let run = Waiting { attempt: 1, level, since, handed_back: false, key: None };
            return Some((message, run));
        }
        if !log.shows(ranked?.seq()) {
            return None;
        }
        let (rank, mut run) = self.ranked.pop_first()?;
        self.places.remove(&rank.seq());
        run.handed_back = false;
        let message = log.message(rank.seq());
        debug_assert!(message.is_some(), "a consumer waits for what is not stored");
        Some((message?, run))
    }

    /// Whether the first message in line may be handed out.
    pub(super) fn shows_first(&self, log: &Log) -> bool {
        let fresh = self.lanes.heads().map(|(seq, level)| fresh_rank(log, seq, level)).min();
        let ranked = self.ranked.first_key_value().map(|(&rank, _)| rank);
        fresh.into_iter().chain(ranked).min().is_some_and(|rank| log.shows(rank.seq()))
    }

    /// A message is ready as far as time goes: it stands in line, or behind another of its key.
    pub(super) fn stand(&mut self, seq: u64, waiting: Waiting) {
        if let Some(key) = &waiting.key {
            match self.keys.arrive(key, seq) {
                Arrival::InLine => {}
                Arrival::Behind => return self.stand_behind(seq, waiting),
                Arrival::InPlaceOf(later) => {
                    if let Some(Place::Ranked(rank)) = self.places.remove(&later)
                        && let Some(waiting) = self.ranked.remove(&rank)
                    {
                        self.stand_behind(later, waiting);
                    }
                }
            }
        }
        let rank = waiting.rank(seq);
        self.places.insert(seq, Place::Ranked(rank));
        self.ranked.insert(rank, waiting);
    }

    fn stand_behind(&mut self, seq: u64, waiting: Waiting) {
        if let Some(key) = waiting.key.clone() {
            self.keys.put_behind(&key, seq, waiting);
            self.places.insert(seq, Place::Behind(key));
        }
    }

    /// A message of `key` is gone for good; the next one of its key stands in line, as soon as
    /// that is safe.
    #[inline]
    pub(super) fn leave(&mut self, seq: u64, key: Option<&OrderKey>) {
        let Some(key) = key else { return };
        match &mut self.departed.0 {
            Some(departed) => departed.push((seq, key.clone())),
            None => self.pass_turn(seq, key),
        }
    }

    /// It is safe that a message of `key` is gone: the next one of its key stands in line.
    pub(crate) fn pass_turn(&mut self, seq: u64, key: &OrderKey) {
        if let Some((next, waiting)) = self.keys.leave(key, seq) {
            self.stand(next, waiting);
        }
    }

    /// From now on no turn is passed by itself: it is to be done for what
    /// [`Consumer::take_departed`] names.
    pub(crate) fn hold_turns(&mut self) {
        self.departed.0.get_or_insert_default();
    }

    /// The messages that have left since this was asked last, each with its key.
    pub(crate) fn take_departed(&mut self) -> Vec<(u64, OrderKey)> {
        self.departed.0.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// A message is handed out again, but not before `until`.
    pub(super) fn rest(
        &mut self,
        seq: u64,
        waiting: Waiting,
        until: Timestamp,
        now: Timestamp,
    ) -> Settled {
        // What else is due is left to the next look at the time: a thousand verdicts under one lock
        // must not each move a thousand messages.
        if until <= now {
            self.stand(seq, Waiting { since: until, ..waiting });
        } else {
            self.rest_until(seq, waiting, until);
        }
        Settled::Again
    }

    pub(super) fn rest_until(&mut self, seq: u64, waiting: Waiting, until: Timestamp) {
        let waiting = Waiting { since: until, ..waiting };
        self.places.insert(seq, Place::Delayed(until));
        self.delayed.insert((until, seq), waiting);
    }

    /// Takes back leases that ran out, a bounded number at a time; returns how many messages may
    /// still be moved.
    #[inline]
    pub(super) fn take_back(&mut self, now: Timestamp) -> usize {
        for moved in 0..MOVES_MAX {
            let Some(lease) = self.leases.take_ended(now) else { return MOVES_MAX - moved };
            let (seq, deadline) = (lease.seq, lease.deadline);
            let mut run = lease.into_waiting();
            run.attempt = run.attempt.saturating_add(1);
            run.since = deadline;
            self.stand(seq, run);
        }
        0
    }

    /// Lets messages that rested until `now` stand in line, at most `moves_max` of them.
    #[inline]
    pub(super) fn wake(&mut self, now: Timestamp, moves_max: usize) {
        for _ in 0..moves_max {
            let Some(rested) = self.delayed.first_entry().filter(|rested| rested.key().0 <= now)
            else {
                return;
            };
            let ((_, seq), waiting) = rested.remove_entry();
            self.places.remove(&seq);
            self.stand(seq, waiting);
        }
    }
}

fn fresh_rank(log: &Log, seq: u64, level: Priority) -> Rank {
    let stored = log.get(seq).map_or(Timestamp::MAX, |slot| slot.time);
    Rank::new(seq, level, stored)
}

/// Messages that one call moves because of the time: a million tasks that are due at once must not
/// stop everybody else.
const MOVES_MAX: usize = 1024;
