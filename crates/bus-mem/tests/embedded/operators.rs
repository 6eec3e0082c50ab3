//! What operators and placements do to members that wait: who is woken, and when.

use std::time::Duration;

use bus_core::{Bus, ErrorKind, Expect, Frame, FrameId, OrderKey, Placement, Seq, Verdict};
use bus_envelope::Timestamp;
use bus_mem::InMemoryBus;
use bus_subjects::ConsumerName;
use tokio::runtime::Handle;

use super::{LEASE, TASK, append, bell, coder, frame, member, pass, queue, settle_down, take};

/// A time from now on, on the clock of the bus.
async fn after(bus: &InMemoryBus, by: Duration) -> Timestamp {
    let probe = frame("vak.work.w1.probe.task", &format!("probe-{by:?}"));
    let receipt = bus.append(probe, Expect::Any).await.unwrap();
    let stored = bus.read(coder().stream, receipt.seq).await.unwrap().unwrap();
    bus.discard(coder().stream, receipt.seq).await.unwrap();
    stored.time.plus(by)
}

async fn pause(bus: &InMemoryBus, until: Option<Timestamp>) {
    bus.pause(coder().stream, coder().name, until).await.unwrap();
}

async fn put(bus: &InMemoryBus, id: &str, placement: Placement) {
    bus.append(frame(TASK, id).placed(placement), Expect::Any).await.unwrap();
}

fn keyed(key: &str) -> Placement {
    Placement { key: Some(OrderKey::parse(key).unwrap()), ..Placement::default() }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_pause_wakes_a_member() {
    let bus = queue().await;
    let mut worker = member(&bus).await;
    let bell = bell();
    bell.waits(&mut worker);
    let until = after(&bus, Duration::from_secs(10)).await;
    pause(&bus, Some(until)).await;
    append(&bus, "1").await.unwrap();
    pass(Duration::from_millis(9_999)).await;
    assert_eq!(bell.rings(), 0);
    bell.waits(&mut worker);
    pass(Duration::from_millis(1)).await;
    assert_eq!(bell.rings(), 1);
    assert_eq!(bell.claims(&mut worker).attempt, 1);
}

#[tokio::test(start_paused = true)]
async fn going_on_early_wakes_a_member() {
    let bus = queue().await;
    let mut worker = member(&bus).await;
    let bell = bell();
    let until = after(&bus, Duration::from_secs(3_600)).await;
    pause(&bus, Some(until)).await;
    append(&bus, "1").await.unwrap();
    bell.waits(&mut worker);
    pause(&bus, None).await;
    assert_eq!(bell.rings(), 1);
    bell.claims(&mut worker).settle(Verdict::Ack).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_longer_pause_does_not_end_with_the_shorter_one_before() {
    let bus = queue().await;
    append(&bus, "1").await.unwrap();
    let mut worker = member(&bus).await;
    let bell = bell();
    let short = after(&bus, Duration::from_secs(1)).await;
    let long = after(&bus, Duration::from_secs(60)).await;
    pause(&bus, Some(short)).await;
    bell.waits(&mut worker);
    pause(&bus, Some(long)).await;
    pass(Duration::from_secs(59)).await;
    bell.waits(&mut worker);
    pass(Duration::from_secs(1)).await;
    assert_eq!(bell.claims(&mut worker).attempt, 1);
}

#[tokio::test(start_paused = true)]
async fn a_scheduled_task_wakes_a_member_at_its_time() {
    let bus = queue().await;
    let mut worker = member(&bus).await;
    let bell = bell();
    bell.waits(&mut worker);
    let not_before = Some(after(&bus, Duration::from_secs(10)).await);
    put(&bus, "1", Placement { not_before, ..Placement::default() }).await;
    pass(Duration::from_millis(9_999)).await;
    assert_eq!(bell.rings(), 0);
    pass(Duration::from_millis(1)).await;
    assert_eq!(bell.rings(), 1);
    assert_eq!(bell.claims(&mut worker).attempt, 1);
}

#[tokio::test(start_paused = true)]
async fn the_next_of_a_key_wakes_a_member_when_its_turn_comes() {
    let bus = queue().await;
    let (mut first, mut second) = (member(&bus).await, member(&bus).await);
    put(&bus, "k1", keyed("k")).await;
    put(&bus, "k2", keyed("k")).await;
    let task = take(&mut first).await;
    let bell = bell();
    bell.waits(&mut second);
    assert_eq!(bell.rings(), 0);
    task.settle(Verdict::Ack).await.unwrap();
    assert_eq!(bell.rings(), 1);
    assert_eq!(bell.claims(&mut second).frame.id.as_str(), "k2");
}

#[tokio::test(start_paused = true)]
async fn discarding_the_holder_of_a_key_wakes_a_member_for_the_next() {
    let bus = queue().await;
    let (mut first, mut second) = (member(&bus).await, member(&bus).await);
    put(&bus, "k1", keyed("k")).await;
    put(&bus, "k2", keyed("k")).await;
    let held = take(&mut first).await;
    let bell = bell();
    bell.waits(&mut second);
    assert!(bus.discard(coder().stream, held.seq).await.unwrap());
    assert_eq!(bell.rings(), 1);
    assert_eq!(bell.claims(&mut second).frame.id.as_str(), "k2");
    assert_eq!(held.settle(Verdict::Ack).await.unwrap_err().kind(), ErrorKind::LeaseLost);
}

#[tokio::test(start_paused = true)]
async fn a_batch_wakes_one_member_for_each_message() {
    let bus = queue().await;
    let bell = bell();
    let mut members = Vec::new();
    for _ in 0..10 {
        let mut member = member(&bus).await;
        bell.waits(&mut member);
        members.push(member);
    }
    let batch = ["1", "2", "3"].map(|id| frame(TASK, id)).to_vec();
    let receipts = bus.append_all(batch).await.unwrap();
    assert_eq!(receipts.iter().map(|receipt| receipt.seq).collect::<Vec<_>>(), [1, 2, 3].map(Seq));
    assert_eq!(bell.rings(), 3);
}

#[tokio::test(start_paused = true)]
async fn members_of_a_removed_consumer_hear_it_once_and_end() {
    let bus = queue().await;
    append(&bus, "1").await.unwrap();
    let (mut holder, mut waiting) = (member(&bus).await, member(&bus).await);
    let held = take(&mut holder).await;
    let bell = bell();
    bell.waits(&mut waiting);
    assert!(bus.remove_consumer(coder().stream, coder().name).await.unwrap());
    assert!(!bus.remove_consumer(coder().stream, coder().name).await.unwrap());
    assert_eq!(bell.rings(), 1);
    for member in [&mut holder, &mut waiting] {
        assert_eq!(member.next().await.unwrap().unwrap_err().kind(), ErrorKind::NotFound);
        assert!(member.next().await.is_none());
    }
    assert_eq!(held.extend().await.unwrap_err().kind(), ErrorKind::LeaseLost);
    assert_eq!(held.settle(Verdict::Ack).await.unwrap_err().kind(), ErrorKind::LeaseLost);
}

#[tokio::test(start_paused = true)]
async fn a_member_of_the_old_consumer_gets_nothing_from_the_new_one() {
    let bus = queue().await;
    append(&bus, "1").await.unwrap();
    let mut old = member(&bus).await;
    drop(take(&mut old).await);
    bell().waits(&mut old);
    bus.remove_consumer(coder().stream, coder().name).await.unwrap();
    let mut new = member(&bus).await;
    assert_eq!(old.next().await.unwrap().unwrap_err().kind(), ErrorKind::NotFound);
    let again = take(&mut new).await;
    assert_eq!(again.attempt, 1, "attempts are counted anew");
    pass(LEASE * 2).await;
    settle_down().await;
    assert_eq!(take(&mut new).await.attempt, 2, "time goes on for the new one");
}

#[tokio::test(start_paused = true)]
async fn consumers_that_come_and_go_leave_no_timekeeper() {
    let bus = queue().await;
    append(&bus, "1").await.unwrap();
    for _ in 0..100 {
        let (mut worker, mut waiting) = (member(&bus).await, member(&bus).await);
        drop(take(&mut worker).await);
        bell().waits(&mut waiting);
        bus.remove_consumer(coder().stream, coder().name).await.unwrap();
    }
    pass(LEASE).await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_member_waits_out_a_backlog_that_holds_nothing_for_it() {
    // Thousands of messages of others lie before the one that matches a filter with a wildcard.
    let bus = queue().await;
    for n in 0..5_000 {
        let other = frame("vak.work.w1.other.task", &format!("o{n}"));
        bus.append(other, Expect::Any).await.unwrap();
    }
    append(&bus, "mine").await.unwrap();
    let mut spec = coder();
    spec.filter = bus_subjects::Filter::parse("vak.work.*.coder.task").unwrap();
    let mut worker = bus.consume(spec).await.unwrap();
    assert_eq!(take(&mut worker).await.frame.id.as_str(), "mine");
}

#[tokio::test(start_paused = true)]
async fn mail_outlives_the_consumer_of_its_mailbox() {
    // C15 (iii), D19: sent after the consumer was removed, and unread when it was.
    let bus = queue().await;
    append(&bus, "unread").await.unwrap();
    let mut agent = member(&bus).await;
    let _read = take(&mut agent).await;
    bus.remove_consumer(coder().stream, coder().name).await.unwrap();
    append(&bus, "sent").await.unwrap();
    let mut other = coder();
    other.name = ConsumerName::parse("a1-again").unwrap();
    let mut agent = bus.consume(other).await.unwrap();
    for expected in ["unread", "sent"] {
        let mail = take(&mut agent).await;
        assert_eq!((mail.frame.id.as_str(), mail.attempt), (expected, 1));
        mail.settle(Verdict::Ack).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_of_a_mailbox_leaves_the_rest_to_its_second_session() {
    // C15 (iv): two members of the one consumer, one of them slow.
    let bus = queue().await;
    let (mut slow, mut quick) = (member(&bus).await, member(&bus).await);
    for id in ["1", "2", "3"] {
        append(&bus, id).await.unwrap();
    }
    let held = take(&mut slow).await;
    for expected in ["2", "3"] {
        let mail = take(&mut quick).await;
        assert_eq!(mail.frame.id.as_str(), expected);
        mail.settle(Verdict::Ack).await.unwrap();
    }
    held.settle(Verdict::Ack).await.unwrap();
    assert_eq!(bus.lag(coder().stream).await.unwrap().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn a_stored_batch_is_heard_live_and_its_repeat_is_not() {
    let bus = queue().await;
    let mut heard = super::listen(&bus, TASK, 8).await;
    let batch: Vec<Frame> = ["1", "2"].map(|id| frame(TASK, id)).to_vec();
    bus.append_all(batch.clone()).await.unwrap();
    bus.append_all(batch).await.unwrap();
    append(&bus, "3").await.unwrap();
    for id in ["1", "2", "3"] {
        let Some(bus_core::FeedItem::Frame(next)) = heard.next().await else { panic!("a frame") };
        assert_eq!(next.id, FrameId::parse(id).unwrap());
    }
}
