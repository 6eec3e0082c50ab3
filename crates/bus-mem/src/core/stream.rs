//! One stream: its log, its bounds, its memory for ids, and its consumers.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use bus_core::{
    ConsumerState, Error, ErrorKind, Expect, Frame, Lag, Result, Retention, Seq, StreamSpec,
    Verdict,
};
use bus_envelope::Timestamp;
use bus_subjects::{ConsumerName, Filter, Subject, SubjectTable, TableKey};
use foldhash::fast::RandomState;

use super::{
    broker::Claim,
    consumer::{Consumer, Settled},
    dedupe::{Dedupe, Digest, DigestKey},
    index::{SubjectIndex, literal},
    log::{Log, Message},
};

mod members;
mod picture;
mod restore;

/// The state of one declared stream.
#[derive(Debug)]
pub(crate) struct Stream {
    spec: StreamSpec,
    log: Log,
    subjects: SubjectIndex,
    dedupe: Dedupe,
    /// By index; the places of removed ones are used again.
    consumers: Vec<Option<Member>>,
    free: Vec<usize>,
    names: BTreeMap<ConsumerName, usize>,
    routes: SubjectTable<usize>,
}

/// A consumer and its entry in the table of filters.
#[derive(Debug)]
struct Member {
    consumer: Consumer,
    route: TableKey,
}

/// Where an append ended up, and whether it stored anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Appended {
    pub(crate) seq: Seq,
    pub(crate) duplicate: bool,
}

impl Stream {
    pub(crate) fn new(spec: StreamSpec, key: DigestKey) -> Self {
        let dedupe = Dedupe::new(spec.dedupe_window, spec.messages_max.get(), key);
        Self {
            spec,
            log: Log::default(),
            subjects: SubjectIndex::default(),
            dedupe,
            consumers: Vec::new(),
            free: Vec::new(),
            names: BTreeMap::new(),
            routes: SubjectTable::new(),
        }
    }

    pub(crate) const fn spec(&self) -> &StreamSpec {
        &self.spec
    }

    /// Stores `frame`, and calls `ready` with the index and the number of each of `readers` that
    /// is there: it has one more message now.
    ///
    /// A known id is answered before the expectation is looked at: whoever repeats an append whose
    /// answer was lost must learn that it is stored, although the subject's last has moved on.
    pub(crate) fn append(
        &mut self,
        frame: Arc<Frame>,
        expect: Expect,
        now: Timestamp,
        readers: &[usize],
        ready: impl FnMut(usize, u64),
    ) -> Result<Appended> {
        let digest = match self.dedupe.find(&frame.id, now) {
            Ok(seq) => return Ok(Appended { seq: Seq(seq), duplicate: true }),
            Err(digest) => digest,
        };
        self.check_expected(&frame.subject, expect)?;
        self.check_room(&frame.subject, 0, 0)?;
        Ok(self.store(frame, digest, now, readers, ready))
    }

    /// Where each frame of a batch is stored already, or what to remember its id by: all of them
    /// are the one or the other. Checks that there is room for what is new.
    pub(crate) fn check_batch(
        &mut self,
        frames: &[Arc<Frame>],
        now: Timestamp,
    ) -> Result<Vec<std::result::Result<Seq, Digest>>> {
        let known: Vec<_> =
            frames.iter().map(|frame| self.dedupe.find(&frame.id, now).map(Seq)).collect();
        let mut pairs = frames.iter().zip(&known);
        if let Some((frame, _)) = pairs.find(|(_, found)| found.is_ok()) {
            if known.iter().all(std::result::Result::is_ok) {
                return Ok(known);
            }
            let why = format!("a part of the batch was stored before, the id {} first", frame.id);
            return Err(Error::new(ErrorKind::Conflict, "append", why).at(&frame.subject));
        }
        let mut added: HashMap<&Subject, u64, RandomState> = HashMap::default();
        for (added_in_all, frame) in (0..).zip(frames) {
            let of_subject = added.entry(&frame.subject).or_default();
            self.check_room(&frame.subject, added_in_all, *of_subject)?;
            *of_subject += 1;
        }
        Ok(known)
    }

    /// Stores `frame` after all others; it was checked before.
    pub(crate) fn store(
        &mut self,
        frame: Arc<Frame>,
        digest: Digest,
        now: Timestamp,
        readers: &[usize],
        mut ready: impl FnMut(usize, u64),
    ) -> Appended {
        let seq = self.log.last() + 1;
        self.dedupe.remember(digest, seq, now);
        let subject = self.subjects.push(&frame.subject, seq);
        for &index in readers {
            if let Some(Some(member)) = self.consumers.get_mut(index) {
                member.consumer.push(seq, frame.placement.as_deref(), now);
                ready(index, member.consumer.number());
            }
        }
        self.log.push(frame, now, subject);
        Appended { seq: Seq(seq), duplicate: false }
    }

    /// The indices of the consumers that read `subject`.
    pub(crate) fn readers(&self, subject: &Subject) -> Box<[usize]> {
        self.routes.matches(subject).into_iter().copied().collect()
    }

    /// The last message stored under `subject`.
    pub(crate) fn last(&self, subject: &Subject) -> Option<Message> {
        self.log.message(self.subjects.last(subject))
    }

    /// Takes the message at `seq` out, whoever holds it, and calls `ready` with every consumer
    /// that may have another one now. `None` when there was none.
    ///
    /// # Errors
    /// `Denied` when the stream is append-only.
    pub(crate) fn discard(
        &mut self,
        seq: Seq,
        mut ready: impl FnMut(usize, u64),
    ) -> Result<Option<Arc<Frame>>> {
        if self.spec.retention == Retention::AppendOnly {
            let why = "the stream is append-only: nothing is ever taken out";
            return Err(Error::new(ErrorKind::Denied, "discard", why).at(&self.spec.name));
        }
        let Some(frame) = self.remove(seq.0) else { return Ok(None) };
        let level = frame.placement.as_ref().map(|placement| placement.priority);
        for index in self.readers(&frame.subject) {
            if let Some(Some(member)) = self.consumers.get_mut(index) {
                member.consumer.discard(seq.0, level.unwrap_or_default());
                ready(index, member.consumer.number());
            }
        }
        Ok(Some(frame))
    }

    /// Leases the next message of a consumer.
    #[inline]
    pub(crate) fn claim(&mut self, index: usize, number: u64, now: Timestamp) -> Option<Claim> {
        let Self { consumers, subjects, log, .. } = self;
        let member = consumers.get_mut(index)?.as_mut()?;
        if member.consumer.number() != number {
            return None;
        }
        member.consumer.claim(subjects, log, now)
    }

    /// Leases the next messages of a consumer, at most `max`.
    pub(crate) fn claim_many(
        &mut self,
        (index, number): (usize, u64),
        max: usize,
        now: Timestamp,
    ) -> Vec<Claim> {
        let Self { consumers, subjects, log, .. } = self;
        match consumers.get_mut(index) {
            Some(Some(member)) if member.consumer.number() == number => {
                member.consumer.claim_many(subjects, log, max, now)
            }
            _ => Vec::new(),
        }
    }

    /// Ends a lease, and returns the message when it went with it; `None` when the lease ran out
    /// before or its consumer was removed.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        (index, number): (usize, u64),
        token: u64,
        verdict: &Verdict,
        now: Timestamp,
    ) -> Option<Option<Arc<Frame>>> {
        let settled = self.consumer_mut(index, number)?.settle(token, verdict, now)?;
        if let (Settled::Gone(seq), Retention::WorkQueue) = (settled, self.spec.retention) {
            return Some(self.remove(seq));
        }
        Some(None)
    }

    /// Hands out what lies up to `seq`, and nothing behind it.
    pub(crate) const fn show_until(&mut self, seq: u64) {
        self.log.show_until(seq);
    }

    /// The key of its hashed ids.
    pub(crate) const fn key(&self) -> DigestKey {
        self.dedupe.key()
    }

    pub(crate) const fn log(&self) -> &Log {
        &self.log
    }

    /// Reads some of what is stored: see `Broker::read`.
    pub(crate) fn read(
        &self,
        filter: &Filter,
        (from, until): (Seq, Seq),
        looks_max: usize,
        into: &mut impl Extend<Message>,
    ) -> Option<Seq> {
        let mut next = None;
        let mut looks = 0;
        let mut look = |seq: u64| {
            next = Some(seq).filter(|_| looks == looks_max);
            looks += 1;
            next.is_none() && seq <= until.0
        };
        match literal(filter) {
            Some(subject) => {
                let seqs = self.subjects.from(&subject, from.0).take_while(|&seq| look(seq));
                into.extend(seqs.filter_map(|seq| self.log.message(seq)));
            }
            None => {
                let slots = self.log.iter_from(from.0).take_while(|&(seq, _)| look(seq));
                let slots = slots.filter(|(_, slot)| filter.matches(&slot.frame.subject));
                into.extend(slots.map(|(seq, slot)| slot.message(seq)));
            }
        }
        next.map(Seq)
    }

    /// How much work waits: see `Broker::lag`.
    pub(crate) fn lag(&mut self, now: Timestamp) -> Lag {
        let Self { consumers, subjects, log, .. } = self;
        let (mut in_flight, mut to_read) = (0, 0);
        for member in consumers.iter_mut().flatten() {
            member.consumer.tick(subjects, log, now);
            in_flight += member.consumer.in_flight();
            to_read += member.consumer.pending();
        }
        let stored = self.log.len();
        let pending = match self.spec.retention {
            Retention::WorkQueue => stored.saturating_sub(in_flight),
            _ if self.names.is_empty() => stored,
            _ => to_read,
        };
        let oldest = self.log.first().map(|slot| now.since(slot.time));
        Lag { pending, in_flight, oldest }
    }

    /// Every consumer as it is now, by name.
    pub(crate) fn states(&mut self, now: Timestamp) -> Vec<ConsumerState> {
        let Self { consumers, subjects, log, names, .. } = self;
        let mut states = Vec::with_capacity(names.len());
        for &index in names.values() {
            if let Some(Some(member)) = consumers.get_mut(index) {
                states.push(member.consumer.state(subjects, log, now));
            }
        }
        states
    }

    #[inline]
    fn remove(&mut self, seq: u64) -> Option<Arc<Frame>> {
        let slot = self.log.remove(seq)?;
        let log = &self.log;
        let subject = (&slot.frame.subject, slot.subject);
        self.subjects.remove(subject, seq, |seq| log.get(seq).is_some());
        Some(slot.frame)
    }

    fn check_expected(&self, subject: &Subject, expect: Expect) -> Result<()> {
        let Expect::LastOfSubject(Seq(expected)) = expect else { return Ok(()) };
        let last = self.subjects.last(subject);
        if last == expected {
            return Ok(());
        }
        let why = format!("the last message is {last}: expected {expected}");
        Err(Error::new(ErrorKind::Conflict, "append", why).at(subject))
    }

    /// Refuses one more message of `subject` when `added` come before it, `of_subject` of them
    /// under the same subject.
    fn check_room(&self, subject: &Subject, added: u64, of_subject: u64) -> Result<()> {
        let refuse = |why: String| Err(Error::new(ErrorKind::Full, "append", why).at(subject));
        let (name, max) = (&self.spec.name, self.spec.messages_max);
        if self.log.len() + added >= max.get() {
            let why = format!("{name} holds {max} messages at most");
            return Err(Error::stream_full("append", why).at(subject));
        }
        let max = self.spec.messages_per_subject_max;
        if max < self.spec.messages_max && self.subjects.count(subject) + of_subject >= max.get() {
            return refuse(format!("the stream {name} holds {max} messages of a subject at most"));
        }
        Ok(())
    }
}
