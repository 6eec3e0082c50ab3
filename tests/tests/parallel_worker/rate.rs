//! Rate limits: who waits, how long, and who does not.

use std::{
    collections::BTreeMap,
    num::NonZeroU32,
    sync::{Arc, Mutex},
    time::Duration,
};

use bus_core::{
    Handled, OrderKey, Outgoing, RateKey, RateLimit, RateLimiter, Stop, TaskEvent, Worker,
    WorkerSpec,
};
use bus_stories::{Doing, Fault, Op, Ran, Scripted, Stage, Told, task, words, work};
use bus_subjects::Role;
use tokio::time::Instant;

use super::{ended, fill, spec, until, worker_with};

/// One task a second, of each key.
fn one_a_second(key: RateKey) -> RateLimiter {
    let limit = RateLimit::new(NonZeroU32::MIN, Duration::from_secs(1));
    RateLimiter::new(RateLimit { key, ..limit }).unwrap()
}

/// When each task began, in milliseconds since the story did, by its text.
async fn beginnings(workers: &[Worker], tasks: usize) -> (BTreeMap<String, u128>, Vec<TaskEvent>) {
    let (began, start) = (Arc::new(Mutex::new(BTreeMap::new())), Instant::now());
    let noted = Arc::clone(&began);
    let handler = Doing(move |told: Told| -> Ran {
        assert_eq!(told.attempt, 1, "a hand-back was counted");
        assert!(noted.lock().unwrap().insert(told.text, start.elapsed().as_millis()).is_none());
        Box::pin(async { Ok(Handled) })
    });
    let (stop, events) = (Stop::default(), Mutex::new(Vec::new()));
    let report = |event| {
        let mut events = events.lock().unwrap();
        events.push(event);
        if ended(&events) == tasks {
            stop.drain.cancel();
        }
    };
    let runs = workers.iter().map(|worker| worker.run(&handler, &stop, report));
    futures_util::future::try_join_all(runs).await.unwrap();
    let began = began.lock().unwrap().clone();
    (began, events.into_inner().unwrap())
}

fn times(began: &BTreeMap<String, u128>) -> Vec<u128> {
    let mut times: Vec<u128> = began.values().copied().collect();
    times.sort_unstable();
    times
}

fn seconds(range: std::ops::Range<u128>) -> Vec<u128> {
    range.map(|second| second * 1000).collect()
}

#[tokio::test(start_paused = true)]
async fn tasks_over_the_limit_rest_until_their_turn_and_come_back_once() {
    let stage = Stage::new().await.unwrap();
    fill(&stage, 10).await;
    let rate = Some(one_a_second(RateKey::Queue));
    let worker = worker_with(&stage, "coder-1", WorkerSpec { rate, ..spec(&stage, 4) });

    let (began, events) = beginnings(&[worker], 10).await;

    assert_eq!(times(&began), seconds(0..10));
    let released = words(&events).iter().filter(|word| **word == "released").count();
    assert_eq!(released, 9, "each that had to wait is handed back once");
    assert_eq!(stage.metrics.report().outcomes.released, 9);
}

#[tokio::test(start_paused = true)]
async fn workers_that_share_a_limiter_share_the_limit() {
    let stage = Stage::new().await.unwrap();
    fill(&stage, 10).await;
    let rate = Some(one_a_second(RateKey::Queue));
    let spec = WorkerSpec { rate, ..spec(&stage, 2) };
    let names = ["coder-1", "coder-2", "coder-3"];
    let workers = names.map(|name| worker_with(&stage, name, spec.clone()));
    let (began, _) = beginnings(&workers, 10).await;
    assert_eq!(times(&began), seconds(0..10));
}

#[tokio::test(start_paused = true)]
async fn a_sender_over_its_limit_does_not_hold_up_another() {
    let stage = Stage::new().await.unwrap();
    fill(&stage, 5).await;
    let other = stage.agent("chief", Role::Orchestrator).unwrap();
    other.send(task(&stage, "other")).await.unwrap();
    let rate = Some(one_a_second(RateKey::Sender));
    let worker = worker_with(&stage, "coder-1", WorkerSpec { rate, ..spec(&stage, 1) });

    let (mut began, _) = beginnings(&[worker], 6).await;

    assert_eq!(began.remove("other"), Some(0));
    assert_eq!(times(&began), seconds(0..5));
}

#[tokio::test(start_paused = true)]
async fn an_order_key_has_a_limit_of_its_own_and_keeps_its_order() {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let key = |name| OrderKey::parse(name).unwrap();
    for (text, name) in [("a0", "a"), ("a1", "a"), ("b0", "b"), ("a2", "a"), ("b1", "b")] {
        boss.send(Outgoing::from(task(&stage, text)).key(key(name))).await.unwrap();
    }
    boss.send(task(&stage, "plain")).await.unwrap();
    let rate = Some(one_a_second(RateKey::default()));
    let worker = worker_with(&stage, "coder-1", WorkerSpec { rate, ..spec(&stage, 4) });

    let (began, _) = beginnings(&[worker], 6).await;

    let expected = [("a0", 0), ("a1", 1000), ("a2", 2000), ("b0", 0), ("b1", 1000), ("plain", 0)];
    let expected = expected.map(|(text, ms)| (text.to_owned(), ms));
    assert_eq!(began, BTreeMap::from(expected));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_was_done_and_not_removed_needs_no_permit() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    fill(&stage, 1).await;
    flaky.fail(Op::Settle, "vak.work.", Fault::LostBefore, 1);
    let rate = RateLimit::new(NonZeroU32::MIN, Duration::from_secs(3600));
    let rate = Some(RateLimiter::new(RateLimit { key: RateKey::Queue, ..rate }).unwrap());
    let worker = worker_with(&stage, "coder-1", WorkerSpec { rate, ..spec(&stage, 1) });
    let start = Instant::now();
    let events = work(&worker, &Scripted::failing(0), until(1)).await.unwrap();
    assert_eq!(words(&events), ["unsettled", "completed"]);
    assert_eq!(start.elapsed().as_secs(), 30, "it waits for its lease and for nothing else");
}
