//! What must not happen, as it happened elsewhere: lost dead letters, double runs, lost mail.

use std::{num::NonZeroU64, time::Duration};

use bus_core::{Bus, ErrorKind, Expect, Retention, StreamSpec, Verdict};
use bus_subjects::{ConsumerName, Filter, StreamName};

use super::{LEASE, append, bell, coder, declare, frame, member, pass, queue, take};

#[tokio::test(start_paused = true)]
async fn a_task_whose_dead_letter_found_no_room_is_still_there() {
    // C10: the dead letter first; only when it is stored may the original go.
    let bus = queue().await;
    let one = NonZeroU64::MIN;
    let filters = vec![Filter::parse("vak.dlq.w1.*.failed").unwrap()];
    let dlq = StreamName::parse("DLQ").unwrap();
    let spec = StreamSpec::new(dlq, filters, Retention::Kept);
    bus.declare(StreamSpec { messages_max: one, ..spec }).await.unwrap();
    let dead = |id| bus.append(frame("vak.dlq.w1.a1.failed", id), Expect::Any);
    dead("other").await.unwrap();
    append(&bus, "1").await.unwrap();
    let mut worker = member(&bus).await;
    let task = take(&mut worker).await;
    assert_eq!(dead("WORK@1:1").await.unwrap_err().kind(), ErrorKind::Full);
    task.settle(Verdict::Retry { after: Duration::from_secs(1) }).await.unwrap();
    assert_eq!(take(&mut worker).await.attempt, 2);
}

#[tokio::test(start_paused = true)]
async fn a_task_longer_than_its_lease_runs_once_while_it_is_extended() {
    // C12: two workers, a task of five leases.
    let bus = queue().await;
    append(&bus, "1").await.unwrap();
    let (mut first, mut second) = (member(&bus).await, member(&bus).await);
    let task = take(&mut first).await;
    let bell = bell();
    bell.waits(&mut second);
    for _ in 0..10 {
        pass(LEASE / 2).await;
        task.extend().await.unwrap();
        bell.waits(&mut second);
    }
    assert_eq!(bell.rings(), 0);
    task.settle(Verdict::Ack).await.unwrap();
    pass(LEASE * 2).await;
    bell.waits(&mut second);
}

#[tokio::test(start_paused = true)]
async fn the_late_result_of_a_lost_lease_is_refused() {
    // C12: the second run decides, whatever the first one says afterwards.
    let bus = queue().await;
    append(&bus, "1").await.unwrap();
    let (mut first, mut second) = (member(&bus).await, member(&bus).await);
    let lost = take(&mut first).await;
    let again = take(&mut second).await;
    assert_eq!(again.attempt, 2);
    assert_eq!(lost.extend().await.unwrap_err().kind(), ErrorKind::LeaseLost);
    assert_eq!(lost.settle(Verdict::Ack).await.unwrap_err().kind(), ErrorKind::LeaseLost);
    again.settle(Verdict::Ack).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn mail_is_kept_before_the_agent_came_and_while_it_is_away() {
    // C15 (i) and (ii), D19.
    let bus = queue().await;
    declare(&bus, "INBOX", "vak.agent.w1.*.inbox").await;
    let send = |id| bus.append(frame("vak.agent.w1.a1.inbox", id), Expect::Any);
    let mut inbox = coder();
    inbox.stream = StreamName::parse("INBOX").unwrap();
    inbox.name = ConsumerName::parse("a1").unwrap();
    inbox.filter = Filter::parse("vak.agent.w1.a1.inbox").unwrap();
    send("before").await.unwrap();
    let mut agent = bus.consume(inbox.clone()).await.unwrap();
    let mail = take(&mut agent).await;
    assert_eq!(mail.frame.id.as_str(), "before");
    mail.settle(Verdict::Ack).await.unwrap();
    drop(agent);
    send("away").await.unwrap();
    let mut agent = bus.consume(inbox.clone()).await.unwrap();
    assert_eq!(take(&mut agent).await.frame.id.as_str(), "away");
}

#[tokio::test(start_paused = true)]
async fn a_second_reader_of_a_mailbox_is_refused() {
    // C15 (iv): point-to-point means one consumer.
    let bus = queue().await;
    let _first = member(&bus).await;
    let mut other = coder();
    other.name = ConsumerName::parse("other").unwrap();
    assert_eq!(bus.consume(other).await.unwrap_err().kind(), ErrorKind::Conflict);
}

#[tokio::test(start_paused = true)]
async fn a_full_durable_stream_says_so_and_drops_nothing() {
    // C16, durable: an approval request is never silently gone.
    let bus = queue().await;
    let filters = vec![Filter::parse("vak.approvals.w1.*.request").unwrap()];
    let name = StreamName::parse("APPROVALS").unwrap();
    let spec = StreamSpec::new(name.clone(), filters, Retention::Kept);
    let messages_max = NonZeroU64::new(64).unwrap();
    bus.declare(StreamSpec { messages_max, ..spec }).await.unwrap();
    let mut full = 0;
    for n in 0..1000 {
        let request = frame("vak.approvals.w1.s1.request", &n.to_string());
        match bus.append(request, Expect::Any).await {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Full => full += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(full, 936);
    let mut replay = bus.replay(name, Filter::all(), bus_core::Seq(0)).await.unwrap();
    for n in 0..64 {
        let stored = replay.next().await.unwrap().unwrap();
        assert_eq!(stored.frame.id.as_str(), n.to_string());
    }
    assert!(replay.next().await.is_none());
}
