//! C11: poison that kills its worker, and handlers that panic, fail or recover.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bus_core::{ErrorKind, Failure, Handled, Handler, Job, Stop, TaskEvent, Worker, WorkerSpec};
use bus_stories::{Doing, Fault, Op, Ran, Scripted, Stage, Told, words, work};
use bus_subjects::Role;
use tokio::sync::Notify;

fn gave_up(events: &[TaskEvent]) -> bool {
    matches!(events.last(), Some(TaskEvent::DeadLettered { .. }))
}

/// What became of a poison pill with ten good tasks behind it.
struct Aftermath {
    runs: Vec<u32>,
    completed: usize,
}

/// Workers with a new name each take over from one another: whoever touches the pill dies.
async fn supervise(stage: &Stage) -> Aftermath {
    let (runs, died) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Notify::new()));
    let (pills, bell) = (Arc::clone(&runs), Arc::clone(&died));
    let handler = Doing(move |told: Told| -> Ran {
        if told.text != "boom" {
            return Box::pin(async { Ok(Handled) });
        }
        pills.lock().unwrap().push(told.attempt);
        bell.notify_one();
        Box::pin(std::future::pending())
    });
    let (completed, done) = (AtomicU32::new(0), Stop::default());
    for life in 1.. {
        let worker = stage.worker(&format!("coder-{life}")).unwrap();
        let report = |event: TaskEvent| match event {
            TaskEvent::Completed { .. } => {
                completed.fetch_add(1, Ordering::Relaxed);
            }
            TaskEvent::DeadLettered { .. } => done.drain.cancel(),
            other => unreachable!("unexpected: {other:?}"),
        };
        tokio::select! {
            ended = worker.run(&handler, &done, report) => {
                ended.unwrap();
                break;
            }
            // The worker's future is dropped in the middle of its handler: a crash.
            () = died.notified() => {}
        }
    }
    let runs = runs.lock().unwrap().clone();
    Aftermath { runs, completed: completed.load(Ordering::Relaxed) as usize }
}

#[tokio::test(start_paused = true)]
async fn a_pill_that_kills_its_worker_is_run_four_times_and_then_given_up_untouched() {
    let stage = Stage::new().await.unwrap();
    let mut texts = vec!["boom"];
    texts.extend(["good"; 10]);
    let ids = stage.fill(&texts).await.unwrap();

    let aftermath = supervise(&stage).await;

    assert_eq!(aftermath.runs, [1, 2, 3, 4]);
    assert_eq!(aftermath.completed, 10);
    let letters = stage.letters().await.unwrap();
    assert_eq!(letters.len(), 1);
    assert_eq!((&letters[0].envelope_id, letters[0].attempts), (&ids[0], 4));
    // Four lives died of it; the fifth one read the claim mark of the fourth.
    assert_eq!(letters[0].worker_id.as_deref(), Some("coder-4"));
    let reason = "worker lost: 4 attempts, the last by coder-4, ended without a verdict";
    assert_eq!(letters[0].failure_reason, reason);
    let lag = stage.lag().await.unwrap();
    assert_eq!((lag.pending, lag.in_flight), (0, 0));
    assert_eq!(stage.metrics.snapshot().dead_letter_count, 1);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure_with_its_text_as_the_reason() {
    let stage = Stage::new().await.unwrap();
    stage.fill(&["boom"]).await.unwrap();
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let handler = Doing(move |_: Told| -> Ran {
        counted.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { std::panic::panic_any("it went off") })
    });

    let events = work(&stage.worker("coder-1").unwrap(), &handler, gave_up).await.unwrap();

    assert_eq!(words(&events), ["retried", "retried", "retried", "dead-lettered"]);
    assert_eq!(runs.load(Ordering::Relaxed), 4);
    let letters = stage.letters().await.unwrap();
    let reason = "retries exhausted after 4 attempts: handler panicked: it went off";
    assert_eq!((letters[0].failure_reason.as_str(), letters[0].attempts), (reason, 4));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_makes_fewer_attempts_than_were_made_says_so_and_accuses_nobody() {
    let stage = Stage::new().await.unwrap();
    stage.fill(&["flaky"]).await.unwrap();
    let twice = |events: &[TaskEvent]| words(events) == ["retried", "retried"];
    work(&stage.worker("patient").unwrap(), &Scripted::failing(9), twice).await.unwrap();
    let mut spec = WorkerSpec::new(stage.queue.clone());
    spec.retry.retries_max = 0;
    let impatient = Worker::new(stage.agent("impatient", Role::Worker).unwrap(), spec);

    let events = work(&impatient, &Scripted::failing(0), gave_up).await.unwrap();

    assert_eq!(words(&events), ["dead-lettered"]);
    let letters = stage.letters().await.unwrap();
    let reason = "retries exhausted after 2 attempts: this worker makes 1 at most";
    assert_eq!((letters[0].failure_reason.as_str(), letters[0].attempts), (reason, 2));
    assert_eq!(letters[0].worker_id, None);
    let outcomes = stage.metrics.report().outcomes;
    assert_eq!((outcomes.vanished, outcomes.exhausted), (0, 1));
}

/// Panics before there is anything to await.
struct Eager;

impl Handler for Eager {
    #[expect(clippy::panic, reason = "the panic is the story")]
    fn handle(&self, _: Job<'_>) -> impl Future<Output = Result<Handled, Failure>> + Send {
        std::panic::panic_any("too early".to_owned());
        #[expect(unreachable_code, reason = "it names the type of the future")]
        async {
            Ok(Handled)
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_before_the_first_await_is_a_failure_too() {
    let stage = Stage::new().await.unwrap();
    stage.fill(&["boom"]).await.unwrap();
    let events = work(&stage.worker("coder-1").unwrap(), &Eager, gave_up).await.unwrap();
    assert_eq!(words(&events), ["retried", "retried", "retried", "dead-lettered"]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_recovers_is_completed_at_its_third_attempt() {
    let stage = Stage::new().await.unwrap();
    stage.fill(&["flaky"]).await.unwrap();
    let done = |events: &[TaskEvent]| matches!(events.last(), Some(TaskEvent::Completed { .. }));

    let events =
        work(&stage.worker("coder-1").unwrap(), &Scripted::failing(2), done).await.unwrap();

    assert_eq!(words(&events), ["retried", "retried", "completed"]);
    assert!(matches!(events[2], TaskEvent::Completed { attempt: 3, .. }));
    assert!(stage.letters().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_hopeless_failure_is_given_up_at_once() {
    let stage = Stage::new().await.unwrap();
    stage.fill(&["impossible"]).await.unwrap();
    let handler = Doing(|_: Told| -> Ran {
        Box::pin(async { Err(Failure::Hopeless { reason: "no such file".to_owned() }) })
    });

    let events = work(&stage.worker("coder-1").unwrap(), &handler, gave_up).await.unwrap();

    assert_eq!(words(&events), ["dead-lettered"]);
    let letters = stage.letters().await.unwrap();
    assert_eq!((letters[0].failure_reason.as_str(), letters[0].attempts), ("no such file", 1));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_cannot_leave_its_mark_does_not_spin() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    stage.fill(&["a"]).await.unwrap();
    flaky.fail(Op::Put, "VAK_CLAIMS_w1.", Fault::Refused(ErrorKind::Unavailable), 3);
    let start = tokio::time::Instant::now();
    let done = |events: &[TaskEvent]| matches!(events.last(), Some(TaskEvent::Completed { .. }));

    let events =
        work(&stage.worker("coder-1").unwrap(), &Scripted::failing(0), done).await.unwrap();

    assert_eq!(words(&events), ["unsettled", "unsettled", "unsettled", "completed"]);
    assert!(start.elapsed() >= Duration::from_secs(15), "the worker span on the task");
    assert!(matches!(events[3], TaskEvent::Completed { attempt: 1, .. }));
}

#[tokio::test(start_paused = true)]
async fn a_drained_worker_claims_nothing_more() {
    let stage = Stage::new().await.unwrap();
    stage.fill(&["a", "b"]).await.unwrap();
    let events =
        work(&stage.worker("coder-1").unwrap(), &Scripted::failing(0), |_| true).await.unwrap();
    assert_eq!(words(&events), ["completed"]);
    assert_eq!(stage.lag().await.unwrap().pending, 1);
}

#[tokio::test(start_paused = true)]
async fn another_queue_of_the_workspace_is_nobody_elses_business() {
    let stage = Stage::new().await.unwrap();
    let endpoint = stage.agent("coder-1", Role::Worker).unwrap();
    let other = Worker::new(endpoint, WorkerSpec::new("tester".parse().unwrap()));
    let refused = other.run(&Scripted::failing(0), &Stop::default(), |_| ()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
}

/// Notes the keys of two steps, and fails twice.
struct Keyed(Mutex<Vec<[String; 2]>>);

impl Handler for Keyed {
    async fn handle(&self, job: Job<'_>) -> Result<Handled, Failure> {
        let mut keys = self.0.lock().unwrap();
        keys.push(["pay", "mail"].map(|step| job.idempotency_key(step)));
        let reason = "it broke".to_owned();
        if job.attempt > 2 { Ok(Handled) } else { Err(Failure::Failed { reason }) }
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_has_one_key_in_every_attempt_and_no_other_has_it() {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    for text in ["one", "two"] {
        boss.send(bus_stories::task(&stage, text)).await.unwrap();
    }
    let handler = Keyed(Mutex::default());
    let both = |events: &[TaskEvent]| {
        let done = |event: &&TaskEvent| matches!(event, TaskEvent::Completed { .. });
        events.iter().filter(done).count() == 2
    };
    work(&stage.worker("coder-1").unwrap(), &handler, both).await.unwrap();
    let keys = handler.0.into_inner().unwrap();
    assert_eq!(keys.len(), 6);
    let different: std::collections::BTreeSet<_> = keys.iter().flatten().collect();
    assert_eq!(different.len(), 4, "two tasks of two steps: {keys:?}");
    assert!(different.iter().all(|key| key.len() == 64));
}
