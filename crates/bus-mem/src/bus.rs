//! The embedded engine as callers hold it.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bus_core::{
    Blob, BlobBody, BlobInfo, Blobs, BoxFuture, Buckets, Bus, Clock, ConsumerSpec, ConsumerState,
    Deliveries, Durability, Engine, Entry, Error, ErrorKind, Expect, ExpectRevision, Frame, Lag,
    Overflow, Promises, Put, Receipt, Replay, Result, Revision, Seq, Stored, StreamSpec,
    Subscription, SystemClock, Watch,
};
use bus_envelope::Timestamp;
use bus_subjects::{BucketKey, BucketName, ConsumerName, Filter, StreamName, Subject};
use tokio::task::coop::consume_budget;

use crate::{
    Limits, LiveStats, core::BucketStore, deliveries::Member, durable::Durable, live::Live,
    replay::Reader, subscription::FeedStream,
};

/// A bus within this process, which needs nothing outside of it.
///
/// Clones are the same connection: one close ends them all, and dropping the last one closes
/// likewise. [`InMemoryBus::connect`] opens another connection to the same broker, as a second
/// client of a server would. What is stored lives as long as any connection does.
///
/// Waiting for work and for answers needs a tokio runtime with its timer. The clock given to
/// [`InMemoryBus::with_clock`] must run as tokio's own does.
#[derive(Clone)]
pub struct InMemoryBus(Arc<Handle>);

/// What the clones share; the last one to go closes the connection.
struct Handle(Arc<Connection>);

/// One client of the broker.
pub(crate) struct Connection {
    broker: Arc<Shared>,
    id: u64,
    closed: AtomicBool,
}

/// The broker that all connections share.
struct Shared {
    live: Arc<Live>,
    durable: Arc<Durable>,
    buckets: Mutex<BucketStore>,
    last_connection: AtomicU64,
    last_request: AtomicU64,
}

impl InMemoryBus {
    /// An empty bus on the machine's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock::new()))
    }

    /// An empty bus that takes its time from `clock`.
    #[must_use]
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self::with_limits(clock, Limits::default())
    }

    /// An empty bus that takes its time from `clock` and holds no more than `limits` say.
    #[must_use]
    pub fn with_limits(clock: Arc<dyn Clock>, limits: Limits) -> Self {
        Self::open(Arc::new(Shared {
            live: Arc::new(Live::new(limits)),
            durable: Arc::new(Durable::new(clock, limits)),
            buckets: Mutex::new(BucketStore::new(limits)),
            last_connection: AtomicU64::new(0),
            last_request: AtomicU64::new(0),
        }))
    }

    /// Another connection to the same broker: closing one leaves the other open.
    #[must_use]
    pub fn connect(&self) -> Self {
        Self::open(Arc::clone(&self.connection().broker))
    }

    /// What became of the live frames of all connections so far.
    #[must_use]
    pub fn stats(&self) -> LiveStats {
        self.connection().broker.live.stats()
    }

    fn open(broker: Arc<Shared>) -> Self {
        let id = broker.last_connection.fetch_add(1, Ordering::Relaxed) + 1;
        let connection = Connection { broker, id, closed: AtomicBool::new(false) };
        Self(Arc::new(Handle(Arc::new(connection))))
    }

    fn connection(&self) -> &Arc<Connection> {
        &self.0.0
    }
}

impl Connection {
    pub(crate) fn durable(&self) -> &Arc<Durable> {
        &self.broker.durable
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn check_open(&self, op: &'static str) -> Result<()> {
        if self.is_closed() {
            return Err(Error::new(ErrorKind::Closed, op, "the bus was closed"));
        }
        Ok(())
    }

    fn buckets(&self) -> MutexGuard<'_, BucketStore> {
        self.broker.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append(&self, frame: Frame, expect: Expect) -> Result<Receipt> {
        self.check_open("append")?;
        frame.check_size("append")?;
        // Whoever listens hears what is stored, as on a server.
        let heard = self.broker.live.is_heard().then(|| frame.clone());
        let mut locked = self.durable().lock();
        let mut touched = std::mem::take(&mut locked.state.touched);
        let now = locked.now;
        let receipt = locked.state.broker.append(frame, expect, now, |key| touched.push(key));
        touched.drain(..).for_each(|key| locked.look_after(key));
        locked.state.touched = touched;
        locked.finish();
        let receipt = receipt?;
        if let (Some(frame), false) = (heard, receipt.duplicate) {
            self.broker.live.hand_out(frame);
        }
        Ok(receipt)
    }

    fn close(&self) {
        // The mark first: a member that looks after this one is not woken any more, but sees it.
        if !self.closed.swap(true, Ordering::AcqRel) {
            self.broker.live.close(self.id);
            self.broker.durable.wake_all();
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Default for InMemoryBus {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for InMemoryBus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let connection = self.connection();
        f.debug_struct("InMemoryBus")
            .field("connection", &connection.id)
            .field("closed", &connection.is_closed())
            .finish_non_exhaustive()
    }
}

impl Bus for InMemoryBus {
    fn publish(&self, frame: Frame) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let connection = self.connection();
            connection.check_open("publish")?;
            frame.check_live("publish")?;
            connection.broker.live.publish(frame);
            // Subscribers may live on this very thread. A publisher that awaits nothing else
            // would starve them and lose nearly everything, so it gives way now and then.
            for _ in 0..BUDGET_PER_PUBLISH {
                consume_budget().await;
            }
            Ok(())
        })
    }

    fn subscribe(&self, filter: Filter, overflow: Overflow) -> BoxFuture<'_, Result<Subscription>> {
        Box::pin(async move {
            let connection = self.connection();
            connection.check_open("subscribe")?;
            let live = &connection.broker.live;
            let feed = FeedStream::open(live, filter, overflow, connection.id)?;
            // Closed meanwhile: the subscription would be there for ever.
            connection.check_open("subscribe")?;
            Ok(Subscription::new(feed))
        })
    }

    fn request(&self, mut frame: Frame, wait: Duration) -> BoxFuture<'_, Result<Frame>> {
        Box::pin(async move {
            let connection = self.connection();
            connection.check_open("request")?;
            frame.check_live("request")?;
            let broker = &connection.broker;
            let number = broker.last_request.fetch_add(1, Ordering::Relaxed) + 1;
            // No agent can be called `=mem`, so no role's own reply inbox reaches into these.
            let reply = Subject::parse(&format!("_INBOX.=mem.{number}"))?;
            let filter = Filter::from(&reply);
            let mut answers = FeedStream::for_answer(&broker.live, filter, connection.id)?;
            let subject = frame.subject.clone();
            frame.reply = Some(reply);
            if broker.live.publish(frame) == 0 {
                let why = "nobody listens on this subject";
                return Err(Error::new(ErrorKind::NoRecipient, "request", why).at(subject));
            }
            let failed = |kind, why| Error::new(kind, "request", why).at(&subject).unknown();
            match tokio::time::timeout(wait, answers.next_frame()).await {
                Ok(Some(answer)) => Ok(answer),
                Ok(None) => Err(failed(ErrorKind::Closed, "the bus was closed")),
                Err(_elapsed) => Err(failed(ErrorKind::Timeout, "no answer came in time")),
            }
        })
    }

    fn declare(&self, stream: StreamSpec) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.connection().check_open("declare")?;
            self.connection().durable().lock().state.broker.declare(stream)
        })
    }

    fn append(&self, frame: Frame, expect: Expect) -> BoxFuture<'_, Result<Receipt>> {
        Box::pin(async move {
            let receipt = self.connection().append(frame, expect)?;
            consume_budget().await;
            Ok(receipt)
        })
    }

    fn append_all(&self, _frames: Vec<Frame>) -> BoxFuture<'_, Result<Vec<Receipt>>> {
        Box::pin(std::future::ready(Err(Error::new(ErrorKind::Unsupported, "todo", "todo"))))
    }

    fn discard(&self, _stream: StreamName, _seq: Seq) -> BoxFuture<'_, Result<bool>> {
        Box::pin(std::future::ready(Err(Error::new(ErrorKind::Unsupported, "todo", "todo"))))
    }

    fn consumers(&self, _stream: StreamName) -> BoxFuture<'_, Result<Vec<ConsumerState>>> {
        Box::pin(std::future::ready(Err(Error::new(ErrorKind::Unsupported, "todo", "todo"))))
    }

    fn pause(
        &self,
        _stream: StreamName,
        _consumer: ConsumerName,
        _until: Option<Timestamp>,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(std::future::ready(Err(Error::new(ErrorKind::Unsupported, "todo", "todo"))))
    }

    fn remove_consumer(
        &self,
        _stream: StreamName,
        _consumer: ConsumerName,
    ) -> BoxFuture<'_, Result<bool>> {
        Box::pin(std::future::ready(Err(Error::new(ErrorKind::Unsupported, "todo", "todo"))))
    }

    fn last(&self, subject: Subject) -> BoxFuture<'_, Result<Option<Stored>>> {
        Box::pin(async move {
            self.connection().check_open("last")?;
            let last = self.connection().durable().lock().state.broker.last(&subject)?;
            Ok(last.map(Arc::unwrap_or_clone))
        })
    }

    fn read(&self, stream: StreamName, seq: Seq) -> BoxFuture<'_, Result<Option<Stored>>> {
        Box::pin(async move {
            self.connection().check_open("read")?;
            let stored = self.connection().durable().lock().state.broker.read_one(&stream, seq)?;
            Ok(stored.map(Arc::unwrap_or_clone))
        })
    }

    fn consume(&self, consumer: ConsumerSpec) -> BoxFuture<'_, Result<Deliveries>> {
        Box::pin(async move {
            let connection = self.connection();
            connection.check_open("consume")?;
            let (stream, lease) = (consumer.stream.clone(), consumer.lease);
            let key = connection.durable().lock().consume(consumer)?;
            Ok(Deliveries::new(Member::new(Arc::clone(connection), stream, lease, key)))
        })
    }

    fn replay(
        &self,
        stream: StreamName,
        filter: Filter,
        from: Seq,
    ) -> BoxFuture<'_, Result<Replay>> {
        Box::pin(async move {
            self.connection().check_open("replay")?;
            let durable = self.connection().durable();
            let (key, until) = durable.lock().state.broker.head(&stream)?;
            Ok(Replay::new(Reader::new(Arc::clone(durable), key, filter, (from, until))))
        })
    }

    fn lag(&self, stream: StreamName) -> BoxFuture<'_, Result<Lag>> {
        Box::pin(async move {
            self.connection().check_open("lag")?;
            let mut locked = self.connection().durable().lock();
            let now = locked.now;
            locked.state.broker.lag(&stream, now)
        })
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.connection().close();
            Ok(())
        })
    }
}

impl Buckets for InMemoryBus {
    fn get(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<Option<Entry>>> {
        Box::pin(async move {
            self.connection().check_open("get")?;
            Ok(self.connection().buckets().get(&bucket, &key))
        })
    }

    fn put(&self, bucket: BucketName, key: BucketKey, put: Put) -> BoxFuture<'_, Result<Revision>> {
        Box::pin(async move {
            self.connection().check_open("put")?;
            self.connection().buckets().put(&bucket, &key, put.value, put.expect)
        })
    }

    fn delete(
        &self,
        bucket: BucketName,
        key: BucketKey,
        expect: ExpectRevision,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.connection().check_open("delete")?;
            self.connection().buckets().delete(&bucket, &key, expect)
        })
    }

    fn watch(
        &self,
        _bucket: BucketName,
        _keys: Filter,
        _after: Revision,
    ) -> BoxFuture<'_, Result<Watch>> {
        Box::pin(std::future::ready(Err(Error::new(ErrorKind::Unsupported, "todo", "todo"))))
    }
}

impl Blobs for InMemoryBus {
    fn put_blob(
        &self,
        _bucket: BucketName,
        _key: BucketKey,
        _body: BlobBody,
    ) -> BoxFuture<'_, Result<BlobInfo>> {
        Box::pin(std::future::ready(Err(Error::new(ErrorKind::Unsupported, "todo", "todo"))))
    }

    fn get_blob(
        &self,
        _bucket: BucketName,
        _key: BucketKey,
    ) -> BoxFuture<'_, Result<Option<Blob>>> {
        Box::pin(std::future::ready(Err(Error::new(ErrorKind::Unsupported, "todo", "todo"))))
    }

    fn delete_blob(&self, _bucket: BucketName, _key: BucketKey) -> BoxFuture<'_, Result<bool>> {
        Box::pin(std::future::ready(Err(Error::new(ErrorKind::Unsupported, "todo", "todo"))))
    }

    fn list_blobs(&self, _bucket: BucketName) -> BoxFuture<'_, Result<Vec<BlobInfo>>> {
        Box::pin(std::future::ready(Err(Error::new(ErrorKind::Unsupported, "todo", "todo"))))
    }
}

impl Engine for InMemoryBus {
    fn promises(&self) -> Promises {
        Promises { engine: "mem", durability: Durability::Memory, shared: false }
    }
}

/// Of tokio's 128 units between two yields: so a publisher gives way after 32 frames at most.
const BUDGET_PER_PUBLISH: usize = 4;
