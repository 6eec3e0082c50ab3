//! Tasks in trouble: what stands on the board is claimed, seen, steered and cleared with the rights
//! of a role.

use std::time::Duration;

use bus_core::{
    Bus as _, ConsumerSpec, Deliveries, Delivery, Expect, Frame, FrameId, OrderKey, Placement,
    Verdict, planes,
};
use bus_nats::NatsBus;
use bus_subjects::{ConsumerName, Filter, Role, Subject};

use super::stage::Stage;

const LATER: Duration = Duration::from_secs(600);

async fn append(bus: &NatsBus, subject: &str, id: &str, key: Option<&str>) {
    let subject = Subject::parse(subject).unwrap();
    let key = key.map(|key| OrderKey::parse(key).unwrap());
    let frame = Frame::new(subject, FrameId::parse(id).unwrap(), id.to_owned());
    let frame = frame.placed(Placement { key, ..Placement::default() });
    bus.append(frame, Expect::Any).await.unwrap();
}

fn tasks(stage: &Stage) -> ConsumerSpec {
    ConsumerSpec {
        stream: planes::work_stream(&stage.workspace).unwrap(),
        name: ConsumerName::parse("worker_coder").unwrap(),
        filter: Filter::parse("vak.work.w1.coder.task").unwrap(),
        lease: Duration::from_secs(30),
    }
}

fn records(stage: &Stage) -> ConsumerSpec {
    ConsumerSpec {
        stream: planes::outbox_stream(&stage.workspace).unwrap(),
        name: ConsumerName::parse("courier").unwrap(),
        filter: Filter::parse("vak.outbox.w1.*.record").unwrap(),
        lease: Duration::from_secs(30),
    }
}

async fn next(member: &mut Deliveries) -> Delivery {
    let next = tokio::time::timeout(Duration::from_secs(20), member.next()).await;
    next.expect("in time").expect("the bus is open").unwrap()
}

async fn gets_nothing(member: &mut Deliveries) {
    let next = tokio::time::timeout(Duration::from_millis(500), member.next()).await;
    assert!(next.is_err(), "{next:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_hands_back_fails_extends_and_rejects() {
    let stage = Stage::new().await;
    let boss = stage.bus("boss", Role::Orchestrator).await;
    let worker = stage.bus("a1", Role::Worker).await;
    let mut member = worker.consume(tasks(&stage)).await.unwrap();
    for (id, key) in [("plain", None), ("keyed", Some("k"))] {
        append(&boss, "vak.work.w1.coder.task", id, key).await;
        let verdicts = [
            Verdict::Release { after: Duration::ZERO },
            Verdict::Retry { after: Duration::ZERO },
            Verdict::Reject { reason: "no use".to_owned() },
        ];
        for (verdict, attempt) in verdicts.into_iter().zip([1, 1, 2]) {
            let task = next(&mut member).await;
            assert_eq!((task.frame.id.as_str(), task.attempt), (id, attempt));
            task.extend().await.unwrap();
            task.settle(verdict).await.unwrap();
        }
    }
    gets_nothing(&mut member).await;
    assert_eq!(stage.count(tasks(&stage).stream).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_counts_and_discards_what_rests_and_what_is_held() {
    let stage = Stage::new().await;
    let boss = stage.bus("boss", Role::Orchestrator).await;
    let worker = stage.bus("a1", Role::Worker).await;
    let operator = stage.bus("op", Role::Operator).await;
    let ConsumerSpec { stream, .. } = tasks(&stage);
    let mut member = worker.consume(tasks(&stage)).await.unwrap();
    for (id, key) in [("plain", None), ("keyed", Some("k")), ("held", None)] {
        append(&boss, "vak.work.w1.coder.task", id, key).await;
    }
    let (mut resting, mut held) = (Vec::new(), None);
    for _ in 0..3 {
        let task = next(&mut member).await;
        let seq = task.seq;
        if task.frame.id.as_str() == "held" {
            held = Some(task);
        } else {
            task.settle(Verdict::Retry { after: LATER }).await.unwrap();
            resting.push(seq);
        }
    }
    let lag = operator.lag(stream.clone()).await.unwrap();
    assert_eq!((lag.pending, lag.in_flight), (2, 1));
    let listed = operator.consumers(stream.clone()).await.unwrap();
    assert_eq!((listed[0].lag.pending, listed[0].lag.in_flight), (2, 1));
    for seq in resting {
        assert!(operator.discard(stream.clone(), seq).await.unwrap());
    }
    let held = held.unwrap();
    assert!(operator.discard(stream.clone(), held.seq).await.unwrap());
    held.settle(Verdict::Retry { after: Duration::ZERO }).await.unwrap_err();
    gets_nothing(&mut member).await;
    let lag = operator.lag(stream).await.unwrap();
    assert_eq!((lag.pending, lag.in_flight), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_courier_takes_its_consumer_over_with_what_stood_on_the_board() {
    let stage = Stage::new().await;
    let boss = stage.bus("boss", Role::Orchestrator).await;
    let keeper = stage.bus("k1", Role::Keeper).await;
    let ConsumerSpec { stream, name, .. } = records(&stage);
    let mut member = keeper.consume(records(&stage)).await.unwrap();
    append(&boss, "vak.outbox.w1.boss.record", "r1", None).await;
    next(&mut member).await.settle(Verdict::Retry { after: LATER }).await.unwrap();
    let operator = stage.bus("op", Role::Operator).await;
    assert_eq!(operator.lag(stream.clone()).await.unwrap().pending, 1);
    assert!(keeper.remove_consumer(stream.clone(), name).await.unwrap());
    let mut member = keeper.consume(records(&stage)).await.unwrap();
    let record = next(&mut member).await;
    assert_eq!((record.frame.id.as_str(), record.attempt), ("r1", 1));
    record.settle(Verdict::Ack).await.unwrap();
    assert_eq!(stage.count(stream).await, 0);
}
