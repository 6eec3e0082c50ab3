//! What one connection asks of the durable plane: each call takes the lock once.

use std::sync::Arc;

use bus_core::{ConsumerState, Expect, Frame, Receipt, Result, Seq};
use bus_envelope::Timestamp;
use bus_subjects::{ConsumerName, StreamName};

use crate::bus::Connection;

impl Connection {
    /// Stores a frame. Whoever listens to its subject hears it, as on a server.
    pub(crate) fn append(&self, frame: Frame, expect: Expect) -> Result<Receipt> {
        self.check_open("append")?;
        frame.check_size("append")?;
        let frame = Arc::new(frame);
        // Kept whoever listens: who subscribes and then replays while this is stored must get it
        // one way or the other, so who hears it is asked afterwards. And a frame that is refused
        // is a stranger's to drop, which is not done under the lock.
        let stored = Arc::clone(&frame);
        let mut locked = self.durable().lock();
        let receipt = locked.change(|broker, now, touched| {
            broker.append(stored, expect, now, |key| touched.push(key))
        });
        locked.finish();
        let receipt = receipt?;
        if !receipt.duplicate {
            self.live().hand_out(frame);
        }
        Ok(receipt)
    }

    /// Stores a batch, whole or not.
    pub(crate) fn append_all(&self, frames: Vec<Frame>) -> Result<Vec<Receipt>> {
        self.check_open("append all")?;
        frames.iter().try_for_each(|frame| frame.check_size("append all"))?;
        let frames: Vec<_> = frames.into_iter().map(Arc::new).collect();
        // As in `append`.
        let stored = frames.clone();
        let mut locked = self.durable().lock();
        let receipts = locked.change(|broker, now, touched| {
            let receipts = broker.append_all(stored, now, |key| touched.push(key));
            // Once for each consumer is enough, however many messages it got.
            touched.sort_unstable();
            touched.dedup();
            receipts
        });
        locked.finish();
        let receipts = receipts?;
        for (frame, receipt) in frames.into_iter().zip(&receipts) {
            if !receipt.duplicate {
                self.live().hand_out(frame);
            }
        }
        Ok(receipts)
    }

    /// Takes a message out by an operator's hand.
    pub(crate) fn discard(&self, stream: &StreamName, seq: Seq) -> Result<bool> {
        self.check_open("discard")?;
        let mut locked = self.durable().lock();
        let discarded = locked
            .change(|broker, _, touched| broker.discard(stream, seq, |key| touched.push(key)));
        locked.finish();
        discarded
    }

    /// Every consumer of a stream as it is now.
    pub(crate) fn consumers(&self, stream: &StreamName) -> Result<Vec<ConsumerState>> {
        self.check_open("consumers")?;
        self.durable().lock().change(|broker, now, _| broker.consumers(stream, now))
    }

    /// Lets a consumer rest until a time, or go on.
    pub(crate) fn pause(
        &self,
        stream: &StreamName,
        consumer: &ConsumerName,
        until: Option<Timestamp>,
    ) -> Result<()> {
        self.check_open("pause")?;
        let mut locked = self.durable().lock();
        let paused = locked.change(|broker, now, touched| {
            broker.pause(stream, consumer, until, now).map(|key| touched.push(key))
        });
        locked.finish();
        paused
    }

    /// Removes a consumer and says whether there was one.
    pub(crate) fn remove_consumer(
        &self,
        stream: &StreamName,
        consumer: &ConsumerName,
    ) -> Result<bool> {
        self.check_open("remove consumer")?;
        let mut locked = self.durable().lock();
        let removed = locked.remove_consumer(stream, consumer);
        locked.finish();
        // What is left of a long queue is freed here, where it holds up nobody.
        Ok(removed?.is_some())
    }
}
