//! What waits to be written.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bus_core::ErrorKind;
use futures_util::FutureExt as _;
use tokio::io::AsyncWrite;

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

/// A peer that takes whatever it is given, and notes how much that is at a time.
#[derive(Default)]
struct Noting(Vec<u8>, Vec<usize>);

impl AsyncWrite for Noting {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.0.extend_from_slice(bytes);
        self.1.push(bytes.len());
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_packet_is_written_alone_and_short_ones_together_in_their_order() {
    let out = Outgoing::new(1 << 20, 1 << 24);
    let sizes = [33 << 10, 64 << 10, 10, 20, 30, 65 << 10, 40];
    let mut expected = Vec::new();
    for (size, fill) in sizes.into_iter().zip(1_u8..) {
        let packet = Packet::new(&ToServer::Part { id: fill.into() }).unwrap();
        let packet = packet.with(|out| out.resize(out.len() + size, fill)).unwrap();
        expected.extend_from_slice(packet.as_bytes());
        out.push(packet).unwrap();
    }
    out.close();
    let mut peer = Noting::default();
    out.write_to(&mut peer, Duration::from_secs(30)).await;
    assert!(peer.0 == expected, "another order or other bytes");
    let kilobytes: Vec<usize> = peer.1.iter().map(|bytes| bytes >> 10).collect();
    // One behind short ones is written with them.
    assert_eq!(kilobytes, [33, 64, 65, 0], "{:?}", peer.1);
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
