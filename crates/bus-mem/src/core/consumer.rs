//! One consumer: which messages wait, rest or are leased, and how often each was tried.

use std::{collections::BTreeMap, time::Duration};

use bus_core::{ConsumerSpec, OrderKey, Placement, Priority, Rank, Verdict};
use bus_envelope::Timestamp;

use super::{
    backlog::Backlog,
    broker::Claim,
    index::SubjectIndex,
    keys::{Arrival, OrderKeys},
    lanes::Lanes,
    leases::{Lease, Leases},
    log::{Log, Message},
    waiting::Waiting,
};

mod line;
mod picture;
mod restore;
mod state;

/// The state that the members of one consumer share.
///
/// A message is in one place: not looked at yet (`backlog`), waiting for its first turn (`lanes`),
/// somewhere that `places` names (`ranked`, `delayed` or behind another one of its key), or
/// leased.
#[derive(Debug)]
pub(crate) struct Consumer {
    spec: ConsumerSpec,
    number: u64,
    backlog: Option<Backlog>,
    lanes: Lanes,
    /// Ready messages that have a key, were tried before or came late.
    ranked: BTreeMap<Rank, Waiting>,
    /// Messages that rest, by the time they come back and their position.
    delayed: BTreeMap<(Timestamp, u64), Waiting>,
    keys: OrderKeys,
    places: BTreeMap<u64, Place>,
    leases: Leases,
    paused_until: Option<Timestamp>,
    departed: Departed,
}

/// What a verdict did to its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// The consumer is through with the message at this position.
    Gone(u64),
    /// The message will be delivered again.
    Again,
}

/// Messages with a key that have left since somebody asked, where that is not safe at once; until
/// it is, they hold their keys.
#[derive(Debug, Default)]
struct Departed(Option<Vec<(u64, OrderKey)>>);

/// Where a message is that is neither in a lane nor leased.
#[derive(Debug, Clone)]
enum Place {
    Ranked(Rank),
    Delayed(Timestamp),
    Behind(OrderKey),
}

impl Consumer {
    /// A consumer of everything that is stored and matches; its first token comes after `token`.
    pub(crate) fn new(
        spec: ConsumerSpec,
        (number, token): (u64, u64),
        index: &SubjectIndex,
    ) -> Self {
        let backlog = Backlog::new(&spec.filter, index);
        Self {
            spec,
            number,
            backlog,
            lanes: Lanes::default(),
            ranked: BTreeMap::new(),
            delayed: BTreeMap::new(),
            keys: OrderKeys::default(),
            places: BTreeMap::new(),
            leases: Leases::after(token),
            paused_until: None,
            departed: Departed::default(),
        }
    }

    pub(crate) const fn spec(&self) -> &ConsumerSpec {
        &self.spec
    }

    /// Its number among all consumers of the broker.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Takes in the message that was stored at `seq` right `now`.
    pub(crate) fn push(&mut self, seq: u64, placement: Option<&Placement>, now: Timestamp) {
        match (&mut self.backlog, placement) {
            // It comes after what was not looked at yet.
            (Some(backlog), _) => backlog.push(),
            (None, None) => self.lanes.push(seq, Priority::NORMAL),
            (None, Some(placement)) => self.place(seq, placement, now, now),
        }
    }

    /// Leases the first message from `now` on.
    #[inline]
    pub(crate) fn claim(
        &mut self,
        index: &SubjectIndex,
        log: &Log,
        now: Timestamp,
    ) -> Option<Claim> {
        self.tick(index, log, now);
        self.claim_ready(log, now)
    }

    /// Leases the first messages from `now` on, at most `max`: of those that one `tick` made ready,
    /// so that many at once move no more than one alone does.
    pub(crate) fn claim_many(
        &mut self,
        index: &SubjectIndex,
        log: &Log,
        max: usize,
        now: Timestamp,
    ) -> Vec<Claim> {
        self.tick(index, log, now);
        let mut claims = Vec::with_capacity(max.min(self.ready(log)));
        claims.extend(std::iter::from_fn(|| self.claim_ready(log, now)).take(max));
        claims
    }

    #[inline]
    fn claim_ready(&mut self, log: &Log, now: Timestamp) -> Option<Claim> {
        if self.paused_until.is_some() {
            return None;
        }
        let (message, Waiting { attempt, level, since, key, .. }) = self.take_first(log)?;
        if let Some(key) = &key {
            self.keys.start(key);
        }
        let (seq, deadline) = (message.seq.0, now.plus(self.spec.lease));
        let token = self.leases.grant(Lease { seq, deadline, since, key, attempt, level });
        Some(Claim { message, token, attempt })
    }

    /// Ends the lease `token` with `verdict`; `None` when it ran out before.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        token: u64,
        verdict: &Verdict,
        now: Timestamp,
    ) -> Option<Settled> {
        let lease = self.leases.take(token, now)?;
        let seq = lease.seq;
        Some(match verdict {
            Verdict::Ack | Verdict::Reject { .. } => {
                self.leave(seq, lease.key.as_ref());
                Settled::Gone(seq)
            }
            Verdict::Release { after } if after.is_zero() => {
                self.stand(seq, Waiting { handed_back: true, ..lease.into_waiting() });
                Settled::Again
            }
            Verdict::Release { after } => {
                self.rest(seq, lease.into_waiting(), now.plus(*after), now)
            }
            Verdict::Retry { after } => {
                let mut run = lease.into_waiting();
                run.attempt = run.attempt.saturating_add(1);
                self.rest(seq, run, now.plus(*after), now)
            }
        })
    }

    /// Starts the lease `token` anew and returns its duration; `None` when it ran out before.
    pub(crate) fn extend(&mut self, token: u64, now: Timestamp) -> Option<Duration> {
        let lease = self.spec.lease;
        self.leases.extend(token, now.plus(lease), now).then_some(lease)
    }

    /// Hands out nothing before `until`; `None` goes on.
    pub(crate) fn pause(&mut self, until: Option<Timestamp>, now: Timestamp) {
        self.paused_until = until.filter(|&until| until > now);
    }

    /// The message at `seq` is gone from the stream.
    pub(crate) fn discard(&mut self, seq: u64, level: Priority) {
        match self.places.remove(&seq) {
            Some(Place::Ranked(rank)) => {
                if let Some(waiting) = self.ranked.remove(&rank) {
                    self.leave(seq, waiting.key.as_ref());
                }
            }
            Some(Place::Delayed(due)) => {
                if let Some(waiting) = self.delayed.remove(&(due, seq)) {
                    self.leave(seq, waiting.key.as_ref());
                }
            }
            Some(Place::Behind(key)) => self.keys.remove_behind(&key, seq),
            None => self.discard_unplaced(seq, level),
        }
    }

    fn discard_unplaced(&mut self, seq: u64, level: Priority) {
        if self.lanes.discard(seq, level) {
            return;
        }
        if let Some(backlog) = &mut self.backlog
            && backlog.discard(seq)
        {
            if backlog.left() == 0 {
                self.backlog = None;
            }
            return;
        }
        if let Some(lease) = self.leases.take_message(seq) {
            self.leave(seq, lease.key.as_ref());
        }
    }

    /// Looks at some of what was stored before, takes back leases that ran out and wakes what
    /// rested until `now`.
    #[inline]
    pub(crate) fn tick(&mut self, index: &SubjectIndex, log: &Log, now: Timestamp) {
        self.catch_up(index, log, now);
        let moves_left = self.take_back(now);
        self.wake(now, moves_left);
        // Written only when it changes: whether there is a consumer is read from the same place.
        if self.paused_until.is_some_and(|until| until <= now) {
            self.paused_until = None;
        }
    }
}
