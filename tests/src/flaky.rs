//! An engine that fails on command: what a broker does on a bad day, at the place a story names.

mod watched;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bus_core::{
    Answer, Blob, BlobBody, BlobInfo, Blobs, BoxFuture, Buckets, Bus, ConsumerSpec, ConsumerState,
    Deliveries, Engine, Entry, Error, ErrorKind, Expect, ExpectRevision, Frame, Lag, Overflow,
    Promises, Put, Receipt, Replay, Result, Revision, Seq, Stored, StreamSpec, Subscription,
    Verdict, Watch,
};
use bus_envelope::Timestamp;
use bus_subjects::{BucketKey, BucketName, ConsumerName, Filter, StreamName, Subject};
use futures_util::stream;
use tokio::sync::Notify;

use self::watched::watched;

/// A real engine with a script of faults before it and a log of every call.
///
/// A call meets the first rule left that fits its operation and place; without one it reaches the
/// engine untouched.
pub struct Flaky(Arc<Shared>);

struct Shared {
    inner: Arc<dyn Engine>,
    rules: Mutex<Vec<Rule>>,
    calls: Mutex<Vec<Call>>,
    hung: Notify,
    /// How long each delivery is on its way.
    slow: Mutex<Duration>,
}

/// An operation of an engine or of one of its deliveries.
#[expect(missing_docs, reason = "each is the method of that name")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    Publish,
    Subscribe,
    Request,
    Declare,
    Append,
    AppendAll,
    Last,
    Read,
    Discard,
    Consume,
    Consumers,
    Pause,
    RemoveConsumer,
    Replay,
    Lag,
    Close,
    Get,
    Put,
    Delete,
    Watch,
    PutBlob,
    GetBlob,
    DeleteBlob,
    ListBlobs,
    Settle,
    Extend,
}

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is refused with this kind; it was not done.
    Refused(ErrorKind),
    /// It is lost on the way: not done, and nobody knows.
    LostBefore,
    /// It is done, and the answer is lost.
    LostAfter,
    /// It is done and the answer never comes: whoever waits is stuck until it is dropped.
    StuckAfter,
    /// It is done, after this time of the stopped clock.
    SlowBefore(Duration),
}

/// One call, as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// What was called.
    pub op: Op,
    /// The subject, filter, stream, or `<bucket>.<key>`.
    pub at: String,
    /// The frame, for those calls that have one.
    pub frame: Option<Frame>,
    /// The verdict of a settlement.
    pub verdict: Option<Verdict>,
}

struct Rule {
    op: Op,
    at: String,
    fault: Fault,
    left: u32,
}

impl Flaky {
    /// Puts an empty script before `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Engine>) -> Self {
        let (rules, calls, hung) = (Mutex::default(), Mutex::default(), Notify::new());
        Self(Arc::new(Shared { inner, rules, calls, hung, slow: Mutex::default() }))
    }

    /// The next `times` calls of `op` whose place begins with `at` fail so.
    pub fn fail(&self, op: Op, at: &str, fault: Fault, times: u32) {
        let rule = Rule { op, at: at.to_owned(), fault, left: times };
        lock(&self.0.rules).push(rule);
    }

    /// Each delivery is so long on its way, and each consumer takes so long to be opened.
    pub fn slow_down(&self, by: Duration) {
        *lock(&self.0.slow) = by;
        self.fail(Op::Consume, "", Fault::SlowBefore(by), u32::MAX);
    }

    /// Nothing fails any more.
    pub fn heal(&self) {
        lock(&self.0.rules).clear();
    }

    /// Every call so far, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        lock(&self.0.calls).clone()
    }

    /// The frames that `append` was called with for places that begin with `at`, in order.
    #[must_use]
    pub fn appended(&self, at: &str) -> Vec<Frame> {
        let fits = |call: &Call| call.op == Op::Append && call.at.starts_with(at);
        self.calls().into_iter().filter(fits).filter_map(|call| call.frame).collect()
    }

    /// The engine itself, without the script before it.
    #[must_use]
    pub fn inner(&self) -> Arc<dyn Engine> {
        Arc::clone(&self.0.inner)
    }

    /// Forgets the calls so far.
    pub fn forget(&self) {
        lock(&self.0.calls).clear();
    }

    /// Waits until a call is stuck.
    pub async fn stuck(&self) {
        self.0.hung.notified().await;
    }
}

impl Shared {
    /// Logs a call and finds its fault.
    fn arrive(&self, call: Call) -> Option<Fault> {
        let mut rules = lock(&self.rules);
        let fits =
            |rule: &&mut Rule| rule.left > 0 && rule.op == call.op && call.at.starts_with(&rule.at);
        let fault = rules.iter_mut().find(fits).map(|rule| {
            rule.left -= 1;
            rule.fault
        });
        lock(&self.calls).push(call);
        fault
    }

    /// Plays `work` under the fault that the script has for this call.
    async fn play<T>(&self, call: Call, work: impl Future<Output = Result<T>>) -> Result<T> {
        let lost = || Error::new(ErrorKind::Unavailable, "flaky", "no answer came").unknown();
        match self.arrive(call) {
            None => work.await,
            Some(Fault::Refused(kind)) => {
                Err(Error::new(kind, "flaky", "refused as the script says"))
            }
            Some(Fault::LostBefore) => Err(lost()),
            Some(Fault::LostAfter) => {
                work.await?;
                Err(lost())
            }
            Some(Fault::SlowBefore(time)) => {
                let _over = tokio::time::timeout(time, std::future::pending::<()>()).await;
                work.await
            }
            Some(Fault::StuckAfter) => {
                work.await?;
                self.hung.notify_one();
                std::future::pending().await
            }
        }
    }
}

impl Call {
    fn new(op: Op, at: impl std::fmt::Display) -> Self {
        Self { op, at: at.to_string(), frame: None, verdict: None }
    }

    fn with(op: Op, frame: &Frame) -> Self {
        Self { frame: Some(frame.clone()), ..Self::new(op, &frame.subject) }
    }
}

impl Bus for Flaky {
    fn publish(&self, frame: Frame) -> BoxFuture<'_, Result<()>> {
        let call = Call::with(Op::Publish, &frame);
        Box::pin(self.0.play(call, self.0.inner.publish(frame)))
    }

    fn subscribe(&self, filter: Filter, overflow: Overflow) -> BoxFuture<'_, Result<Subscription>> {
        let call = Call::new(Op::Subscribe, &filter);
        Box::pin(self.0.play(call, self.0.inner.subscribe(filter, overflow)))
    }

    fn request(&self, frame: Frame, wait: Duration) -> BoxFuture<'_, Result<Frame>> {
        let call = Call::with(Op::Request, &frame);
        Box::pin(self.0.play(call, self.0.inner.request(frame, wait)))
    }

    fn declare(&self, stream: StreamSpec) -> BoxFuture<'_, Result<()>> {
        let call = Call::new(Op::Declare, &stream.name);
        Box::pin(self.0.play(call, self.0.inner.declare(stream)))
    }

    fn append(&self, frame: Frame, expect: Expect) -> Answer<'_, Receipt> {
        let call = Call::with(Op::Append, &frame);
        // The engine may store it in the very call, so that comes after the script had its say.
        let append = async move { self.0.inner.append(frame, expect).await };
        Answer::later(self.0.play(call, append))
    }

    fn append_all(&self, frames: Vec<Frame>) -> BoxFuture<'_, Result<Vec<Receipt>>> {
        let call = match frames.first() {
            Some(first) => Call::with(Op::AppendAll, first),
            None => Call::new(Op::AppendAll, ""),
        };
        Box::pin(self.0.play(call, self.0.inner.append_all(frames)))
    }

    fn last(&self, subject: Subject) -> BoxFuture<'_, Result<Option<Stored>>> {
        let call = Call::new(Op::Last, &subject);
        Box::pin(self.0.play(call, self.0.inner.last(subject)))
    }

    fn read(&self, stream: StreamName, seq: Seq) -> BoxFuture<'_, Result<Option<Stored>>> {
        let call = Call::new(Op::Read, &stream);
        Box::pin(self.0.play(call, self.0.inner.read(stream, seq)))
    }

    fn discard(&self, stream: StreamName, seq: Seq) -> BoxFuture<'_, Result<bool>> {
        let call = Call::new(Op::Discard, &stream);
        Box::pin(self.0.play(call, self.0.inner.discard(stream, seq)))
    }

    fn consumers(&self, stream: StreamName) -> BoxFuture<'_, Result<Vec<ConsumerState>>> {
        let call = Call::new(Op::Consumers, &stream);
        Box::pin(self.0.play(call, self.0.inner.consumers(stream)))
    }

    fn pause(
        &self,
        stream: StreamName,
        consumer: ConsumerName,
        until: Option<Timestamp>,
    ) -> BoxFuture<'_, Result<()>> {
        let call = Call::new(Op::Pause, &stream);
        Box::pin(self.0.play(call, self.0.inner.pause(stream, consumer, until)))
    }

    fn remove_consumer(
        &self,
        stream: StreamName,
        consumer: ConsumerName,
    ) -> BoxFuture<'_, Result<bool>> {
        let call = Call::new(Op::RemoveConsumer, &stream);
        Box::pin(self.0.play(call, self.0.inner.remove_consumer(stream, consumer)))
    }

    fn consume(&self, consumer: ConsumerSpec) -> BoxFuture<'_, Result<Deliveries>> {
        let call = Call::new(Op::Consume, &consumer.filter);
        Box::pin(async move {
            let deliveries = self.0.play(call, self.0.inner.consume(consumer)).await?;
            let shared = Arc::clone(&self.0);
            Ok(Deliveries::new(stream::unfold(deliveries, move |mut deliveries| {
                let shared = Arc::clone(&shared);
                async move {
                    let delivery = deliveries.next().await?;
                    let slow = *lock(&shared.slow);
                    if !slow.is_zero() {
                        let pending = std::future::pending::<()>();
                        let _over = tokio::time::timeout(slow, pending).await;
                    }
                    Some((delivery.map(|delivery| watched(shared, delivery)), deliveries))
                }
            })))
        })
    }

    fn replay(
        &self,
        stream: StreamName,
        filter: Filter,
        from: Seq,
    ) -> BoxFuture<'_, Result<Replay>> {
        let call = Call::new(Op::Replay, &stream);
        Box::pin(self.0.play(call, self.0.inner.replay(stream, filter, from)))
    }

    fn lag(&self, stream: StreamName) -> BoxFuture<'_, Result<Lag>> {
        let call = Call::new(Op::Lag, &stream);
        Box::pin(self.0.play(call, self.0.inner.lag(stream)))
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.0.play(Call::new(Op::Close, ""), self.0.inner.close()))
    }
}

impl Buckets for Flaky {
    fn get(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<Option<Entry>>> {
        let call = Call::new(Op::Get, format!("{bucket}.{key}"));
        Box::pin(self.0.play(call, self.0.inner.get(bucket, key)))
    }

    fn put(&self, bucket: BucketName, key: BucketKey, put: Put) -> BoxFuture<'_, Result<Revision>> {
        let call = Call::new(Op::Put, format!("{bucket}.{key}"));
        Box::pin(self.0.play(call, self.0.inner.put(bucket, key, put)))
    }

    fn delete(
        &self,
        bucket: BucketName,
        key: BucketKey,
        expect: ExpectRevision,
    ) -> BoxFuture<'_, Result<()>> {
        let call = Call::new(Op::Delete, format!("{bucket}.{key}"));
        Box::pin(self.0.play(call, self.0.inner.delete(bucket, key, expect)))
    }

    fn watch(
        &self,
        bucket: BucketName,
        keys: Filter,
        after: Revision,
    ) -> BoxFuture<'_, Result<Watch>> {
        let call = Call::new(Op::Watch, &bucket);
        Box::pin(self.0.play(call, self.0.inner.watch(bucket, keys, after)))
    }
}

impl Blobs for Flaky {
    fn put_blob(
        &self,
        bucket: BucketName,
        key: BucketKey,
        body: BlobBody,
    ) -> BoxFuture<'_, Result<BlobInfo>> {
        let call = Call::new(Op::PutBlob, format!("{bucket}.{key}"));
        Box::pin(self.0.play(call, self.0.inner.put_blob(bucket, key, body)))
    }

    fn get_blob(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<Option<Blob>>> {
        let call = Call::new(Op::GetBlob, format!("{bucket}.{key}"));
        Box::pin(self.0.play(call, self.0.inner.get_blob(bucket, key)))
    }

    fn delete_blob(&self, bucket: BucketName, key: BucketKey) -> BoxFuture<'_, Result<bool>> {
        let call = Call::new(Op::DeleteBlob, format!("{bucket}.{key}"));
        Box::pin(self.0.play(call, self.0.inner.delete_blob(bucket, key)))
    }

    fn list_blobs(&self, bucket: BucketName) -> BoxFuture<'_, Result<Vec<BlobInfo>>> {
        let call = Call::new(Op::ListBlobs, &bucket);
        Box::pin(self.0.play(call, self.0.inner.list_blobs(bucket)))
    }
}

impl Engine for Flaky {
    fn promises(&self) -> Promises {
        self.0.inner.promises()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
