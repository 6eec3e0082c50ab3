//! What one connection asks of the durable plane: each call takes the lock once.

use std::sync::Arc;

use bus_core::{
    Answer, ConsumerSpec, ConsumerState, Deliveries, Expect, Frame, Receipt, Result, Seq,
    StreamSpec,
};
use bus_envelope::Timestamp;
use bus_subjects::{ConsumerName, StreamName};

use crate::{bus::Connection, core::Broker, deliveries::Member, journal::Position};

impl Connection {
    /// Makes sure that a stream is there.
    pub(crate) async fn declare(&self, stream: StreamSpec) -> Result<()> {
        let bytes = SPEC_BYTES + stream.filters.iter().map(|f| f.as_str().len()).sum::<usize>();
        self.admit_new("declare", bytes, |broker| broker.has_stream(&stream.name))?;
        let (declared, position) = self.durable().ask(|locked| locked.state.broker.declare(stream));
        self.safety().told(position, declared).await
    }

    /// Joins a consumer, or makes it.
    pub(crate) async fn consume(self: &Arc<Self>, consumer: ConsumerSpec) -> Result<Deliveries> {
        let (stream, lease) = (consumer.stream.clone(), consumer.lease);
        let is_there = |broker: &Broker| broker.has_consumer(&stream, &consumer.name);
        self.admit_new("consume", SPEC_BYTES + consumer.filter.as_str().len(), is_there)?;
        let (joined, position) = self.durable().ask(|locked| locked.consume(consumer));
        let key = self.safety().told(position, joined).await?;
        Ok(Deliveries::of_claims(Member::new(Arc::clone(self), stream, lease, key)))
    }

    /// Stores a frame. Whoever listens to its subject hears it, as on a server.
    pub(crate) fn append(&self, frame: Frame, expect: Expect) -> Answer<'static, Receipt> {
        match self.store(frame, expect) {
            Ok((receipt, position)) if self.safety().is_kept() => {
                self.safety().answer_shown(position, receipt)
            }
            Ok((receipt, _)) => Answer::paced(receipt),
            Err(refused) => Answer::paced(Err(refused)),
        }
    }

    /// Stores a frame and returns what came of it, with the position that must be safe to say so.
    #[inline]
    fn store(&self, frame: Frame, expect: Expect) -> Result<(Result<Receipt>, Position)> {
        self.check_open("append")?;
        frame.check_size("append")?;
        self.safety().admit("append", RECORD_BYTES + frame.bytes(), false)?;
        let frame = Arc::new(frame);
        // Kept whoever listens: who subscribes and then replays while this is stored must get it
        // one way or the other, so who hears it is asked afterwards. And a frame that is refused
        // is a stranger's to drop, which is not done under the lock.
        let stored = Arc::clone(&frame);
        let mut locked = self.durable().lock();
        let receipt = locked.change(|broker, now, touched| {
            broker.append(stored, expect, now, |key| touched.push(key))
        });
        let position = locked.state.broker.position();
        locked.finish();
        if !self.safety().is_kept() && receipt.as_ref().is_ok_and(|receipt| !receipt.duplicate) {
            self.live().hand_out(frame);
        }
        Ok((receipt, position))
    }

    /// Stores a batch, whole or not.
    pub(crate) async fn append_all(&self, frames: Vec<Frame>) -> Result<Vec<Receipt>> {
        self.check_open("append all")?;
        frames.iter().try_for_each(|frame| frame.check_size("append all"))?;
        let bytes = frames.iter().map(|frame| RECORD_BYTES + frame.bytes()).sum();
        self.safety().admit("append all", bytes, false)?;
        let frames: Vec<_> = frames.into_iter().map(Arc::new).collect();
        // As in `append`.
        let stored = frames.clone();
        let (receipts, position) = self.durable().ask(|locked| {
            locked.change(|broker, now, touched| {
                let receipts = broker.append_all(stored, now, |key| touched.push(key));
                // Once for each consumer is enough, however many messages it got.
                touched.sort_unstable();
                touched.dedup();
                receipts
            })
        });
        if self.safety().is_kept() {
            return self.safety().told_shown(position, receipts).await;
        }
        let receipts = receipts?;
        for (frame, receipt) in frames.into_iter().zip(&receipts) {
            if !receipt.duplicate {
                self.live().hand_out(frame);
            }
        }
        Ok(receipts)
    }

    /// Takes a message out by an operator's hand.
    pub(crate) async fn discard(&self, stream: &StreamName, seq: Seq) -> Result<bool> {
        self.admit("discard")?;
        let (discarded, position) = self.durable().ask(|locked| {
            locked.change(|broker, _, touched| broker.discard(stream, seq, |key| touched.push(key)))
        });
        Ok(self.safety().told(position, discarded).await?.is_some())
    }

    /// Every consumer of a stream as it is now.
    pub(crate) async fn consumers(&self, stream: &StreamName) -> Result<Vec<ConsumerState>> {
        self.check_open("consumers")?;
        let (states, position) = self
            .durable()
            .ask(|locked| locked.change(|broker, now, _| broker.consumers(stream, now)));
        self.safety().told(position, states).await
    }

    /// Lets a consumer rest until a time, or go on.
    pub(crate) async fn pause(
        &self,
        stream: &StreamName,
        consumer: &ConsumerName,
        until: Option<Timestamp>,
    ) -> Result<()> {
        self.admit("pause")?;
        let (paused, position) = self.durable().ask(|locked| {
            locked.change(|broker, now, touched| {
                broker.pause(stream, consumer, until, now).map(|key| touched.push(key))
            })
        });
        self.safety().told(position, paused).await
    }

    /// Removes a consumer and says whether there was one.
    pub(crate) async fn remove_consumer(
        &self,
        stream: &StreamName,
        consumer: &ConsumerName,
    ) -> Result<bool> {
        self.admit("remove consumer")?;
        let (removed, position) =
            self.durable().ask(|locked| locked.remove_consumer(stream, consumer));
        // What is left of a long queue is freed here, where it holds up nobody.
        let removed = removed.map(|removed| removed.is_some());
        self.safety().told(position, removed).await
    }

    /// Asks whether a stream or consumer may be added. Who comes to one that is there changes
    /// nothing, and may be the one who makes room.
    fn admit_new(
        &self,
        op: &'static str,
        bytes: usize,
        is_there: impl FnOnce(&Broker) -> bool,
    ) -> Result<()> {
        self.check_open(op)?;
        if !self.safety().is_kept() {
            return Ok(());
        }
        let is_there = is_there(&self.durable().lock().state.broker);
        self.safety().admit(op, if is_there { 0 } else { bytes }, is_there)
    }

    /// Asks whether a small change may be made that makes room in the end.
    fn admit(&self, op: &'static str) -> Result<()> {
        self.check_open(op)?;
        self.safety().admit(op, RECORD_BYTES, true)
    }
}

/// What a change takes in a journal beside its frame's headers and body, about.
const RECORD_BYTES: usize = 512;

/// What the specification of a stream or consumer takes in a journal beside its filters, about.
const SPEC_BYTES: usize = 1024;
