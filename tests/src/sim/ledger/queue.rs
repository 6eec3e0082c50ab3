//! What the ledger knows of one work queue: where each stored message is, and what comes next.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bus_core::{ConsumerState, Frame, Lag, OrderKey, Priority, Verdict};
use bus_envelope::Timestamp;
use bus_mem::core::Claim;

use super::super::{Violation, command::Lease};

/// The messages of one queue that are stored, by their position in its stream.
#[derive(Debug, Default)]
pub(super) struct Queue {
    tasks: BTreeMap<u64, Task>,
    /// Those that can be claimed now.
    ready: BTreeSet<u64>,
    /// Ends of leases and rests.
    timers: BTreeSet<(Timestamp, u64)>,
    leases: BTreeMap<Lease, u64>,
    keys: BTreeMap<OrderKey, Line>,
    /// Of each priority those that were never handed out and never had to wait for their time.
    fresh: BTreeMap<Priority, BTreeSet<u64>>,
    paused_until: Option<Timestamp>,
    lease: Duration,
    /// The consumer looked at all that was stored before it came; until then it may hand out what
    /// is urgent later than it should.
    caught_up: bool,
}

/// The messages of one key whose time has come.
#[derive(Debug, Default)]
struct Line {
    seqs: BTreeSet<u64>,
    /// The one that was handed out and has not left: it holds the key.
    started: Option<u64>,
}

/// One stored message.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) frame: Frame,
    pub(super) stored: Timestamp,
    /// The number of the attempt that comes next, or is running.
    attempt: u32,
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Waiting,
    Resting(Timestamp),
    Leased(Lease, Timestamp),
}

impl Queue {
    pub(super) fn new(lease: Duration) -> Self {
        Self { lease, ..Self::default() }
    }

    pub(super) fn leased(&self) -> u64 {
        self.leases.len() as u64
    }

    pub(super) fn tasks(&self) -> &BTreeMap<u64, Task> {
        &self.tasks
    }

    /// What the broker says about the consumer is what is so.
    pub(super) fn counted(&self, state: &ConsumerState, now: Timestamp) -> Result<(), Violation> {
        let in_flight = self.leased();
        let oldest = self.tasks.values().map(|task| task.stored).min();
        let expected = Lag {
            pending: self.tasks.len() as u64 - in_flight,
            in_flight,
            oldest: oldest.map(|stored| now.since(stored)),
        };
        let holds = state.lag == expected && state.paused_until == self.paused_until;
        Violation::unless(holds, "the gauges are exact", || {
            format!("{state:?}: expected {expected:?}, paused until {:?}", self.paused_until)
        })
    }

    /// The next time at which a message becomes ready by itself.
    pub(super) fn next_timer(&self) -> Option<Timestamp> {
        if !self.ready.is_empty() {
            return self.paused_until;
        }
        // The time of a message may come while another one holds its key: that wakes nobody.
        let comes_ready = |seq: &u64| {
            let line = self.tasks.get(seq).and_then(|task| self.keys.get(key_of(&task.frame)?));
            line.and_then(|line| line.started).is_none_or(|started| started == *seq)
        };
        let next = self.timers.iter().find(|(_, seq)| comes_ready(seq)).map(|&(at, _)| at);
        next.map(|at| self.paused_until.map_or(at, |until| at.max(until)))
    }

    pub(super) fn push(&mut self, seq: u64, frame: &Frame, now: Timestamp) {
        let placement = frame.placement.as_deref().cloned().unwrap_or_default();
        let place = match placement.not_before.filter(|&at| at > now) {
            Some(until) => {
                self.timers.insert((until, seq));
                Place::Resting(until)
            }
            None => {
                if placement.key.is_none() && self.caught_up {
                    self.fresh.entry(placement.priority).or_default().insert(seq);
                }
                Place::Waiting
            }
        };
        self.tasks.insert(seq, Task { frame: frame.clone(), stored: now, attempt: 1, place });
        if place == Place::Waiting {
            self.stand_in_line(seq);
        }
        self.refresh(seq);
    }

    /// Lets leases run out and rests end.
    pub(super) fn advance(&mut self, now: Timestamp) {
        while let Some(&(at, seq)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            let Some(task) = self.tasks.get_mut(&seq) else { continue };
            if let Place::Leased(lease, _) = task.place {
                self.leases.remove(&lease);
                task.attempt += 1;
            }
            task.place = Place::Waiting;
            self.stand_in_line(seq);
            self.refresh(seq);
        }
        self.paused_until = self.paused_until.filter(|&until| until > now);
    }

    /// Nothing was handed out: so nothing may wait.
    pub(super) fn nothing_claimed(&mut self) -> Result<(), Violation> {
        self.caught_up |= self.paused_until.is_none();
        let seq = self.ready.first().filter(|_| self.paused_until.is_none());
        Violation::unless(seq.is_none(), "what is ready is handed out", || {
            let waits = seq.and_then(|seq| self.tasks.get(seq));
            let id = waits.map(|task| task.frame.id.as_str()).unwrap_or_default();
            format!("nothing was handed out while {id} ({seq:?}) waits")
        })
    }

    pub(super) fn claimed(
        &mut self,
        lease: Lease,
        claim: &Claim,
        now: Timestamp,
    ) -> Result<(), Violation> {
        let message = &claim.message;
        let (seq, id) = (message.seq.0, &message.frame.id);
        let Some(task) = self.tasks.get(&seq) else {
            let what = format!("{id} ({seq}) was handed out and is not stored");
            return Err(Violation::new("what has left is not handed out", what));
        };
        Violation::unless(task.frame == *message.frame, "a message is not changed", || {
            format!("{id} ({seq}) is not what was appended there: {}", task.frame.id)
        })?;
        match task.place {
            Place::Leased(other, until) => {
                let what = format!("{id} is handed out as {lease} and held as {other} to {until}");
                return Err(Violation::new("nothing is under two leases", what));
            }
            Place::Resting(until) => {
                let what = format!("{id} was handed out at {now}, before its time {until}");
                return Err(Violation::new("what rests is not handed out", what));
            }
            Place::Waiting => {}
        }
        Violation::unless(self.ready.contains(&seq), "order of each key", || {
            format!("{id} ({seq}) was handed out before an earlier one of its key has left")
        })?;
        Violation::unless(self.paused_until.is_none(), "a pause holds", || {
            format!("{id} was handed out in a pause")
        })?;
        Violation::unless(task.attempt == claim.attempt, "attempts are counted", || {
            format!("{id} was handed out as attempt {}, it is {}", claim.attempt, task.attempt)
        })?;
        self.check_order(seq)?;
        self.forget_fresh(seq);
        if let Some(key) = key_of(&message.frame)
            && let Some(line) = self.keys.get_mut(key)
        {
            line.started = Some(seq);
        }
        self.put(seq, Place::Leased(lease, now.plus(self.lease)));
        Ok(())
    }

    /// A verdict or an extension was answered; returns the message when the lease is good.
    pub(super) fn answered(
        &self,
        lease: Lease,
        taken: bool,
        now: Timestamp,
    ) -> Result<Option<u64>, Violation> {
        let seq = self.leases.get(&lease).copied();
        match (seq, taken) {
            (None, true) => {
                let what = format!("{lease} is over and was taken at {now}");
                Err(Violation::new("a late verdict is refused", what))
            }
            (Some(seq), false) => {
                let what = format!("{lease} on {seq} is good at {now} and was refused");
                Err(Violation::new("a lease lasts as long as it was given", what))
            }
            (seq, _) => Ok(seq),
        }
    }

    pub(super) fn extend(&mut self, seq: u64, lease: Lease, now: Timestamp) {
        self.put(seq, Place::Leased(lease, now.plus(self.lease)));
    }

    /// Puts a message back as `verdict` says; returns it when it left instead.
    pub(super) fn settle(&mut self, seq: u64, verdict: &Verdict, now: Timestamp) -> Option<Task> {
        let (after, failed) = match verdict {
            Verdict::Ack | Verdict::Reject { .. } => return self.remove(seq),
            Verdict::Retry { after } => (*after, true),
            Verdict::Release { after } => (*after, false),
        };
        if let Some(task) = self.tasks.get_mut(&seq) {
            task.attempt += u32::from(failed);
        }
        self.put(
            seq,
            if after.is_zero() { Place::Waiting } else { Place::Resting(now.plus(after)) },
        );
        None
    }

    pub(super) fn remove(&mut self, seq: u64) -> Option<Task> {
        self.forget_fresh(seq);
        self.put(seq, Place::Waiting);
        self.ready.remove(&seq);
        let task = self.tasks.remove(&seq)?;
        if let Some(key) = key_of(&task.frame)
            && let Some(line) = self.keys.get_mut(key)
        {
            line.seqs.remove(&seq);
            line.started = line.started.filter(|started| *started != seq);
            match line.seqs.first().copied() {
                Some(next) => self.refresh_line(next),
                None => drop(self.keys.remove(key)),
            }
        }
        Some(task)
    }

    pub(super) fn pause(&mut self, until: Option<Timestamp>, now: Timestamp) {
        self.paused_until = until.filter(|&until| until > now);
    }

    /// The consumer went: the next one begins anew with all that is stored.
    pub(super) fn restart(&mut self, now: Timestamp) {
        let tasks = std::mem::take(&mut self.tasks);
        *self = Self::new(self.lease);
        for (seq, task) in tasks {
            self.push(seq, &task.frame, now);
            if let Some(again) = self.tasks.get_mut(&seq) {
                again.stored = task.stored;
            }
        }
    }

    /// Of those that never had to wait, the first of the same priority comes first, and the other
    /// priorities' firsts must not be worth more.
    fn check_order(&self, seq: u64) -> Result<(), Violation> {
        let Some(task) = self.tasks.get(&seq) else { return Ok(()) };
        let level = priority_of(&task.frame);
        if !self.fresh.get(&level).is_some_and(|fresh| fresh.contains(&seq)) {
            return Ok(());
        }
        for (&other, seqs) in &self.fresh {
            let Some((first, head)) = seqs.first().and_then(|s| Some((s, self.tasks.get(s)?)))
            else {
                continue;
            };
            let passes = if other == level {
                *first < seq
            } else {
                rank(other, head.stored) < rank(level, task.stored)
            };
            Violation::unless(!passes, "order of the queue", || {
                let (id, ahead) = (&task.frame.id, &head.frame.id);
                format!(
                    "{id} ({seq}, {level:?}) was handed out before {ahead} ({first}, {other:?})"
                )
            })?;
        }
        Ok(())
    }

    fn forget_fresh(&mut self, seq: u64) {
        if let Some(task) = self.tasks.get(&seq)
            && let Some(fresh) = self.fresh.get_mut(&priority_of(&task.frame))
        {
            fresh.remove(&seq);
        }
    }

    /// Moves a message to `place` and keeps all lists right.
    fn put(&mut self, seq: u64, place: Place) {
        let Some(task) = self.tasks.get_mut(&seq) else { return };
        match std::mem::replace(&mut task.place, place) {
            Place::Leased(lease, until) => {
                self.leases.remove(&lease);
                self.timers.remove(&(until, seq));
            }
            Place::Resting(until) => drop(self.timers.remove(&(until, seq))),
            Place::Waiting => {}
        }
        match place {
            Place::Leased(lease, until) => {
                self.leases.insert(lease, seq);
                self.timers.insert((until, seq));
            }
            Place::Resting(until) => drop(self.timers.insert((until, seq))),
            Place::Waiting => {}
        }
        self.refresh(seq);
    }

    /// The time of a message has come: it stands in the line of its key, if it has one.
    fn stand_in_line(&mut self, seq: u64) {
        let Some(key) = self.tasks.get(&seq).and_then(|task| key_of(&task.frame)) else { return };
        self.keys.entry(key.clone()).or_default().seqs.insert(seq);
        self.refresh_line(seq);
    }

    /// Keeps the list of those that are ready right for all of the same key.
    fn refresh_line(&mut self, seq: u64) {
        let line = self.tasks.get(&seq).and_then(|task| self.keys.get(key_of(&task.frame)?));
        let seqs: Vec<u64> =
            line.map(|line| line.seqs.iter().copied().collect()).unwrap_or_default();
        seqs.into_iter().for_each(|seq| self.refresh(seq));
    }

    /// Keeps the list of those that are ready right for one message.
    fn refresh(&mut self, seq: u64) {
        let Some(task) = self.tasks.get(&seq) else { return };
        let line = key_of(&task.frame).and_then(|key| self.keys.get(key));
        let turn = line.and_then(|line| line.started.or_else(|| line.seqs.first().copied()));
        let is_first = turn.is_none_or(|turn| turn == seq);
        if is_first && task.place == Place::Waiting {
            self.ready.insert(seq);
        } else {
            self.ready.remove(&seq);
        }
    }
}

fn key_of(frame: &Frame) -> Option<&OrderKey> {
    frame.placement.as_deref()?.key.as_ref()
}

fn priority_of(frame: &Frame) -> Priority {
    frame.placement.as_deref().map(|placement| placement.priority).unwrap_or_default()
}

/// What stands before what: the time it became ready less its head start.
fn rank(priority: Priority, ready: Timestamp) -> i128 {
    let head_start = Priority::HEAD_START.as_nanos() * u128::from(priority.level());
    ready.unix_ns().saturating_sub_unsigned(head_start)
}
