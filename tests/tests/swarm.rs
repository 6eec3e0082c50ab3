//! S0.2 in small: many agents on one queue in one process.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use bus_core::{Failure, Handled, Handler, Job, Recorded, Stop, TaskEvent, planes};
use bus_envelope::{ChainScope, ChainVerifier, Draft, wire};
use bus_stories::{Scripted, Stage, task};
use bus_subjects::Role;
use tokio::task::JoinSet;

const AGENTS: usize = 200;
const TASKS: usize = 2000;

/// Counts runs of each task.
#[derive(Clone, Default)]
struct Counting(Arc<Mutex<HashMap<String, u32>>>);

impl Handler for Counting {
    async fn handle(&self, job: Job<'_>) -> Result<Handled, Failure> {
        let id = job.message.envelope.id.clone();
        *self.0.lock().unwrap().entry(id).or_default() += 1;
        // Give way, so that the others get their share.
        tokio::task::yield_now().await;
        Ok(Handled)
    }
}

/// Leaves a receipt for each task on the one line of receipts.
struct Recording {
    receipts: bus_subjects::Subject,
}

impl Handler for Recording {
    async fn handle(&self, job: Job<'_>) -> Result<Handled, Failure> {
        let task = &job.message.envelope.id;
        let receipt = Draft::new(self.receipts.clone(), "vak.receipt", task.clone())
            .id(format!("{task}.receipt"))
            .cause(job.message.hash);
        match job.endpoint.record(receipt).await {
            Ok(Recorded::Stored(_) | Recorded::AlreadyThere) => Ok(Handled),
            Err(error) => Err(Failure::Failed { reason: error.to_string() }),
        }
    }
}

/// Runs `agents` workers, each with a handler of its own, until `tasks` tasks are at their end.
async fn swarm<H: Handler + 'static>(
    stage: &Stage,
    agents: usize,
    tasks: usize,
    handler: impl Fn(usize) -> H,
) -> BTreeMap<&'static str, usize> {
    let (stop, ended) = (Stop::default(), Arc::new(AtomicUsize::new(0)));
    let words = Arc::new(Mutex::new(BTreeMap::new()));
    let mut workers = JoinSet::new();
    for agent in 0..agents {
        let (worker, handler) = (stage.worker(&format!("coder-{agent}")).unwrap(), handler(agent));
        let (stop, ended, words) = (stop.clone(), Arc::clone(&ended), Arc::clone(&words));
        workers.spawn(async move {
            let report = |event: TaskEvent| {
                *words.lock().unwrap().entry(bus_stories::word(&event)).or_default() += 1;
                let is_end =
                    matches!(event, TaskEvent::Completed { .. } | TaskEvent::DeadLettered { .. });
                if is_end && ended.fetch_add(1, Ordering::Relaxed) + 1 == tasks {
                    stop.drain.cancel();
                }
            };
            worker.run(&handler, &stop, report).await.unwrap();
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker.unwrap();
    }
    Arc::into_inner(words).unwrap().into_inner().unwrap()
}

async fn fill(stage: &Stage, tasks: usize) -> Vec<String> {
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let mut ids = Vec::new();
    for n in 0..tasks {
        ids.push(boss.send(task(stage, &n.to_string())).await.unwrap().id);
    }
    ids
}

async fn nothing_is_left(stage: &Stage) {
    let lag = stage.lag().await.unwrap();
    assert_eq!((lag.pending, lag.in_flight), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn two_hundred_agents_do_two_thousand_tasks_once_each() {
    let stage = Stage::new().await.unwrap();
    let ids = fill(&stage, TASKS).await;
    let runs = Counting::default();

    let words = swarm(&stage, AGENTS, TASKS, |_| runs.clone()).await;

    assert_eq!(words, BTreeMap::from([("completed", TASKS)]));
    let runs = runs.0.lock().unwrap().clone();
    assert_eq!(runs.len(), TASKS, "a task is lost");
    assert!(ids.iter().all(|id| runs[id] == 1), "a task was done twice");
    nothing_is_left(&stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_four_threads_nothing_is_lost_or_done_twice_either() {
    let stage = Stage::new().await.unwrap();
    let ids = fill(&stage, TASKS).await;
    let runs = Counting::default();

    let words = swarm(&stage, AGENTS, TASKS, |_| runs.clone()).await;

    assert_eq!(words, BTreeMap::from([("completed", TASKS)]));
    let runs = runs.0.lock().unwrap().clone();
    assert!(runs.len() == TASKS && ids.iter().all(|id| runs[id] == 1));
    nothing_is_left(&stage).await;
}

#[tokio::test(start_paused = true)]
async fn a_swarm_of_agents_that_fail_now_and_then_loses_nothing() {
    let stage = Stage::new().await.unwrap();
    fill(&stage, TASKS).await;

    // Each agent fails its first three runs.
    let words = swarm(&stage, AGENTS, TASKS, |_| Scripted::failing(3)).await;

    let count = |word| words.get(word).copied().unwrap_or_default();
    assert_eq!(count("completed") + count("dead-lettered"), TASKS);
    assert_eq!(stage.letters().await.unwrap().len(), count("dead-lettered"));
    assert_eq!(stage.metrics.snapshot().dead_letter_count as usize, count("dead-lettered"));
    assert!(count("retried") > 0);
    nothing_is_left(&stage).await;
}

#[tokio::test(start_paused = true)]
async fn a_swarm_leaves_one_receipt_a_task_on_one_line() {
    let stage = Stage::new().await.unwrap();
    let ids = fill(&stage, 500).await;
    let receipts = stage.receipts().subject();

    let words = swarm(&stage, AGENTS, 500, |_| Recording { receipts: receipts.clone() }).await;

    assert_eq!(words, BTreeMap::from([("completed", 500)]));
    let frames = stage.stored(planes::receipts_stream().unwrap()).await.unwrap();
    let window = std::num::NonZeroUsize::new(4096).unwrap();
    let scope = ChainScope::Subject { workspace: stage.workspace.clone(), subject: receipts };
    let mut chain = ChainVerifier::new(scope, window);
    let mut of: BTreeMap<String, u32> = BTreeMap::new();
    for frame in &frames {
        let envelope = wire::decode(&frame.headers, &frame.body).unwrap();
        chain.feed(&envelope);
        *of.entry(envelope.id).or_default() += 1;
    }
    assert!(chain.is_complete(), "{:?}", chain.summary());
    assert_eq!(of.len(), 500);
    assert!(ids.iter().all(|id| of[&format!("{id}.receipt")] == 1));
}
