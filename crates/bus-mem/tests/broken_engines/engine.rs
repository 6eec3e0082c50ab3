//! The in-memory engine behind a wrapper with one fault.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bus_conformance::advance;
use bus_core::{
    Blob, BlobBody, BlobInfo, Blobs, BoxFuture, Buckets, Bus, ConsumerSpec, ConsumerState,
    Deliveries, Durability, Engine, Entry, Error, ErrorKind, Expect, ExpectRevision, FeedItem,
    Frame, FrameId, Lag, Overflow, Promises, Put, Receipt, Replay, Result, Revision, Seq, Stored,
    StreamSpec, Subscription, Watch,
};
use bus_envelope::Timestamp;
use bus_mem::InMemoryBus;
use bus_subjects::{BucketKey, BucketName, ConsumerName, Filter, StreamName, Subject};
use bytes::Bytes;

use crate::{
    fault::Fault,
    streams::{Claims, Late, Mapped, Step, Then},
};

/// An engine with one fault.
pub(crate) struct Broken {
    pub(crate) inner: Arc<InMemoryBus>,
    pub(crate) fault: Fault,
    pub(crate) memory: Arc<Mutex<Memory>>,
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
    async fn answer<T>(&self, answer: BoxFuture<'_, Result<T>>) -> Result<T> {
        let misnamed = |error: Error| match self.fault {
            Fault::MisnamesErrors => Error::new(ErrorKind::Corrupt, "something", "went wrong"),
            _ => error,
        };
        answer.await.map_err(misnamed)
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
}

/// What faults remember.
#[derive(Default)]
pub(crate) struct Memory {
    count: u64,
    ids: BTreeSet<FrameId>,
    head: Seq,
}

impl Engine for Broken {
    fn promises(&self) -> Promises {
        self.inner.promises()
    }
}

impl Bus for Broken {
    fn publish(&self, frame: Frame) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            match self.fault {
                Fault::LosesEverySecondFrame if self.number().is_multiple_of(2) => return Ok(()),
                Fault::PublishesTwice => self.inner.publish(frame.clone()).await?,
                Fault::PublishWaits => advance(Duration::from_millis(10)).await,
                _ => {}
            }
            self.answer(self.inner.publish(frame)).await
        })
    }

    fn subscribe(&self, filter: Filter, overflow: Overflow) -> BoxFuture<'_, Result<Subscription>> {
        Box::pin(async move {
            if self.has(Fault::SubscribesLate) {
                let inner = Arc::clone(&self.inner);
                let asking = Box::pin(async move { inner.subscribe(filter, overflow).await });
                return Ok(Subscription::new(Late::Asking(asking)));
            }
            let heard = self.answer(self.inner.subscribe(filter, overflow)).await?;
            let fault = self.fault;
            Ok(Subscription::new(Mapped(heard, move |item| match (item, fault) {
                (FeedItem::Gap { .. }, Fault::HidesGaps) => Step::Skip,
                (FeedItem::Gap { .. }, Fault::EndsAtAGap) => Step::End,
                (FeedItem::Gap { missed }, Fault::MiscountsGaps) => {
                    Step::Yield(FeedItem::Gap { missed: missed.next_power_of_two() + 1 })
                }
                (item, _) => Step::Yield(item),
            })))
        })
    }

    fn request(&self, frame: Frame, wait: Duration) -> BoxFuture<'_, Result<Frame>> {
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

    fn append(&self, mut frame: Frame, expect: Expect) -> BoxFuture<'_, Result<Receipt>> {
        Box::pin(async move {
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
            self.answer(self.inner.append(frame, expect)).await
        })
    }

    fn append_all(&self, frames: Vec<Frame>) -> BoxFuture<'_, Result<Vec<Receipt>>> {
        Box::pin(self.answer(self.inner.append_all(frames)))
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
        Box::pin(async move {
            match self.answer(self.inner.read(stream, seq)).await? {
                None if self.has(Fault::SeesGhosts) => Ok(Some(stored(frame_named("ghost")?))),
                read => Ok(read),
            }
        })
    }

    fn discard(&self, stream: StreamName, seq: Seq) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.answer(self.inner.discard(stream, seq)))
    }

    fn consumers(&self, stream: StreamName) -> BoxFuture<'_, Result<Vec<ConsumerState>>> {
        Box::pin(self.answer(self.inner.consumers(stream)))
    }

    fn pause(
        &self,
        stream: StreamName,
        consumer: ConsumerName,
        until: Option<Timestamp>,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.answer(self.inner.pause(stream, consumer, until)))
    }

    fn remove_consumer(
        &self,
        stream: StreamName,
        consumer: ConsumerName,
    ) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.answer(self.inner.remove_consumer(stream, consumer)))
    }

    fn consume(&self, consumer: ConsumerSpec) -> BoxFuture<'_, Result<Deliveries>> {
        Box::pin(async move {
            let deliveries = self.answer(self.inner.consume(consumer)).await?;
            Ok(Deliveries::new(Claims { deliveries, fault: self.fault }))
        })
    }

    fn replay(
        &self,
        stream: StreamName,
        filter: Filter,
        from: Seq,
    ) -> BoxFuture<'_, Result<Replay>> {
        Box::pin(async move {
            let replay = self.answer(self.inner.replay(stream, filter, from)).await?;
            if self.has(Fault::SeesGhosts) {
                let ghost = stored(frame_named("ghost")?);
                return Ok(Replay::new(Then { first: Some(Ok(ghost)), rest: replay }));
            }
            Ok(replay)
        })
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

impl Buckets for Broken {
    fn get(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<Option<Entry>>> {
        Box::pin(async move {
            let bucket = self.bucket(bucket)?;
            let entry = self.answer(self.inner.get(bucket, key)).await?;
            let ghost = || Entry { value: Bytes::from_static(b"ghost"), revision: Revision(1) };
            Ok(if self.has(Fault::SeesGhosts) { entry.or_else(|| Some(ghost())) } else { entry })
        })
    }

    fn put(
        &self,
        bucket: BucketName,
        key: BucketKey,
        mut put: Put,
    ) -> BoxFuture<'_, Result<Revision>> {
        Box::pin(async move {
            let bucket = self.bucket(bucket)?;
            if self.has(Fault::IgnoresExpectations) {
                put.expect = ExpectRevision::Any;
            }
            let revision = self.answer(self.inner.put(bucket, key, put)).await?;
            Ok(if self.has(Fault::CountsNoRevisions) { Revision(7) } else { revision })
        })
    }

    fn delete(
        &self,
        bucket: BucketName,
        key: BucketKey,
        expect: ExpectRevision,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            if self.has(Fault::DeletesNothing) {
                return Ok(());
            }
            let entry = self.inner.get(bucket.clone(), key.clone()).await?;
            if self.has(Fault::RefusesRepeats) && entry.is_none() {
                return Err(Error::new(ErrorKind::NotFound, "delete", "nothing is there"));
            }
            self.answer(self.inner.delete(bucket, key, expect)).await
        })
    }

    fn watch(
        &self,
        bucket: BucketName,
        keys: Filter,
        after: Revision,
    ) -> BoxFuture<'_, Result<Watch>> {
        Box::pin(self.answer(self.inner.watch(bucket, keys, after)))
    }
}

impl Blobs for Broken {
    fn put_blob(
        &self,
        bucket: BucketName,
        key: BucketKey,
        body: BlobBody,
    ) -> BoxFuture<'_, Result<BlobInfo>> {
        Box::pin(self.answer(self.inner.put_blob(bucket, key, body)))
    }

    fn get_blob(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<Option<Blob>>> {
        Box::pin(self.answer(self.inner.get_blob(bucket, key)))
    }

    fn delete_blob(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.answer(self.inner.delete_blob(bucket, key)))
    }

    fn list_blobs(&self, bucket: BucketName) -> BoxFuture<'_, Result<Vec<BlobInfo>>> {
        Box::pin(self.answer(self.inner.list_blobs(bucket)))
    }
}

impl Broken {
    fn bucket(&self, bucket: BucketName) -> Result<BucketName> {
        let mixed_up = self.has(Fault::MixesUpNames);
        Ok(if mixed_up { BucketName::parse("ALL_IN_ONE")? } else { bucket })
    }
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
