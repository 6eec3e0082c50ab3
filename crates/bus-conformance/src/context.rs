//! What a case works with: an engine, names of its own, time, and words for common steps.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bus_core::{
    Clock, ConsumerSpec, Deliveries, Delivery, Engine, Expect, FeedItem, Frame, FrameId, Overflow,
    Promises, Receipt, Retention, Seq, Stored, StreamSpec, Subscription, SystemClock,
};
use bus_subjects::{BucketName, ConsumerName, Filter, StreamName, Subject};
use tokio::task::JoinSet;

use crate::{
    Harness,
    check::{CaseResult, Failure, holds},
    harness::yield_often,
};

/// The surroundings of one case.
pub(crate) struct Context {
    /// The connection that most steps use.
    pub(crate) bus: Arc<dyn Engine>,
    harness: Arc<dyn Harness>,
    workspace: String,
    last_number: AtomicU64,
}

/// The lease of the suite's consumers.
pub(crate) const LEASE: Duration = Duration::from_secs(3);
/// Well within a lease, and more than a real broker takes for one step.
pub(crate) const A_MOMENT: Duration = Duration::from_secs(1);
/// How long a case waits for what must come.
const ANSWER: Duration = Duration::from_secs(10);
/// How long racing tasks may take together: on a network they share many round trips.
const RACE: Duration = Duration::from_secs(25);
/// How long a case listens under real time for what must not come.
const QUIET: Duration = Duration::from_millis(300);
/// How much later than another one a feed may be filled under real time.
const BETWEEN_FEEDS: Duration = Duration::from_millis(20);

/// Names and time.
impl Context {
    pub(crate) async fn open(harness: Arc<dyn Harness>, number: usize) -> CaseResult<Self> {
        let bus = harness.connect("main").await?;
        let workspace = format!("w{number}-{}", run_tag());
        Ok(Self { bus, harness, workspace, last_number: AtomicU64::new(0) })
    }

    /// A number that this case did not use before.
    pub(crate) fn number(&self) -> u64 {
        self.last_number.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn promises(&self) -> Promises {
        self.harness.promises()
    }

    pub(crate) async fn connect(&self, who: &str) -> CaseResult<Arc<dyn Engine>> {
        Ok(self.harness.connect(who).await?)
    }

    pub(crate) async fn restart(&self) -> CaseResult {
        Ok(self.harness.restart().await?)
    }

    /// The subject `vak.<plane>.<workspace>.<tail>`.
    pub(crate) fn subject(&self, plane: &str, tail: &str) -> CaseResult<Subject> {
        Ok(Subject::parse(&format!("vak.{plane}.{}.{tail}", self.workspace))?)
    }

    /// The filter `vak.<plane>.<workspace>.<tail>`.
    pub(crate) fn filter(&self, plane: &str, tail: &str) -> CaseResult<Filter> {
        Ok(Filter::parse(&format!("vak.{plane}.{}.{tail}", self.workspace))?)
    }

    pub(crate) fn stream_name(&self, kind: &str) -> CaseResult<StreamName> {
        Ok(StreamName::parse(&format!("VAK_{kind}_{}", self.workspace))?)
    }

    pub(crate) fn bucket(&self, purpose: &str) -> CaseResult<BucketName> {
        Ok(BucketName::parse(&format!("VAK_{purpose}_{}", self.workspace))?)
    }

    /// Lets `by` pass.
    pub(crate) async fn elapse(&self, by: Duration) {
        self.harness.elapse(by).await;
    }

    /// Waits for what must come, up to ten seconds of the engine's time.
    pub(crate) async fn wait<T>(
        &self,
        what: &str,
        future: impl Future<Output = T>,
    ) -> CaseResult<T> {
        let late = |_| Failure::new(format!("{what}: nothing came within {ANSWER:?}"));
        tokio::time::timeout(ANSWER, future).await.map_err(late)
    }

    /// Waits for what must come at once: no time passes under a stopped clock.
    pub(crate) async fn at_once<T>(
        &self,
        what: &str,
        future: impl Future<Output = T>,
    ) -> CaseResult<T> {
        let got = self.within(A_MOMENT, future).await;
        got.ok_or_else(|| Failure::new(format!("{what}: did not come at once")))
    }

    /// Fails when something comes that must not come now; `future` is dropped.
    pub(crate) async fn nothing<T>(
        &self,
        what: &str,
        future: impl Future<Output = T>,
    ) -> CaseResult {
        let got = self.within(QUIET, future).await;
        holds(got.is_none(), || format!("{what}: something came that must not come now"))
    }

    /// What comes now, or `None`; `future` is dropped.
    pub(crate) async fn now_or_nothing<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        self.within(QUIET, future).await
    }

    /// Runs `racers` as tasks of their own, on several threads where the runtime has them.
    ///
    /// The first failure ends the others.
    pub(crate) async fn race<T: Send + 'static>(
        &self,
        racers: impl IntoIterator<Item = impl Future<Output = CaseResult<T>> + Send + 'static>,
    ) -> CaseResult<Vec<T>> {
        let mut tasks: JoinSet<CaseResult<T>> = racers.into_iter().collect();
        let racing = async {
            let mut results = Vec::new();
            while let Some(result) = tasks.join_next().await {
                results.push(result.map_err(|error| Failure::new(format!("a racer {error}")))??);
            }
            Ok(results)
        };
        let late = |_| Failure::new(format!("the racing tasks did not end within {RACE:?}"));
        tokio::time::timeout(RACE, racing).await.map_err(late)?
    }

    async fn within<T>(&self, real: Duration, future: impl Future<Output = T>) -> Option<T> {
        if !self.harness.virtual_time() {
            return tokio::time::timeout(real, future).await.ok();
        }
        tokio::select! {
            biased;
            got = future => Some(got),
            () = yield_often() => None,
        }
    }
}

/// The live plane.
impl Context {
    pub(crate) async fn publish(&self, subject: &Subject, text: &str) -> CaseResult {
        Ok(self.bus.publish(frame(subject, text)?).await?)
    }

    /// A subscription that holds up to `capacity` frames.
    pub(crate) async fn listen(
        &self,
        filter: impl Into<Filter>,
        capacity: usize,
    ) -> CaseResult<Subscription> {
        let capacity = std::num::NonZeroUsize::new(capacity)
            .ok_or_else(|| Failure::new("the case asks for no capacity"))?;
        Ok(self.bus.subscribe(filter.into(), Overflow::DropOldest { capacity }).await?)
    }

    pub(crate) async fn hear(&self, subscription: &mut Subscription) -> CaseResult<Frame> {
        match self.hear_item(subscription).await? {
            FeedItem::Frame(frame) => Ok(frame.into_frame()),
            gap => Err(Failure::new(format!("expected a frame, got {gap:?}"))),
        }
    }

    pub(crate) async fn hear_text(&self, subscription: &mut Subscription) -> CaseResult<String> {
        Ok(text(&self.hear(subscription).await?))
    }

    pub(crate) async fn hear_gap(&self, subscription: &mut Subscription) -> CaseResult<u64> {
        match self.hear_item(subscription).await? {
            FeedItem::Gap { missed } => Ok(missed),
            FeedItem::Frame(frame) => {
                Err(Failure::new(format!("expected a gap, got the frame {:?}", text(&frame))))
            }
        }
    }

    pub(crate) async fn hear_item(&self, subscription: &mut Subscription) -> CaseResult<FeedItem> {
        let item = self.wait("a subscriber", subscription.next()).await?;
        item.ok_or_else(|| Failure::new("the subscription ended"))
    }

    pub(crate) async fn hears_nothing(&self, subscription: &mut Subscription) -> CaseResult {
        self.nothing("a subscriber", subscription.next()).await
    }

    /// Returns once everything published before on the main connection has reached the feeds.
    pub(crate) async fn let_arrive(&self) -> CaseResult {
        let subject = self.subject("events", "barrier.tokens")?;
        let mut barrier = self.listen(&subject, 1).await?;
        self.publish(&subject, "barrier").await?;
        self.hear(&mut barrier).await?;
        // Order is promised within a subject; a task of its own may fill each feed.
        if !self.harness.virtual_time() {
            self.elapse(BETWEEN_FEEDS).await;
        }
        Ok(())
    }
}

/// The durable plane.
impl Context {
    /// Declares `VAK_<kind>_<workspace>` over `vak.<plane>.<workspace>.>`.
    pub(crate) async fn stream(
        &self,
        kind: &str,
        plane: &str,
        retention: Retention,
    ) -> CaseResult<StreamName> {
        let spec = self.spec(kind, plane, retention)?;
        let name = spec.name.clone();
        self.bus.declare(spec).await?;
        Ok(name)
    }

    pub(crate) fn spec(
        &self,
        kind: &str,
        plane: &str,
        retention: Retention,
    ) -> CaseResult<StreamSpec> {
        let filters = vec![self.filter(plane, ">")?];
        Ok(StreamSpec::new(self.stream_name(kind)?, filters, retention))
    }

    /// The work queue of the case's workspace.
    pub(crate) async fn work_queue(&self) -> CaseResult<StreamName> {
        self.stream("WORK", "work", Retention::WorkQueue).await
    }

    /// Where tasks for `role` go.
    pub(crate) fn task(&self, role: &str) -> CaseResult<Subject> {
        self.subject("work", &format!("{role}.task"))
    }

    pub(crate) async fn append(&self, subject: &Subject, text: &str) -> CaseResult<Receipt> {
        Ok(self.bus.append(frame(subject, text)?, Expect::Any).await?)
    }

    pub(crate) async fn append_all(&self, subject: &Subject, texts: &[&str]) -> CaseResult {
        for text in texts {
            self.append(subject, text).await?;
        }
        Ok(())
    }

    pub(crate) async fn stored(&self, stream: &StreamName, from: u64) -> CaseResult<Vec<Stored>> {
        let mut replay = self.bus.replay(stream.clone(), Filter::all(), Seq(from)).await?;
        let mut all = Vec::new();
        while let Some(stored) = self.wait("a replay", replay.next()).await? {
            all.push(stored?);
        }
        Ok(all)
    }

    pub(crate) async fn stored_texts(&self, stream: &StreamName) -> CaseResult<Vec<String>> {
        Ok(self.stored(stream, 1).await?.iter().map(|stored| text(&stored.frame)).collect())
    }

    /// The consumer of `role`'s tasks.
    pub(crate) fn consumer(&self, stream: &StreamName, role: &str) -> CaseResult<ConsumerSpec> {
        let filter = Filter::from(&self.task(role)?);
        let name = ConsumerName::parse(role)?;
        Ok(ConsumerSpec { stream: stream.clone(), name, filter, lease: LEASE })
    }

    /// A member of the consumer of `role`'s tasks.
    pub(crate) async fn member(&self, stream: &StreamName, role: &str) -> CaseResult<Deliveries> {
        Ok(self.bus.consume(self.consumer(stream, role)?).await?)
    }

    /// The next delivery, however long it rests.
    pub(crate) async fn take(&self, member: &mut Deliveries) -> CaseResult<Delivery> {
        let next = self.wait("a member", member.next()).await?;
        Ok(next.ok_or_else(|| Failure::new("the deliveries ended"))??)
    }

    /// The next delivery, which must be there now.
    pub(crate) async fn take_now(&self, member: &mut Deliveries) -> CaseResult<Delivery> {
        let next = self.at_once("a member", member.next()).await?;
        Ok(next.ok_or_else(|| Failure::new("the deliveries ended"))??)
    }

    pub(crate) async fn gets_nothing(&self, member: &mut Deliveries) -> CaseResult {
        self.nothing("a member", member.next()).await
    }
}

/// Keeps apart the runs on one server: by the process id those of one machine, by the time those in
/// containers, where every process may have the same id.
fn run_tag() -> &'static str {
    static TAG: OnceLock<String> = OnceLock::new();
    TAG.get_or_init(|| {
        let milliseconds = SystemClock::new().now().unix_ns() / 1_000_000;
        format!("{}-{milliseconds}", std::process::id())
    })
}

/// A frame whose id and body are `text`.
pub(crate) fn frame(subject: &Subject, text: &str) -> CaseResult<Frame> {
    Ok(Frame::new(subject.clone(), FrameId::parse(text)?, text.to_owned()))
}

/// The body of a frame as text.
pub(crate) fn text(frame: &Frame) -> String {
    String::from_utf8_lossy(&frame.body).into_owned()
}
