//! An outbox as an engine: tasks and letters are kept for the hub, the rest is done at home.

use std::time::Duration;

use bus_envelope::Timestamp;
use bus_subjects::{BucketKey, BucketName, ConsumerName, Filter, StreamName, Subject};

use super::{Outbox, Record};
use crate::{
    Answer, Blob, BlobBody, BlobInfo, Blobs, BoxFuture, Buckets, Bus, ConsumerSpec, ConsumerState,
    Deliveries, Engine, Entry, Error, ErrorKind, Expect, ExpectRevision, Frame, Lag, Overflow,
    Promises, Put, Receipt, Replay, Result, Revision, Seq, Stored, StreamSpec, Subscription, Watch,
};

impl Bus for Outbox {
    fn publish(&self, frame: Frame) -> BoxFuture<'_, Result<()>> {
        self.home.publish(frame)
    }

    fn subscribe(&self, filter: Filter, overflow: Overflow) -> BoxFuture<'_, Result<Subscription>> {
        self.home.subscribe(filter, overflow)
    }

    fn request(&self, frame: Frame, wait: Duration) -> BoxFuture<'_, Result<Frame>> {
        self.home.request(frame, wait)
    }

    fn declare(&self, stream: StreamSpec) -> BoxFuture<'_, Result<()>> {
        self.home.declare(stream)
    }

    /// As the engine at home; what is for the hub is kept in the outbox, and can expect nothing of
    /// what is stored at the hub.
    fn append(&self, frame: Frame, expect: Expect) -> Answer<'_, Receipt> {
        if !self.is_for_hub(&frame.subject) {
            return self.home.append(frame, expect);
        }
        if expect != Expect::Any {
            let why = "what the hub holds is not known here: nothing can be expected of it";
            let error = Error::new(ErrorKind::Invalid, "append", why).at(&frame.subject);
            return Answer::ready(Err(error));
        }
        match self.pack(&frame) {
            Ok(record) => self.home.append(record, Expect::Any),
            Err(error) => Answer::ready(Err(error)),
        }
    }

    /// As the engine at home; a batch is for the hub as a whole or not at all.
    fn append_all(&self, frames: Vec<Frame>) -> BoxFuture<'_, Result<Vec<Receipt>>> {
        if frames.iter().any(|frame| self.is_for_hub(&frame.subject)) {
            return Box::pin(self.put_all(frames));
        }
        self.home.append_all(frames)
    }

    /// As the engine at home; the last message on a subject of the hub is not known here.
    fn last(&self, subject: Subject) -> BoxFuture<'_, Result<Option<Stored>>> {
        if self.is_for_hub(&subject) {
            return Box::pin(std::future::ready(Ok(None)));
        }
        self.home.last(subject)
    }

    /// As the engine at home; of an outbox the frame that the hub is to store.
    fn read(&self, stream: StreamName, seq: Seq) -> BoxFuture<'_, Result<Option<Stored>>> {
        Box::pin(async move {
            let is_outbox = self.stream()? == stream;
            match self.home.read(stream, seq).await? {
                Some(Stored { frame, seq, time }) if is_outbox => {
                    let frame = Record::unpack(&self.workspace, &frame)?.frame;
                    Ok(Some(Stored { frame, seq, time }))
                }
                stored => Ok(stored),
            }
        })
    }

    fn discard(&self, stream: StreamName, seq: Seq) -> BoxFuture<'_, Result<bool>> {
        self.home.discard(stream, seq)
    }

    fn consume(&self, consumer: ConsumerSpec) -> BoxFuture<'_, Result<Deliveries>> {
        self.home.consume(consumer)
    }

    fn consumers(&self, stream: StreamName) -> BoxFuture<'_, Result<Vec<ConsumerState>>> {
        self.home.consumers(stream)
    }

    fn pause(
        &self,
        stream: StreamName,
        consumer: ConsumerName,
        until: Option<Timestamp>,
    ) -> BoxFuture<'_, Result<()>> {
        self.home.pause(stream, consumer, until)
    }

    fn remove_consumer(
        &self,
        stream: StreamName,
        consumer: ConsumerName,
    ) -> BoxFuture<'_, Result<bool>> {
        self.home.remove_consumer(stream, consumer)
    }

    fn replay(
        &self,
        stream: StreamName,
        filter: Filter,
        from: Seq,
    ) -> BoxFuture<'_, Result<Replay>> {
        self.home.replay(stream, filter, from)
    }

    fn lag(&self, stream: StreamName) -> BoxFuture<'_, Result<Lag>> {
        self.home.lag(stream)
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        self.home.close()
    }
}

impl Buckets for Outbox {
    fn get(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<Option<Entry>>> {
        self.home.get(bucket, key)
    }

    fn put(&self, bucket: BucketName, key: BucketKey, put: Put) -> BoxFuture<'_, Result<Revision>> {
        self.home.put(bucket, key, put)
    }

    fn delete(
        &self,
        bucket: BucketName,
        key: BucketKey,
        expect: ExpectRevision,
    ) -> BoxFuture<'_, Result<()>> {
        self.home.delete(bucket, key, expect)
    }

    fn watch(
        &self,
        bucket: BucketName,
        keys: Filter,
        after: Revision,
    ) -> BoxFuture<'_, Result<Watch>> {
        self.home.watch(bucket, keys, after)
    }
}

impl Blobs for Outbox {
    fn put_blob(
        &self,
        bucket: BucketName,
        key: BucketKey,
        body: BlobBody,
    ) -> BoxFuture<'_, Result<BlobInfo>> {
        self.home.put_blob(bucket, key, body)
    }

    fn get_blob(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<Option<Blob>>> {
        self.home.get_blob(bucket, key)
    }

    fn delete_blob(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<bool>> {
        self.home.delete_blob(bucket, key)
    }

    fn list_blobs(&self, bucket: BucketName) -> BoxFuture<'_, Result<Vec<BlobInfo>>> {
        self.home.list_blobs(bucket)
    }
}

impl Engine for Outbox {
    fn promises(&self) -> Promises {
        self.home.promises()
    }
}
