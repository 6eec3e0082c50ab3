//! The engine's methods, each handed to the part that does it.

use std::time::Duration;

use bus_core::{
    Answer, Blob, BlobBody, BlobInfo, Blobs, BoxFuture, Buckets, Bus, ConsumerSpec, ConsumerState,
    Deliveries, Engine, Entry, Expect, ExpectRevision, Frame, Lag, Outcome, Overflow, Promises,
    Put, Receipt, Replay, Result, Revision, Seq, Stored, StreamSpec, Subscription, Watch,
};
use bus_envelope::Timestamp;
use bus_subjects::{BucketKey, BucketName, ConsumerName, Filter, StreamName, Subject};

use super::NatsBus;

impl Engine for NatsBus {
    fn promises(&self) -> Promises {
        Promises { engine: "nats", durability: self.profile.durability(), shared: true }
    }
}

impl Bus for NatsBus {
    fn publish(&self, frame: Frame) -> BoxFuture<'_, Result<()>> {
        self.live.publish(frame)
    }

    fn subscribe(&self, filter: Filter, overflow: Overflow) -> BoxFuture<'_, Result<Subscription>> {
        Box::pin(self.live.subscribe(filter, overflow))
    }

    fn request(&self, frame: Frame, wait: Duration) -> BoxFuture<'_, Result<Frame>> {
        Box::pin(self.live.request(frame, wait))
    }

    fn declare(&self, stream: StreamSpec) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.streams.declare(stream))
    }

    fn append(&self, frame: Frame, expect: Expect) -> Answer<'_, Receipt> {
        Answer::later(self.append.append(frame, expect))
    }

    fn append_all(&self, frames: Vec<Frame>) -> BoxFuture<'_, Result<Vec<Receipt>>> {
        Box::pin(self.append.append_all(frames))
    }

    fn last(&self, subject: Subject) -> BoxFuture<'_, Result<Option<Stored>>> {
        Box::pin(self.read.last(subject))
    }

    fn read(&self, stream: StreamName, seq: Seq) -> BoxFuture<'_, Result<Option<Stored>>> {
        Box::pin(self.read.read(stream, seq))
    }

    fn discard(&self, stream: StreamName, seq: Seq) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move {
            let marks = self.queues.marks(&stream, seq).await?;
            let removed = self.read.discard(&stream, seq).await;
            // At once: until then it can still be handed out.
            let is_gone = match &removed {
                Ok(_) => true,
                Err(error) if error.outcome() == Outcome::Unknown => {
                    self.read.is_gone(&stream, seq).await
                }
                Err(_) => false,
            };
            if is_gone {
                self.queues.discarded(marks).await?;
                self.read.until_gone(&stream, seq).await;
            }
            removed
        })
    }

    fn consume(&self, consumer: ConsumerSpec) -> BoxFuture<'_, Result<Deliveries>> {
        Box::pin(self.queues.consume(consumer))
    }

    fn consumers(&self, stream: StreamName) -> BoxFuture<'_, Result<Vec<ConsumerState>>> {
        Box::pin(self.queues.consumers(stream))
    }

    fn pause(
        &self,
        stream: StreamName,
        consumer: ConsumerName,
        until: Option<Timestamp>,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.queues.pause(stream, consumer, until))
    }

    fn remove_consumer(
        &self,
        stream: StreamName,
        consumer: ConsumerName,
    ) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.queues.remove_consumer(stream, consumer))
    }

    fn replay(
        &self,
        stream: StreamName,
        filter: Filter,
        from: Seq,
    ) -> BoxFuture<'_, Result<Replay>> {
        Box::pin(self.read.replay(stream, filter, from))
    }

    fn lag(&self, stream: StreamName) -> BoxFuture<'_, Result<Lag>> {
        Box::pin(self.queues.lag(stream))
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            self.queues.close().await;
            self.connection.begin_to_close();
            let handed_over = self.live.close().await;
            self.connection.close().await.and(handed_over)
        })
    }
}

impl Buckets for NatsBus {
    fn get(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<Option<Entry>>> {
        Box::pin(self.buckets.get(bucket, key))
    }

    fn put(&self, bucket: BucketName, key: BucketKey, put: Put) -> BoxFuture<'_, Result<Revision>> {
        Box::pin(self.buckets.put(bucket, key, put))
    }

    fn delete(
        &self,
        bucket: BucketName,
        key: BucketKey,
        expect: ExpectRevision,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.buckets.delete(bucket, key, expect))
    }

    fn watch(
        &self,
        bucket: BucketName,
        keys: Filter,
        after: Revision,
    ) -> BoxFuture<'_, Result<Watch>> {
        Box::pin(self.buckets.watch(bucket, keys, after))
    }
}

impl Blobs for NatsBus {
    fn put_blob(
        &self,
        bucket: BucketName,
        key: BucketKey,
        body: BlobBody,
    ) -> BoxFuture<'_, Result<BlobInfo>> {
        Box::pin(self.blobs.put_blob(bucket, key, body))
    }

    fn get_blob(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<Option<Blob>>> {
        Box::pin(self.blobs.get_blob(bucket, key))
    }

    fn delete_blob(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.blobs.delete_blob(bucket, key))
    }

    fn list_blobs(&self, bucket: BucketName) -> BoxFuture<'_, Result<Vec<BlobInfo>>> {
        Box::pin(self.blobs.list_blobs(bucket))
    }
}
