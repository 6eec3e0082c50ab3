//! How many tasks a worker takes, and how it stops with several of them.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bus_core::{ErrorKind, Failure, Handled, Identity, Stop, TaskEvent, Worker, WorkerSpec};
use bus_stories::{Doing, Fault, Op, Ran, Scripted, Stage, Told, slow, words, work};
use bus_subjects::Role;
use tokio::time::Instant;

use super::{ended, fill, gated, nothing_is_left, rest, spec, until, worker, worker_with};

#[tokio::test(start_paused = true)]
async fn a_worker_claims_as_many_as_it_has_room_for_and_leaves_the_rest_to_others() {
    let stage = Stage::new().await.unwrap();
    fill(&stage, 20).await;
    let (handler, full, gate) = gated(8);
    let (stop, first) = (Stop::default(), worker(&stage, "coder-1", 8));
    let story = async {
        full.notified().await;
        let lag = stage.lag().await.unwrap();
        assert_eq!((lag.pending, lag.in_flight), (12, 8));
        let second = worker(&stage, "coder-2", 1);
        let events = work(&second, &Scripted::failing(0), until(12)).await.unwrap();
        assert_eq!(words(&events), ["completed"; 12]);
        stop.drain.cancel();
        gate.notify_waiters();
    };
    let done = AtomicU32::new(0);
    let count = |_| {
        done.fetch_add(1, Ordering::Relaxed);
    };
    let (ran, ()) = tokio::join!(first.run(&handler, &stop, count), story);
    ran.unwrap();
    assert_eq!(done.into_inner(), 8);
    nothing_is_left(&stage).await;
}

#[tokio::test(start_paused = true)]
async fn room_that_becomes_free_is_used_at_once() {
    let stage = Stage::new().await.unwrap();
    fill(&stage, 12).await;
    let (start, worker) = (Instant::now(), worker(&stage, "coder-1", 4));
    let (handler, counts) = slow(Duration::from_secs(10));
    let events = work(&worker, &handler, until(12)).await.unwrap();
    assert_eq!(words(&events), ["completed"; 12]);
    assert_eq!(start.elapsed().as_secs(), 30, "twelve tasks of 10 s, four at a time");
    assert_eq!(counts.starts.load(Ordering::Relaxed), 12);
}

#[tokio::test(start_paused = true)]
async fn tasks_of_ten_leases_side_by_side_are_each_started_once() {
    let stage = Stage::new().await.unwrap();
    fill(&stage, 8).await;
    let (handler, counts) = slow(Duration::from_secs(300));
    let (stop, events) = (Stop::default(), Mutex::new(Vec::new()));
    let report = |event| {
        let mut events = events.lock().unwrap();
        events.push(event);
        if ended(&events) == 8 {
            stop.drain.cancel();
        }
    };
    // The second worker has room all the time and would take a task if it could.
    let (one, two) = (worker(&stage, "coder-1", 8), worker(&stage, "coder-2", 8));
    let (first, second) =
        tokio::join!(one.run(&handler, &stop, report), two.run(&handler, &stop, report));
    first.and(second).unwrap();
    assert_eq!(words(&events.into_inner().unwrap()), ["completed"; 8]);
    assert_eq!(counts.starts.load(Ordering::Relaxed), 8);
    assert_eq!(counts.ends.load(Ordering::Relaxed), 8);
}

#[tokio::test(start_paused = true)]
async fn a_drain_sees_every_task_to_its_end() {
    let stage = Stage::new().await.unwrap();
    fill(&stage, 8).await;
    let (handler, full, gate) = gated(4);
    let (stop, worker) = (Stop::default(), worker(&stage, "coder-1", 4));
    let events = Mutex::new(Vec::new());
    let story = async {
        full.notified().await;
        stop.drain.cancel();
        rest(Duration::from_secs(3600)).await;
        gate.notify_waiters();
    };
    let report = |event| events.lock().unwrap().push(event);
    let (ran, ()) = tokio::join!(worker.run(&handler, &stop, report), story);
    ran.unwrap();
    assert_eq!(words(&events.into_inner().unwrap()), ["completed"; 4]);
    assert_eq!(stage.lag().await.unwrap().pending, 4);
}

#[tokio::test(start_paused = true)]
async fn what_a_drain_does_not_see_to_its_end_in_time_is_handed_back_uncounted() {
    let stage = Stage::new().await.unwrap();
    let ids = stage.fill(&["short", "long", "longer"]).await.unwrap();
    let handler = Doing(|told: Told| -> Ran {
        let seconds = if told.text == "short" { 20 } else { 3600 };
        Box::pin(async move {
            let time = Duration::from_secs(seconds);
            let _over = tokio::time::timeout(time, std::future::pending::<()>()).await;
            Ok(Handled)
        })
    });
    let drain_max = Some(Duration::from_secs(60));
    let worker = worker_with(&stage, "coder-1", WorkerSpec { drain_max, ..spec(&stage, 4) });
    let (stop, events, start) = (Stop::default(), Mutex::new(Vec::new()), Instant::now());
    let after_a_while = async {
        rest(Duration::from_secs(10)).await;
        stop.drain.cancel();
    };
    let report = |event| events.lock().unwrap().push(event);
    let (ran, ()) = tokio::join!(worker.run(&handler, &stop, report), after_a_while);
    ran.unwrap();

    assert_eq!(words(&events.into_inner().unwrap()), ["completed", "released", "released"]);
    // A moment for the handlers to react comes after the time.
    assert_eq!(start.elapsed().as_secs(), 75);
    let done = |events: &[TaskEvent]| events.len() == 2;
    let next = work(&stage.worker("coder-2").unwrap(), &Scripted::failing(0), done).await.unwrap();
    for (event, id) in next.iter().zip(&ids[1..]) {
        let TaskEvent::Completed { task_id, attempt: 1 } = event else { panic!("{event:?}") };
        assert_eq!(task_id, id);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopped_worker_hands_all_its_tasks_back_uncounted() {
    let stage = Stage::new().await.unwrap();
    fill(&stage, 6).await;
    let (handler, full, _gate) = gated(4);
    let (stop, worker) = (Stop::default(), worker(&stage, "coder-1", 4));
    let events = Mutex::new(Vec::new());
    let story = async {
        full.notified().await;
        stop.now.cancel();
    };
    let report = |event| events.lock().unwrap().push(event);
    let (ran, ()) = tokio::join!(worker.run(&handler, &stop, report), story);
    ran.unwrap();
    assert_eq!(words(&events.into_inner().unwrap()), ["released"; 4]);
    let lag = stage.lag().await.unwrap();
    assert_eq!((lag.pending, lag.in_flight), (6, 0));
    let next = work(&stage.worker("coder-2").unwrap(), &Scripted::failing(0), until(6)).await;
    let is_first = |event: &TaskEvent| matches!(event, TaskEvent::Completed { attempt: 1, .. });
    assert!(next.unwrap().iter().all(is_first));
}

/// An identity of a worker that ends after `time`.
fn short_lived(stage: &Stage, time: Duration) -> Identity {
    let mut issue = stage.issue("coder-1", Role::Worker).unwrap();
    issue.valid_for = Some(time);
    let entropy = bus_crypto::SystemEntropy::new();
    let identity = Identity::issue(stage.account(), &issue, &entropy).unwrap();
    stage.roster.admit(identity.certificate().token()).unwrap();
    identity
}

#[tokio::test(start_paused = true)]
async fn what_was_claimed_before_claiming_failed_is_seen_to_its_end() {
    let stage = Stage::new().await.unwrap();
    stage.fill(&["begun"]).await.unwrap();
    let identity = short_lived(&stage, Duration::from_secs(60));
    let worker = Worker::new(stage.endpoint(identity).unwrap(), spec(&stage, 2));
    let (handler, _) = slow(Duration::from_secs(100));
    let (stop, events) = (Stop::default(), Mutex::new(Vec::new()));
    let too_late = async {
        rest(Duration::from_secs(70)).await;
        stage.fill(&["too late"]).await.unwrap();
    };
    let report = |event| events.lock().unwrap().push(event);
    let (ran, ()) = tokio::join!(worker.run(&handler, &stop, report), too_late);

    assert_eq!(ran.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(words(&events.into_inner().unwrap()), ["released", "completed"]);
    let lag = stage.lag().await.unwrap();
    assert_eq!((lag.pending, lag.in_flight), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_worker_with_much_to_do_gives_way_to_its_neighbours() {
    let stage = Stage::new().await.unwrap();
    fill(&stage, 1000).await;
    let turns = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&turns);
    let mut neighbour = tokio::task::JoinSet::new();
    neighbour.spawn(async move {
        loop {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    work(&worker(&stage, "coder-1", 4), &Scripted::failing(0), until(1000)).await.unwrap();
    neighbour.abort_all();
    let turns = turns.load(Ordering::Relaxed);
    assert!(turns >= 20, "{turns} turns while a thousand tasks were done");
}

#[tokio::test(start_paused = true)]
async fn the_wait_of_a_task_and_the_word_of_the_engine_are_measured() {
    let stage = Stage::new().await.unwrap();
    fill(&stage, 3).await;
    tokio::time::advance(Duration::from_secs(7)).await;
    work(&worker(&stage, "coder-1", 3), &Scripted::failing(0), until(3)).await.unwrap();
    let latencies = stage.metrics.report().latencies;
    assert_eq!((latencies.claim.count, latencies.settle.count), (3, 3));
    assert!(latencies.claim.max_ns >= 7_000_000_000, "{:?}", latencies.claim);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_handed_back_at_the_end_of_a_certificate_holds_up_nobody() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    stage.fill(&["begun"]).await.unwrap();
    let identity = short_lived(&stage, Duration::from_secs(60));
    let worker = Worker::new(stage.endpoint(identity).unwrap(), spec(&stage, 2));
    let (handler, _) = slow(Duration::from_secs(100));
    flaky.fail(Op::Settle, "vak.work.", Fault::SlowBefore(Duration::from_secs(600)), 1);
    let too_late = async {
        rest(Duration::from_secs(70)).await;
        stage.fill(&["too late"]).await.unwrap();
    };
    let (start, stop, done) = (Instant::now(), Stop::default(), Mutex::new(None));
    let report = |event| {
        if matches!(event, TaskEvent::Completed { .. }) {
            *done.lock().unwrap() = Some(start.elapsed().as_secs());
        }
    };
    let (ran, ()) = tokio::join!(worker.run(&handler, &stop, report), too_late);

    assert_eq!(ran.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(done.into_inner().unwrap(), Some(100));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_its_handler_hands_back_unasked_rests_and_uses_no_attempt() {
    let stage = Stage::new().await.unwrap();
    fill(&stage, 1).await;
    let (runs, start) = (Arc::new(Mutex::new(Vec::new())), Instant::now());
    let seen = Arc::clone(&runs);
    let handler = Doing(move |told: Told| -> Ran {
        let mut runs = seen.lock().unwrap();
        runs.push((told.attempt, start.elapsed().as_secs()));
        let is_enough = runs.len() > 2;
        Box::pin(async move { if is_enough { Ok(Handled) } else { Err(Failure::Interrupted) } })
    });
    let events = work(&worker(&stage, "coder-1", 1), &handler, until(1)).await.unwrap();
    assert_eq!(words(&events), ["released", "released", "completed"]);
    assert_eq!(*runs.lock().unwrap(), [(1, 0), (1, 5), (1, 10)]);
}
