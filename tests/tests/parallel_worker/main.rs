//! One worker with several tasks at once: room, order, limits, failures, and how it stops.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

mod alone;
mod faults;
mod keys;
mod marks;
mod rate;
mod room;

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bus_core::{Backoff, Handled, Handler, RetryPolicy, TaskEvent, Worker, WorkerSpec};
use bus_stories::{Doing, Ran, Stage, Told};
use bus_subjects::Role;
use tokio::sync::Notify;

pub(crate) fn spec(stage: &Stage, concurrency: usize) -> WorkerSpec {
    let concurrency = NonZeroUsize::new(concurrency).unwrap();
    WorkerSpec { concurrency, ..WorkerSpec::new(stage.queue.clone()) }
}

pub(crate) fn worker_with(stage: &Stage, name: &str, spec: WorkerSpec) -> Worker {
    Worker::new(stage.agent(name, Role::Worker).unwrap(), spec)
}

pub(crate) fn worker(stage: &Stage, name: &str, concurrency: usize) -> Worker {
    worker_with(stage, name, spec(stage, concurrency))
}

pub(crate) fn quick(stage: &Stage, concurrency: usize) -> WorkerSpec {
    let retry = RetryPolicy { retries_max: 5, backoff: Backoff { base: Duration::from_millis(5) } };
    WorkerSpec { retry, ..spec(stage, concurrency) }
}

pub(crate) async fn fill(stage: &Stage, tasks: usize) -> Vec<String> {
    let texts: Vec<String> = (0..tasks).map(|n| n.to_string()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    stage.fill(&texts).await.unwrap()
}

pub(crate) fn ended(events: &[TaskEvent]) -> usize {
    let is_end =
        |e: &&TaskEvent| matches!(e, TaskEvent::Completed { .. } | TaskEvent::DeadLettered { .. });
    events.iter().filter(is_end).count()
}

pub(crate) fn until(tasks: usize) -> impl Fn(&[TaskEvent]) -> bool + Send + Sync {
    move |events| ended(events) == tasks
}

pub(crate) async fn nothing_is_left(stage: &Stage) {
    let lag = stage.lag().await.unwrap();
    assert_eq!((lag.pending, lag.in_flight), (0, 0));
}

/// A handler that says when `many` runs have begun, and ends none of them before it is told.
pub(crate) fn gated(many: u32) -> (impl Handler, Arc<Notify>, Arc<Notify>) {
    let (full, open) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begun, told, gate) = (AtomicU32::new(0), Arc::clone(&full), Arc::clone(&open));
    let handler = Doing(move |_: Told| -> Ran {
        if begun.fetch_add(1, Ordering::Relaxed) + 1 == many {
            told.notify_one();
        }
        let gate = Arc::clone(&gate);
        Box::pin(async move {
            gate.notified().await;
            Ok(Handled)
        })
    });
    (handler, full, open)
}

/// Lets so much time pass.
pub(crate) async fn rest(time: Duration) {
    let _over = tokio::time::timeout(time, std::future::pending::<()>()).await;
}
