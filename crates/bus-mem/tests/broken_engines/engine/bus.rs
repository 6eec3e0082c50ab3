//! The engine with a fault as a bus.

use std::time::Duration;

use bus_core::{
    Answer, BoxFuture, Bus, ConsumerSpec, ConsumerState, Deliveries, Error, ErrorKind, Expect,
    Frame, Lag, Overflow, Receipt, Replay, Result, Seq, Stored, StreamSpec, Subscription,
};
use bus_envelope::Timestamp;
use bus_subjects::{ConsumerName, Filter, StreamName, Subject};

use super::{Broken, frame_named, stored};
use crate::{fault::Fault, streams::Claims};

impl Bus for Broken {
    fn publish(&self, frame: Frame) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.publish_wrongly(frame))
    }

    fn subscribe(&self, filter: Filter, overflow: Overflow) -> BoxFuture<'_, Result<Subscription>> {
        Box::pin(self.subscribe_wrongly(filter, overflow))
    }

    fn request(&self, mut frame: Frame, wait: Duration) -> BoxFuture<'_, Result<Frame>> {
        if self.has(Fault::PublishesPlacements) {
            frame.placement = None;
        }
        Box::pin(self.answer(self.inner.request(frame, wait)))
    }

    fn declare(&self, stream: StreamSpec) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            if self.has(Fault::RefusesRepeats) && self.inner.lag(stream.name.clone()).await.is_ok()
            {
                return Err(Error::new(ErrorKind::Conflict, "declare", "it is there already"));
            }
            self.answer(self.inner.declare(stream)).await
        })
    }

    fn append(&self, frame: Frame, expect: Expect) -> Answer<'_, Receipt> {
        Answer::later(self.append_wrongly(frame, expect))
    }

    fn append_all(&self, frames: Vec<Frame>) -> BoxFuture<'_, Result<Vec<Receipt>>> {
        Box::pin(self.append_all_wrongly(frames))
    }

    fn last(&self, subject: Subject) -> BoxFuture<'_, Result<Option<Stored>>> {
        Box::pin(async move {
            match self.answer(self.inner.last(subject)).await? {
                None if self.has(Fault::SeesGhosts) => Ok(Some(stored(frame_named("ghost")?))),
                last => Ok(last),
            }
        })
    }

    fn read(&self, stream: StreamName, seq: Seq) -> BoxFuture<'_, Result<Option<Stored>>> {
        Box::pin(self.read_wrongly(stream, seq))
    }

    fn discard(&self, stream: StreamName, seq: Seq) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.discard_wrongly(stream, seq))
    }

    fn consumers(&self, stream: StreamName) -> BoxFuture<'_, Result<Vec<ConsumerState>>> {
        Box::pin(self.consumers_wrongly(stream))
    }

    fn pause(
        &self,
        stream: StreamName,
        consumer: ConsumerName,
        until: Option<Timestamp>,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.pause_wrongly(stream, consumer, until))
    }

    fn remove_consumer(
        &self,
        stream: StreamName,
        consumer: ConsumerName,
    ) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.remove_wrongly(stream, consumer))
    }

    fn consume(&self, consumer: ConsumerSpec) -> BoxFuture<'_, Result<Deliveries>> {
        Box::pin(async move {
            let deliveries = self.answer(self.inner.consume(consumer)).await?;
            Ok(Deliveries::new(Claims { deliveries, fault: self.fault, ahead: None }))
        })
    }

    fn replay(
        &self,
        stream: StreamName,
        filter: Filter,
        from: Seq,
    ) -> BoxFuture<'_, Result<Replay>> {
        Box::pin(self.replay_wrongly(stream, filter, from))
    }

    fn lag(&self, stream: StreamName) -> BoxFuture<'_, Result<Lag>> {
        Box::pin(self.answer(self.inner.lag(stream)))
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            if self.has(Fault::StaysOpen) {
                return Ok(());
            }
            if self.has(Fault::RefusesRepeats) && self.number() > 1 {
                return Err(Error::new(ErrorKind::Closed, "close", "it is closed already"));
            }
            self.inner.close().await
        })
    }
}
