//! What an intake makes of the client's messages and of the connection's states.

use std::num::NonZeroUsize;

use bus_core::Overflow;
use futures_util::{StreamExt, stream};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::*;
use crate::{connection::ConnectionState, live::backlog::Taken};

fn message(id: usize) -> Message {
    let mut headers = async_nats::HeaderMap::new();
    crate::codec::set(&mut headers, "vak-id", &id.to_string()).unwrap();
    Message {
        subject: "vak.events.w1.s1.tokens".into(),
        reply: None,
        payload: bytes::Bytes::new(),
        headers: Some(headers),
        status: None,
        description: None,
        length: 0,
    }
}

/// A client's end and ours; it wakes whoever asked at each send.
fn futures_channel() -> (UnboundedSender<Message>, impl Stream<Item = Message> + Send) {
    let (client, mut coming) = unbounded_channel();
    (client, stream::poll_fn(move |cx| coming.poll_recv(cx)))
}

fn arrivals() -> Arrivals {
    Arrivals::new(bus_subjects::Filter::all(), false)
}

fn feed(capacity: usize) -> Arc<Feed> {
    let capacity = NonZeroUsize::new(capacity).unwrap();
    Arc::new(Feed::new(Overflow::DropOldest { capacity }))
}

/// An intake on the first connection, which stays.
fn intake(messages: impl Stream<Item = Message> + Send + 'static, feed: &Arc<Feed>) -> Arc<Intake> {
    Intake::new(messages, arrivals(), (|| 1, Some(1)), Arc::clone(feed))
}

/// What can be taken now: runs by their lengths, gaps below zero.
fn taken(feed: &Feed) -> Vec<i64> {
    let mut all = Vec::new();
    let cx = Context::from_waker(Waker::noop());
    loop {
        match feed.poll_take(&cx) {
            Poll::Ready(Some(Taken::Run(run))) => all.push(run.len() as i64),
            Poll::Ready(Some(Taken::Gap(missed))) => all.push(-(missed as i64)),
            Poll::Ready(Some(Taken::Nothing) | None) | Poll::Pending => return all,
        }
    }
}

#[test]
fn as_much_as_the_client_holds_may_be_all_that_it_did_not_drop() {
    for (count, gaps) in [(CLIENT_HOLDS - 1, 0), (CLIENT_HOLDS, 1)] {
        let feed = feed(2 * CLIENT_HOLDS);
        let _heard = intake(stream::iter((0..count).map(message)).chain(stream::pending()), &feed);
        let got = taken(&feed);
        assert_eq!(got.iter().filter(|run| **run == -1).count(), gaps, "of {count}");
        assert_eq!(got.iter().filter(|run| **run > 0).sum::<i64>(), count as i64);
    }
}

#[test]
fn what_the_old_connection_brought_comes_before_the_break() {
    let feed = feed(64);
    let intake = intake(stream::iter((0..3).map(message)).chain(stream::pending()), &feed);
    intake.note_change(Some(1), None);
    intake.note_change(None, Some(2));
    assert_eq!(taken(&feed), [3]);
    feed.note_mended();
    assert_eq!(taken(&feed), [-1]);
}

#[test]
fn what_a_new_connection_brings_comes_behind_the_break_before_anybody_tells_of_it() {
    let feed = feed(64);
    let (client, messages) = futures_channel();
    let connects = Arc::new(std::sync::atomic::AtomicU64::new(1));
    let counted = Arc::clone(&connects);
    let epochs = (move || counted.load(Ordering::Relaxed), Some(1));
    let intake = Intake::new(messages, arrivals(), epochs, Arc::clone(&feed));
    client.send(message(1)).unwrap();
    connects.store(2, Ordering::Relaxed);
    client.send(message(2)).unwrap();
    assert_eq!(taken(&feed), [1]);
    // It was told already.
    intake.note_change(Some(1), None);
    intake.note_change(None, Some(2));
    feed.note_mended();
    assert_eq!(taken(&feed), [-1, 1]);
}

#[test]
fn a_message_is_taken_at_the_moment_when_the_client_gives_it_out() {
    let feed = feed(2);
    let (client, messages) = futures_channel();
    let _heard = intake(messages, &feed);
    for id in 0..5 {
        client.send(message(id)).unwrap();
    }
    assert_eq!(taken(&feed), [-3, 1, 1]);
}

#[test]
fn nobody_is_woken_for_an_intake_that_is_dropped() {
    let feed = feed(2);
    let (client, messages) = futures_channel();
    drop(intake(messages, &feed));
    assert!(client.send(message(1)).is_err());
}

#[test]
fn who_is_let_in_no_more_is_told_a_gap_before_the_end() {
    for (last, told) in [(ConnectionState::Denied, vec![1, -1]), (ConnectionState::Closed, vec![1])]
    {
        let feed = feed(8);
        let intake = intake(stream::iter([message(1)]).chain(stream::pending()), &feed);
        crate::live::reader::end(&intake, last);
        assert_eq!(taken(&feed), told);
        let cx = Context::from_waker(Waker::noop());
        assert!(matches!(feed.poll_take(&cx), Poll::Ready(None)));
    }
}

#[test]
fn a_message_that_is_none_of_ours_takes_no_place() {
    let feed = feed(8);
    let without_id = Message { headers: None, ..message(1) };
    let servers_own = Message { subject: "$JS.EVENT.x".into(), ..message(2) };
    let mut stored = message(3);
    crate::codec::set(stored.headers.as_mut().unwrap(), "Nats-Msg-Id", "3").unwrap();
    let foreign = [without_id, servers_own, stored];
    let messages = stream::iter(foreign.into_iter().chain([message(4)])).chain(stream::pending());
    let _heard = intake(messages, &feed);
    assert_eq!(taken(&feed), [1]);
}
