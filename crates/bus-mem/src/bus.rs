//! The embedded engine as callers hold it.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bus_core::{
    Answer, BoxFuture, Bus, Clock, ConsumerSpec, ConsumerState, Deliveries, Durability, Engine,
    Error, ErrorKind, Expect, Frame, Lag, Overflow, Promises, Receipt, Replay, Result, Seq, Stored,
    StreamSpec, Subscription, SystemClock,
};
use bus_envelope::Timestamp;
use bus_subjects::{ConsumerName, Filter, StreamName, Subject};
use tokio::task::coop::consume_budget;

use crate::{
    Limits, LiveStats,
    connections::Connections,
    core::{BlobStore, Broker, BucketCursor, BucketStore, Image, StreamCursor},
    durable::Durable,
    journal::{Journal, Statement},
    live::Live,
    publish::Publishing,
    replay::Reader,
    safety::Safety,
    state::State,
    subscription::FeedStream,
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

/// How far a picture of a bus is: see [`InMemoryBus::picture`].
#[derive(Debug, Clone, Default)]
pub struct PictureCursor {
    streams: StreamCursor,
    has_streams: bool,
    buckets: BucketCursor,
}

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
    state: Arc<State>,
    safety: Safety,
    blobs: Mutex<BlobStore>,
    connections: Connections,
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
            live: Arc::new(Live::new(limits, Arc::clone(&clock))),
            durable: Arc::new(Durable::new(
                Arc::clone(&clock),
                Broker::new(limits, Durability::Memory),
            )),
            state: Arc::new(State::new(clock, BucketStore::new(limits))),
            safety: Safety::default(),
            blobs: Mutex::new(BlobStore::new(limits)),
            connections: Connections::new(),
            last_connection: AtomicU64::new(0),
            last_request: AtomicU64::new(0),
        }))
    }

    /// The bus of `image`, which says every change to `journal` and answers when it is safe there.
    ///
    /// `epoch` must be greater than it ever was for this journal. Blobs are not journaled.
    #[must_use]
    pub fn journaled(
        clock: Arc<dyn Clock>,
        limits: Limits,
        journal: Arc<dyn Journal>,
        image: Image,
        epoch: u64,
    ) -> Self {
        let (mut broker, mut store) = image.restore(limits, journal.durability(), epoch);
        broker.keep(Arc::clone(&journal));
        store.keep(Arc::clone(&journal));
        let live = Arc::new(Live::new(limits, Arc::clone(&clock)));
        let durable = Arc::new(Durable::new(Arc::clone(&clock), broker));
        let safety = Safety::of(journal, Arc::clone(&durable), Arc::clone(&live));
        Self::open(Arc::new(Shared {
            live,
            durable,
            state: Arc::new(State::new(clock, store)),
            safety,
            blobs: Mutex::new(BlobStore::new(limits)),
            connections: Connections::new(),
            last_connection: AtomicU64::new(0),
            last_request: AtomicU64::new(0),
        }))
    }

    /// Adds the next piece of a picture of all streams and buckets to `statements`; false when it
    /// was the last one.
    ///
    /// Each piece takes a lock once, for a bounded amount of work. The picture, and all changes
    /// since before its first piece, make the whole: it may be used once all that was recorded up
    /// to its last piece is safe.
    pub fn picture(&self, cursor: &mut PictureCursor, statements: &mut Vec<Statement>) -> bool {
        let connection = self.connection();
        if !cursor.has_streams {
            let locked = connection.durable().lock();
            cursor.has_streams = !locked.state.broker.picture(&mut cursor.streams, statements);
            return true;
        }
        let locked = connection.state().lock();
        locked.held.store.picture(&mut cursor.buckets, locked.now, statements)
    }

    /// Another connection to the same broker: closing one leaves the other open. It is closed when
    /// all connections were ended before.
    #[must_use]
    pub fn connect(&self) -> Self {
        Self::open(Arc::clone(&self.connection().broker))
    }

    /// Closes all connections to this broker, and those that are opened later: it hands out nothing
    /// any more, and takes nothing. What was accepted before is not waited for.
    pub fn close_all(&self) {
        self.connection().broker.connections.end().for_each(|connection| connection.close());
    }

    /// What became of the live frames of all connections so far.
    #[must_use]
    pub fn stats(&self) -> LiveStats {
        self.connection().broker.live.stats()
    }

    fn open(broker: Arc<Shared>) -> Self {
        let id = broker.last_connection.fetch_add(1, Ordering::Relaxed) + 1;
        let connection = Arc::new(Connection { broker, id, closed: AtomicBool::new(false) });
        if !connection.broker.connections.add(id, &connection) {
            connection.close();
        }
        Self(Arc::new(Handle(connection)))
    }

    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.0.0
    }
}

impl Connection {
    pub(crate) fn durable(&self) -> &Arc<Durable> {
        &self.broker.durable
    }

    pub(crate) fn safety(&self) -> &Safety {
        &self.broker.safety
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn live(&self) -> &Arc<Live> {
        &self.broker.live
    }

    /// A number for a request, never given twice by one broker.
    pub(crate) fn next_request(&self) -> u64 {
        self.broker.last_request.fetch_add(1, Ordering::Relaxed) + 1
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

    pub(crate) fn state(&self) -> &Arc<State> {
        &self.broker.state
    }

    pub(crate) fn blobs(&self) -> MutexGuard<'_, BlobStore> {
        self.broker.blobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        // The mark first: a member that looks after this one is not woken any more, but sees it.
        if !self.closed.swap(true, Ordering::AcqRel) {
            self.broker.connections.remove(self.id);
            self.broker.live.close(self.id);
            self.broker.durable.wake_all();
            self.broker.state.wake_all();
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
        Box::pin(Publishing::new(self, frame))
    }

    fn subscribe(&self, filter: Filter, overflow: Overflow) -> BoxFuture<'_, Result<Subscription>> {
        Box::pin(async move {
            let connection = self.connection();
            connection.check_open("subscribe")?;
            let live = &connection.broker.live;
            let feed = FeedStream::open(live, filter, overflow, connection.id)?;
            // Closed meanwhile: the subscription would be there for ever.
            connection.check_open("subscribe")?;
            Ok(Subscription::of_batches(feed))
        })
    }

    fn request(&self, frame: Frame, wait: Duration) -> BoxFuture<'_, Result<Frame>> {
        Box::pin(self.ask(frame, wait))
    }

    fn declare(&self, stream: StreamSpec) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.connection().declare(stream).await })
    }

    fn append(&self, frame: Frame, expect: Expect) -> Answer<'_, Receipt> {
        self.connection().append(frame, expect)
    }

    fn append_all(&self, frames: Vec<Frame>) -> BoxFuture<'_, Result<Vec<Receipt>>> {
        Box::pin(async move {
            let receipts = self.connection().append_all(frames).await?;
            // A batch counts as its messages do one by one.
            for _ in &receipts {
                consume_budget().await;
            }
            Ok(receipts)
        })
    }

    fn discard(&self, stream: StreamName, seq: Seq) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move { self.connection().discard(&stream, seq).await })
    }

    fn consumers(&self, stream: StreamName) -> BoxFuture<'_, Result<Vec<ConsumerState>>> {
        Box::pin(async move { self.connection().consumers(&stream).await })
    }

    fn pause(
        &self,
        stream: StreamName,
        consumer: ConsumerName,
        until: Option<Timestamp>,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.connection().pause(&stream, &consumer, until).await })
    }

    fn remove_consumer(
        &self,
        stream: StreamName,
        consumer: ConsumerName,
    ) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move { self.connection().remove_consumer(&stream, &consumer).await })
    }

    fn last(&self, subject: Subject) -> BoxFuture<'_, Result<Option<Stored>>> {
        Box::pin(async move {
            self.connection().check_open("last")?;
            let (last, position) =
                self.connection().durable().ask(|locked| locked.state.broker.last(&subject));
            let last = self.connection().safety().told(position, last).await?;
            Ok(last.map(Stored::from))
        })
    }

    fn read(&self, stream: StreamName, seq: Seq) -> BoxFuture<'_, Result<Option<Stored>>> {
        Box::pin(async move {
            self.connection().check_open("read")?;
            let durable = self.connection().durable();
            let (stored, position) =
                durable.ask(|locked| locked.state.broker.read_one(&stream, seq));
            let stored = self.connection().safety().told(position, stored).await?;
            Ok(stored.map(Stored::from))
        })
    }

    fn consume(&self, consumer: ConsumerSpec) -> BoxFuture<'_, Result<Deliveries>> {
        Box::pin(async move { self.connection().consume(consumer).await })
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
            let (head, position) = durable.ask(|locked| locked.state.broker.head(&stream));
            // What is read later was stored before, so it is safe then.
            let (key, until) = self.connection().safety().told(position, head).await?;
            Ok(Replay::new(Reader::new(Arc::clone(durable), key, filter, (from, until))))
        })
    }

    fn lag(&self, stream: StreamName) -> BoxFuture<'_, Result<Lag>> {
        Box::pin(async move {
            self.connection().check_open("lag")?;
            let (lag, position) = self.connection().durable().ask(|locked| {
                let now = locked.now;
                locked.state.broker.lag(&stream, now)
            });
            self.connection().safety().told(position, lag).await
        })
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.connection().close();
            let safety = self.connection().safety();
            safety.reached(safety.last()).await
        })
    }
}

impl Engine for InMemoryBus {
    fn promises(&self) -> Promises {
        let durability = self.connection().safety().durability();
        Promises { engine: "mem", durability, shared: false }
    }
}
