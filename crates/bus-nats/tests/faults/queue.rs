//! Tasks and those who do them, through everything.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use bus_conformance::wait_out;
use bus_core::{
    Bus, ConsumerSpec, Deliveries, Delivery, ErrorKind, Expect, Retention, StreamSpec, Verdict,
};
use bus_nats::NatsBus;
use bus_subjects::{ConsumerName, Filter, Subject};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::{
    kill::Load,
    scale::Scale,
    stage::{
        ANSWER_WAIT, MARGIN, SOON, Stage, connected, frame, kept, may_be_tried_again, stored,
        stream, until_taken,
    },
};

/// Nothing acknowledged is lost, and what was settled never comes again.
pub(crate) async fn every_task_is_done_through_every_kill(scale: Scale) -> String {
    let mut stage = Stage::new().await;
    stage.bus.declare(tasks()).await.unwrap();
    let (load, books) = (Load::default(), Arc::<Mutex<Books>>::default());
    let (mut producers, mut workers) = (JoinSet::new(), JoinSet::new());
    for number in 0..4 {
        producers.spawn(produce(stage.another().await, load.clone(), number));
        workers.spawn(work(stage.another().await, load.clone(), Arc::clone(&books)));
    }
    let kills = scale.pick(3, 40);
    load.under(kills, || stage.kill_and_restart()).await;
    let mut sent = 0;
    while let Some(told) = producers.join_next().await {
        sent += told.unwrap();
    }
    while let Some(worker) = workers.join_next().await {
        worker.unwrap();
    }
    let left = stored(&stage.another().await).await;
    assert!(left.is_empty(), "nobody did {left:?}");
    let books = books.lock().unwrap();
    let done = books.done.len();
    let missing = sent.saturating_sub((done + books.unsure.len()) as u64);
    assert_eq!(missing, 0, "{sent} were sent, {done} are done");
    format!("{kills} kills; {sent} tasks sent, all done; {} claims beyond the first", books.again)
}

/// What the workers know together.
#[derive(Default)]
struct Books {
    /// Those whose verdict was confirmed.
    done: BTreeSet<String>,
    /// Those whose verdict was sent and not confirmed.
    unsure: BTreeSet<String>,
    /// How many claims were not the first of their task.
    again: u64,
}

async fn produce(bus: NatsBus, load: Load, number: u64) -> u64 {
    let mut sent = 0;
    while !load.is_over() {
        let id = format!("p{number}-{sent}");
        until_taken(&bus, || bus.append(frame("work.task", &id), Expect::Any)).await;
        sent += 1;
        load.note(1);
    }
    sent
}

/// Does tasks until there are no more.
async fn work(bus: NatsBus, load: Load, books: Arc<Mutex<Books>>) {
    let (mut member, _) = until_taken(&bus, || bus.consume(crew(LEASE))).await;
    loop {
        let claimed = timeout(LEASE * 2, member.next()).await;
        let Ok(claimed) = claimed else {
            if load.is_over() {
                return;
            }
            continue;
        };
        let delivery = match claimed.expect("a member ended") {
            Ok(delivery) => delivery,
            Err(error) => {
                may_be_tried_again(&error);
                connected(&bus).await;
                continue;
            }
        };
        let id = delivery.frame.id.to_string();
        {
            let mut books = books.lock().unwrap();
            assert!(!books.done.contains(&id), "{id} was settled and came again");
            books.again += u64::from(delivery.attempt > 1);
        }
        let settled = delivery.settle(Verdict::Ack).await;
        let mut books = books.lock().unwrap();
        match settled {
            Ok(()) => drop(books.done.insert(id)),
            Err(error) if error.kind() == ErrorKind::LeaseLost => {}
            Err(error) => {
                may_be_tried_again(&error);
                books.unsure.insert(id);
            }
        }
        load.note(1);
    }
}

/// Claims wait, verdicts end in time, and what was not settled is done in the end.
pub(crate) async fn a_frozen_server_ends_verdicts_in_time_and_no_task_is_lost(
    scale: Scale,
) -> String {
    let stage = Stage::new().await;
    stage.bus.declare(tasks()).await.unwrap();
    let (rounds, frozen) = scale.pick((1, ANSWER_WAIT), (6, Duration::from_secs(20)));
    let mut member = stage.bus.consume(crew(LEASE)).await.unwrap();
    for round in 0..rounds {
        for n in 0..3 {
            let id = format!("r{round}-{n}");
            let append = || stage.bus.append(frame("work.task", &id), Expect::Any);
            until_taken(&stage.bus, append).await;
        }
        let held = [claim(&mut member).await, claim(&mut member).await];
        stage.server.freeze().unwrap();
        let begun = Instant::now();
        for delivery in held {
            let error = delivery.settle(Verdict::Ack).await.unwrap_err();
            // With its lease over nothing is sent any more.
            if error.kind() != ErrorKind::LeaseLost {
                may_be_tried_again(&error);
            }
        }
        let took = begun.elapsed();
        assert!(took < (ANSWER_WAIT + MARGIN) * 2, "two verdicts took {took:?}");
        wait_out(frozen.saturating_sub(begun.elapsed())).await;
        stage.server.thaw().unwrap();
        connected(&stage.bus).await;
        drain(&stage.bus, &mut member).await;
    }
    format!("{rounds} freezes; verdicts ended in time, every task was done")
}

/// Settles what comes until the stream is empty.
async fn drain(bus: &NatsBus, member: &mut Deliveries) {
    let begun = Instant::now();
    while until_taken(bus, || bus.last(task())).await.0.is_some() {
        assert!(begun.elapsed() < SOON, "tasks are left");
        match timeout(LEASE, member.next()).await {
            Ok(Some(Ok(delivery))) => {
                // One that was settled before the freeze ended may be refused now.
                let _settled = delivery.settle(Verdict::Ack).await;
            }
            Ok(Some(Err(error))) => may_be_tried_again(&error),
            Ok(None) => panic!("the member ended"),
            Err(_) => {}
        }
    }
}

pub(crate) async fn a_deleted_consumer_is_told_to_its_members_and_its_tasks_stay(
    scale: Scale,
) -> String {
    let stage = Stage::new().await;
    stage.bus.declare(tasks()).await.unwrap();
    let (other, stranger) = (stage.another().await, stage.stranger().await);
    let rounds = scale.pick(2, 30);
    for round in 0..rounds {
        let mut first = stage.bus.consume(crew(LONG)).await.unwrap();
        let mut second = other.consume(crew(LONG)).await.unwrap();
        for n in 0..3 {
            let id = format!("r{round}-{n}");
            stage.bus.append(frame("work.task", &id), Expect::Any).await.unwrap();
        }
        let held = claim(&mut first).await;
        let subject = "$JS.API.CONSUMER.DELETE.WORK.crew";
        let deleted = stranger.request(subject, "".into()).await.unwrap();
        assert!(deleted.payload.starts_with(br#"{"type""#), "{:?}", deleted.payload);
        for member in [&mut first, &mut second] {
            let told = until_told(member).await;
            assert_eq!(told, ErrorKind::NotFound, "round {round}");
        }
        let error = held.settle(Verdict::Ack).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LeaseLost, "{error:?}");
        let mut again = other.consume(crew(LONG)).await.unwrap();
        for _ in 0..3 {
            claim(&mut again).await.settle(Verdict::Ack).await.unwrap();
        }
        assert!(stored(&stage.bus).await.is_empty());
        assert!(other.remove_consumer(stream("WORK"), crew(LONG).name).await.unwrap());
    }
    format!("{rounds} consumers deleted; both members were told, every task was done after it")
}

/// What the member is told when it is no more; what it got before does not count.
async fn until_told(member: &mut Deliveries) -> ErrorKind {
    loop {
        let next = timeout(SOON, member.next()).await.expect("the member was told nothing");
        match next.expect("the member ended without a word") {
            Ok(early) => drop(early),
            Err(error) => return error.kind(),
        }
    }
}

/// Each task goes to one of them, once; who joins otherwise is told.
pub(crate) async fn two_engines_on_one_durable_name_share_its_tasks(scale: Scale) -> String {
    let stage = Stage::new().await;
    stage.bus.declare(tasks()).await.unwrap();
    let (one, other) = (stage.another().await, stage.another().await);
    let (first, second) = tokio::join!(one.consume(crew(LONG)), other.consume(crew(LONG)));
    let members = [first.unwrap(), second.unwrap()];
    let error = other.consume(crew(LEASE)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
    let count = scale.pick(400, 10_000);
    let mut both = JoinSet::new();
    for mut member in members {
        both.spawn(async move {
            let mut got = Vec::new();
            while let Ok(claimed) = timeout(Duration::from_secs(2), member.next()).await {
                let delivery = claimed.unwrap().unwrap();
                got.push((delivery.frame.id.to_string(), delivery.attempt));
                delivery.settle(Verdict::Ack).await.unwrap();
            }
            got
        });
    }
    for n in 0..count {
        stage.bus.append(frame("work.task", &n.to_string()), Expect::Any).await.unwrap();
    }
    let (mut all, mut shares) = (BTreeMap::new(), Vec::new());
    while let Some(got) = both.join_next().await {
        let got = got.unwrap();
        shares.push(got.len());
        for (id, attempt) in got {
            assert_eq!(all.insert(id.clone(), attempt), None, "{id} went to both");
        }
    }
    assert_eq!(all.len(), count);
    assert!(all.values().all(|attempt| *attempt == 1), "{all:?}");
    assert!(shares.iter().all(|share| *share > 0), "{shares:?}");
    format!("{count} tasks, {shares:?} to each; none twice")
}

/// A member that is not polled, and one whose call was dropped, keep nothing from the others.
pub(crate) async fn a_member_that_never_reads_keeps_no_task_from_others(scale: Scale) -> String {
    let stage = Stage::new().await;
    stage.bus.declare(tasks()).await.unwrap();
    let sluggard = stage.another().await;
    let _unread = sluggard.consume(crew(LONG)).await.unwrap();
    let mut hasty = sluggard.consume(crew(LONG)).await.unwrap();
    let mut member = stage.bus.consume(crew(LONG)).await.unwrap();
    let rounds = scale.pick(10, 500);
    for round in 0..rounds {
        // It asked, and went away before there was anything.
        let early = timeout(Duration::from_millis(5), hasty.next()).await;
        assert!(early.is_err(), "{early:?}");
        let id = round.to_string();
        stage.bus.append(frame("work.task", &id), Expect::Any).await.unwrap();
        let delivery = claim(&mut member).await;
        assert_eq!((delivery.frame.id.as_str(), delivery.attempt), (id.as_str(), 1));
        delivery.settle(Verdict::Ack).await.unwrap();
    }
    format!("{rounds} tasks past two members that did not read; each came at once and first")
}

pub(crate) async fn claim(member: &mut Deliveries) -> Delivery {
    let claimed = timeout(SOON, member.next()).await.expect("no task came");
    claimed.expect("the member ended").unwrap()
}

fn task() -> Subject {
    Subject::parse("work.task").unwrap()
}

pub(crate) fn tasks() -> StreamSpec {
    StreamSpec { retention: Retention::WorkQueue, ..kept() }
}

pub(crate) fn crew(lease: Duration) -> ConsumerSpec {
    ConsumerSpec {
        stream: stream("WORK"),
        name: ConsumerName::parse("crew").unwrap(),
        filter: Filter::parse("work.task").unwrap(),
        lease,
    }
}

/// Short enough to wait for its end.
pub(crate) const LEASE: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(60);
