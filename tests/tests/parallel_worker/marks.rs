//! Claim marks: what they are about, what they outlive, and what happens while they are written.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bus_core::{
    Backoff, BucketMirror, ConsumerSpec, ErrorKind, Failure, Handler, Put, RetryPolicy, Revision,
    Seq, Stop, WatchItem, WorkerSpec, planes,
};
use bus_envelope::Draft;
use bus_stories::{Doing, Fault, Op, Ran, Scripted, Stage, Told, slow, task, words, work};
use bus_subjects::{BucketKey, BucketName, Filter, Role};

use super::{fill, gated, nothing_is_left, rest, spec, until, worker, worker_with};

const MARKS: &str = "VAK_CLAIMS_w1.";

/// A handler that fails for good, and how often it ran.
fn hopeless() -> (impl Handler, Arc<AtomicU32>) {
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let handler = Doing(move |_: Told| -> Ran {
        counted.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Err(Failure::Hopeless { reason: "no such file".to_owned() }) })
    });
    (handler, runs)
}

/// A worker that claims a task and dies before it left a mark.
async fn die_at_once(stage: &Stage) {
    let consumer = ConsumerSpec {
        stream: planes::work_stream(&stage.workspace).unwrap(),
        name: "worker_coder".parse().unwrap(),
        filter: (&stage.tasks().subject()).into(),
        lease: Duration::from_secs(30),
    };
    let mut deliveries = stage.engine.consume(consumer).await.unwrap();
    assert_eq!(deliveries.next().await.unwrap().unwrap().attempt, 1);
}

/// How many marks there are.
async fn marks(stage: &Stage) -> usize {
    let bucket = BucketName::claims(&stage.workspace);
    let mut watch = stage.engine.watch(bucket, Filter::all(), Revision::START).await.unwrap();
    let mut mirror = BucketMirror::default();
    loop {
        let item = watch.next().await.unwrap().unwrap();
        if item == WatchItem::Current {
            return mirror.len();
        }
        let _changed = mirror.apply(item);
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_mark_is_written_slowly_is_nobody_elses_meanwhile() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    fill(&stage, 1).await;
    flaky.fail(Op::Put, MARKS, Fault::SlowBefore(Duration::from_secs(100)), 1);
    let (handler, counts) = slow(Duration::from_secs(1));
    let (stop, events) = (Stop::default(), Mutex::new(Vec::new()));
    let report = |event| {
        events.lock().unwrap().push(event);
        stop.drain.cancel();
    };
    let (one, two) = (worker(&stage, "coder-1", 1), worker(&stage, "coder-2", 1));
    let (first, second) =
        tokio::join!(one.run(&handler, &stop, report), two.run(&handler, &stop, report));
    first.and(second).unwrap();

    assert_eq!(words(&events.into_inner().unwrap()), ["completed"]);
    assert_eq!(counts.starts.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_lease_is_lost_before_it_began_does_not_begin() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    fill(&stage, 1).await;
    flaky.fail(Op::Put, MARKS, Fault::SlowBefore(Duration::from_secs(100)), 1);
    flaky.fail(Op::Extend, "vak.work.", Fault::Refused(ErrorKind::LeaseLost), 1);
    let (handler, counts) = slow(Duration::from_secs(1));
    let events = work(&worker(&stage, "coder-1", 1), &handler, |_| true).await.unwrap();
    assert_eq!(words(&events), ["unsettled"]);
    assert_eq!(counts.starts.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_extended_in_time_however_often_the_worker_is_held_up() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    fill(&stage, 1).await;
    die_at_once(&stage).await;
    // Each of them is shorter than a third of the lease, and extending it takes a while as well.
    flaky.fail(Op::Get, MARKS, Fault::SlowBefore(Duration::from_secs(9)), 1);
    flaky.fail(Op::Put, MARKS, Fault::SlowBefore(Duration::from_secs(9)), 1);
    flaky.fail(Op::Extend, "vak.work.", Fault::SlowBefore(Duration::from_secs(1)), u32::MAX);
    let (handler, _) = slow(Duration::from_secs(60));
    let events = work(&worker(&stage, "coder-1", 1), &handler, |_| true).await.unwrap();
    assert_eq!(words(&events), ["completed"]);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_lost_its_lease_over_a_letter_gives_no_verdict_and_leaves_word() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    fill(&stage, 1).await;
    flaky.fail(Op::Append, "vak.dlq.", Fault::SlowBefore(Duration::from_secs(29)), 1);
    flaky.fail(Op::Extend, "vak.work.", Fault::Refused(ErrorKind::LeaseLost), 1);
    let (handler, runs) = hopeless();
    let first = worker(&stage, "coder-1", 1);
    let events = work(&first, &handler, |_| true).await.unwrap();
    assert_eq!(words(&events), ["unsettled"]);
    let is_verdict = |call: &bus_stories::Call| call.op == Op::Settle;
    assert!(!flaky.calls().iter().any(is_verdict), "a verdict without a lease");

    let events = work(&worker(&stage, "coder-2", 1), &handler, |_| true).await.unwrap();

    assert_eq!(words(&events), ["dead-lettered"]);
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    let letters = stage.letters().await.unwrap();
    assert_eq!((letters.len(), letters[0].attempts), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_task_is_not_run_again_while_its_letter_is_stored_slowly() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    fill(&stage, 1).await;
    flaky.fail(Op::Append, "vak.dlq.", Fault::SlowBefore(Duration::from_secs(100)), 1);
    let (handler, runs) = hopeless();
    let (stop, events) = (Stop::default(), Mutex::new(Vec::new()));
    let report = |event| {
        events.lock().unwrap().push(event);
        stop.drain.cancel();
    };
    let (one, two) = (worker(&stage, "coder-1", 1), worker(&stage, "coder-2", 1));
    let (first, second) =
        tokio::join!(one.run(&handler, &stop, report), two.run(&handler, &stop, report));
    first.and(second).unwrap();

    assert_eq!(words(&events.into_inner().unwrap()), ["dead-lettered"]);
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_task_with_a_letter_that_could_not_be_removed_is_not_run_again() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    fill(&stage, 1).await;
    flaky.fail(Op::Settle, "vak.work.", Fault::LostBefore, 1);
    let (handler, runs) = hopeless();
    let events = work(&worker(&stage, "coder-1", 1), &handler, until(1)).await.unwrap();
    assert_eq!(words(&events), ["unsettled", "dead-lettered"]);
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    assert_eq!(stage.letters().await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_marks_cannot_be_read_now_is_not_run_now() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    fill(&stage, 1).await;
    // It is done and cannot say so; the word that was left for the next one cannot be read at once.
    flaky.fail(Op::Settle, "vak.work.", Fault::LostBefore, 1);
    flaky.fail(Op::Get, MARKS, Fault::Refused(ErrorKind::Unavailable), 2);
    let (handler, counts) = slow(Duration::from_secs(1));
    let events = work(&worker(&stage, "coder-1", 1), &handler, until(1)).await.unwrap();
    assert_eq!(words(&events), ["unsettled", "unsettled", "unsettled", "completed"]);
    assert_eq!(counts.starts.load(Ordering::Relaxed), 1, "it was done twice");
}

#[tokio::test(start_paused = true)]
async fn a_mark_is_not_taken_for_one_of_a_later_task_with_the_same_id() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let nightly = |text| Draft { id: Some("nightly".to_owned()), ..task(&stage, text) };
    boss.send(nightly("first")).await.unwrap();
    // Done and removed; only the answer is lost, so the word for the next delivery stays.
    flaky.fail(Op::Settle, "vak.work.", Fault::LostAfter, 1);
    let events =
        work(&worker(&stage, "coder-1", 1), &Scripted::failing(0), |_| true).await.unwrap();
    assert_eq!(words(&events), ["unsettled"]);
    nothing_is_left(&stage).await;

    tokio::time::advance(Duration::from_secs(3600)).await;
    boss.send(nightly("second")).await.unwrap();
    die_at_once(&stage).await;
    let (handler, counts) = slow(Duration::from_secs(1));
    let events = work(&worker(&stage, "coder-1", 1), &handler, until(1)).await.unwrap();

    assert_eq!(words(&events), ["completed"]);
    assert_eq!(counts.ends.load(Ordering::Relaxed), 1, "the second task is lost");
}

#[tokio::test(start_paused = true)]
async fn a_mark_that_nobody_clears_ends_with_its_time() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    fill(&stage, 1).await;
    flaky.fail(Op::Settle, "vak.work.", Fault::LostAfter, 1);
    work(&worker(&stage, "coder-1", 1), &Scripted::failing(0), |_| true).await.unwrap();
    assert_eq!(marks(&stage).await, 1);
    tokio::time::advance(Duration::from_secs(8 * 24 * 3600)).await;
    assert_eq!(marks(&stage).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_slow_to_clear_its_mark_leaves_that_of_the_next_attempt() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    fill(&stage, 1).await;
    flaky.fail(Op::Delete, MARKS, Fault::SlowBefore(Duration::from_secs(10)), 1);
    let retry = RetryPolicy { retries_max: 1, backoff: Backoff { base: Duration::ZERO } };
    let hired = |name| worker_with(&stage, name, WorkerSpec { retry, ..spec(&stage, 1) });
    let (one, two, three) = (hired("coder-1"), hired("coder-2"), hired("coder-3"));
    let stop = Stop::default();
    let failing = Scripted::failing(1);
    let first = one.run(&failing, &stop, |_| stop.drain.cancel());
    let second = async {
        // It begins while the first one is about to clear, and dies.
        let (handler, full, _gate) = gated(1);
        let still = Stop::default();
        tokio::select! {
            _ = two.run(&handler, &still, |_| ()) => panic!("it did not die"),
            () = async { full.notified().await; rest(Duration::from_secs(20)).await } => {}
        }
    };
    let (ran, ()) = tokio::join!(first, second);
    ran.unwrap();

    let events = work(&three, &Scripted::failing(0), |_| true).await.unwrap();

    assert_eq!(words(&events), ["dead-lettered"]);
    let letter = stage.letters().await.unwrap().remove(0);
    assert_eq!(letter.worker_id.as_deref(), Some("coder-2"), "{}", letter.failure_reason);
}

#[tokio::test(start_paused = true)]
async fn a_mark_that_names_no_worker_does_not_prevent_the_letter() {
    let stage = Stage::new().await.unwrap();
    fill(&stage, 1).await;
    let stream = planes::work_stream(&stage.workspace).unwrap();
    let stored = stage.engine.read(stream, Seq(1)).await.unwrap().unwrap();
    let retry = RetryPolicy { retries_max: 0, ..RetryPolicy::default() };
    let worker = worker_with(&stage, "coder-1", WorkerSpec { retry, ..spec(&stage, 1) });
    let (handler, _) = slow(Duration::from_secs(100));
    let stop = Stop::default();
    let died = tokio::time::timeout(Duration::from_secs(5), worker.run(&handler, &stop, |_| ()));
    assert!(died.await.is_err());
    // Whoever works in the workspace may write there.
    let key = format!("VAK_WORK_w1/{}/1", stored.time.unix_ns());
    let name = "x".repeat(900_000);
    let mark = format!(
        r#"{{"task":"t","attempt":1,"worker":"coder-1","claimed":"",
            "given_up":{{"attempts":4,"worker":"{name}","reason":"so"}}}}"#
    );
    let bucket = BucketName::claims(&stage.workspace);
    let key = BucketKey::parse(&key).unwrap();
    assert!(stage.engine.get(bucket.clone(), key.clone()).await.unwrap().is_some());
    stage.engine.put(bucket, key, Put::new(mark)).await.unwrap();

    let events = work(&worker, &Scripted::failing(0), |_| true).await.unwrap();

    assert_eq!(words(&events), ["dead-lettered"], "{events:?}");
    assert_eq!(stage.letters().await.unwrap()[0].worker_id, None);
}
