//! C10, C12 and C13 side by side: what befalls one task is its own business.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    num::NonZeroUsize,
    sync::{Arc, Mutex},
    time::Duration,
};

use bus_core::{Endpoint, ErrorKind, Failure, Handled, Handler, Job, Recorded, TaskEvent, planes};
use bus_envelope::{ChainScope, ChainVerifier, Draft, wire};
use bus_stories::{Doing, Fault, Op, Ran, Stage, Told, slow, word, words, work};
use bus_subjects::Role;

use super::{ended, fill, nothing_is_left, until, worker};

#[tokio::test(start_paused = true)]
async fn a_panic_is_its_own_tasks_business() {
    let stage = Stage::new().await.unwrap();
    let ids = stage.fill(&["a", "boom", "b", "c"]).await.unwrap();
    let handler = Doing(|told: Told| -> Ran {
        Box::pin(async move {
            let _rest = tokio::time::timeout(Duration::from_secs(1), told.cancel.cancelled()).await;
            if told.text == "boom" {
                std::panic::panic_any("it went off");
            }
            Ok(Handled)
        })
    });

    let events = work(&worker(&stage, "coder-1", 4), &handler, until(4)).await.unwrap();

    let mut of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for event in &events {
        of.entry(id_of(event)).or_default().push(word(event));
    }
    assert_eq!(of[ids[1].as_str()], ["retried", "retried", "retried", "dead-lettered"]);
    for id in [&ids[0], &ids[2], &ids[3]] {
        assert_eq!(of[id.as_str()], ["completed"]);
    }
}

fn id_of(event: &TaskEvent) -> &str {
    match event {
        TaskEvent::Completed { task_id, .. }
        | TaskEvent::Retried { task_id, .. }
        | TaskEvent::DeadLettered { task_id, .. }
        | TaskEvent::Released { task_id, .. }
        | TaskEvent::Unsettled { task_id, .. } => task_id,
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_costs_its_neighbours_nothing() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    fill(&stage, 4).await;
    flaky.fail(Op::Extend, "vak.work.", Fault::Refused(ErrorKind::LeaseLost), 1);
    let (handler, _) = slow(Duration::from_secs(60));

    let events = work(&worker(&stage, "coder-1", 4), &handler, until(4)).await.unwrap();

    let [lost, done @ ..] = &events[..] else { panic!("nothing happened") };
    let TaskEvent::Unsettled { error, task_id } = lost else { panic!("{lost:?}") };
    assert_eq!(error.kind(), ErrorKind::LeaseLost);
    assert_eq!(words(done), ["completed"; 4]);
    for event in done {
        let TaskEvent::Completed { task_id: id, attempt } = event else { unreachable!() };
        assert_eq!(*attempt, if id == task_id { 2 } else { 1 });
    }
    assert_eq!(stage.metrics.report().outcomes.lease_lost, 1);
}

#[tokio::test(start_paused = true)]
async fn dead_letters_that_cannot_be_stored_keep_their_originals_side_by_side() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let ids = fill(&stage, 8).await;
    flaky.fail(Op::Append, "vak.dlq.", Fault::Refused(ErrorKind::Full), 5);
    let handler = Doing(|_: Told| -> Ran {
        Box::pin(async { Err(Failure::Hopeless { reason: "no such file".to_owned() }) })
    });

    let events = work(&worker(&stage, "coder-1", 4), &handler, until(8)).await.unwrap();

    assert_eq!(words(&events).iter().filter(|word| **word == "unsettled").count(), 5);
    let letters = stage.letters().await.unwrap();
    let given_up: HashSet<&str> = letters.iter().map(|l| l.envelope_id.as_str()).collect();
    assert_eq!((letters.len(), given_up), (8, ids.iter().map(String::as_str).collect()));
    assert!(letters.iter().all(|letter| letter.attempts == 1));
    nothing_is_left(&stage).await;
}

#[tokio::test(start_paused = true)]
async fn tasks_whose_removal_got_no_answer_are_not_run_again() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let ids = fill(&stage, 8).await;
    flaky.fail(Op::Settle, "vak.work.", Fault::LostAfter, 2);
    flaky.fail(Op::Settle, "vak.work.", Fault::LostBefore, 2);
    let runs = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&runs);
    let handler = Doing(move |told: Told| -> Ran {
        noted.lock().unwrap().push(told.id);
        Box::pin(async { Ok(Handled) })
    });

    // Two of four are gone although nobody said so, two come again.
    let done = |events: &[TaskEvent]| events.len() == 10;
    let events = work(&worker(&stage, "coder-1", 4), &handler, done).await.unwrap();

    assert_eq!(words(&events).iter().filter(|word| **word == "unsettled").count(), 4);
    assert_eq!(ended(&events), 6);
    let mut runs = runs.lock().unwrap().clone();
    runs.sort();
    let mut ids = ids;
    ids.sort();
    assert_eq!(runs, ids, "a task was run twice");
    nothing_is_left(&stage).await;
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

#[tokio::test(start_paused = true)]
async fn a_parallel_worker_leaves_one_receipt_a_task_on_one_line() {
    let stage = Stage::new().await.unwrap();
    let ids = fill(&stage, 200).await;
    let receipts = stage.receipts().subject();
    let handler = Recording { receipts: receipts.clone() };

    let events = work(&worker(&stage, "coder-1", 32), &handler, until(200)).await.unwrap();

    assert_eq!(words(&events), ["completed"; 200]);
    let frames = stage.stored(planes::receipts_stream().unwrap()).await.unwrap();
    let scope = ChainScope::Subject { workspace: stage.workspace.clone(), subject: receipts };
    let mut chain = ChainVerifier::new(scope, NonZeroUsize::new(4096).unwrap());
    let mut of: HashMap<String, u32> = HashMap::new();
    for frame in &frames {
        let envelope = wire::decode(&frame.headers, &frame.body).unwrap();
        chain.feed(&envelope);
        *of.entry(envelope.id).or_default() += 1;
    }
    assert!(chain.is_complete(), "{:?}", chain.summary());
    assert!(of.len() == 200 && ids.iter().all(|id| of[&format!("{id}.receipt")] == 1));
}

/// A worker's endpoint, to see that it can be used from within several jobs at once.
struct Talking;

impl Handler for Talking {
    async fn handle(&self, job: Job<'_>) -> Result<Handled, Failure> {
        let endpoint: &Endpoint = job.endpoint;
        let subject = bus_subjects::Address::Tokens {
            workspace: endpoint.workspace().clone(),
            session: endpoint.session().unwrap().clone(),
        };
        for n in 0..5 {
            let draft = Draft::new(subject.subject(), "vak.tokens", n.to_string());
            let sent = endpoint.publish(draft).await;
            sent.map_err(|error| Failure::Failed { reason: error.to_string() })?;
            tokio::task::yield_now().await;
        }
        Ok(Handled)
    }
}

#[tokio::test(start_paused = true)]
async fn jobs_side_by_side_write_one_whole_chain() {
    let stage = Stage::new().await.unwrap();
    fill(&stage, 16).await;
    let listener = stage.agent("eye", Role::Observer).unwrap();
    let room = bus_core::Overflow::DropOldest { capacity: NonZeroUsize::new(1000).unwrap() };
    let filter = (&stage.tokens().subject()).into();
    let mut feed = listener.subscribe(filter, room).await.unwrap();

    work(&worker(&stage, "coder-1", 8), &Talking, until(16)).await.unwrap();

    for n in 1..=80 {
        let Some(bus_core::Incoming::Message(opened)) = feed.next().await else {
            panic!("message {n} is missing")
        };
        assert_eq!(opened.envelope.lineage.seq_num, n);
    }
}

/// Goes off when it is dropped.
struct Bomb;

impl Drop for Bomb {
    #[expect(clippy::panic, reason = "the panic is the story")]
    fn drop(&mut self) {
        std::panic::panic_any("it went off")
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_when_it_is_dropped_takes_nobody_along() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    stage.fill(&["boom", "good"]).await.unwrap();
    flaky.fail(Op::Extend, "vak.work.", Fault::Refused(ErrorKind::LeaseLost), 1);
    let handler = Doing(|told: Told| -> Ran {
        Box::pin(async move {
            if told.text == "boom" {
                let _bomb = Bomb;
                std::future::pending::<()>().await;
            }
            let _rest =
                tokio::time::timeout(Duration::from_secs(20), told.cancel.cancelled()).await;
            Ok(Handled)
        })
    });
    let events = work(&worker(&stage, "coder-1", 2), &handler, |events| events.len() == 2).await;
    assert_eq!(words(&events.unwrap()), ["unsettled", "completed"]);
}
