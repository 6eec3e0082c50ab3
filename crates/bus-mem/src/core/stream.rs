//! One stream: its log, its bounds, its memory for ids, and its consumers.

use std::{collections::HashMap, sync::Arc};

use bus_core::{
    ConsumerSpec, Error, ErrorKind, Expect, Frame, Lag, Result, Retention, Seq, Stored, StreamSpec,
    Verdict,
};
use bus_envelope::Timestamp;
use bus_subjects::{ConsumerName, Subject, SubjectTable};

use super::{
    consumer::{Consumer, Granted, Settled},
    dedupe::Dedupe,
    index::SubjectIndex,
    log::Log,
};

/// The state of one declared stream.
#[derive(Debug)]
pub(crate) struct Stream {
    spec: StreamSpec,
    log: Log,
    subjects: SubjectIndex,
    dedupe: Dedupe,
    consumers: Vec<Consumer>,
    names: HashMap<ConsumerName, usize>,
    routes: SubjectTable<usize>,
}

/// Where an append ended up, and whether it stored anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Appended {
    pub(crate) seq: Seq,
    pub(crate) duplicate: bool,
}

impl Stream {
    pub(crate) fn new(spec: StreamSpec) -> Self {
        let dedupe = Dedupe::new(spec.dedupe_window, spec.messages_max.get());
        Self {
            spec,
            log: Log::default(),
            subjects: SubjectIndex::default(),
            dedupe,
            consumers: Vec::new(),
            names: HashMap::new(),
            routes: SubjectTable::new(),
        }
    }

    pub(crate) const fn spec(&self) -> &StreamSpec {
        &self.spec
    }

    /// Stores `frame`, and calls `ready` with the index and the number of every consumer that has
    /// one more message now.
    ///
    /// A known id is answered before the expectation is looked at: whoever repeats an append whose
    /// answer was lost must learn that it is stored, although the subject's last has moved on.
    pub(crate) fn append(
        &mut self,
        frame: Frame,
        expect: Expect,
        now: Timestamp,
        mut ready: impl FnMut(usize, usize),
    ) -> Result<Appended> {
        if let Some(seq) = self.dedupe.find(&frame.id, now) {
            return Ok(Appended { seq: Seq(seq), duplicate: true });
        }
        self.check(&frame.subject, expect)?;
        let seq = self.log.last() + 1;
        self.dedupe.remember(&frame.id, seq, now);
        self.subjects.push(&frame.subject, seq);
        let consumers = &mut self.consumers;
        self.routes.for_each_match(&frame.subject, |&index| {
            if let Some(consumer) = consumers.get_mut(index) {
                consumer.push(seq);
                ready(index, consumer.number());
            }
        });
        self.log.push(Arc::new(Stored { frame, seq: Seq(seq), time: now }));
        Ok(Appended { seq: Seq(seq), duplicate: false })
    }

    /// The last message stored under `subject`.
    pub(crate) fn last(&self, subject: &Subject) -> Option<Arc<Stored>> {
        self.log.get(self.subjects.last(subject)).cloned()
    }

    /// The message at position `seq`.
    pub(crate) fn read_one(&self, seq: Seq) -> Option<Arc<Stored>> {
        self.log.get(seq.0).cloned()
    }

    /// Joins or creates a consumer; returns its index and its number, `number` for a new one. A
    /// new one gets everything that is stored and matches.
    pub(crate) fn consume(
        &mut self,
        spec: ConsumerSpec,
        consumers_max: usize,
        number: usize,
    ) -> Result<(usize, usize)> {
        let refuse = |kind, why: String| Err(Error::new(kind, "consume", why).at(&spec.name));
        if let Some((index, consumer)) = self.consumer_named(&spec.name) {
            if *consumer.spec() == spec {
                return Ok((index, consumer.number()));
            }
            let why = "the consumer exists with another filter or lease";
            return refuse(ErrorKind::Conflict, why.to_owned());
        }
        if spec.lease.is_zero() {
            return refuse(ErrorKind::Invalid, "a lease must last longer than nothing".to_owned());
        }
        if !self.spec.filters.iter().any(|filter| filter.overlaps(&spec.filter)) {
            let why = format!("the stream keeps no subject of {}", spec.filter);
            return refuse(ErrorKind::Invalid, why);
        }
        if self.spec.retention == Retention::WorkQueue {
            let other = self.consumers.iter().find(|c| c.spec().filter.overlaps(&spec.filter));
            if let Some(other) = other {
                let (name, filter) = (&other.spec().name, &other.spec().filter);
                let why = format!("the filter overlaps {filter} of the consumer {name}");
                return refuse(ErrorKind::Conflict, why);
            }
        }
        if self.consumers.len() >= consumers_max {
            return refuse(ErrorKind::Full, format!("{consumers_max} consumers exist already"));
        }
        Ok((self.add_consumer(spec, number), number))
    }

    /// Leases the next message of a consumer.
    pub(crate) fn claim(
        &mut self,
        consumer: usize,
        now: Timestamp,
    ) -> Option<(Granted, Arc<Stored>)> {
        let consumer = self.consumers.get_mut(consumer)?;
        let granted = consumer.claim(now)?;
        // A consumer holds no position that its stream does not: only its own verdict removes one.
        let stored = self.log.get(granted.seq).cloned();
        debug_assert!(stored.is_some(), "a consumer waits for what is not stored");
        stored.map(|stored| (granted, stored))
    }

    /// Ends a lease; `None` when it ran out before.
    pub(crate) fn settle(
        &mut self,
        consumer: usize,
        token: u64,
        verdict: &Verdict,
        now: Timestamp,
    ) -> Option<()> {
        let settled = self.consumers.get_mut(consumer)?.settle(token, verdict, now)?;
        if let (Settled::Gone(seq), Retention::WorkQueue) = (settled, self.spec.retention)
            && let Some(stored) = self.log.remove(seq)
        {
            let log = &self.log;
            self.subjects.remove(&stored.frame.subject, |seq| log.get(seq).is_some());
        }
        Some(())
    }

    pub(crate) fn consumer(&self, index: usize) -> Option<&Consumer> {
        self.consumers.get(index)
    }

    pub(crate) fn consumer_mut(&mut self, index: usize) -> Option<&mut Consumer> {
        self.consumers.get_mut(index)
    }

    pub(crate) const fn log(&self) -> &Log {
        &self.log
    }

    /// How much work waits: see `Broker::lag`.
    pub(crate) fn lag(&mut self, now: Timestamp) -> Lag {
        self.consumers.iter_mut().for_each(|consumer| consumer.tick(now));
        let in_flight = self.consumers.iter().map(Consumer::in_flight).sum();
        let stored = self.log.len();
        let pending = match self.spec.retention {
            Retention::WorkQueue => stored.saturating_sub(in_flight),
            _ if self.consumers.is_empty() => stored,
            _ => self.consumers.iter().map(Consumer::pending).sum(),
        };
        let oldest = self.log.first().map(|stored| now.since(stored.time));
        Lag { pending, in_flight, oldest }
    }

    fn check(&self, subject: &Subject, expect: Expect) -> Result<()> {
        let refuse = |kind, why: String| Err(Error::new(kind, "append", why).at(subject));
        if let Expect::LastOfSubject(Seq(expected)) = expect {
            let last = self.subjects.last(subject);
            if last != expected {
                let why = format!("the last message is {last}: expected {expected}");
                return refuse(ErrorKind::Conflict, why);
            }
        }
        let (name, max) = (&self.spec.name, self.spec.messages_max);
        if self.log.len() >= max.get() {
            return refuse(ErrorKind::Full, format!("the stream {name} holds {max} messages"));
        }
        let max = self.spec.messages_per_subject_max;
        if self.subjects.count(subject) >= max.get() {
            let why = format!("the stream {name} holds {max} messages of this subject");
            return refuse(ErrorKind::Full, why);
        }
        Ok(())
    }

    fn consumer_named(&self, name: &ConsumerName) -> Option<(usize, &Consumer)> {
        let index = *self.names.get(name)?;
        Some((index, self.consumers.get(index)?))
    }

    fn add_consumer(&mut self, spec: ConsumerSpec, number: usize) -> usize {
        let index = self.consumers.len();
        let mut consumer = Consumer::new(spec, number);
        let spec = consumer.spec();
        self.names.insert(spec.name.clone(), index);
        self.routes.insert(spec.filter.clone(), index);
        let filter = spec.filter.clone();
        for stored in self.log.iter_from(0) {
            if filter.matches(&stored.frame.subject) {
                consumer.push(stored.seq.0);
            }
        }
        self.consumers.push(consumer);
        index
    }
}
