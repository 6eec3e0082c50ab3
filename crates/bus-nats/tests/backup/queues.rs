//! Work queues that come back: what was leased, what had failed, what waited.

use std::{collections::BTreeMap, time::Duration};

use bus_core::{Bus as _, ConsumerSpec, Deliveries, Delivery, Retention, Verdict};
use bus_nats::NatsBus;
use bus_subjects::{ConsumerName, Filter, StreamName};

use crate::place::{Place, append, declare, stored};

async fn member(bus: &NatsBus) -> Deliveries {
    let spec = ConsumerSpec {
        stream: StreamName::parse("WORK").unwrap(),
        name: ConsumerName::parse("coder").unwrap(),
        filter: Filter::parse("work.coder").unwrap(),
        lease: Duration::from_secs(4),
    };
    bus.consume(spec).await.unwrap()
}

/// The next delivery, which must come within a time that only a fault exceeds.
async fn next(member: &mut Deliveries) -> Delivery {
    let next = tokio::time::timeout(Duration::from_secs(30), member.next());
    next.await.expect("a task comes in time").expect("the bus is open").unwrap()
}

/// A queue in which one task is held, one has failed once, and one was never taken.
async fn busy() -> (Place, Delivery) {
    let place = Place::empty().await;
    declare(&place.bus, "WORK", Retention::WorkQueue).await;
    for id in ["failed", "held", "fresh"] {
        append(&place.bus, "work.coder", id).await.unwrap();
    }
    let mut member = member(&place.bus).await;
    let failed = next(&mut member).await;
    assert_eq!(failed.frame.id.to_string(), "failed");
    // Later than this test looks.
    failed.settle(Verdict::Retry { after: Duration::from_secs(2) }).await.unwrap();
    let held = next(&mut member).await;
    assert_eq!(held.frame.id.to_string(), "held");
    (place, held)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_queue_keeps_its_leases_and_attempts() {
    let (place, _held) = busy().await;
    place.back_up().await;
    let again = Place::empty().await;
    again.restore(&place).await.unwrap();
    let mut member = member(&again.bus).await;
    let mut attempts = BTreeMap::new();
    for _ in 0..3 {
        let task = next(&mut member).await;
        attempts.insert(task.frame.id.to_string(), task.attempt);
        task.settle(Verdict::Ack).await.unwrap();
    }
    let expected = [("failed", 2), ("fresh", 1), ("held", 2)];
    let expected = expected.map(|(id, attempt)| (id.to_owned(), attempt));
    assert_eq!(attempts, BTreeMap::from(expected));
    assert_eq!(stored(&again.bus, "WORK").await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_ended_meanwhile_does_not_come_back_from_the_later_copy() {
    let (place, held) = busy().await;
    held.settle(Verdict::Ack).await.unwrap();
    place.back_up().await;
    let again = Place::empty().await;
    again.restore(&place).await.unwrap();
    let left: Vec<_> = stored(&again.bus, "WORK").await.into_iter().map(|(_, id)| id).collect();
    assert_eq!(left, ["failed", "fresh"]);
}
