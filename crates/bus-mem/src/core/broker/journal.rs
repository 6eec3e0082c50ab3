//! What a broker says to its journal, and when it shows what is safe.

use std::sync::Arc;

use bus_core::{Frame, Result, Retention, Verdict};
use bus_envelope::Timestamp;
use bus_subjects::{ConsumerName, StreamName, Subject};

use super::{Broker, Claim, ConsumerKey, StreamKey, consumers::lease_lost, find_route};
use crate::{
    core::{consumer::Consumer, log::Slot, recorder::Recorder, stream::Stream, unshown::Departure},
    journal::{Change, Journal, Position},
};

impl Broker {
    /// From now on tells every change to `journal`, and hands out no message that is not safe.
    ///
    /// What is there already counts as safe.
    pub fn keep(&mut self, journal: Arc<dyn Journal>) {
        self.recorder = Recorder::to(journal);
        for stream in &mut self.streams {
            stream.show_until(stream.log().last());
            stream.members_mut().for_each(Consumer::hold_turns);
        }
    }

    /// Where the last change stands that others may see only when it is safe; leases are not among
    /// those.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.recorder.position()
    }

    /// Whether there is a stream of this name.
    pub(crate) fn has_stream(&self, name: &StreamName) -> bool {
        self.names.contains_key(name)
    }

    /// Whether there is a consumer of this name.
    pub(crate) fn has_consumer(&self, stream: &StreamName, name: &ConsumerName) -> bool {
        let stream = self.names.get(stream).and_then(|&index| self.streams.get(index));
        stream.is_some_and(|stream| stream.has_consumer(name))
    }

    /// Shows what is safe now that the journal is up to `position`: calls `shown` with each message
    /// that was stored, and `ready` with every consumer that may have one more to hand out.
    pub fn show(
        &mut self,
        position: Position,
        mut shown: impl FnMut(Arc<Frame>),
        mut ready: impl FnMut(ConsumerKey),
    ) {
        while let Some((index, seq, frame)) = self.unshown.pop(position) {
            let Self { routes, streams, table, .. } = self;
            if let Some(stream) = streams.get_mut(index) {
                stream.show_until(seq);
            }
            let route = routes.get(&frame.subject, || find_route(table, streams, &frame.subject));
            for &reader in route.map_or(&[][..], |route| &route.consumers) {
                let member = streams.get(index).and_then(|stream| stream.number_at(reader));
                if let Some(number) = member {
                    ready(ConsumerKey { stream: StreamKey(index), index: reader, number });
                }
            }
            shown(frame);
        }
        while let Some(Departure { consumer, seq, key }) = self.unshown.pop_departure(position) {
            if let Some(member) = self.consumer_mut(consumer) {
                member.pass_turn(seq, &key);
                ready(consumer);
            }
        }
    }

    pub(super) fn record_declared(&mut self, index: usize) {
        if let Some(stream) = self.streams.get_mut(index) {
            stream.show_until(0);
            let (spec, key) = (stream.spec(), stream.key().0);
            self.recorder.record(Change::Declared { stream: index as u32, spec, key });
        }
    }

    pub(super) fn record_stored(&mut self, index: usize, seq: u64) {
        let slot = self.streams.get(index).and_then(|stream| stream.log().get(seq));
        let Some(slot) = slot else { return };
        let (frame, time) = (&slot.frame, slot.time);
        let stored = Change::Stored { stream: index as u32, seq, time, frame };
        let position = self.recorder.record(stored);
        self.unshown.push(position, (index, seq), Arc::clone(frame));
    }

    pub(super) fn record_batch(&mut self, index: usize, seqs: impl Iterator<Item = u64> + Clone) {
        let Self { streams, recorder, unshown, .. } = self;
        let Some(log) = streams.get(index).map(Stream::log) else { return };
        let slots = seqs.filter_map(|seq| Some((seq, log.get(seq)?)));
        let stored = |(seq, slot): (u64, &'_ Slot)| (seq, slot.time, Arc::clone(&slot.frame));
        let stored: Vec<_> = slots.map(stored).collect();
        let changes = stored.iter().map(|&(seq, time, ref frame)| Change::Stored {
            stream: index as u32,
            seq,
            time,
            frame,
        });
        let position = recorder.record_all(&changes.collect::<Vec<_>>());
        for (seq, _, frame) in stored {
            unshown.push(position, (index, seq), frame);
        }
    }

    pub(super) fn record_removed(&mut self, stream: StreamKey, seq: u64) {
        self.recorder.record(Change::Removed { stream: stream.0 as u32, seq });
    }

    /// An operator took a message out, whose subject this was.
    pub(super) fn record_discarded(&mut self, stream: StreamKey, seq: u64, subject: &Subject) {
        self.record_removed(stream, seq);
        let Some(of) = self.streams.get(stream.0) else { return };
        for index in of.readers(subject) {
            let number = self.streams.get(stream.0).and_then(|stream| stream.number_at(index));
            if let Some(number) = number {
                self.hold_departures(ConsumerKey { stream, index, number });
            }
        }
    }

    /// Holds the turns of what has left until all that was recorded by now is safe: the one before
    /// is there again if it never becomes so, and two of a key would be worked on.
    fn hold_departures(&mut self, consumer: ConsumerKey) {
        let position = self.recorder.position();
        let Some(member) = self.consumer_mut(consumer) else { return };
        for (seq, key) in member.take_departed() {
            self.unshown.push_departure(position, Departure { consumer, seq, key });
        }
    }

    fn consumer_mut(&mut self, key: ConsumerKey) -> Option<&mut Consumer> {
        self.streams.get_mut(key.stream.0)?.consumer_mut(key.index, key.number)
    }

    pub(super) fn record_consumer(&mut self, key: ConsumerKey) {
        let Some(stream) = self.streams.get_mut(key.stream.0) else { return };
        if let Some(consumer) = stream.consumer_mut(key.index, key.number) {
            consumer.hold_turns();
            let (consumer, spec) = (key.number, consumer.spec());
            let stream = key.stream.0 as u32;
            self.recorder.record(Change::ConsumerMade { consumer, stream, spec });
        }
    }

    pub(super) fn record_pause(&mut self, key: ConsumerKey) {
        if let Some(until) = self.consumer(key).map(|consumer| consumer.paused_until()) {
            self.recorder.record(Change::Paused { consumer: key.number, until });
        }
    }

    pub(super) fn record_removal(&mut self, consumer: u64) {
        self.recorder.record(Change::ConsumerRemoved { consumer });
    }

    pub(super) fn note_claims(&self, key: ConsumerKey, claims: &[Claim]) {
        claims.iter().for_each(|claim| self.note_lease(key, claim.token));
    }

    /// Nobody waits for a lease to be safe, and a full journal keeps none: when it is lost, the
    /// message is handed out once more than it was tried, which may happen with any lease.
    pub(super) fn note_lease(&self, key: ConsumerKey, token: u64) {
        let Some(lease) = self.consumer(key).and_then(|consumer| consumer.lease(token)) else {
            return;
        };
        self.recorder.note_lease(Change::Leased {
            consumer: key.number,
            seq: lease.seq,
            token,
            attempt: lease.attempt,
            since: lease.since,
            deadline: lease.deadline,
        });
    }

    #[inline(never)]
    pub(super) fn claim_noted(&mut self, key: ConsumerKey, now: Timestamp) -> Option<Claim> {
        let now = self.at_least(now);
        let stream = self.streams.get_mut(key.stream.0)?;
        let claim = stream.claim(key.index, key.number, now)?;
        self.note_lease(key, claim.token);
        Some(claim)
    }

    #[inline(never)]
    pub(super) fn settle_recorded(
        &mut self,
        key: ConsumerKey,
        token: u64,
        verdict: &Verdict,
        now: Timestamp,
    ) -> Result<Option<Arc<Frame>>> {
        let now = self.at_least(now);
        let stream = self.streams.get_mut(key.stream.0);
        let leased = stream.and_then(|stream| {
            let seq = stream.consumer(key.index, key.number)?.lease(token)?.seq;
            let settled = stream.settle((key.index, key.number), token, verdict, now)?;
            Some((seq, settled))
        });
        let (seq, settled) = leased.ok_or_else(|| lease_lost("settle"))?;
        self.record_settled(key, seq, verdict);
        self.hold_departures(key);
        Ok(settled)
    }

    fn record_settled(&mut self, key: ConsumerKey, seq: u64, verdict: &Verdict) {
        let consumer = key.number;
        let Some(stream) = self.streams.get(key.stream.0) else { return };
        let is_queue = stream.spec().retention == Retention::WorkQueue;
        match verdict {
            // It is gone for all, so for its consumer too.
            Verdict::Ack | Verdict::Reject { .. } if is_queue => {
                self.record_removed(key.stream, seq);
            }
            Verdict::Ack | Verdict::Reject { .. } => {
                self.recorder.record(Change::Done { consumer, seq });
            }
            Verdict::Retry { .. } | Verdict::Release { .. } => {
                let waiting = self.consumer(key).and_then(|consumer| consumer.waiting(seq));
                let Some(waiting) = waiting else { return };
                let (attempt, since) = (waiting.attempt, waiting.since);
                let handed_back = waiting.handed_back;
                let waits = Change::Waits { consumer, seq, attempt, since, handed_back };
                self.recorder.record(waits);
            }
        }
    }
}
