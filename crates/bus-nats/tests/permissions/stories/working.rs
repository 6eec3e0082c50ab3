//! Tasks from their sender to their end, mailboxes, and the hands that steer.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bus_core::{
    Buckets as _, Bus as _, Cancelled, DeadLetters, Failure, Handled, Handler, Job, LetterFilter,
    LetterOrder, OrderKey, Outgoing, Priority, Recorded, Redrive, ResultOutput, Results, Stop,
    TaskEvent, TaskResult, Tasks, Worker, planes,
};
use bus_envelope::EventHash;
use bus_subjects::{AgentId, ConsumerName, Role};
use bytes::Bytes;
use tokio::sync::Notify;

use super::stage::{Stage, draft, task};

/// Stores a receipt and a result of each task; fails at `boom`, and waits at `wait`.
#[derive(Default)]
struct Diligent {
    begun: Arc<Notify>,
}

impl Handler for Diligent {
    async fn handle(&self, job: Job<'_>) -> Result<Handled, Failure> {
        self.begun.notify_one();
        match &job.message.payload[..] {
            b"boom" => return Err(Failure::Failed { reason: "it broke".to_owned() }),
            b"wait" => {
                job.cancel.cancelled().await;
                return Err(Failure::Interrupted);
            }
            _ => {}
        }
        let id = job.message.envelope.id.clone();
        let receipt = draft("vak.receipts.w1.s1.completed", "vak.receipt", "done");
        let receipt = job.endpoint.record(receipt.id(format!("r-{id}"))).await.unwrap();
        let result = TaskResult {
            task_id: id,
            task: job.message.hash,
            attempt: job.attempt,
            worker: job.endpoint.agent().clone(),
            session: "s1".parse().unwrap(),
            receipt: match receipt {
                Recorded::Stored(sent) => Some(sent.receipt.seq),
                Recorded::AlreadyThere => None,
            },
            stderr_hash: EventHash::of(b""),
            output: ResultOutput::Inline(Bytes::from_static(b"out")),
            left_out: None,
        };
        Results::new(job.endpoint.clone()).put(&result).await.unwrap();
        Ok(Handled)
    }
}

/// Works until so many tasks came to an end, and tells how each went on.
async fn work(worker: &Worker, handler: &Diligent, ends: usize) -> Vec<&'static str> {
    let (stop, words) = (Stop::default(), Mutex::new(Vec::new()));
    let report = |event: TaskEvent| {
        let mut words = words.lock().unwrap();
        words.push(match &event {
            TaskEvent::Completed { .. } => "completed",
            TaskEvent::Retried { .. } => "retried",
            TaskEvent::DeadLettered { .. } => "dead-lettered",
            TaskEvent::Released { .. } => "released",
            TaskEvent::Unsettled { error, .. } => unreachable!("{error}"),
        });
        let is_end = |word: &&&str| ["completed", "dead-lettered"].contains(word);
        if words.iter().filter(is_end).count() == ends {
            stop.drain.cancel();
        }
    };
    let running = worker.run(handler, &stop, report);
    tokio::time::timeout(Duration::from_secs(40), running).await.expect("in time").unwrap();
    words.into_inner().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_taken_done_and_vouched_for() {
    let stage = Stage::new().await;
    let boss = stage.agent("boss", Role::Orchestrator).await;
    let id = boss.send(task("good")).await.unwrap().id;
    let words = work(&stage.worker("a1").await, &Diligent::default(), 1).await;
    assert_eq!(words, ["completed"]);
    let result = Results::new(boss).get(&id).await.unwrap().unwrap();
    assert_eq!(result.worker.as_str(), "a1");
    assert_eq!(stage.count(planes::receipts_stream().unwrap()).await, 1);
    assert_eq!(stage.count(planes::work_stream(&stage.workspace).unwrap()).await, 0);
    stage.check_that_nothing_was_refused();
}

#[tokio::test(flavor = "multi_thread")]
async fn placed_tasks_are_done_by_their_order() {
    let stage = Stage::new().await;
    let boss = stage.agent("boss", Role::Orchestrator).await;
    let key = || OrderKey::parse("k").unwrap();
    let mut tasks = vec![Outgoing::from(task("low")).priority(Priority::LOWEST)];
    tasks.push(Outgoing::from(task("one")).key(key()));
    tasks.push(Outgoing::from(task("two")).key(key()));
    tasks.push(Outgoing::from(task("later")).after(Duration::from_millis(300)));
    for one in tasks {
        boss.send(one).await.unwrap();
    }
    let words = work(&stage.worker("a1").await, &Diligent::default(), 4).await;
    assert_eq!(words, ["completed"; 4]);
    assert_eq!(stage.count(planes::work_stream(&stage.workspace).unwrap()).await, 0);
    stage.check_that_nothing_was_refused();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_fails_is_tried_again_given_up_sent_again_and_thrown_away() {
    let stage = Stage::new().await;
    let boss = stage.agent("boss", Role::Orchestrator).await;
    boss.send(task("boom")).await.unwrap();
    let worker = stage.worker("a1").await;
    let words = work(&worker, &Diligent::default(), 1).await;
    assert_eq!(words, ["retried", "dead-lettered"]);
    let letters = DeadLetters::new(stage.agent("op", Role::Operator).await);
    let list = || letters.list(LetterFilter::default(), LetterOrder::OldestFirst);
    let letter = list().await.unwrap().next().await.unwrap().unwrap();
    letters.redrive(letter.seq, &Redrive::default()).await.unwrap();
    let words = work(&worker, &Diligent::default(), 1).await;
    assert_eq!(words, ["retried", "dead-lettered"]);
    let letter = list().await.unwrap().next().await.unwrap().unwrap();
    letters.discard(letter.seq, "no use").await.unwrap();
    assert_eq!(stage.count(planes::dead_letters_stream().unwrap()).await, 0);
    stage.check_that_nothing_was_refused();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_cancelled_while_it_waits_and_while_it_runs() {
    let stage = Stage::new().await;
    let boss = stage.agent("boss", Role::Orchestrator).await;
    let waiting = boss.send(task("good")).await.unwrap().id;
    let tasks = Tasks::new(stage.agent("op", Role::Operator).await);
    let found = tasks.find(&waiting).await.unwrap().unwrap();
    let cancelled = tasks.cancel(&found, Some("not needed")).await.unwrap();
    assert_eq!(cancelled, Cancelled::TakenOut);
    let running = boss.send(task("wait")).await.unwrap().id;
    let (handler, worker) = (Diligent::default(), stage.worker("a1").await);
    let begun = Arc::clone(&handler.begun);
    let (words, ()) = tokio::join!(work(&worker, &handler, 1), async {
        begun.notified().await;
        let found = tasks.find(&running).await.unwrap().unwrap();
        tasks.cancel(&found, Some("stop")).await.unwrap();
    });
    assert_eq!(words, ["dead-lettered"]);
    stage.check_that_nothing_was_refused();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_waits_in_its_mailbox_and_only_its_owner_takes_it() {
    let stage = Stage::new().await;
    let boss = stage.agent("boss", Role::Orchestrator).await;
    let to = AgentId::parse("a1").unwrap();
    for text in ["one", "two"] {
        boss.send_to(&to, task(text)).await.unwrap();
    }
    let owner = stage.agent("a1", Role::Worker).await;
    let mut mailbox = owner.mailbox(Duration::from_secs(30)).await.unwrap();
    for text in ["one", "two"] {
        let mail = mailbox.next().await.unwrap().unwrap();
        assert_eq!(&mail.content.as_ref().unwrap().payload[..], text.as_bytes());
        mail.ack().await.unwrap();
    }
    assert_eq!(stage.count(planes::inbox_stream(&stage.workspace).unwrap()).await, 0);
    stage.check_that_nothing_was_refused();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_sees_and_pauses_a_queue() {
    let stage = Stage::new().await;
    let boss = stage.agent("boss", Role::Orchestrator).await;
    let worker = stage.worker("a1").await;
    boss.send(task("good")).await.unwrap();
    work(&worker, &Diligent::default(), 1).await;
    boss.send(task("good")).await.unwrap();
    let operator = stage.bus("op", Role::Operator).await;
    let queue = planes::work_stream(&stage.workspace).unwrap();
    assert_eq!(operator.lag(queue.clone()).await.unwrap().pending, 1);
    let listed = operator.consumers(queue.clone()).await.unwrap();
    assert_eq!(listed.len(), 1);
    let name = ConsumerName::parse("worker_coder").unwrap();
    let until = stage.clock.now().plus(Duration::from_secs(600));
    operator.pause(queue.clone(), name.clone(), Some(until)).await.unwrap();
    let listed = operator.consumers(queue.clone()).await.unwrap();
    assert!(listed.iter().any(|one| one.paused_until.is_some()), "{listed:?}");
    operator.pause(queue, name, None).await.unwrap();
    assert_eq!(work(&worker, &Diligent::default(), 1).await, ["completed"]);
    let results = bus_subjects::BucketName::results(&stage.workspace);
    let all = operator.watch(results, "*".parse().unwrap(), bus_core::Revision::START);
    let mut results = all.await.unwrap();
    assert!(results.next().await.unwrap().is_ok());
    stage.check_that_nothing_was_refused();
}
