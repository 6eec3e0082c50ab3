//! Proves that the suite has teeth: an engine that breaks a promise fails the case of that name.
//!
//! The broken engines are the in-memory engine behind a wrapper with one fault each.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::{Pin, pin},
    sync::{Arc, Mutex as StdMutex, MutexGuard, OnceLock},
    task::{Context, Poll, ready},
    time::Duration,
};

use bus_conformance::{CaseOutcome, Harness, Suite, advance, case_names};
use bus_core::{
    BoxFuture, Buckets, Bus, ConsumerSpec, Deliveries, Delivery, Durability, Engine, Entry, Error,
    ErrorKind, Expect, ExpectRevision, FeedItem, Frame, FrameId, Lag, Overflow, Promises, Receipt,
    Replay, Result, Revision, Seq, Settle, Stored, StreamSpec, Subscription, TokioClock, Verdict,
};
use bus_envelope::Timestamp;
use bus_mem::InMemoryBus;
use bus_subjects::{BucketKey, BucketName, Filter, StreamName, Subject};
use bytes::Bytes;
use futures_core::Stream;
use tokio::sync::Mutex;

#[test]
fn an_engine_without_a_fault_fails_nothing() {
    let failures = failures(Fault::None, |_| true);
    assert_eq!(failures, BTreeMap::new());
}

#[test]
fn every_case_fails_on_some_broken_engine() {
    let mut never_failed: Vec<_> = case_names().collect();
    for fault in WRONG_ANSWERS {
        let failed = failures(fault, |case| never_failed.contains(&case));
        never_failed.retain(|case| !failed.contains_key(case));
    }
    assert_eq!(never_failed, [""; 0], "cases that pass whatever an engine does");
}

#[test]
fn an_engine_that_loses_live_frames_is_found() {
    fails(
        Fault::LosesEverySecondFrame,
        &["every_subscriber_hears_every_frame", "close_loses_nothing_accepted"],
    );
}

#[test]
fn an_engine_that_delivers_live_frames_twice_is_found() {
    fails(
        Fault::PublishesTwice,
        &["every_subscriber_hears_every_frame", "overlapping_subscriptions_each_hear_a_frame_once"],
    );
}

#[test]
fn an_engine_that_hides_gaps_is_found() {
    fails(
        Fault::HidesGaps,
        &[
            "a_full_feed_drops_the_oldest_and_counts_them",
            "two_gaps_are_counted_separately",
            "what_was_heard_and_missed_adds_up",
        ],
    );
}

#[test]
fn an_engine_that_counts_gaps_wrong_is_found() {
    fails(Fault::MiscountsGaps, &["what_was_heard_and_missed_adds_up"]);
}

#[test]
fn an_engine_that_ends_a_subscription_at_a_gap_is_found() {
    fails(Fault::EndsAtAGap, &["a_gap_does_not_end_a_subscription"]);
}

#[test]
fn an_engine_that_subscribes_late_is_found() {
    fails(Fault::SubscribesLate, &["a_frame_published_after_subscribe_returned_is_heard"]);
}

#[test]
fn an_engine_whose_publishers_wait_is_found() {
    fails(Fault::PublishWaits, &["a_slow_subscriber_never_slows_the_publisher"]);
}

#[test]
fn an_engine_that_says_stored_and_does_not_store_is_found() {
    fails(
        Fault::StoresNothing,
        &["an_append_that_returned_is_stored", "a_full_stream_refuses_and_drops_nothing"],
    );
}

#[test]
fn an_engine_that_forgets_ids_is_found() {
    fails(Fault::ForgetsIds, &["a_second_copy_is_a_duplicate"]);
}

#[test]
fn an_engine_that_ignores_the_expected_head_is_found() {
    fails(
        Fault::IgnoresExpectations,
        &["a_stale_head_is_a_conflict_and_stores_nothing", "racing_appenders_never_fork_a_chain"],
    );
}

#[test]
fn an_engine_that_accepts_late_verdicts_is_found() {
    fails(Fault::AcceptsLateVerdicts, &["a_late_settle_is_refused", "a_late_extend_is_refused"]);
}

#[test]
fn an_engine_that_does_not_extend_leases_is_found() {
    fails(
        Fault::ExtendsNothing,
        &["an_extended_lease_is_not_redelivered", "a_task_that_outlives_many_leases_runs_once"],
    );
}

#[test]
fn an_engine_that_counts_no_attempts_is_found() {
    fails(
        Fault::CountsNoAttempts,
        &["attempt_numbers_grow_with_every_retry", "every_vanished_worker_is_counted"],
    );
}

#[test]
fn an_engine_that_counts_releases_is_found() {
    fails(Fault::CountsReleases, &["a_release_is_not_counted"]);
}

#[test]
fn an_engine_that_retries_without_a_rest_is_found() {
    fails(
        Fault::RetriesAtOnce,
        &["a_retried_task_comes_back_after_its_delay", "a_retried_task_rests_and_others_pass_it"],
    );
}

#[test]
fn an_engine_that_loses_acknowledgements_is_found() {
    fails(Fault::LosesVerdicts, &["a_settled_task_is_gone", "a_rejected_task_is_gone"]);
}

#[test]
fn an_engine_that_ignores_revisions_is_found() {
    fails(
        Fault::IgnoresExpectations,
        &["a_put_on_a_stale_revision_is_refused", "racing_first_puts_let_one_through"],
    );
}

#[test]
fn an_engine_that_mixes_up_names_is_found() {
    fails(
        Fault::MixesUpNames,
        &[
            "an_id_is_remembered_per_stream",
            "other_subjects_do_not_move_a_head",
            "keys_and_buckets_are_apart",
        ],
    );
}

#[test]
fn an_engine_that_sees_what_is_not_there_is_found() {
    fails(
        Fault::SeesGhosts,
        &["a_key_never_put_is_absent", "the_last_of_a_silent_subject_is_none"],
    );
}

#[test]
fn an_engine_that_deletes_nothing_is_found() {
    fails(Fault::DeletesNothing, &["a_deleted_key_is_absent"]);
}

#[test]
fn an_engine_that_misnames_its_errors_is_found() {
    fails(
        Fault::MisnamesErrors,
        &["a_request_nobody_hears_fails_at_once", "streams_with_overlapping_subjects_conflict"],
    );
}

#[test]
fn an_engine_that_refuses_repeats_is_found() {
    fails(
        Fault::RefusesRepeats,
        &[
            "declaring_the_same_stream_twice_is_fine",
            "deleting_what_is_not_there_is_fine",
            "a_second_close_is_fine",
        ],
    );
}

#[test]
fn an_engine_that_stays_open_is_found() {
    fails(
        Fault::StaysOpen,
        &[
            "a_closed_bus_refuses_the_live_plane",
            "a_closed_bus_refuses_the_durable_plane",
            "a_closed_bus_refuses_its_buckets",
            "a_waiting_member_ends_with_the_close",
        ],
    );
}

#[test]
fn an_engine_that_never_answers_fails_in_time() {
    let reasons = failures(Fault::NeverAnswers, |case| case == "an_append_that_returned_is_stored");
    assert_eq!(reasons.values().collect::<Vec<_>>(), ["no answer in time"]);
}

#[test]
fn a_panic_is_a_failure_with_its_words() {
    let reasons = failures(Fault::Panics, |case| case == "an_append_that_returned_is_stored");
    assert_eq!(reasons.values().collect::<Vec<_>>(), ["panicked: the engine fell over"]);
}

#[test]
fn an_engine_that_cannot_be_reached_fails_every_case_that_applies() {
    let reasons = failures(Fault::Unreachable, |_| true);
    let applicable = case_names().filter(|case| !case.starts_with("a_restart_")).count();
    assert_eq!(reasons.len(), applicable);
    assert!(reasons.values().all(|reason| reason.contains("unavailable")), "{reasons:?}");
}

#[test]
fn an_engine_that_promises_durability_is_restarted() {
    let reasons = failures(Fault::PromisesTooMuch, |case| case.starts_with("a_restart_"));
    assert!(reasons.contains_key("a_restart_keeps_everything_acknowledged"), "{reasons:?}");
    assert!(reasons.values().all(|reason| reason.contains("unsupported")), "{reasons:?}");
}

/// What is wrong with an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    LosesEverySecondFrame,
    PublishesTwice,
    HidesGaps,
    MiscountsGaps,
    EndsAtAGap,
    SubscribesLate,
    PublishWaits,
    StoresNothing,
    ForgetsIds,
    IgnoresExpectations,
    MixesUpNames,
    AcceptsLateVerdicts,
    ExtendsNothing,
    CountsNoAttempts,
    CountsReleases,
    RetriesAtOnce,
    LosesVerdicts,
    SeesGhosts,
    CountsNoRevisions,
    DeletesNothing,
    RefusesRepeats,
    MisnamesErrors,
    StaysOpen,
    PromisesTooMuch,
    NeverAnswers,
    Panics,
    Unreachable,
}

/// The faults of an engine that answers, one thing wrong with each.
const WRONG_ANSWERS: [Fault; 24] = [
    Fault::LosesEverySecondFrame,
    Fault::PublishesTwice,
    Fault::HidesGaps,
    Fault::MiscountsGaps,
    Fault::EndsAtAGap,
    Fault::SubscribesLate,
    Fault::PublishWaits,
    Fault::StoresNothing,
    Fault::ForgetsIds,
    Fault::IgnoresExpectations,
    Fault::MixesUpNames,
    Fault::AcceptsLateVerdicts,
    Fault::ExtendsNothing,
    Fault::CountsNoAttempts,
    Fault::CountsReleases,
    Fault::RetriesAtOnce,
    Fault::LosesVerdicts,
    Fault::SeesGhosts,
    Fault::CountsNoRevisions,
    Fault::DeletesNothing,
    Fault::RefusesRepeats,
    Fault::MisnamesErrors,
    Fault::StaysOpen,
    Fault::PromisesTooMuch,
];

/// Asserts that each of `cases` fails on an engine with `fault`.
#[track_caller]
fn fails(fault: Fault, cases: &[&str]) {
    let reasons = failures(fault, |case| cases.contains(&case));
    let failed: Vec<_> = reasons.keys().copied().collect();
    let mut expected = cases.to_vec();
    expected.sort_unstable();
    assert_eq!(failed, expected, "cases that fail on an engine that {fault:?}");
}

/// The failed cases among the wanted ones, with their reasons.
fn failures(fault: Fault, wants: impl Fn(&str) -> bool) -> BTreeMap<&'static str, String> {
    // Only an engine that never answers is waited for; the others have all the time they need.
    let limit = Duration::from_secs(if fault == Fault::NeverAnswers { 1 } else { 60 });
    let suite = Suite::new(move || BrokenHarness { fault, broker: OnceLock::new() }).limit(limit);
    let failed = |outcome| match outcome {
        CaseOutcome::Failed { reason } => Some(reason),
        _ => None,
    };
    let reports = suite.outcomes(wants).into_iter();
    reports.filter_map(|report| Some((report.case, failed(report.outcome)?))).collect()
}

struct BrokenHarness {
    fault: Fault,
    broker: OnceLock<Broker>,
}

/// What all connections of a broken engine share.
#[derive(Clone)]
struct Broker {
    bus: InMemoryBus,
    memory: Arc<StdMutex<Memory>>,
}

/// What faults remember.
#[derive(Default)]
struct Memory {
    count: u64,
    ids: BTreeSet<FrameId>,
    head: Seq,
}

impl Harness for BrokenHarness {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn promises(&self) -> Promises {
        let too_much = self.fault == Fault::PromisesTooMuch;
        let durability = if too_much { Durability::Synced } else { Durability::Memory };
        Promises { engine: "mem", durability, shared: false }
    }

    fn connect<'a>(&'a self, _who: &'a str) -> BoxFuture<'a, Result<Arc<dyn Engine>>> {
        if self.fault == Fault::Unreachable {
            let error = Error::new(ErrorKind::Unavailable, "connect", "nobody is there");
            return Box::pin(async { Err(error) });
        }
        let broker = self.broker.get_or_init(|| {
            let clock = TokioClock::starting_at(Timestamp::from_unix_ns(0));
            Broker { bus: InMemoryBus::with_clock(Arc::new(clock)), memory: Arc::default() }
        });
        let memory = Arc::clone(&broker.memory);
        let inner = Arc::new(broker.bus.connect());
        let broken: Arc<dyn Engine> = Arc::new(Broken { inner, fault: self.fault, memory });
        Box::pin(async { Ok(broken) })
    }

    fn restart(&self) -> BoxFuture<'_, Result<()>> {
        let error = Error::new(ErrorKind::Unsupported, "restart", "memory outlives no process");
        Box::pin(async { Err(error) })
    }

    fn virtual_time(&self) -> bool {
        true
    }

    fn elapse(&self, by: Duration) -> BoxFuture<'_, ()> {
        Box::pin(advance(by))
    }
}

/// An engine with one fault.
struct Broken {
    inner: Arc<InMemoryBus>,
    fault: Fault,
    memory: Arc<StdMutex<Memory>>,
}

impl Broken {
    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap()
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

impl Engine for Broken {
    fn promises(&self) -> Promises {
        self.inner.promises()
    }
}

impl Bus for Broken {
    fn publish(&self, frame: Frame) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            match self.fault {
                Fault::LosesEverySecondFrame if self.number() % 2 == 0 => return Ok(()),
                Fault::PublishesTwice => self.inner.publish(frame.clone()).await?,
                Fault::PublishWaits => tokio::time::sleep(Duration::from_millis(10)).await,
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
                Fault::Panics => panic!("the engine fell over"),
                _ => {}
            }
            self.answer(self.inner.append(frame, expect)).await
        })
    }

    fn last(&self, subject: Subject) -> BoxFuture<'_, Result<Option<Stored>>> {
        Box::pin(async move {
            match self.answer(self.inner.last(subject)).await? {
                None if self.has(Fault::SeesGhosts) => Ok(Some(stored(frame_named("ghost")?))),
                last => Ok(last),
            }
        })
    }

    fn consume(&self, consumer: ConsumerSpec) -> BoxFuture<'_, Result<Deliveries>> {
        Box::pin(async move {
            let deliveries = self.answer(self.inner.consume(consumer)).await?;
            Ok(Deliveries::new(Claims { deliveries, fault: self.fault }))
        })
    }

    fn replay(&self, stream: StreamName, from: Seq) -> BoxFuture<'_, Result<Replay>> {
        Box::pin(async move {
            let replay = self.answer(self.inner.replay(stream, from)).await?;
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
        value: Bytes,
        expect: ExpectRevision,
    ) -> BoxFuture<'_, Result<Revision>> {
        Box::pin(async move {
            let bucket = self.bucket(bucket)?;
            let ignores = self.has(Fault::IgnoresExpectations);
            let expect = if ignores { ExpectRevision::Any } else { expect };
            let revision = self.answer(self.inner.put(bucket, key, value, expect)).await?;
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
}

impl Broken {
    fn bucket(&self, bucket: BucketName) -> Result<BucketName> {
        let mixed_up = self.has(Fault::MixesUpNames);
        Ok(if mixed_up { BucketName::parse("ALL_IN_ONE")? } else { bucket })
    }
}

fn frame_named(name: &str) -> Result<Frame> {
    Ok(Frame::new(Subject::parse("vak.ghosts")?, FrameId::parse(name)?, name.to_owned()))
}

fn stored(frame: Frame) -> Stored {
    Stored { frame, seq: Seq(1), time: Timestamp::from_unix_ns(0) }
}

/// The engine's side of a delivery, with the fault.
struct BrokenSettle {
    delivery: Mutex<Option<Delivery>>,
    fault: Fault,
}

impl BrokenSettle {
    fn wrap(delivery: Delivery, fault: Fault) -> Delivery {
        let (frame, seq, time) = (delivery.frame.clone(), delivery.seq, delivery.stored);
        let (stream, message) = (delivery.stream.clone(), Stored { frame, seq, time });
        let attempt = if fault == Fault::CountsNoAttempts { 1 } else { delivery.attempt };
        let lease = delivery.lease;
        let settle = Self { delivery: Mutex::new(Some(delivery)), fault };
        Delivery::new(stream, message, attempt, lease, Box::new(settle))
    }

    /// What becomes of the engine's own answer.
    fn answer(&self, answer: Result<()>) -> Result<()> {
        match answer {
            Err(error)
                if error.kind() == ErrorKind::LeaseLost
                    && self.fault == Fault::AcceptsLateVerdicts =>
            {
                Ok(())
            }
            answer => answer,
        }
    }
}

impl Settle for BrokenSettle {
    fn settle(&self, verdict: Verdict) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let verdict = match (verdict, self.fault) {
                (Verdict::Release { after }, Fault::CountsReleases) => Verdict::Retry { after },
                (Verdict::Retry { .. }, Fault::RetriesAtOnce) => {
                    Verdict::Retry { after: Duration::ZERO }
                }
                (_, Fault::LosesVerdicts) => return Ok(()),
                (verdict, _) => verdict,
            };
            match self.delivery.lock().await.take() {
                Some(delivery) => self.answer(delivery.settle(verdict).await),
                None => Ok(()),
            }
        })
    }

    fn extend(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            if self.fault == Fault::ExtendsNothing {
                return Ok(());
            }
            match self.delivery.lock().await.as_ref() {
                Some(delivery) => self.answer(delivery.extend().await),
                None => Ok(()),
            }
        })
    }
}

/// A replay with something in front of it.
struct Then {
    first: Option<Result<Stored>>,
    rest: Replay,
}

impl Stream for Then {
    type Item = Result<Stored>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(first)),
            None => pin!(self.rest.next()).poll(cx),
        }
    }
}

/// A stream whose items pass through a function.
struct Mapped<S, F>(S, F);

enum Step<T> {
    Yield(T),
    Skip,
    End,
}

impl<S, F> Stream for Mapped<S, F>
where
    S: Stream + Unpin,
    F: FnMut(S::Item) -> Step<S::Item> + Unpin,
{
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        loop {
            let Some(item) = ready!(Pin::new(&mut self.0).poll_next(cx)) else {
                return Poll::Ready(None);
            };
            match (self.1)(item) {
                Step::Yield(item) => return Poll::Ready(Some(item)),
                Step::End => return Poll::Ready(None),
                Step::Skip => {}
            }
        }
    }
}

/// Deliveries whose engine's side has the fault.
struct Claims {
    deliveries: Deliveries,
    fault: Fault,
}

impl Stream for Claims {
    type Item = Result<Delivery>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let fault = self.fault;
        let next = ready!(pin!(self.deliveries.next()).poll(cx));
        Poll::Ready(next.map(|item| item.map(|delivery| BrokenSettle::wrap(delivery, fault))))
    }
}

/// A subscription that asks its engine only when it is first polled.
enum Late {
    Asking(BoxFuture<'static, Result<Subscription>>),
    Hearing(Subscription),
}

impl Stream for Late {
    type Item = FeedItem;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<FeedItem>> {
        loop {
            match &mut *self {
                Self::Hearing(subscription) => return Pin::new(subscription).poll_next(cx),
                Self::Asking(asking) => match ready!(asking.as_mut().poll(cx)) {
                    Ok(subscription) => *self = Self::Hearing(subscription),
                    Err(_) => return Poll::Ready(None),
                },
            }
        }
    }
}
