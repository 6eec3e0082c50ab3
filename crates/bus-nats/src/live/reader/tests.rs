//! What a reader makes of the client's messages and of the connection's states.

use std::num::NonZeroUsize;

use bus_core::Overflow;
use futures_util::{StreamExt, stream};
use tokio::sync::watch;

use super::*;
use crate::live::backlog::Taken;

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

fn feed(capacity: usize) -> Arc<Feed> {
    let capacity = NonZeroUsize::new(capacity).unwrap();
    Arc::new(Feed::new(Overflow::DropOldest { capacity }))
}

fn connected(epoch: u64) -> ConnectionState {
    ConnectionState::Connected { epoch, lame_duck: false }
}

/// What can be taken now: runs by their lengths, gaps below zero.
fn taken(feed: &Feed) -> Vec<i64> {
    let mut all = Vec::new();
    let cx = std::task::Context::from_waker(std::task::Waker::noop());
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
    let (_states, states) = watch::channel(connected(1));
    for (count, gaps) in [(CLIENT_HOLDS - 1, 0), (CLIENT_HOLDS, 1)] {
        let feed = feed(2 * CLIENT_HOLDS);
        let messages = stream::iter((0..count).map(message)).chain(stream::pending());
        Reader::new(messages, states.clone(), &feed).drain();
        let got = taken(&feed);
        assert_eq!(got.iter().filter(|run| **run == -1).count(), gaps, "of {count}");
        assert_eq!(got.iter().filter(|run| **run > 0).sum::<i64>(), count as i64);
    }
}

#[test]
fn what_the_old_connection_brought_comes_before_the_break() {
    let (_states, states) = watch::channel(connected(1));
    let feed = feed(64);
    let messages = stream::iter((0..3).map(message)).chain(stream::pending());
    let mut reader = Reader::new(messages, states, &feed);
    reader.note_change(None);
    reader.note_change(Some(2));
    assert_eq!(taken(&feed), [3]);
    feed.note_mended();
    assert_eq!(taken(&feed), [-1]);
}

#[test]
fn who_is_let_in_no_more_is_told_a_gap_before_the_end() {
    for (last, told) in [(ConnectionState::Denied, vec![1, -1]), (ConnectionState::Closed, vec![1])]
    {
        let (_states, states) = watch::channel(connected(1));
        let feed = feed(8);
        let messages = stream::iter([message(1)]).chain(stream::pending());
        Reader::new(messages, states, &feed).end(last);
        assert_eq!(taken(&feed), told);
        let cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(matches!(feed.poll_take(&cx), Poll::Ready(None)));
    }
}

#[test]
fn a_message_that_is_none_of_ours_takes_no_place() {
    let (_states, states) = watch::channel(connected(1));
    let feed = feed(8);
    let without_id = Message { headers: None, ..message(1) };
    let servers_own = Message { subject: "$JS.EVENT.x".into(), ..message(2) };
    let mut stored = message(3);
    crate::codec::set(stored.headers.as_mut().unwrap(), "Nats-Msg-Id", "3").unwrap();
    let foreign = [without_id, servers_own, stored];
    let messages = stream::iter(foreign.into_iter().chain([message(4)])).chain(stream::pending());
    Reader::new(messages, states, &feed).drain();
    assert_eq!(taken(&feed), [1]);
}
