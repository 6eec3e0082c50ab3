//! What waits to be written.

use std::time::Duration;

use bus_core::ErrorKind;
use futures_util::FutureExt as _;

use crate::{
    outgoing::Outgoing,
    wire::{Packet, ToServer},
};

fn packet(bytes: usize) -> Packet {
    let packet = Packet::new(&ToServer::Part { id: 1 }).unwrap();
    packet.with(|out| out.resize(out.len() + bytes, 7)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn deliveries_that_were_not_written_are_known_when_the_connection_ends() {
    let out = Outgoing::new(1 << 20, 1 << 24);
    // The first run is on its way when the peer stops reading; the second never begins.
    out.push_deliveries(packet(100 << 10), vec![1, 2]).unwrap();
    out.push_deliveries(packet(100 << 10), vec![3]).unwrap();
    let (mut near, _far) = tokio::io::duplex(1 << 10);
    out.write_to(&mut near, Duration::from_secs(30)).await;
    assert_eq!(out.unwritten(), [3], "what the peer may have read is not given back");
    assert_eq!(out.push_deliveries(packet(1), vec![4]), Err(vec![4]));
}

#[test]
fn more_than_the_hard_bound_ends_the_connection() {
    let out = Outgoing::new(10, 1_000);
    out.push(packet(900)).unwrap();
    assert_eq!(out.push(packet(900)).unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(out.push(packet(1)).unwrap_err().kind(), ErrorKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn who_may_wait_waits_until_the_peer_has_read() {
    let out = Outgoing::new(1 << 10, 1 << 24);
    out.push(packet(64 << 10)).unwrap();
    let (mut near, mut far) = tokio::io::duplex(1 << 10);
    let mut sink = tokio::io::sink();
    let early = tokio::time::timeout(Duration::from_secs(1), out.room()).await;
    assert!(early.is_err(), "there is no room yet");
    tokio::select! {
        () = out.write_to(&mut near, Duration::from_secs(30)) => panic!("it goes on"),
        room = out.room() => room.unwrap(),
        _all = tokio::io::copy(&mut far, &mut sink) => panic!("it goes on"),
    }
}

/// A queue that has no room.
fn full() -> Outgoing {
    let out = Outgoing::new(1 << 10, 1 << 24);
    out.push(packet(64 << 10)).unwrap();
    out
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_room_gets_it_in_turn_also_behind_one_that_is_not_polled() {
    let out = full();
    let (mut near, mut far) = tokio::io::duplex(1 << 10);
    let mut first = Box::pin(out.push_in_turn(packet(2 << 10)));
    assert!((&mut first).now_or_never().is_none());
    let mut second = Box::pin(out.push_in_turn(packet(3)));
    assert!((&mut second).now_or_never().is_none());
    let mut all = Vec::new();
    tokio::select! {
        () = out.write_to(&mut near, Duration::from_secs(30)) => panic!("it goes on"),
        room = &mut second => room.unwrap(),
        _all = tokio::io::AsyncReadExt::read_to_end(&mut far, &mut all) => panic!("it goes on"),
    }
    assert!((&mut first).now_or_never().is_some(), "it went before");
}

#[tokio::test(start_paused = true)]
async fn what_is_given_up_before_it_got_room_is_not_sent() {
    let out = full();
    let (mut near, mut far) = tokio::io::duplex(1 << 10);
    let mut given_up = Box::pin(out.push_in_turn(packet(2 << 10)));
    assert!((&mut given_up).now_or_never().is_none());
    drop(given_up);
    let mut all = Vec::new();
    let reading = tokio::io::AsyncReadExt::read_to_end(&mut far, &mut all);
    out.close();
    let (_written, read) = tokio::join!(out.write_to(&mut near, Duration::from_secs(30)), async {
        reading.await.unwrap()
    });
    assert_eq!(read, packet(64 << 10).len());
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_room_is_told_when_the_connection_ends() {
    let out = full();
    let mut waiting = Box::pin(out.push_in_turn(packet(1)));
    assert!((&mut waiting).now_or_never().is_none());
    out.abort();
    assert_eq!(waiting.await.unwrap_err().kind(), ErrorKind::Unavailable);
}
