//! What members of a consumer do: join, claim, settle; and what operators do with consumers.

use std::{sync::Arc, time::Duration};

use bus_core::{ConsumerSpec, ConsumerState, Error, ErrorKind, Frame, Result, Verdict};
use bus_envelope::Timestamp;
use bus_subjects::{ConsumerName, StreamName};

use super::{Broker, Claim, ConsumerKey, Removed, unknown};
use crate::core::consumer::Consumer;

impl Broker {
    /// Joins a consumer, creating it when it does not exist yet. A new one starts with the oldest
    /// message that is stored.
    ///
    /// It looks at what is stored later, a bounded number of messages a call, and until then its
    /// priorities hold among those it looked at.
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
        let (index, number) = state.consume(spec, consumers_max, (self.consumers, self.token))?;
        if number == self.consumers {
            self.consumers += 1;
            self.routes.clear();
            if self.recorder.is_on() {
                self.record_consumer(ConsumerKey { stream, index, number });
            }
        }
        Ok(ConsumerKey { stream, index, number })
    }

    /// Removes a consumer, and returns what is left when there was one. Its leases are over; one
    /// that is created under its name later starts anew.
    ///
    /// # Errors
    /// `NotFound` when there is no such stream.
    pub fn remove_consumer(
        &mut self,
        stream: &StreamName,
        name: &ConsumerName,
    ) -> Result<Option<Removed>> {
        let key = self.find(stream, "remove consumer")?;
        let removed = self.streams.get_mut(key.0).and_then(|state| state.remove_consumer(name));
        let Some((index, consumer)) = removed else { return Ok(None) };
        self.routes.clear();
        if self.recorder.is_on() {
            self.record_removal(consumer.number());
        }
        let key = ConsumerKey { stream: key, index, number: consumer.number() };
        Ok(Some(Removed { key, rest: Box::new(consumer) }))
    }

    /// Hands out nothing of a consumer before `until`; `None`, or a time that has passed, goes on.
    ///
    /// # Errors
    /// `NotFound` (no such stream or consumer).
    pub fn pause(
        &mut self,
        stream: &StreamName,
        name: &ConsumerName,
        until: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<ConsumerKey> {
        let now = self.at_least(now);
        let key = self.find(stream, "pause")?;
        let paused = self.streams.get_mut(key.0).and_then(|state| state.pause(name, until, now));
        let Some((index, number)) = paused else {
            let why = format!("the stream {stream} has no such consumer");
            return Err(Error::new(ErrorKind::NotFound, "pause", why).at(name));
        };
        let key = ConsumerKey { stream: key, index, number };
        if self.recorder.is_on() {
            self.record_pause(key);
        }
        Ok(key)
    }

    /// Every consumer of the stream `name` as it is now, by name.
    ///
    /// # Errors
    /// `NotFound` when there is no such stream.
    pub fn consumers(&mut self, name: &StreamName, now: Timestamp) -> Result<Vec<ConsumerState>> {
        let now = self.at_least(now);
        let key = self.find(name, "consumers")?;
        Ok(self.streams.get_mut(key.0).map(|stream| stream.states(now)).unwrap_or_default())
    }

    /// Whether the consumer of `key` was not removed.
    #[must_use]
    #[inline]
    pub fn is_there(&self, key: ConsumerKey) -> bool {
        self.consumer(key).is_some()
    }

    /// Leases the next message of `key`, or `None` when none is ready.
    #[inline]
    pub fn claim(&mut self, key: ConsumerKey, now: Timestamp) -> Option<Claim> {
        if self.recorder.is_on() {
            // Apart, so that who keeps nothing pays for the question alone.
            return self.claim_noted(key, now);
        }
        let now = self.at_least(now);
        let stream = self.streams.get_mut(key.stream.0)?;
        stream.claim(key.index, key.number, now)
    }

    /// Leases the next messages of `key`, at most `max`; none when none is ready. It looks at the
    /// time once, as [`Broker::claim`] does: what that leaves for the next call is not among them.
    #[must_use]
    pub fn claim_many(&mut self, key: ConsumerKey, max: usize, now: Timestamp) -> Vec<Claim> {
        let now = self.at_least(now);
        let stream = self.streams.get_mut(key.stream.0);
        let claims =
            stream.map_or_else(Vec::new, |s| s.claim_many((key.index, key.number), max, now));
        if self.recorder.is_on() {
            self.note_claims(key, &claims);
        }
        claims
    }

    /// Ends the lease `token` of `key`, and returns the message when it went with it: what is in it
    /// is a stranger's, and not to be dropped under a lock.
    ///
    /// # Errors
    /// `LeaseLost` when it ran out or was settled before, or its consumer was removed.
    #[inline]
    pub fn settle(
        &mut self,
        key: ConsumerKey,
        token: u64,
        verdict: &Verdict,
        now: Timestamp,
    ) -> Result<Option<Arc<Frame>>> {
        if self.recorder.is_on() {
            return self.settle_recorded(key, token, verdict, now);
        }
        let now = self.at_least(now);
        self.streams
            .get_mut(key.stream.0)
            .and_then(|stream| stream.settle((key.index, key.number), token, verdict, now))
            .ok_or_else(|| lease_lost("settle"))
    }

    /// Starts the lease `token` of `key` anew and returns how long it lasts.
    ///
    /// # Errors
    /// As [`Broker::settle`].
    pub fn extend(&mut self, key: ConsumerKey, token: u64, now: Timestamp) -> Result<Duration> {
        let now = self.at_least(now);
        let extended = self
            .streams
            .get_mut(key.stream.0)
            .and_then(|stream| stream.consumer_mut(key.index, key.number)?.extend(token, now))
            .ok_or_else(|| lease_lost("extend"))?;
        if self.recorder.is_on() {
            self.note_lease(key, token);
        }
        Ok(extended)
    }

    /// Takes back leases of `key` that ran out, wakes messages that rested until `now`, and ends a
    /// pause that is over; a bounded number at a time.
    pub fn tick(&mut self, key: ConsumerKey, now: Timestamp) {
        let now = self.at_least(now);
        if let Some(stream) = self.streams.get_mut(key.stream.0) {
            stream.tick(key.index, key.number, now);
        }
    }

    /// How many messages of `key` could be claimed at the time of the last call for it, at least.
    #[must_use]
    pub fn ready(&self, key: ConsumerKey) -> usize {
        let stream = self.streams.get(key.stream.0);
        stream.map_or(0, |stream| stream.ready(key.index, key.number))
    }

    /// The next time at which a message of `key` becomes ready by itself; may be early, never late.
    #[must_use]
    pub fn next_deadline(&self, key: ConsumerKey) -> Option<Timestamp> {
        self.consumer(key)?.next_deadline()
    }

    #[inline]
    pub(super) fn consumer(&self, key: ConsumerKey) -> Option<&Consumer> {
        self.streams.get(key.stream.0)?.consumer(key.index, key.number)
    }
}

pub(super) fn lease_lost(op: &'static str) -> Error {
    Error::new(ErrorKind::LeaseLost, op, "the lease is over")
}
