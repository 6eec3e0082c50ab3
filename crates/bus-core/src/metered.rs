//! An engine whose traffic is counted for each workspace: what a daemon shows of what it serves.

mod feeds;
mod traffic;

use std::{sync::Arc, time::Duration};

use bus_envelope::Timestamp;
use bus_subjects::{BucketKey, BucketName, ConsumerName, Filter, StreamName, Subject};

use self::feeds::Tap;
pub use self::traffic::{Traffic, WorkspaceTraffic};
use crate::{
    Answer, Blob, BlobBody, BlobInfo, Blobs, BoxFuture, Buckets, Bus, ConsumerSpec, ConsumerState,
    Deliveries, Engine, Entry, Expect, ExpectRevision, Frame, Lag, Overflow, Promises, Put,
    Receipt, Replay, Result, Revision, Seq, Stored, StreamSpec, Subscription, Watch,
};

/// An engine behind a counter.
///
/// Counted is what the engine took (published, stored, asked) and what it handed to subscribers and
/// workers. Reads, buckets and blobs are not: they are no traffic between agents.
///
/// The wrapper forwards everything; its place in a stack does not matter, because it changes
/// nothing.
pub struct Metered {
    inner: Arc<dyn Engine>,
    traffic: Arc<Traffic>,
}

impl Metered {
    /// Counts in `traffic` what goes over `inner`.
    pub fn new(inner: Arc<dyn Engine>, traffic: Arc<Traffic>) -> Self {
        Self { inner, traffic }
    }
}

impl std::fmt::Debug for Metered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metered").field("traffic", &self.traffic).finish_non_exhaustive()
    }
}

impl Bus for Metered {
    fn publish(&self, frame: Frame) -> BoxFuture<'_, Result<()>> {
        let (counts, bytes) = (self.traffic.of(&frame.subject), frame.bytes());
        // The call itself may have its effect: it is made before anything is awaited.
        let published = self.inner.publish(frame);
        Box::pin(async move { published.await.inspect(|()| counts.published(bytes)) })
    }

    fn subscribe(&self, filter: Filter, overflow: Overflow) -> BoxFuture<'_, Result<Subscription>> {
        let tap = Tap::new(&self.traffic, &filter);
        let heard = self.inner.subscribe(filter, overflow);
        Box::pin(async move { Ok(tap.subscription(heard.await?)) })
    }

    fn request(&self, frame: Frame, wait: Duration) -> BoxFuture<'_, Result<Frame>> {
        let (counts, bytes) = (self.traffic.of(&frame.subject), frame.bytes());
        let asked = self.inner.request(frame, wait);
        Box::pin(async move {
            let answer = asked.await?;
            counts.published(bytes);
            counts.received(answer.bytes());
            Ok(answer)
        })
    }

    fn declare(&self, stream: StreamSpec) -> BoxFuture<'_, Result<()>> {
        self.inner.declare(stream)
    }

    fn append(&self, frame: Frame, expect: Expect) -> Answer<'_, Receipt> {
        let (counts, bytes) = (self.traffic.of(&frame.subject), frame.bytes());
        let appended = self.inner.append(frame, expect);
        Answer::later(async move {
            let receipt = appended.await?;
            if !receipt.duplicate {
                counts.published(bytes);
            }
            Ok(receipt)
        })
    }

    fn append_all(&self, frames: Vec<Frame>) -> BoxFuture<'_, Result<Vec<Receipt>>> {
        let counted = |frame: &Frame| (self.traffic.of(&frame.subject), frame.bytes());
        let counts: Vec<_> = frames.iter().map(counted).collect();
        let appended = self.inner.append_all(frames);
        Box::pin(async move {
            let receipts = appended.await?;
            for ((counts, bytes), receipt) in counts.iter().zip(&receipts) {
                if !receipt.duplicate {
                    counts.published(*bytes);
                }
            }
            Ok(receipts)
        })
    }

    fn last(&self, subject: Subject) -> BoxFuture<'_, Result<Option<Stored>>> {
        self.inner.last(subject)
    }

    fn read(&self, stream: StreamName, seq: Seq) -> BoxFuture<'_, Result<Option<Stored>>> {
        self.inner.read(stream, seq)
    }

    fn discard(&self, stream: StreamName, seq: Seq) -> BoxFuture<'_, Result<bool>> {
        self.inner.discard(stream, seq)
    }

    fn consume(&self, consumer: ConsumerSpec) -> BoxFuture<'_, Result<Deliveries>> {
        let tap = Tap::new(&self.traffic, &consumer.filter);
        let joined = self.inner.consume(consumer);
        Box::pin(async move { Ok(tap.deliveries(joined.await?)) })
    }

    fn consumers(&self, stream: StreamName) -> BoxFuture<'_, Result<Vec<ConsumerState>>> {
        self.inner.consumers(stream)
    }

    fn pause(
        &self,
        stream: StreamName,
        consumer: ConsumerName,
        until: Option<Timestamp>,
    ) -> BoxFuture<'_, Result<()>> {
        self.inner.pause(stream, consumer, until)
    }

    fn remove_consumer(
        &self,
        stream: StreamName,
        consumer: ConsumerName,
    ) -> BoxFuture<'_, Result<bool>> {
        self.inner.remove_consumer(stream, consumer)
    }

    fn replay(
        &self,
        stream: StreamName,
        filter: Filter,
        from: Seq,
    ) -> BoxFuture<'_, Result<Replay>> {
        self.inner.replay(stream, filter, from)
    }

    fn lag(&self, stream: StreamName) -> BoxFuture<'_, Result<Lag>> {
        self.inner.lag(stream)
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        self.inner.close()
    }
}

impl Buckets for Metered {
    fn get(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<Option<Entry>>> {
        self.inner.get(bucket, key)
    }

    fn put(&self, bucket: BucketName, key: BucketKey, put: Put) -> BoxFuture<'_, Result<Revision>> {
        self.inner.put(bucket, key, put)
    }

    fn delete(
        &self,
        bucket: BucketName,
        key: BucketKey,
        expect: ExpectRevision,
    ) -> BoxFuture<'_, Result<()>> {
        self.inner.delete(bucket, key, expect)
    }

    fn watch(
        &self,
        bucket: BucketName,
        keys: Filter,
        after: Revision,
    ) -> BoxFuture<'_, Result<Watch>> {
        self.inner.watch(bucket, keys, after)
    }
}

impl Blobs for Metered {
    fn put_blob(
        &self,
        bucket: BucketName,
        key: BucketKey,
        body: BlobBody,
    ) -> BoxFuture<'_, Result<BlobInfo>> {
        self.inner.put_blob(bucket, key, body)
    }

    fn get_blob(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<Option<Blob>>> {
        self.inner.get_blob(bucket, key)
    }

    fn delete_blob(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<bool>> {
        self.inner.delete_blob(bucket, key)
    }

    fn list_blobs(&self, bucket: BucketName) -> BoxFuture<'_, Result<Vec<BlobInfo>>> {
        self.inner.list_blobs(bucket)
    }
}

impl Engine for Metered {
    fn promises(&self) -> Promises {
        self.inner.promises()
    }
}
