//! What goes wrong with what is stored: appends, batches, discards, pauses and removals.

use std::{
    pin::pin,
    sync::{Arc, PoisonError},
};

use bus_core::{
    Bus, ConsumerSpec, ConsumerState, Durability, Error, ErrorKind, Expect, Frame, FrameId, Lag,
    Placement, Priority, Receipt, Replay, Result, Seq, Stored,
};
use bus_envelope::Timestamp;
use bus_subjects::{ConsumerName, Filter, StreamName};
use futures_util::stream;

use super::{Broken, fall_over, frame_named, stored};
use crate::{
    fault::Fault,
    streams::{Mapped, Step, Then},
};

impl Broken {
    pub(super) async fn append_wrongly(&self, mut frame: Frame, expect: Expect) -> Result<Receipt> {
        match self.fault {
            Fault::StoresNothing => {
                return Ok(Receipt {
                    stream: StreamName::parse("NOWHERE")?,
                    seq: Seq(self.number()),
                    duplicate: false,
                    durability: Durability::Memory,
                });
            }
            Fault::ForgetsIds => {
                frame.id = FrameId::parse(&format!("{}-{}", frame.id, self.number()))?;
            }
            Fault::IgnoresExpectations => return self.inner.append(frame, Expect::Any).await,
            Fault::MixesUpNames => return self.append_mixed_up(frame, expect).await,
            Fault::NeverAnswers => return std::future::pending().await,
            Fault::Panics => fall_over(),
            _ => {}
        }
        let frame = self.placed_wrongly(frame);
        let receipt = self.answer(self.inner.append(frame, expect)).await;
        let mut receipt = receipt.map(|receipt| self.durable(receipt))?;
        if self.has(Fault::UsesPositionsAgain) {
            receipt.seq = Seq(self.inner.lag(receipt.stream.clone()).await?.pending);
        }
        Ok(receipt)
    }

    /// Takes an id or a head for that of another stream or subject.
    async fn append_mixed_up(&self, frame: Frame, expect: Expect) -> Result<Receipt> {
        let stale = Error::new(ErrorKind::Conflict, "append", "the head moved");
        let seen = !self.memory().ids.insert(frame.id.clone());
        if matches!(expect, Expect::LastOfSubject(head) if head != self.memory().head) {
            return Err(stale);
        }
        let mut receipt = self.inner.append(frame, Expect::Any).await?;
        self.memory().head = receipt.seq;
        receipt.duplicate |= seen;
        Ok(receipt)
    }

    fn placed_wrongly(&self, mut frame: Frame) -> Frame {
        let Some(placement) = frame.placement.take() else { return frame };
        let placement = *placement;
        let wrong = match self.fault {
            Fault::IgnoresSchedules => Placement { not_before: None, ..placement },
            Fault::IgnoresPriorities => Placement { priority: Priority::NORMAL, ..placement },
            Fault::IgnoresKeys => Placement { key: None, ..placement },
            Fault::StarvesThePatient if placement.priority == Priority::LOWEST => {
                Placement { not_before: Some(Timestamp::from_unix_ns(i128::MAX)), ..placement }
            }
            _ => placement,
        };
        frame.placed(wrong)
    }

    /// The receipt of an engine that says that it keeps what it stored.
    fn durable(&self, receipt: Receipt) -> Receipt {
        Receipt { durability: super::promises(self.fault).durability, ..receipt }
    }

    pub(super) async fn append_all_wrongly(&self, frames: Vec<Frame>) -> Result<Vec<Receipt>> {
        if self.has(Fault::SplitsBatches) {
            let mut receipts = Vec::new();
            for frame in frames {
                receipts.push(self.inner.append(frame, Expect::Any).await?);
                tokio::task::yield_now().await;
            }
            return Ok(receipts);
        }
        if self.has(Fault::ForgetsIds) {
            let mut receipts = Vec::new();
            for frame in frames {
                receipts.push(self.append_wrongly(frame, Expect::Any).await?);
            }
            return Ok(receipts);
        }
        let frames = frames.into_iter().map(|frame| self.placed_wrongly(frame));
        let mut frames: Vec<_> = frames.collect();
        let count = frames.len();
        if self.has(Fault::CutsBatchesShort) && count > 1 {
            frames.truncate(count - 1);
        }
        let mut receipts = self.answer(self.inner.append_all(frames)).await?;
        if let Some(last) = receipts.last().cloned() {
            receipts.resize(count, last);
        }
        Ok(receipts.into_iter().map(|receipt| self.durable(receipt)).collect())
    }

    pub(super) async fn read_wrongly(
        &self,
        stream: StreamName,
        seq: Seq,
    ) -> Result<Option<Stored>> {
        let is_hidden = self.memory().hidden.contains(&(stream.clone(), seq));
        match self.answer(self.inner.read(stream, seq)).await? {
            None if self.has(Fault::SeesGhosts) => Ok(Some(stored(frame_named("ghost")?))),
            read => Ok(read.filter(|_| !is_hidden)),
        }
    }

    pub(super) async fn discard_wrongly(&self, stream: StreamName, seq: Seq) -> Result<bool> {
        if self.has(Fault::OnlyHidesDiscards) {
            let is_there = self.read_wrongly(stream.clone(), seq).await?.is_some();
            self.memory().hidden.insert((stream, seq));
            return Ok(is_there);
        }
        match self.answer(self.inner.discard(stream, seq)).await {
            Err(error)
                if error.kind() == ErrorKind::Denied && self.has(Fault::DiscardsEvidence) =>
            {
                Ok(true)
            }
            Ok(_) if self.has(Fault::AlwaysDiscards) => Ok(true),
            discarded => discarded,
        }
    }

    pub(super) async fn consumers_wrongly(&self, stream: StreamName) -> Result<Vec<ConsumerState>> {
        let mut states = self.answer(self.inner.consumers(stream.clone())).await?;
        if self.has(Fault::MiscountsConsumers) {
            states.iter_mut().for_each(|state| state.lag = Lag { pending: 1, ..Lag::default() });
        }
        if self.has(Fault::ListsBackwards) {
            states.reverse();
        }
        if let (true, true) = (self.has(Fault::SeesGhosts), states.is_empty()) {
            let (name, filter) = (ConsumerName::parse("ghost")?, Filter::all());
            let lease = std::time::Duration::from_secs(1);
            let spec = ConsumerSpec { stream, name, filter, lease };
            states.push(ConsumerState { spec, lag: Lag::default(), paused_until: None });
        }
        Ok(states)
    }

    pub(super) async fn pause_wrongly(
        &self,
        stream: StreamName,
        consumer: ConsumerName,
        until: Option<Timestamp>,
    ) -> Result<()> {
        let for_ever = Timestamp::from_unix_ns(i128::MAX);
        match self.fault {
            Fault::IgnoresPauses => Ok(()),
            Fault::PausesForEver => {
                let until = until.map(|_| for_ever);
                self.inner.pause(stream, consumer, until).await
            }
            Fault::PausesEverybody => {
                for state in self.inner.consumers(stream.clone()).await? {
                    self.inner.pause(stream.clone(), state.spec.name, until).await?;
                }
                self.inner.pause(stream, consumer, until).await
            }
            _ => self.answer(self.inner.pause(stream, consumer, until)).await,
        }
    }

    pub(super) async fn remove_wrongly(
        &self,
        stream: StreamName,
        consumer: ConsumerName,
    ) -> Result<bool> {
        if self.has(Fault::RemovesNothing) {
            return Ok(true);
        }
        let removed = self.answer(self.inner.remove_consumer(stream.clone(), consumer)).await?;
        if self.has(Fault::RemovesTasksToo) {
            for seq in 1..=100 {
                self.inner.discard(stream.clone(), Seq(seq)).await?;
            }
        }
        Ok(removed)
    }

    pub(super) async fn replay_wrongly(
        &self,
        name: StreamName,
        filter: Filter,
        from: Seq,
    ) -> Result<Replay> {
        let filter = if self.has(Fault::IgnoresFilters) { Filter::all() } else { filter };
        let mut replay = self.answer(self.inner.replay(name.clone(), filter, from)).await?;
        if self.has(Fault::SeesGhosts) {
            let ghost = stored(frame_named("ghost")?);
            return Ok(Replay::new(Then { first: Some(Ok(ghost)), rest: replay }));
        }
        let memory = Arc::clone(&self.memory);
        let items = stream::poll_fn(move |cx| pin!(replay.next()).poll(cx));
        Ok(Replay::new(Mapped(items, move |item: Result<Stored>| {
            let memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
            match item {
                Ok(one) if memory.hidden.contains(&(name.clone(), one.seq)) => Step::Skip,
                item => Step::Yield(item),
            }
        })))
    }
}
