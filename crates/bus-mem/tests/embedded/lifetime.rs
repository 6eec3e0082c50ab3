//! How a bus ends: by close, or with its last clone.

use bus_core::{Bus, ErrorKind, FeedItem, Seq, Verdict};
use bus_subjects::Filter;

use super::{append, bell, bus, coder, listen, member, publish, queue, take};

#[tokio::test(start_paused = true)]
async fn the_last_clone_ends_a_subscription_after_what_it_holds() {
    let bus = bus();
    let clone = bus.clone();
    let mut subscription = listen(&bus, "a", 4).await;
    drop(bus);
    publish(&clone, "a", "1").await;
    drop(clone);
    assert!(matches!(subscription.next().await, Some(FeedItem::Frame(_))));
    assert_eq!(subscription.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn the_last_clone_ends_the_deliveries() {
    let bus = queue().await;
    let mut member = member(&bus).await;
    let bell = bell();
    bell.waits(&mut member);
    drop(bus);
    assert_eq!(bell.rings(), 1);
    assert!(member.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_delivery_that_outlives_its_bus_cannot_be_settled() {
    let bus = queue().await;
    append(&bus, "1").await.unwrap();
    let task = take(&mut member(&bus).await).await;
    drop(bus);
    assert_eq!(task.extend().await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(task.settle(Verdict::Ack).await.unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_closed_bus_hands_out_no_work_that_is_left() {
    let bus = queue().await;
    append(&bus, "1").await.unwrap();
    let mut closed = member(&bus).await;
    let other = bus.connect();
    bus.close().await.unwrap();
    assert!(closed.next().await.is_none());
    assert_eq!(take(&mut member(&other).await).await.attempt, 1);
}

#[tokio::test(start_paused = true)]
async fn a_replay_that_began_before_the_close_is_complete() {
    let bus = queue().await;
    for n in 0..200 {
        append(&bus, &n.to_string()).await.unwrap();
    }
    let mut replay = bus.replay(coder().stream, Filter::all(), Seq(0)).await.unwrap();
    bus.close().await.unwrap();
    let mut read = 0;
    while let Some(stored) = replay.next().await {
        read += 1;
        assert_eq!(stored.unwrap().seq, Seq(read));
    }
    assert_eq!(read, 200);
}

#[tokio::test(start_paused = true)]
async fn a_request_cut_short_by_the_close_has_an_unknown_outcome() {
    let bus = bus();
    let _silent = listen(&bus, "q", 4).await;
    let asking = bus.request(super::frame("q", "1"), super::LEASE);
    let closing = async {
        super::settle_down().await;
        bus.close().await.unwrap();
    };
    let (answer, ()) = tokio::join!(asking, closing);
    let error = answer.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Closed, bus_core::Outcome::Unknown));
}

#[tokio::test(start_paused = true)]
async fn ending_all_connections_ends_what_others_wait_for() {
    let bus = queue().await;
    let other = bus.connect();
    let (mut member, mut heard) = (member(&other).await, listen(&other, "a", 4).await);
    let bell = bell();
    bell.waits(&mut member);
    bus.close_all();
    assert_eq!(bell.rings(), 1);
    assert!(member.next().await.is_none());
    assert_eq!(heard.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn after_all_connections_were_ended_no_other_is_open() {
    let bus = queue().await;
    let before = bus.connect();
    append(&before, "1").await.unwrap();
    bus.close_all();
    for closed in [before, bus.connect(), bus] {
        assert_eq!(append(&closed, "2").await.unwrap_err().kind(), ErrorKind::Closed);
        let refused = closed.consume(coder()).await.map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Closed);
    }
}
