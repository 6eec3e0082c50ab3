//! An engine of two connections: an agent's, and that of whoever sets the place up.

use std::{
    collections::HashSet,
    sync::Arc,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bus_core::{
    Answer, Blob, BlobBody, BlobInfo, Blobs, BoxFuture, Buckets, Bus, ConsumerSpec, ConsumerState,
    Deliveries, Engine, Entry, ErrorKind, Expect, ExpectRevision, Frame, Lag, Overflow, Promises,
    Put, Receipt, Replay, Result, Revision, Seq, Stored, StreamSpec, Subscription, Watch,
};
use bus_envelope::Timestamp;
use bus_nats::NatsBus;
use bus_subjects::{BucketKey, BucketName, ConsumerName, Filter, StreamName, Subject};

/// What was made on a server, for those who may not ask it.
#[derive(Default)]
pub(crate) struct Known {
    streams: Mutex<Vec<StreamSpec>>,
    made: tokio::sync::Mutex<HashSet<String>>,
}

/// An agent's connection, and the other one for what no agent may.
pub(crate) struct Split {
    store: NatsBus,
    agent: NatsBus,
    known: Arc<Known>,
    /// How many of the streams the agent was told of.
    told: AtomicUsize,
}

impl Split {
    pub(crate) async fn new(store: NatsBus, agent: NatsBus, known: Arc<Known>) -> Result<Self> {
        let told = AtomicUsize::new(0);
        let split = Self { store, agent, known, told };
        split.make("own streams", split.store.declare_own_streams()).await?;
        Ok(split)
    }

    /// The agent's connection, which knows every stream that was declared.
    fn agent(&self) -> &NatsBus {
        let streams = self.known.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let told = self.told.swap(streams.len(), Ordering::AcqRel);
        for stream in streams.iter().skip(told) {
            self.agent.take_as_declared(stream.clone());
        }
        drop(streams);
        &self.agent
    }

    /// Makes something once.
    async fn make(
        &self,
        what: &str,
        making: impl Future<Output = Result<()>> + Send,
    ) -> Result<()> {
        let mut made = self.known.made.lock().await;
        if !made.contains(what) {
            making.await?;
            made.insert(what.to_owned());
        }
        Ok(())
    }

    async fn bucket(&self, bucket: &BucketName) -> Result<&NatsBus> {
        let what = format!("bucket {bucket}");
        self.make(&what, self.store.declare_bucket(bucket)).await?;
        Ok(&self.agent)
    }

    async fn blobs(&self, bucket: &BucketName) -> Result<&NatsBus> {
        let what = format!("blobs {bucket}");
        self.make(&what, self.store.declare_blobs(bucket)).await?;
        Ok(&self.agent)
    }
}

impl Engine for Split {
    fn promises(&self) -> Promises {
        self.agent.promises()
    }
}

impl Bus for Split {
    fn publish(&self, frame: Frame) -> BoxFuture<'_, Result<()>> {
        self.agent.publish(frame)
    }

    fn subscribe(&self, filter: Filter, overflow: Overflow) -> BoxFuture<'_, Result<Subscription>> {
        self.agent.subscribe(filter, overflow)
    }

    fn request(&self, frame: Frame, wait: Duration) -> BoxFuture<'_, Result<Frame>> {
        self.agent.request(frame, wait)
    }

    fn declare(&self, stream: StreamSpec) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.store.declare(stream.clone()).await?;
            let mut streams = self.known.streams.lock().unwrap_or_else(PoisonError::into_inner);
            streams.push(stream);
            Ok(())
        })
    }

    fn append(&self, frame: Frame, expect: Expect) -> Answer<'_, Receipt> {
        self.agent().append(frame, expect)
    }

    fn append_all(&self, frames: Vec<Frame>) -> BoxFuture<'_, Result<Vec<Receipt>>> {
        Box::pin(async move {
            match self.agent().append_all(frames.clone()).await {
                // It may not be asked how much room a subject has.
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    self.store.append_all(frames).await
                }
                appended => appended,
            }
        })
    }

    fn last(&self, subject: Subject) -> BoxFuture<'_, Result<Option<Stored>>> {
        self.agent().last(subject)
    }

    fn read(&self, stream: StreamName, seq: Seq) -> BoxFuture<'_, Result<Option<Stored>>> {
        self.agent().read(stream, seq)
    }

    fn discard(&self, stream: StreamName, seq: Seq) -> BoxFuture<'_, Result<bool>> {
        self.agent().discard(stream, seq)
    }

    fn consume(&self, consumer: ConsumerSpec) -> BoxFuture<'_, Result<Deliveries>> {
        self.agent().consume(consumer)
    }

    fn consumers(&self, stream: StreamName) -> BoxFuture<'_, Result<Vec<ConsumerState>>> {
        self.agent().consumers(stream)
    }

    fn pause(
        &self,
        stream: StreamName,
        consumer: ConsumerName,
        until: Option<Timestamp>,
    ) -> BoxFuture<'_, Result<()>> {
        self.agent().pause(stream, consumer, until)
    }

    fn remove_consumer(
        &self,
        stream: StreamName,
        consumer: ConsumerName,
    ) -> BoxFuture<'_, Result<bool>> {
        self.store.remove_consumer(stream, consumer)
    }

    fn replay(
        &self,
        stream: StreamName,
        filter: Filter,
        from: Seq,
    ) -> BoxFuture<'_, Result<Replay>> {
        self.agent().replay(stream, filter, from)
    }

    fn lag(&self, stream: StreamName) -> BoxFuture<'_, Result<Lag>> {
        self.agent().lag(stream)
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            self.store.close().await?;
            self.agent.close().await
        })
    }
}

impl Buckets for Split {
    fn get(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<Option<Entry>>> {
        Box::pin(async move { self.bucket(&bucket).await?.get(bucket.clone(), key).await })
    }

    fn put(&self, bucket: BucketName, key: BucketKey, put: Put) -> BoxFuture<'_, Result<Revision>> {
        Box::pin(async move { self.bucket(&bucket).await?.put(bucket.clone(), key, put).await })
    }

    fn delete(
        &self,
        bucket: BucketName,
        key: BucketKey,
        expect: ExpectRevision,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(
            async move { self.bucket(&bucket).await?.delete(bucket.clone(), key, expect).await },
        )
    }

    fn watch(
        &self,
        bucket: BucketName,
        keys: Filter,
        after: Revision,
    ) -> BoxFuture<'_, Result<Watch>> {
        Box::pin(
            async move { self.bucket(&bucket).await?.watch(bucket.clone(), keys, after).await },
        )
    }
}

impl Blobs for Split {
    fn put_blob(
        &self,
        bucket: BucketName,
        key: BucketKey,
        body: BlobBody,
    ) -> BoxFuture<'_, Result<BlobInfo>> {
        Box::pin(
            async move { self.blobs(&bucket).await?.put_blob(bucket.clone(), key, body).await },
        )
    }

    fn get_blob(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<Option<Blob>>> {
        Box::pin(async move { self.blobs(&bucket).await?.get_blob(bucket.clone(), key).await })
    }

    fn delete_blob(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move { self.blobs(&bucket).await?.delete_blob(bucket.clone(), key).await })
    }

    fn list_blobs(&self, bucket: BucketName) -> BoxFuture<'_, Result<Vec<BlobInfo>>> {
        Box::pin(async move { self.blobs(&bucket).await?.list_blobs(bucket.clone()).await })
    }
}
