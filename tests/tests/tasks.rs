//! Deadlines, cancelled tasks, and what tasks gave.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::{sync::Arc, time::Duration};

use bus_core::{
    Cancelled, Deadline, ErrorKind, Handled, QueuedState, ResultOutput, Results, Seq, Stop,
    TaskEvent, TaskResult, Tasks, Worker, WorkerSpec,
};
use bus_envelope::EventHash;
use bus_stories::{Doing, Fault, Op, Ran, Scripted, Stage, Told, slow, task, words, work};
use bus_subjects::{BucketName, Role};
use bytes::Bytes;
use tokio::sync::Notify;

/// A worker that hears what is cancelled.
fn listening(stage: &Stage, name: &str) -> Worker {
    let mut spec = WorkerSpec::new(stage.queue.clone());
    spec.hears_cancels = true;
    Worker::new(stage.agent(name, Role::Worker).unwrap(), spec)
}

fn settled(events: &[TaskEvent]) -> bool {
    matches!(events.last(), Some(TaskEvent::DeadLettered { .. } | TaskEvent::Completed { .. }))
}

/// Sends one task that is of no use after `after`.
async fn send_until(stage: &Stage, after: Duration) -> String {
    let sender = stage.agent("boss", Role::Orchestrator).unwrap();
    let deadline = Deadline(stage.clock.now().plus(after));
    let draft = deadline.set(task(stage, "late")).unwrap();
    sender.send(draft).await.unwrap().id
}

async fn tasks_of(stage: &Stage) -> Tasks {
    Tasks::new(stage.agent("op", Role::Operator).unwrap())
}

async fn reason(stage: &Stage) -> (u32, String) {
    let letters = stage.letters().await.unwrap();
    assert_eq!(letters.len(), 1);
    let letter = letters.first().unwrap();
    (letter.attempts, letter.failure_reason.clone())
}

#[tokio::test(start_paused = true)]
async fn a_task_past_its_deadline_is_given_up_and_not_run() {
    let stage = Stage::new().await.unwrap();
    send_until(&stage, Duration::from_secs(60)).await;
    tokio::time::advance(Duration::from_secs(60)).await;
    let (handler, counts) = slow(Duration::ZERO);
    let events = work(&stage.worker("w").unwrap(), &handler, settled).await.unwrap();
    assert_eq!(words(&events), ["dead-lettered"]);
    assert_eq!(counts.starts.load(std::sync::atomic::Ordering::Relaxed), 0);
    let (attempts, why) = reason(&stage).await;
    assert!(attempts == 0 && why.starts_with("its deadline 2026-"), "{attempts} {why}");
    assert_eq!(stage.metrics.report().outcomes.expired, 1);
}

#[tokio::test(start_paused = true)]
async fn a_task_before_its_deadline_is_run_as_any_other() {
    let stage = Stage::new().await.unwrap();
    send_until(&stage, Duration::from_secs(60)).await;
    let (handler, _) = slow(Duration::ZERO);
    let events = work(&stage.worker("w").unwrap(), &handler, settled).await.unwrap();
    assert_eq!(words(&events), ["completed"]);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_rests_past_its_deadline_is_not_tried_again() {
    let stage = Stage::new().await.unwrap();
    send_until(&stage, Duration::from_millis(500)).await;
    // The first retry rests for about a second.
    let events = work(&stage.worker("w").unwrap(), &Scripted::failing(9), settled).await.unwrap();
    assert_eq!(words(&events), ["retried", "dead-lettered"]);
    let (attempts, why) = reason(&stage).await;
    assert!(attempts == 1 && why.starts_with("its deadline"), "{attempts} {why}");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_is_no_time_is_refused_before_any_attempt() {
    let stage = Stage::new().await.unwrap();
    let sender = stage.agent("boss", Role::Orchestrator).unwrap();
    let draft = task(&stage, "x").extension("deadline", "soon").unwrap();
    sender.send(draft).await.unwrap();
    let (handler, _) = slow(Duration::ZERO);
    let events = work(&stage.worker("w").unwrap(), &handler, settled).await.unwrap();
    assert_eq!(words(&events), ["dead-lettered"]);
    assert!(reason(&stage).await.1.contains("the deadline is no time"));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_is_taken_out_and_its_letter_says_by_whom() {
    let stage = Stage::new().await.unwrap();
    let ids = stage.fill(&["a", "b"]).await.unwrap();
    let tasks = tasks_of(&stage).await;
    let found = tasks.find(&ids[0]).await.unwrap().unwrap();
    assert_eq!(found.state, QueuedState::Waiting);
    assert_eq!(tasks.cancel(&found, Some("not needed")).await.unwrap(), Cancelled::TakenOut);
    assert!(tasks.find(&ids[0]).await.unwrap().is_none());
    assert_eq!(reason(&stage).await, (0, "cancelled by op: not needed".to_owned()));
    assert_eq!(stage.lag().await.unwrap().pending, 1);
    // Once more: there is nothing to cancel, and no second letter.
    assert_eq!(tasks.cancel(&found, None).await.unwrap(), Cancelled::Gone);
    assert_eq!(stage.letters().await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_runs_is_stopped_by_the_worker_that_listens() {
    let stage = Stage::new().await.unwrap();
    let ids = stage.fill(&["a"]).await.unwrap();
    let begun = Arc::new(Notify::new());
    let bell = Arc::clone(&begun);
    let handler = Doing(move |told: Told| -> Ran {
        bell.notify_one();
        Box::pin(async move {
            told.cancel.cancelled().await;
            Err(bus_core::Failure::Interrupted)
        })
    });
    let worker = listening(&stage, "w");
    let tasks = tasks_of(&stage).await;
    let cancel = async {
        begun.notified().await;
        let found = tasks.find(&ids[0]).await.unwrap().unwrap();
        assert!(
            matches!(&found.state, QueuedState::Begun { worker, attempt: 1, .. } if worker == "w")
        );
        tasks.cancel(&found, None).await.unwrap()
    };
    let (events, cancelled) = tokio::join!(work(&worker, &handler, settled), cancel);
    assert_eq!(cancelled, Cancelled::Told { worker: "w".to_owned() });
    assert_eq!(words(&events.unwrap()), ["dead-lettered"]);
    assert_eq!(reason(&stage).await, (1, "cancelled by op".to_owned()));
    assert_eq!(stage.metrics.report().outcomes.cancelled, 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_cancelled_task_finishes_within_its_moment_counts() {
    let stage = Stage::new().await.unwrap();
    let ids = stage.fill(&["a"]).await.unwrap();
    let begun = Arc::new(Notify::new());
    let bell = Arc::clone(&begun);
    let handler = Doing(move |told: Told| -> Ran {
        bell.notify_one();
        Box::pin(async move {
            told.cancel.cancelled().await;
            Ok(Handled)
        })
    });
    let worker = listening(&stage, "w");
    let tasks = tasks_of(&stage).await;
    let cancel = async {
        begun.notified().await;
        let found = tasks.find(&ids[0]).await.unwrap().unwrap();
        tasks.cancel(&found, None).await.unwrap()
    };
    let (events, _) = tokio::join!(work(&worker, &handler, settled), cancel);
    assert_eq!(words(&events.unwrap()), ["completed"]);
    assert!(stage.letters().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_task_whose_worker_died_is_given_up_by_the_next_one() {
    let stage = Stage::new().await.unwrap();
    let ids = stage.fill(&["a"]).await.unwrap();
    let begun = Arc::new(Notify::new());
    let bell = Arc::clone(&begun);
    let stuck = Doing(move |_: Told| -> Ran {
        bell.notify_one();
        Box::pin(std::future::pending())
    });
    let (dying, stop) = (stage.worker("w1").unwrap(), Stop::default());
    tokio::select! {
        _never = dying.run(&stuck, &stop, |_| {}) => unreachable!("it was never told to stop"),
        () = begun.notified() => {}
    }
    let tasks = tasks_of(&stage).await;
    let found = tasks.find(&ids[0]).await.unwrap().unwrap();
    assert_eq!(
        tasks.cancel(&found, None).await.unwrap(),
        Cancelled::Told { worker: "w1".to_owned() }
    );
    let again = tasks.find(&ids[0]).await.unwrap().unwrap();
    assert_eq!(again.state, QueuedState::Cancelled { by: "op".to_owned() });
    let (handler, counts) = slow(Duration::ZERO);
    let events = work(&listening(&stage, "w2"), &handler, settled).await.unwrap();
    assert_eq!(words(&events), ["dead-lettered"]);
    assert_eq!(counts.starts.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn only_an_operator_cancels() {
    let stage = Stage::new().await.unwrap();
    let ids = stage.fill(&["a"]).await.unwrap();
    let found = tasks_of(&stage).await.find(&ids[0]).await.unwrap().unwrap();
    for (name, role) in [("boss2", Role::Orchestrator), ("w", Role::Worker), ("k", Role::Keeper)] {
        let tasks = Tasks::new(stage.agent(name, role).unwrap());
        let error = tasks.cancel(&found, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{role}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_was_cancelled_and_redriven_is_wanted_again() {
    let stage = Stage::new().await.unwrap();
    let ids = stage.fill(&["a"]).await.unwrap();
    let operator = stage.agent("op2", Role::Operator).unwrap();
    let tasks = Tasks::new(operator.clone());
    let found = tasks.find(&ids[0]).await.unwrap().unwrap();
    tasks.cancel(&found, None).await.unwrap();
    let letters = bus_core::DeadLetters::new(operator);
    letters.redrive(Seq(1), &bus_core::Redrive::default()).await.unwrap();
    let (handler, _) = slow(Duration::ZERO);
    let events = work(&listening(&stage, "w"), &handler, settled).await.unwrap();
    assert_eq!(words(&events), ["completed"]);
}

fn result(stage: &Stage, output: ResultOutput) -> TaskResult {
    TaskResult {
        task_id: "t-1".to_owned(),
        task: EventHash::of(b"task"),
        attempt: 1,
        worker: "w".parse().unwrap(),
        session: stage.session.clone(),
        receipt: Some(Seq(1)),
        stderr_hash: EventHash::of(b""),
        output,
        left_out: None,
    }
}

/// Keeps an output of so many bytes, written in parts of all sizes, and returns it as it is read.
async fn kept(bytes: usize) -> (ResultOutput, Vec<u8>, Vec<u8>) {
    let stage = Stage::new().await.unwrap();
    let worker = Results::new(stage.agent("w", Role::Worker).unwrap());
    let output: Vec<u8> = (0..bytes).map(|n| (n % 251) as u8).collect();
    let mut writer = worker.writer("t-1").unwrap();
    for part in output.chunks(10_007) {
        writer.write(part).await.unwrap();
    }
    let place = writer.finish().await.unwrap();
    worker.put(&result(&stage, place.clone())).await.unwrap();
    let reader = Results::new(stage.agent("boss", Role::Orchestrator).unwrap());
    let found = reader.get("t-1").await.unwrap().unwrap();
    let mut parts = reader.output(&found).await.unwrap().unwrap();
    let mut read = Vec::new();
    while let Some(part) = parts.next().await {
        read.extend_from_slice(&part.unwrap());
    }
    (place, output, read)
}

#[tokio::test(start_paused = true)]
async fn an_output_is_read_as_it_was_written_whatever_its_size() {
    let inline = Results::INLINE_BYTES_MAX;
    for bytes in [0, 1, inline - 1, inline, inline + 1, 2 * inline, 5 * inline + 17] {
        let (place, written, read) = kept(bytes).await;
        assert_eq!(matches!(place, ResultOutput::Inline(_)), bytes <= inline, "{bytes}");
        assert_eq!(written, read, "{bytes}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_is_not_read_by_who_has_only_the_engine() {
    let stage = Stage::new().await.unwrap();
    let worker = Results::new(stage.agent("w", Role::Worker).unwrap());
    let secret = Bytes::from_static(b"the canary sings");
    worker.put(&result(&stage, ResultOutput::Inline(secret.clone()))).await.unwrap();
    let bucket = BucketName::results(&stage.workspace);
    let all = "*".parse::<bus_subjects::Filter>().unwrap();
    let mut watch = stage.engine.watch(bucket, all, bus_core::Revision::START).await.unwrap();
    let Some(Ok(bus_core::WatchItem::Changed(change))) = watch.next().await else {
        unreachable!("a value is there")
    };
    let bus_core::KeyState::Value(value) = change.state else { unreachable!("it is a value") };
    assert!(!value.windows(10).any(|part| part == &secret[..10]));
    assert!(!value.windows(3).any(|part| part == b"t-1"));
}

#[tokio::test(start_paused = true)]
async fn a_result_that_was_moved_to_another_task_is_refused() {
    let stage = Stage::new().await.unwrap();
    let worker = Results::new(stage.agent("w", Role::Worker).unwrap());
    worker.put(&result(&stage, ResultOutput::Inline(Bytes::new()))).await.unwrap();
    let other = TaskResult {
        task_id: "t-2".to_owned(),
        ..result(&stage, ResultOutput::Inline(Bytes::new()))
    };
    worker.put(&other).await.unwrap();
    let bucket = BucketName::results(&stage.workspace);
    let key = |id: &str| {
        let hash = EventHash::of(format!("vak-bus/result/v1:{id}").as_bytes());
        bus_subjects::BucketKey::parse(&hash.to_string()).unwrap()
    };
    let entry = stage.engine.get(bucket.clone(), key("t-1")).await.unwrap().unwrap();
    stage.engine.put(bucket, key("t-2"), bus_core::Put::new(entry.value)).await.unwrap();
    let error = worker.get("t-2").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_result_gets_it_when_it_comes() {
    let stage = Stage::new().await.unwrap();
    let worker = Results::new(stage.agent("w", Role::Worker).unwrap());
    let reader = Results::new(stage.agent("boss", Role::Orchestrator).unwrap());
    let mut watch = reader.watch("t-1").await.unwrap();
    let expected = result(&stage, ResultOutput::NotKept { reason: "full".to_owned() });
    let (found, put) = tokio::join!(watch.next(), worker.put(&expected));
    put.unwrap();
    assert_eq!(found.unwrap().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_result_ends_with_its_time() {
    let stage = Stage::new().await.unwrap();
    let worker = Results::new(stage.agent("w", Role::Worker).unwrap());
    worker.put(&result(&stage, ResultOutput::Inline(Bytes::new()))).await.unwrap();
    tokio::time::advance(Results::TTL + Duration::from_secs(2)).await;
    assert_eq!(worker.get("t-1").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_blob_store_that_is_full_is_told_to_who_writes_and_leaves_nothing() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let results = Results::new(stage.agent("w", Role::Worker).unwrap());
    flaky.fail(Op::PutBlob, "", Fault::Refused(ErrorKind::Full), 1);
    let mut writer = results.writer("t-1").unwrap();
    let large = vec![7; 4 * Results::INLINE_BYTES_MAX];
    let error = writer.write(&large).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
    let bucket = BucketName::results(&stage.workspace);
    assert!(stage.engine.list_blobs(bucket).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_cannot_hear_cancels_does_not_begin_and_tries_again_later() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    stage.fill(&["a"]).await.unwrap();
    flaky.fail(Op::Watch, "", Fault::Refused(ErrorKind::Unavailable), 1);
    let (handler, counts) = slow(Duration::ZERO);
    let events = work(&listening(&stage, "w"), &handler, settled).await.unwrap();
    assert_eq!(words(&events), ["unsettled", "completed"]);
    assert_eq!(counts.starts.load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_whose_removal_got_no_answer_may_be_repeated() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let ids = stage.fill(&["a"]).await.unwrap();
    let tasks = tasks_of(&stage).await;
    let found = tasks.find(&ids[0]).await.unwrap().unwrap();
    flaky.fail(Op::Discard, "", Fault::Refused(ErrorKind::Unavailable), 1);
    assert_eq!(tasks.cancel(&found, None).await.unwrap_err().kind(), ErrorKind::Unavailable);
    // It is there still, and nobody begins it any more.
    let again = tasks.find(&ids[0]).await.unwrap().unwrap();
    assert!(matches!(again.state, QueuedState::Cancelled { .. }));
    assert_eq!(tasks.cancel(&again, None).await.unwrap(), Cancelled::TakenOut);
    assert_eq!(stage.letters().await.unwrap().len(), 1);
}
