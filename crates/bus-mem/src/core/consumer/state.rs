//! What can be seen of a consumer: how much waits, what is next, until when it is paused.

use bus_core::{ConsumerState, Lag};
use bus_envelope::Timestamp;

use super::{Consumer, Lease, Log, Place, SubjectIndex, Waiting};

impl Consumer {
    /// How many messages could be claimed at the time of the last `tick`, at least: one stands
    /// for all that was not looked at yet, and those that `log` does not show are none.
    pub(crate) fn ready(&self, log: &Log) -> usize {
        if self.paused_until.is_some() {
            return 0;
        }
        let in_line = self.lanes.len() + self.ranked.len();
        if in_line == 0 {
            return usize::from(self.backlog.is_some());
        }
        match log.unshown() {
            0 => in_line,
            unshown if self.shows_first(log) => in_line.saturating_sub(unshown).max(1),
            _ => 0,
        }
    }

    /// Until when it hands out nothing.
    pub(crate) const fn paused_until(&self) -> Option<Timestamp> {
        self.paused_until
    }

    /// The lease of a token.
    pub(crate) fn lease(&self, token: u64) -> Option<&Lease> {
        self.leases.get(token)
    }

    /// What is known of the message at `seq` that is neither leased nor simply waits for its first
    /// turn.
    pub(crate) fn waiting(&self, seq: u64) -> Option<&Waiting> {
        match self.places.get(&seq)? {
            Place::Ranked(rank) => self.ranked.get(rank),
            Place::Delayed(due) => self.delayed.get(&(*due, seq)),
            Place::Behind(key) => self.keys.get_behind(key, seq),
        }
    }

    /// Messages that nobody holds, resting ones included.
    pub(crate) fn pending(&self) -> u64 {
        let places = self.ranked.len() + self.delayed.len() + self.keys.behind();
        let backlog = self.backlog.as_ref().map_or(0, |backlog| backlog.left());
        (self.lanes.len() + places) as u64 + backlog
    }

    /// Messages under a lease.
    pub(crate) fn in_flight(&self) -> u64 {
        self.leases.len() as u64
    }

    /// The next time at which a message becomes ready without anybody's doing.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        let lease = self.leases.next_deadline();
        let rested = self.delayed.first_key_value().map(|(&(due, _), _)| due);
        let next = lease.into_iter().chain(rested).min();
        let Some(paused_until) = self.paused_until else { return next };
        if self.lanes.is_empty() && self.ranked.is_empty() && self.backlog.is_none() {
            return next.map(|next| next.max(paused_until));
        }
        Some(paused_until)
    }

    /// What anybody may know about it. Takes time linear in its leases.
    pub(crate) fn state(
        &mut self,
        index: &SubjectIndex,
        log: &Log,
        now: Timestamp,
    ) -> ConsumerState {
        self.tick(index, log, now);
        let lanes = self.lanes.heads().map(|(seq, _)| seq);
        let placed = self.places.first_key_value().map(|(&seq, _)| seq);
        let leased = self.leases.oldest();
        let known = lanes.chain(placed).chain(leased).min();
        // What was not looked at yet is newer than what was.
        let oldest = known.or_else(|| {
            self.backlog.as_ref().and_then(|rest| rest.oldest(&self.spec.filter, index, log))
        });
        let oldest = oldest.and_then(|seq| log.get(seq)).map(|slot| now.since(slot.time));
        ConsumerState {
            spec: self.spec.clone(),
            lag: Lag { pending: self.pending(), in_flight: self.in_flight(), oldest },
            paused_until: self.paused_until,
        }
    }
}
