//! Streams, their consumers and those who listen.

use std::num::NonZeroUsize;

use bus_core::{
    ErrorKind, FeedItem, OrderKey, Outcome, Overflow, Placement, Seq, Verdict, settle_all,
};
use bus_mem::journal::Statement;

use super::*;

#[tokio::test]
async fn a_message_is_handed_out_when_it_is_safe() {
    let (bus, journal) = queue().await;
    let mut member = member(&bus, &journal).await;
    let mut stored = bus.append(task("t"), Expect::Any);
    assert_eq!(claim(&mut member), None);
    assert!(poll(&mut stored).is_pending());
    journal.settle();
    assert_eq!(claim(&mut member).as_deref(), Some("t"));
    assert!(!stored.await.unwrap().duplicate);
}

#[tokio::test]
async fn what_is_safe_is_handed_out_before_what_is_not() {
    let (bus, journal) = queue().await;
    let mut member = member(&bus, &journal).await;
    append(&bus, &journal, "safe").await;
    drop(bus.append(task("unsafe"), Expect::Any));
    assert_eq!(claim(&mut member).as_deref(), Some("safe"));
    assert_eq!(claim(&mut member), None);
}

#[tokio::test]
async fn whoever_waits_is_called_once_and_only_when_it_is_safe() {
    let (bus, journal) = queue().await;
    let mut member = member(&bus, &journal).await;
    let called = Arc::new(Called::default());
    let waker = Waker::from(Arc::clone(&called));
    let mut next = Box::pin(member.next());
    assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(bus.append(task("t"), Expect::Any));
    assert_eq!(called.times(), 0);
    // Who asks again nevertheless is not called at once, over and over.
    assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert_eq!(called.times(), 0);
    journal.settle();
    assert_eq!(called.times(), 1);
    assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
}

#[tokio::test]
async fn an_append_whose_answer_is_dropped_is_stored() {
    let (bus, journal) = queue().await;
    drop(bus.append(task("t"), Expect::Any));
    journal.settle();
    let stored = bus.read(stream(), Seq(1)).await.unwrap().unwrap();
    assert_eq!(stored.frame.id.as_str(), "t");
}

#[tokio::test]
async fn a_second_copy_is_a_duplicate_when_the_first_is_safe() {
    let (bus, journal) = queue().await;
    drop(bus.append(task("t"), Expect::Any));
    let mut again = bus.append(task("t"), Expect::Any);
    assert!(poll(&mut again).is_pending());
    journal.settle();
    assert!(again.await.unwrap().duplicate);
}

#[tokio::test]
async fn readers_are_told_what_is_safe() {
    let (bus, journal) = queue().await;
    drop(bus.append(task("t"), Expect::Any));
    let mut last = bus.last(Subject::parse(TASK).unwrap());
    let mut read = bus.read(stream(), Seq(1));
    let mut lag = bus.lag(stream());
    let mut consumers = bus.consumers(stream());
    let mut replay = bus.replay(stream(), filter(">"), Seq(1));
    assert!(poll(&mut last).is_pending() && poll(&mut read).is_pending());
    assert!(poll(&mut lag).is_pending() && poll(&mut consumers).is_pending());
    assert!(poll(&mut replay).is_pending());
    journal.settle();
    assert!(last.await.unwrap().is_some() && read.await.unwrap().is_some());
    assert_eq!(lag.await.unwrap().pending, 1);
    assert!(consumers.await.unwrap().is_empty());
    let mut replay = replay.await.unwrap();
    assert!(replay.next().await.is_some() && replay.next().await.is_none());
}

#[tokio::test]
async fn listeners_hear_stored_frames_in_order_when_they_are_safe() {
    let (bus, journal) = queue().await;
    let overflow = Overflow::DropOldest { capacity: NonZeroUsize::MIN.saturating_add(7) };
    let mut heard = bus.subscribe(filter(">"), overflow).await.unwrap();
    for id in ["1", "2", "3"] {
        drop(bus.append(task(id), Expect::Any));
    }
    let mut next = Box::pin(heard.next());
    assert!(poll(&mut next).is_pending());
    drop(next);
    journal.settle();
    for id in ["1", "2", "3"] {
        let Some(FeedItem::Frame(frame)) = heard.next().await else { panic!("no frame") };
        assert_eq!(frame.id.as_str(), id);
    }
}

#[tokio::test]
async fn a_claim_waits_for_nobody_and_a_verdict_does() {
    let (bus, journal) = queue().await;
    let mut member = member(&bus, &journal).await;
    append(&bus, &journal, "t").await;
    let delivery = member.next().await.unwrap().unwrap();
    delivery.extend().await.unwrap();
    let mut settled = Box::pin(delivery.settle(Verdict::Ack));
    assert!(poll(&mut settled).is_pending());
    journal.settle();
    settled.await.unwrap();
    assert!(matches!(journal.changes().last(), Some(Statement::Removed { seq: 1, .. })));
}

#[tokio::test]
async fn several_verdicts_are_told_when_all_are_safe() {
    let (bus, journal) = queue().await;
    let mut member = member(&bus, &journal).await;
    append(&bus, &journal, "1").await;
    append(&bus, &journal, "2").await;
    let one = member.next().await.unwrap().unwrap();
    let two = member.next().await.unwrap().unwrap();
    let retry = Verdict::Retry { after: Duration::from_secs(1) };
    let mut settled = Box::pin(settle_all(vec![(one, Verdict::Ack), (two, retry)]));
    assert!(poll(&mut settled).is_pending());
    journal.settle();
    assert_eq!(kinds(&settled.await), [None, None]);
}

#[tokio::test]
async fn what_the_journal_refuses_is_not_done() {
    let (bus, journal) = queue().await;
    journal.refuse();
    let before = journal.changes();
    let refused = bus.append(task("t"), Expect::Any).await.unwrap_err();
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Full, Outcome::NotDone));
    assert_eq!(bus.append_all(vec![task("t")]).await.unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(bus.discard(stream(), Seq(1)).await.unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(journal.changes(), before);
    assert_eq!(bus.lag(stream()).await.unwrap().pending, 0);
}

#[tokio::test]
async fn what_could_not_be_kept_has_an_unknown_outcome() {
    let (bus, journal) = queue().await;
    let mut member = member(&bus, &journal).await;
    let mut stored = bus.append(task("t"), Expect::Any);
    assert!(poll(&mut stored).is_pending());
    journal.fail();
    let failed = stored.await.unwrap_err();
    assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::Unavailable, Outcome::Unknown));
    assert_eq!(claim(&mut member), None);
}

#[tokio::test]
async fn closing_waits_for_what_was_accepted() {
    let (bus, journal) = queue().await;
    drop(bus.append(task("t"), Expect::Any));
    let mut closed = bus.close();
    assert!(poll(&mut closed).is_pending());
    journal.settle();
    closed.await.unwrap();
}

#[test]
fn calls_need_no_runtime_to_be_kept() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (bus, journal) = runtime.block_on(queue());
    drop(runtime);
    drop(bus.append(task("t"), Expect::Any));
    assert!(matches!(journal.changes().last(), Some(Statement::Stored { seq: 1, .. })));
}

#[tokio::test]
async fn who_is_told_of_a_message_finds_it_though_it_became_safe_between_two_questions() {
    let (bus, journal) = queue().await;
    let mut member = member(&bus, &journal).await;
    journal.slip();
    let mut stored = bus.append(task("t"), Expect::Any);
    assert!(poll(&mut stored).is_pending() || claim(&mut member).is_some());
}

#[tokio::test]
async fn who_is_told_of_a_batch_finds_it_though_it_became_safe_between_two_questions() {
    let (bus, journal) = queue().await;
    let mut member = member(&bus, &journal).await;
    journal.slip();
    let mut stored = bus.append_all(vec![task("t")]);
    assert!(poll(&mut stored).is_pending() || claim(&mut member).is_some());
}

#[tokio::test]
async fn several_verdicts_that_were_refused_stay_so_when_there_is_room_again() {
    let (bus, journal) = queue().await;
    let mut member = member(&bus, &journal).await;
    append(&bus, &journal, "1").await;
    append(&bus, &journal, "2").await;
    let one = member.next().await.unwrap().unwrap();
    let two = member.next().await.unwrap().unwrap();
    journal.refuse_once();
    let answers = settle_all(vec![(one, Verdict::Ack), (two, Verdict::Ack)]).await;
    assert_eq!(kinds(&answers), [Some(ErrorKind::Full); 2]);
}

#[tokio::test]
async fn leases_take_no_room_that_the_journal_does_not_give() {
    let (bus, journal) = queue().await;
    let mut member = member(&bus, &journal).await;
    append(&bus, &journal, "t").await;
    let before = journal.changes();
    journal.refuse();
    let delivery = member.next().await.unwrap().unwrap();
    delivery.extend().await.unwrap();
    assert_eq!(journal.changes(), before);
}

#[tokio::test]
async fn a_full_journal_lets_those_in_who_make_room() {
    let (bus, journal) = queue().await;
    drop(member(&bus, &journal).await);
    append(&bus, &journal, "t").await;
    journal.fill_up();
    let declared = StreamSpec::new(stream(), vec![filter("work.*")], Retention::WorkQueue);
    bus.declare(declared).await.unwrap();
    let mut again = member(&bus, &journal).await;
    let delivery = again.next().await.unwrap().unwrap();
    let mut settled = Box::pin(delivery.settle(Verdict::Ack));
    assert!(poll(&mut settled).is_pending());
    journal.settle();
    settled.await.unwrap();
}

#[tokio::test]
async fn a_full_journal_takes_no_new_stream_or_consumer() {
    let (bus, journal) = queue().await;
    journal.fill_up();
    let name = StreamName::parse("NEW").unwrap();
    let spec = StreamSpec::new(name, vec![filter("new.*")], Retention::WorkQueue);
    assert_eq!(bus.declare(spec).await.unwrap_err().kind(), ErrorKind::Full);
    let (name, lease) = (ConsumerName::parse("c").unwrap(), Duration::from_secs(30));
    let spec = ConsumerSpec { stream: stream(), name, filter: filter(TASK), lease };
    assert_eq!(bus.consume(spec).await.unwrap_err().kind(), ErrorKind::Full);
}

#[tokio::test]
async fn a_batch_is_recorded_as_one() {
    let (bus, journal) = queue().await;
    let mut stored = bus.append_all(vec![task("1"), task("2")]);
    assert!(poll(&mut stored).is_pending());
    journal.settle();
    let seqs: Vec<_> = stored.await.unwrap().iter().map(|receipt| receipt.seq.0).collect();
    assert_eq!(seqs, [1, 2]);
    assert_eq!(journal.batches(), [2]);
}

#[tokio::test]
async fn who_waits_in_another_task_gets_what_became_safe() {
    let (bus, journal) = queue().await;
    let mut member = member(&bus, &journal).await;
    let waits = tokio::runtime::Handle::current()
        .spawn(async move { member.next().await.unwrap().unwrap().seq });
    tokio::task::yield_now().await;
    append(&bus, &journal, "t").await;
    assert_eq!(waits.await.unwrap(), Seq(1));
}

/// Panics when it is called.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a stranger's waker");
    }
}

#[tokio::test]
async fn a_waker_that_panics_costs_neither_the_journal_nor_anybody_else_anything() {
    let (bus, journal) = queue().await;
    let (mut first, mut second) = (member(&bus, &journal).await, member(&bus, &journal).await);
    let overflow = Overflow::DropOldest { capacity: NonZeroUsize::MIN.saturating_add(7) };
    let mut heard = bus.subscribe(filter(">"), overflow).await.unwrap();
    let called = Arc::new(Called::default());
    let mut waits = Box::pin(first.next());
    let panics = Waker::from(Arc::new(Panics));
    assert!(waits.as_mut().poll(&mut Context::from_waker(&panics)).is_pending());
    let mut other = Box::pin(second.next());
    let waker = Waker::from(Arc::clone(&called));
    assert!(other.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(bus.append(task("1"), Expect::Any));
    drop(bus.append(task("2"), Expect::Any));
    journal.settle();
    assert_eq!(called.times(), 1);
    for _ in 0..2 {
        assert!(matches!(heard.next().await, Some(FeedItem::Frame(_))));
    }
}

#[tokio::test]
async fn the_next_of_a_key_waits_until_it_is_safe_that_the_one_before_has_left() {
    let (bus, journal) = queue().await;
    let mut member = member(&bus, &journal).await;
    for id in ["1", "2"] {
        drop(bus.append(keyed(id), Expect::Any));
    }
    journal.settle();
    let first = member.next().await.unwrap().unwrap();
    let mut settled = Box::pin(first.settle(Verdict::Ack));
    assert!(poll(&mut settled).is_pending());
    assert_eq!(claim(&mut member), None);
    journal.settle();
    settled.await.unwrap();
    assert_eq!(claim(&mut member).as_deref(), Some("2"));
}

#[tokio::test]
async fn the_next_of_a_key_waits_until_a_discard_is_safe() {
    let (bus, journal) = queue().await;
    let mut member = member(&bus, &journal).await;
    for id in ["1", "2"] {
        drop(bus.append(keyed(id), Expect::Any));
    }
    journal.settle();
    let mut discarded = bus.discard(stream(), Seq(1));
    assert!(poll(&mut discarded).is_pending());
    assert_eq!(claim(&mut member), None);
    let called = Arc::new(Called::default());
    let waker = Waker::from(Arc::clone(&called));
    let mut next = Box::pin(member.next());
    assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    journal.settle();
    assert_eq!(called.times(), 1);
    assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
}

/// A task whose key is that of the others.
fn keyed(id: &str) -> Frame {
    let placement = Placement { key: Some(OrderKey::parse("k").unwrap()), ..Default::default() };
    task(id).placed(placement)
}
