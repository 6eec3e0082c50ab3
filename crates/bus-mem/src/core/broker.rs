//! The durable plane as one state: streams by name and subject, their consumers and leases.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bus_core::{
    ConsumerSpec, Durability, Error, ErrorKind, Expect, Frame, Lag, Receipt, Result, Seq, Stored,
    StreamSpec, Verdict,
};
use bus_envelope::Timestamp;
use bus_subjects::{Filter, StreamName, Subject, SubjectTable};

use super::stream::Stream;
use crate::Limits;

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
    routes: SubjectTable<usize>,
    latest: Timestamp,
    consumers: usize,
}

/// Names a stream for as long as the broker lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKey(usize);

/// Names a consumer for as long as the broker lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerKey {
    stream: StreamKey,
    consumer: usize,
    number: usize,
}

impl ConsumerKey {
    /// The consumer's number among all of the broker: 0, 1, 2 … in the order of their creation.
    #[must_use]
    pub const fn number(self) -> usize {
        self.number
    }
}

/// A message under a lease.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The message.
    pub message: Arc<Stored>,
    /// What settles or extends exactly this lease.
    pub token: u64,
    /// Which attempt this is, the first being 1.
    pub attempt: u32,
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
            routes: SubjectTable::new(),
            latest: Timestamp::from_unix_ns(i128::MIN),
            consumers: 0,
        }
    }

    /// Makes sure that the stream exists as specified; the order of its filters does not matter.
    ///
    /// # Errors
    /// `Conflict` when it exists otherwise or overlaps another stream, `Invalid` when it has no
    /// filter, reaches into the reserved subjects (`$…`, `_INBOX`) or overlaps itself, `Full` at
    /// the limit of streams.
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
            self.routes.insert(filter.clone(), index);
        }
        self.streams.push(Stream::new(spec));
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
        frame: Frame,
        expect: Expect,
        now: Timestamp,
        mut ready: impl FnMut(ConsumerKey),
    ) -> Result<Receipt> {
        let now = self.at_least(now);
        let stream = self.stream_of(&frame.subject, "append")?;
        let Some(state) = self.streams.get_mut(stream.0) else {
            return Err(unkept(&frame.subject, "append"));
        };
        let appended = state.append(frame, expect, now, |consumer, number| {
            ready(ConsumerKey { stream, consumer, number });
        })?;
        Ok(Receipt {
            stream: state.spec().name.clone(),
            seq: appended.seq,
            duplicate: appended.duplicate,
            durability: self.durability,
        })
    }

    /// The last message stored under `subject`.
    ///
    /// # Errors
    /// `NotFound` when no stream keeps the subject.
    pub fn last(&self, subject: &Subject) -> Result<Option<Arc<Stored>>> {
        let stream = self.stream_of(subject, "last")?;
        Ok(self.streams.get(stream.0).and_then(|stream| stream.last(subject)))
    }

    /// The message at position `seq` of the stream `name`.
    ///
    /// # Errors
    /// `NotFound` when there is no such stream.
    pub fn read_one(&self, name: &StreamName, seq: Seq) -> Result<Option<Arc<Stored>>> {
        let stream = self.find(name, "read")?;
        Ok(self.streams.get(stream.0).and_then(|stream| stream.read_one(seq)))
    }

    /// Joins a consumer, creating it when it does not exist yet. A new one starts with the oldest
    /// message that is stored.
    ///
    /// # Errors
    /// `NotFound` (no such stream), `Conflict` (it exists otherwise, or overlaps another one on a
    /// work queue), `Invalid` (no lease, or a filter beside the stream's), `Full` at the limit.
    pub fn consume(&mut self, spec: ConsumerSpec) -> Result<ConsumerKey> {
        let stream = self.find(&spec.stream, "consume")?;
        let consumers_max = self.limits.consumers_per_stream_max;
        let Some(state) = self.streams.get_mut(stream.0) else {
            return Err(unknown(&spec.stream, "consume"));
        };
        let (consumer, number) = state.consume(spec, consumers_max, self.consumers)?;
        self.consumers = self.consumers.max(number + 1);
        Ok(ConsumerKey { stream, consumer, number })
    }

    /// Leases the next message of `key`, or `None` when none is ready.
    pub fn claim(&mut self, key: ConsumerKey, now: Timestamp) -> Option<Claim> {
        let now = self.at_least(now);
        let (granted, message) = self.streams.get_mut(key.stream.0)?.claim(key.consumer, now)?;
        Some(Claim { message, token: granted.token, attempt: granted.attempt })
    }

    /// Ends the lease `token` of `key`.
    ///
    /// # Errors
    /// `LeaseLost` when it ran out or was settled before.
    pub fn settle(
        &mut self,
        key: ConsumerKey,
        token: u64,
        verdict: &Verdict,
        now: Timestamp,
    ) -> Result<()> {
        let now = self.at_least(now);
        self.streams
            .get_mut(key.stream.0)
            .and_then(|stream| stream.settle(key.consumer, token, verdict, now))
            .ok_or_else(|| lease_lost("settle"))
    }

    /// Starts the lease `token` of `key` anew and returns how long it lasts.
    ///
    /// # Errors
    /// `LeaseLost` when it ran out or was settled before.
    pub fn extend(&mut self, key: ConsumerKey, token: u64, now: Timestamp) -> Result<Duration> {
        let now = self.at_least(now);
        self.streams
            .get_mut(key.stream.0)
            .and_then(|stream| stream.consumer_mut(key.consumer)?.extend(token, now))
            .ok_or_else(|| lease_lost("extend"))
    }

    /// Takes back the leases of `key` that ran out and wakes the retries that rested until `now`.
    pub fn tick(&mut self, key: ConsumerKey, now: Timestamp) {
        let now = self.at_least(now);
        if let Some(stream) = self.streams.get_mut(key.stream.0)
            && let Some(consumer) = stream.consumer_mut(key.consumer)
        {
            consumer.tick(now);
        }
    }

    /// How many messages of `key` could be claimed at the time of the last call for it.
    #[must_use]
    pub fn ready(&self, key: ConsumerKey) -> usize {
        let stream = self.streams.get(key.stream.0);
        stream.and_then(|stream| stream.consumer(key.consumer)).map_or(0, |c| c.ready())
    }

    /// The next time at which a message of `key` becomes ready by itself; may be early, never late.
    #[must_use]
    pub fn next_deadline(&self, key: ConsumerKey) -> Option<Timestamp> {
        self.streams.get(key.stream.0)?.consumer(key.consumer)?.next_deadline()
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

    /// Copies up to `count_max` messages from `from` to `until`, both included, into `into`.
    pub fn read(
        &self,
        key: StreamKey,
        (from, until): (Seq, Seq),
        count_max: usize,
        into: &mut impl Extend<Arc<Stored>>,
    ) {
        if let Some(stream) = self.streams.get(key.0) {
            let messages = stream.log().iter_from(from.0);
            let messages = messages.take_while(|message| message.seq <= until);
            into.extend(messages.take(count_max).cloned());
        }
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

    fn check_filters(&self, spec: &StreamSpec) -> Result<()> {
        let refuse = |kind, why: String| Err(Error::new(kind, "declare", why).at(&spec.name));
        if spec.filters.is_empty() {
            return refuse(ErrorKind::Invalid, "a stream keeps at least one subject".to_owned());
        }
        for (at, filter) in spec.filters.iter().enumerate() {
            if is_reserved(filter) {
                let why = format!("{filter} reaches into the reserved subjects");
                return refuse(ErrorKind::Invalid, why);
            }
            let mut earlier = spec.filters.iter().take(at);
            if let Some(earlier) = earlier.find(|earlier| earlier.overlaps(filter)) {
                return refuse(ErrorKind::Invalid, format!("{filter} overlaps {earlier}"));
            }
            let others = self.streams.iter().map(Stream::spec);
            let mut others = others.flat_map(|other| other.filters.iter().map(move |f| (other, f)));
            if let Some((other, theirs)) = others.find(|(_, theirs)| theirs.overlaps(filter)) {
                let why = format!("{filter} overlaps {theirs} of the stream {}", other.name);
                return refuse(ErrorKind::Conflict, why);
            }
        }
        Ok(())
    }

    fn find(&self, name: &StreamName, op: &'static str) -> Result<StreamKey> {
        self.names.get(name).copied().map(StreamKey).ok_or_else(|| unknown(name, op))
    }

    /// The stream that keeps `subject`: at most one, because streams do not overlap.
    fn stream_of(&self, subject: &Subject, op: &'static str) -> Result<StreamKey> {
        let mut found = None;
        self.routes.for_each_match(subject, |&index| found = Some(StreamKey(index)));
        found.ok_or_else(|| unkept(subject, op))
    }

    fn at_least(&mut self, now: Timestamp) -> Timestamp {
        self.latest = self.latest.max(now);
        self.latest
    }
}

/// Whether a filter could match a subject of the system's own.
fn is_reserved(filter: &Filter) -> bool {
    let first = filter.as_str().split('.').next().unwrap_or_default();
    first.starts_with('$') || matches!(first, "_INBOX" | "*" | ">")
}

fn unkept(subject: &Subject, op: &'static str) -> Error {
    Error::new(ErrorKind::NotFound, op, "no stream keeps this subject").at(subject)
}

fn unknown(name: &StreamName, op: &'static str) -> Error {
    Error::new(ErrorKind::NotFound, op, "there is no such stream").at(name)
}

fn lease_lost(op: &'static str) -> Error {
    Error::new(ErrorKind::LeaseLost, op, "the lease is over")
}
