//! A worker who has nothing but its key takes the tasks of its queue, and of no other.

use std::time::Duration;

use bus_core::{Bus as _, ConsumerSpec, ErrorKind, Expect, Frame, FrameId, Verdict, planes};
use bus_nats::permissions::Layout;
use bus_subjects::{ConsumerName, Filter, Subject};
use tokio::time::timeout;

use crate::world::{World, beside, w1};

fn tasks(queue: &str) -> ConsumerSpec {
    ConsumerSpec {
        stream: planes::work_stream(&w1()).unwrap(),
        name: ConsumerName::parse(&format!("worker_{queue}")).unwrap(),
        filter: Filter::parse(&format!("vak.work.w1.{queue}.task")).unwrap(),
        lease: Duration::from_secs(30),
    }
}

#[tokio::test]
async fn a_worker_with_its_key_alone_takes_the_tasks_of_its_queue() {
    let world = World::start();
    let callout = world.instance().await;
    let store = world.store().await;
    store.declare_workspace(&Layout::of(&w1()).unwrap()).await.unwrap();
    for queue in ["coder", "judge"] {
        let subject = Subject::parse(&format!("vak.work.w1.{queue}.task")).unwrap();
        let frame = Frame::new(subject, FrameId::parse(queue).unwrap(), queue.to_owned());
        store.append(frame, Expect::Any).await.unwrap();
    }
    let identity = world.bound("a1", "s1", "coder");
    beside(&callout, async {
        let worker = world.agent(&identity).await;
        let mut member = worker.consume(tasks("coder")).await.unwrap();
        let next = timeout(Duration::from_secs(20), member.next()).await;
        let task = next.expect("in time").expect("the bus is open").unwrap();
        assert_eq!(task.frame.id.as_str(), "coder");
        task.settle(Verdict::Ack).await.unwrap();
        let refused = worker.consume(tasks("judge")).await.err();
        assert_eq!(refused.map(|error| error.kind()), Some(ErrorKind::Denied));
    })
    .await;
}
