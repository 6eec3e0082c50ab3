//! What waits to be written.

use std::time::Duration;

use bus_core::ErrorKind;

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
