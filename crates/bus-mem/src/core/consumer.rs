//! One consumer: which messages wait, rest or are leased, and how often each was tried.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    time::Duration,
};

use bus_core::{ConsumerSpec, Verdict};
use bus_envelope::Timestamp;

/// The state that the members of one consumer share.
#[derive(Debug)]
pub(crate) struct Consumer {
    spec: ConsumerSpec,
    number: usize,
    ready: VecDeque<Waiting>,
    /// Messages that rest, by the time they come back and their position.
    delayed: BTreeMap<(Timestamp, u64), u32>,
    leases: HashMap<u64, Lease>,
    /// Deadlines in order with the token of their lease. One consumer has one lease duration and
    /// time does not go back, so a new deadline is always the last. Entries of settled and
    /// extended leases stay until they are met; see `tidy`.
    deadlines: VecDeque<(Timestamp, u64)>,
    last_token: u64,
}

/// What a member gets when it claims: the position, the token of its lease, the attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) seq: u64,
    pub(crate) token: u64,
    pub(crate) attempt: u32,
}

/// What a verdict did to its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// The consumer is through with the message at this position.
    Gone(u64),
    /// The message will be delivered again.
    Again,
}

/// A message that nobody holds, and the number of the attempt that comes next.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    seq: u64,
    attempt: u32,
    released: bool,
}

#[derive(Debug, Clone, Copy)]
struct Lease {
    seq: u64,
    attempt: u32,
    deadline: Timestamp,
}

impl Consumer {
    pub(crate) fn new(spec: ConsumerSpec, number: usize) -> Self {
        Self {
            spec,
            number,
            ready: VecDeque::new(),
            delayed: BTreeMap::new(),
            leases: HashMap::new(),
            deadlines: VecDeque::new(),
            last_token: 0,
        }
    }

    pub(crate) const fn spec(&self) -> &ConsumerSpec {
        &self.spec
    }

    /// Its number among all consumers of the broker.
    pub(crate) const fn number(&self) -> usize {
        self.number
    }

    /// Takes in the message at `seq`, behind all others.
    pub(crate) fn push(&mut self, seq: u64) {
        self.ready.push_back(Waiting { seq, attempt: 1, released: false });
    }

    /// How many messages could be claimed at the time of the last `tick`.
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Messages that nobody holds, resting ones included.
    pub(crate) fn pending(&self) -> u64 {
        (self.ready.len() + self.delayed.len()) as u64
    }

    /// Messages under a lease.
    pub(crate) fn in_flight(&self) -> u64 {
        self.leases.len() as u64
    }

    /// Leases the first waiting message from `now` on.
    pub(crate) fn claim(&mut self, now: Timestamp) -> Option<Granted> {
        self.tick(now);
        let Waiting { seq, attempt, .. } = self.ready.pop_front()?;
        self.last_token += 1;
        let token = self.last_token;
        let deadline = self.deadline(now);
        self.leases.insert(token, Lease { seq, attempt, deadline });
        self.deadlines.push_back((deadline, token));
        Some(Granted { seq, token, attempt })
    }

    /// Ends the lease `token` with `verdict`; `None` when it ran out before.
    pub(crate) fn settle(
        &mut self,
        token: u64,
        verdict: &Verdict,
        now: Timestamp,
    ) -> Option<Settled> {
        self.tick(now);
        let Lease { seq, attempt, .. } = self.leases.remove(&token)?;
        let settled = match verdict {
            Verdict::Ack | Verdict::Reject { .. } => Settled::Gone(seq),
            Verdict::Release { after } if after.is_zero() => {
                self.put_back(seq, attempt);
                Settled::Again
            }
            Verdict::Release { after } => self.rest(seq, attempt, now.plus(*after)),
            Verdict::Retry { after } => {
                let settled = self.rest(seq, attempt.saturating_add(1), now.plus(*after));
                self.tick(now);
                settled
            }
        };
        self.tidy();
        Some(settled)
    }

    /// Starts the lease `token` anew and returns its duration; `None` when it ran out before.
    pub(crate) fn extend(&mut self, token: u64, now: Timestamp) -> Option<Duration> {
        self.tick(now);
        let deadline = self.deadline(now);
        self.leases.get_mut(&token)?.deadline = deadline;
        self.deadlines.push_back((deadline, token));
        self.tidy();
        Some(self.spec.lease)
    }

    /// Takes back what ran out and wakes what rested until `now`.
    ///
    /// Both go behind what already waits: a message that failed never stands before one that was
    /// not tried yet.
    pub(crate) fn tick(&mut self, now: Timestamp) {
        while let Some(&(deadline, token)) = self.deadlines.front() {
            let lease = self.leases.get(&token).copied().filter(|l| l.deadline == deadline);
            match lease {
                Some(_) if deadline > now => break,
                Some(Lease { seq, attempt, .. }) => {
                    self.leases.remove(&token);
                    let attempt = attempt.saturating_add(1);
                    self.ready.push_back(Waiting { seq, attempt, released: false });
                }
                None => {}
            }
            self.deadlines.pop_front();
        }
        while let Some(rested) = self.delayed.first_entry() {
            if rested.key().0 > now {
                break;
            }
            let ((_, seq), attempt) = rested.remove_entry();
            self.ready.push_back(Waiting { seq, attempt, released: false });
        }
    }

    /// The next time at which a message becomes ready without anybody's doing.
    ///
    /// May be too early (the deadline of a lease that was settled since), never too late.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        let lease = self.deadlines.front().map(|&(deadline, _)| deadline);
        let retry = self.delayed.first_key_value().map(|(&(due, _), _)| due);
        lease.into_iter().chain(retry).min()
    }

    /// Puts a message that was handed back before all others, but for those that were handed back
    /// too and are older: several hand-backs keep the order they had.
    fn put_back(&mut self, seq: u64, attempt: u32) {
        let older = self.ready.iter().take_while(|w| w.released && w.seq < seq).count();
        self.ready.insert(older, Waiting { seq, attempt, released: true });
    }

    fn rest(&mut self, seq: u64, attempt: u32, until: Timestamp) -> Settled {
        self.delayed.insert((until, seq), attempt);
        Settled::Again
    }

    fn deadline(&self, now: Timestamp) -> Timestamp {
        let deadline = now.plus(self.spec.lease);
        self.deadlines.back().map_or(deadline, |&(last, _)| deadline.max(last))
    }

    /// Keeps the list of deadlines within twice the leases there are.
    fn tidy(&mut self) {
        let stale = |leases: &HashMap<u64, Lease>, &(deadline, token): &(Timestamp, u64)| {
            leases.get(&token).is_none_or(|lease| lease.deadline != deadline)
        };
        while self.deadlines.front().is_some_and(|entry| stale(&self.leases, entry)) {
            self.deadlines.pop_front();
        }
        if self.deadlines.len() > 2 * self.leases.len() + SLACK {
            let leases = &self.leases;
            self.deadlines.retain(|entry| !stale(leases, entry));
        }
    }
}

/// Stale deadlines that are never worth a clean-up.
const SLACK: usize = 64;
