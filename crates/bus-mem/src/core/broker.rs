//! The durable plane as one state: streams by name and subject, their consumers and leases.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use bus_core::{
    Durability, Error, ErrorKind, Expect, Frame, Lag, Receipt, Result, Seq, StreamSpec,
};
use bus_envelope::Timestamp;
use bus_subjects::{Filter, StreamName, Subject, SubjectTable};
use foldhash::fast::RandomState;

use super::{
    consumer::Consumer,
    dedupe::DigestKey,
    log::Message,
    picture::StreamCursor,
    recorder::Recorder,
    routes::{Route, Routes},
    stream::{Appended, Stream},
    unshown::Unshown,
};
use crate::Limits;

mod consumers;
mod filters;
mod journal;
mod picture;
mod restore;

/// Every stream of one bus. It does nothing by itself: each call brings the time along.
///
/// A time before an earlier one counts as the earlier one, so that a clock which steps back can
/// neither lengthen a lease nor bring a forgotten id back.
#[derive(Debug)]
pub struct Broker {
    limits: Limits,
    durability: Durability,
    streams: Vec<Stream>,
    names: HashMap<StreamName, usize>,
    /// Indices of streams by their filters.
    table: SubjectTable<usize>,
    routes: Routes,
    latest: Timestamp,
    /// How many consumers were ever made.
    consumers: u64,
    /// New consumers give tokens behind it.
    token: u64,
    recorder: Recorder,
    unshown: Unshown,
}

/// Names a stream for as long as the broker lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKey(usize);

/// Names a consumer for as long as the broker lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerKey {
    stream: StreamKey,
    index: usize,
    number: u64,
}

impl ConsumerKey {
    /// The consumer's number among all of the broker: 0, 1, 2 … in the order of their creation.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.number
    }

    /// Two small indices that no other consumer has while this one is there.
    pub(crate) const fn place(self) -> (usize, usize) {
        (self.stream.0, self.index)
    }
}

/// A message under a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The message.
    pub message: Message,
    /// What settles or extends exactly this lease.
    pub token: u64,
    /// Which attempt this is, the first being 1.
    pub attempt: u32,
}

/// A consumer that was removed. What is left of it takes time to drop that is linear in the
/// messages it had.
#[derive(Debug)]
#[must_use = "dropping it may take long"]
pub struct Removed {
    /// What named it.
    pub key: ConsumerKey,
    #[expect(dead_code, reason = "it is here to be dropped by whoever has the time")]
    rest: Box<Consumer>,
}

impl Broker {
    /// A broker without streams whose receipts promise `durability`.
    #[must_use]
    pub fn new(limits: Limits, durability: Durability) -> Self {
        Self {
            limits,
            durability,
            streams: Vec::new(),
            names: HashMap::new(),
            table: SubjectTable::new(),
            routes: Routes::default(),
            latest: Timestamp::from_unix_ns(i128::MIN),
            consumers: 0,
            token: 0,
            recorder: Recorder::default(),
            unshown: Unshown::default(),
        }
    }

    /// Makes sure that the stream exists as specified; the order of its filters does not matter.
    ///
    /// # Errors
    /// `Conflict` when it exists otherwise or overlaps another stream, `Invalid` when it has no
    /// filter or more than 1000, reaches into the reserved subjects (`$…`, `_INBOX`) or overlaps
    /// itself, `Full` at the limit of streams.
    pub fn declare(&mut self, mut spec: StreamSpec) -> Result<()> {
        spec.filters.sort();
        spec.filters.dedup();
        if let Some(stream) = self.names.get(&spec.name).and_then(|&index| self.streams.get(index))
        {
            if *stream.spec() == spec {
                return Ok(());
            }
            let why = "the stream exists with another specification";
            return Err(Error::new(ErrorKind::Conflict, "declare", why).at(&spec.name));
        }
        self.check_filters(&spec)?;
        if self.streams.len() >= self.limits.streams_max {
            let why = format!("{} streams exist already", self.limits.streams_max);
            return Err(Error::new(ErrorKind::Full, "declare", why).at(&spec.name));
        }
        let index = self.streams.len();
        self.names.insert(spec.name.clone(), index);
        for filter in &spec.filters {
            self.table.insert(filter.clone(), index);
        }
        self.routes.clear();
        self.streams.push(Stream::new(spec, DigestKey::random()));
        if self.recorder.is_on() {
            self.record_declared(index);
        }
        Ok(())
    }

    /// Stores `frame` when `expect` holds, and calls `ready` with every consumer that has one more
    /// message now.
    ///
    /// # Errors
    /// `NotFound` when no stream keeps the subject, `Conflict` when the expectation does not hold,
    /// `Full` at a bound of the stream.
    pub fn append(
        &mut self,
        frame: impl Into<Arc<Frame>>,
        expect: Expect,
        now: Timestamp,
        mut ready: impl FnMut(ConsumerKey),
    ) -> Result<Receipt> {
        let (frame, now) = (frame.into(), self.at_least(now));
        let Self { routes, streams, table, .. } = self;
        let route = routes.get(&frame.subject, || find_route(table, streams, &frame.subject));
        let Some((route, stream)) =
            route.and_then(|route| Some((route, streams.get_mut(route.stream)?)))
        else {
            return Err(unkept(&frame.subject, "append"));
        };
        let key = StreamKey(route.stream);
        let appended = stream.append(frame, expect, now, &route.consumers, |index, number| {
            ready(ConsumerKey { stream: key, index, number });
        })?;
        let receipt = Receipt {
            stream: stream.spec().name.clone(),
            seq: appended.seq,
            duplicate: appended.duplicate,
            durability: self.durability,
        };
        if self.recorder.is_on() && !appended.duplicate {
            self.record_stored(key.0, appended.seq.0);
        }
        Ok(receipt)
    }

    /// Stores `frames` in their order, all or none, and calls `ready` as [`Broker::append`] does.
    /// A batch whose ids were all stored within the window before stores nothing.
    ///
    /// # Errors
    /// `Invalid` for an empty or too long batch, one of several streams, or one that holds an id
    /// twice; `Conflict` when a part of it was stored before; `NotFound` and `Full` about the
    /// first frame that cannot be stored.
    pub fn append_all(
        &mut self,
        frames: Vec<Arc<Frame>>,
        now: Timestamp,
        mut ready: impl FnMut(ConsumerKey),
    ) -> Result<Vec<Receipt>> {
        let now = self.at_least(now);
        let key = self.check_batch(&frames)?;
        let Self { routes, streams, table, durability, .. } = self;
        let known = match streams.get_mut(key.0) {
            Some(stream) => stream.check_batch(&frames, now)?,
            None => Vec::new(),
        };
        let mut receipts = Vec::with_capacity(frames.len());
        for (frame, known) in frames.into_iter().zip(known) {
            let route = routes.get(&frame.subject, || find_route(table, streams, &frame.subject));
            let readers = route.map_or(&[][..], |route| &route.consumers);
            let Some(stream) = streams.get_mut(key.0) else { break };
            let appended = match known {
                Ok(seq) => Appended { seq, duplicate: true },
                Err(digest) => stream.store(frame, digest, now, readers, |index, number| {
                    ready(ConsumerKey { stream: key, index, number });
                }),
            };
            receipts.push(Receipt {
                stream: stream.spec().name.clone(),
                seq: appended.seq,
                duplicate: appended.duplicate,
                durability: *durability,
            });
        }
        if self.recorder.is_on() {
            let stored = receipts.iter().filter(|receipt| !receipt.duplicate);
            self.record_batch(key.0, stored.map(|receipt| receipt.seq.0));
        }
        Ok(receipts)
    }

    /// The last message stored under `subject`.
    ///
    /// # Errors
    /// `NotFound` when no stream keeps the subject.
    pub fn last(&self, subject: &Subject) -> Result<Option<Message>> {
        let stream = find_stream(&self.table, subject).ok_or_else(|| unkept(subject, "last"))?;
        Ok(self.streams.get(stream).and_then(|stream| stream.last(subject)))
    }

    /// The message at position `seq` of the stream `name`.
    ///
    /// # Errors
    /// `NotFound` when there is no such stream.
    pub fn read_one(&self, name: &StreamName, seq: Seq) -> Result<Option<Message>> {
        let stream = self.find(name, "read")?;
        Ok(self.streams.get(stream.0).and_then(|stream| stream.log().message(seq.0)))
    }

    /// Takes the message at `seq` out, whoever holds a lease on it, and returns it when there was
    /// one: what is in it is a stranger's, and not to be dropped under a lock. Calls `ready` with
    /// every consumer that may have another one to hand out now.
    ///
    /// # Errors
    /// `NotFound` (no such stream), `Denied` when the stream is append-only.
    pub fn discard(
        &mut self,
        name: &StreamName,
        seq: Seq,
        mut ready: impl FnMut(ConsumerKey),
    ) -> Result<Option<Arc<Frame>>> {
        let key = self.find(name, "discard")?;
        let Some(stream) = self.streams.get_mut(key.0) else { return Ok(None) };
        let discarded = stream
            .discard(seq, |index, number| ready(ConsumerKey { stream: key, index, number }))?;
        if let (Some(frame), true) = (&discarded, self.recorder.is_on()) {
            self.record_discarded(key, seq.0, &frame.subject);
        }
        Ok(discarded)
    }

    /// The stream `name` and the position of its newest message.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn head(&self, name: &StreamName) -> Result<(StreamKey, Seq)> {
        let key = self.find(name, "replay")?;
        let last = self.streams.get(key.0).map_or(0, |stream| stream.log().last());
        Ok((key, Seq(last)))
    }

    /// Reads the messages under `filter` from `from` to `until`, both included, looking at
    /// `looks_max` messages at most, and returns where to go on: `None` at the end.
    pub fn read(
        &self,
        key: StreamKey,
        filter: &Filter,
        (from, until): (Seq, Seq),
        looks_max: usize,
        into: &mut impl Extend<Message>,
    ) -> Option<Seq> {
        self.streams.get(key.0)?.read(filter, (from, until), looks_max, into)
    }

    /// How much work waits in the stream `name`.
    ///
    /// On a work queue that is every stored message that is not under a lease. On other streams
    /// each consumer counts what it still has to read, and without any consumer every stored
    /// message waits.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn lag(&mut self, name: &StreamName, now: Timestamp) -> Result<Lag> {
        let now = self.at_least(now);
        let key = self.find(name, "lag")?;
        Ok(self.streams.get_mut(key.0).map(|stream| stream.lag(now)).unwrap_or_default())
    }

    /// The one stream of a batch that is not empty, not too long and holds no id twice.
    fn check_batch(&self, frames: &[Arc<Frame>]) -> Result<StreamKey> {
        let invalid = |why: String| Error::new(ErrorKind::Invalid, "append all", why);
        let Some(first) = frames.first() else {
            return Err(invalid("a batch holds at least one frame".to_owned()));
        };
        if frames.len() > Frame::BATCH_MAX {
            let (count, max) = (frames.len(), Frame::BATCH_MAX);
            return Err(invalid(format!("a batch of {count} frames: at most {max} are allowed")));
        }
        let mut ids = HashSet::with_capacity_and_hasher(frames.len(), RandomState::default());
        let mut stream = None;
        for frame in frames {
            let found = find_stream(&self.table, &frame.subject);
            let found = found.ok_or_else(|| unkept(&frame.subject, "append all"))?;
            if *stream.get_or_insert(found) != found {
                let why = format!("another stream than that of {} keeps it", first.subject);
                return Err(invalid(why).at(&frame.subject));
            }
            if !ids.insert(&frame.id) {
                return Err(invalid("an id is twice in the batch".to_owned()).at(&frame.subject));
            }
        }
        stream.map(StreamKey).ok_or_else(|| unkept(&first.subject, "append all"))
    }

    fn find(&self, name: &StreamName, op: &'static str) -> Result<StreamKey> {
        self.names.get(name).copied().map(StreamKey).ok_or_else(|| unknown(name, op))
    }

    fn at_least(&mut self, now: Timestamp) -> Timestamp {
        self.latest = self.latest.max(now);
        self.latest
    }
}

/// The stream that keeps `subject`: at most one, because streams do not overlap.
fn find_stream(table: &SubjectTable<usize>, subject: &Subject) -> Option<usize> {
    let mut found = None;
    table.for_each_match(subject, |&index| found = Some(index));
    found
}

fn find_route(table: &SubjectTable<usize>, streams: &[Stream], subject: &Subject) -> Option<Route> {
    let stream = find_stream(table, subject)?;
    Some(Route { stream, consumers: streams.get(stream)?.readers(subject) })
}

fn unkept(subject: &Subject, op: &'static str) -> Error {
    Error::new(ErrorKind::NotFound, op, "no stream keeps this subject").at(subject)
}

fn unknown(name: &StreamName, op: &'static str) -> Error {
    Error::new(ErrorKind::NotFound, op, "there is no such stream").at(name)
}
