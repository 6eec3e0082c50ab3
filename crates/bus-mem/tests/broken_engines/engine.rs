//! The in-memory engine behind a wrapper with one fault: connections and the live plane.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bus_conformance::advance;
use bus_core::{
    Bus, Durability, Engine, Error, ErrorKind, FeedItem, Frame, FrameId, Overflow, Promises, Put,
    Result, Seq, Stored, Subscription,
};
use bus_envelope::Timestamp;
use bus_mem::InMemoryBus;
use bus_subjects::{BucketKey, Filter, StreamName, Subject};

use crate::{
    fault::Fault,
    streams::{Late, Mapped, Step},
};

mod blobs;
mod buckets;
mod bus;
mod durable;

/// An engine with one fault.
pub(crate) struct Broken {
    pub(crate) inner: Arc<InMemoryBus>,
    pub(crate) fault: Fault,
    pub(crate) memory: Arc<Mutex<Memory>>,
}

/// What faults remember.
#[derive(Default)]
pub(crate) struct Memory {
    count: u64,
    ids: BTreeSet<FrameId>,
    head: Seq,
    hidden: BTreeSet<(StreamName, Seq)>,
    ends: BTreeMap<BucketKey, Duration>,
    newest: BTreeMap<Subject, Frame>,
}

impl Broken {
    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn number(&self) -> u64 {
        let mut memory = self.memory();
        memory.count += 1;
        memory.count
    }

    /// The engine's own answer, its error under another name where that is the fault.
    async fn answer<T>(&self, answer: impl Future<Output = Result<T>>) -> Result<T> {
        let misnamed = |error: Error| match self.fault {
            Fault::MisnamesErrors => Error::new(ErrorKind::Corrupt, "something", "went wrong"),
            _ => error,
        };
        answer.await.map_err(misnamed)
    }

    async fn publish_wrongly(&self, mut frame: Frame) -> Result<()> {
        match self.fault {
            Fault::LosesEverySecondFrame if self.number().is_multiple_of(2) => return Ok(()),
            Fault::PublishesTwice => self.inner.publish(frame.clone()).await?,
            Fault::PublishWaits => advance(Duration::from_millis(10)).await,
            Fault::PublishesPlacements => frame.placement = None,
            Fault::KeepsEverySubject => {
                self.memory().newest.insert(frame.subject.clone(), frame.clone());
            }
            _ => {}
        }
        self.answer(self.inner.publish(frame)).await
    }

    async fn subscribe_wrongly(&self, filter: Filter, overflow: Overflow) -> Result<Subscription> {
        if self.has(Fault::SubscribesLate) {
            let inner = Arc::clone(&self.inner);
            let asking = Box::pin(async move { inner.subscribe(filter, overflow).await });
            return Ok(Subscription::new(Late::Asking(asking)));
        }
        let matches = |subject: &Subject| filter.matches(subject);
        let mut kept: Vec<_> = self.memory().newest.clone().into_values().collect();
        kept.retain(|frame| matches(&frame.subject));
        let mut heard = self.answer(self.inner.subscribe(filter, overflow)).await?;
        if self.has(Fault::KeepsNoSamples) {
            // What waits already is thrown away.
            while futures_util::FutureExt::now_or_never(heard.next()).is_some() {}
        }
        let kept = kept.into_iter().map(|frame| FeedItem::Frame(frame.into()));
        let heard = futures_util::StreamExt::chain(futures_util::stream::iter(kept), heard);
        let fault = self.fault;
        Ok(Subscription::new(Mapped(heard, move |item| match (item, fault) {
            (FeedItem::Gap { .. }, Fault::HidesGaps) => Step::Skip,
            (FeedItem::Gap { .. }, Fault::EndsAtAGap) => Step::End,
            (FeedItem::Gap { missed }, Fault::MiscountsGaps) => {
                Step::Yield(FeedItem::Gap { missed: missed.next_power_of_two() + 1 })
            }
            (item, _) => Step::Yield(item),
        })))
    }
}

impl Engine for Broken {
    fn promises(&self) -> Promises {
        promises(self.fault)
    }
}

/// What an engine with the fault promises.
pub(crate) fn promises(fault: Fault) -> Promises {
    let durability = match fault {
        Fault::ForgetsNothing | Fault::ForgetsEverything => Durability::Synced,
        _ => Durability::Memory,
    };
    Promises { engine: "mem", durability, shared: false }
}

#[expect(clippy::panic, reason = "the fault is that it panics")]
fn fall_over() -> ! {
    panic!("the engine fell over");
}

fn frame_named(name: &str) -> Result<Frame> {
    Ok(Frame::new(Subject::parse("vak.ghosts")?, FrameId::parse(name)?, name.to_owned()))
}

fn stored(frame: Frame) -> Stored {
    Stored { frame, seq: Seq(1), time: Timestamp::from_unix_ns(0) }
}
