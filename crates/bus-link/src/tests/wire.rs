//! Messages as bytes.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bus_core::{ErrorKind, Frame};
use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};

use super::support::event;
use crate::wire::{Call, MESSAGE_BYTES_MAX, Message, Packet, ToServer, frame_part, read_message};

fn append() -> ToServer {
    ToServer::Call { id: 7, call: Call::AppendAll }
}

#[tokio::test]
async fn a_message_is_read_as_it_was_written() {
    let packet = Packet::new(&append()).unwrap().with(frame_part(&event("e1"))).unwrap();
    let mut stream = packet.as_bytes();
    let bytes = read_message(&mut stream, MESSAGE_BYTES_MAX).await.unwrap().unwrap();
    let message = Message::<ToServer>::decode(bytes).unwrap();
    assert_eq!(message.words, append());
    let part = Message::<()>::one_part(message.parts).unwrap();
    assert_eq!(bus_core::packed::unpack_frame(&part).unwrap(), event("e1"));
    assert_eq!(read_message(&mut stream, MESSAGE_BYTES_MAX).await.unwrap(), None);
}

#[tokio::test]
async fn a_message_that_is_cut_short_is_corrupt_at_every_place() {
    let packet = Packet::new(&append()).unwrap().with(frame_part(&event("e1"))).unwrap();
    for end in 1..packet.len() {
        let mut stream = packet.as_bytes().get(..end).unwrap();
        let read = read_message(&mut stream, MESSAGE_BYTES_MAX).await;
        assert_eq!(read.unwrap_err().kind(), ErrorKind::Corrupt, "cut at {end}");
    }
}

/// A stream that gives whatever it is asked for, and notes the room that it was given for it.
struct Noting<'a>(&'a [u8], Vec<usize>);

impl AsyncRead for Noting<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let (now, rest) = self.0.split_at(room.remaining().min(self.0.len()));
        room.put_slice(now);
        self.0 = rest;
        self.1.push(now.len());
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_long_message_is_read_in_few_steps_and_room_follows_what_has_come() {
    for bytes in [70 << 10, 700 << 10, 3 << 20] {
        let packet = Packet::new(&append()).unwrap();
        let packet = packet.with(|out| out.resize(out.len() + bytes, 7)).unwrap();
        let mut stream = Noting(packet.as_bytes(), Vec::new());
        let read = read_message(&mut stream, MESSAGE_BYTES_MAX).await.unwrap().unwrap();
        assert_eq!(&read[..], packet.as_bytes().get(4..).unwrap());
        assert!(stream.1.len() <= 5, "{bytes} bytes in {:?}", stream.1);
        let mut come = 0;
        for step in stream.1.iter().skip(1) {
            assert!(*step <= (16 << 10).max(8 * come), "{:?}", stream.1);
            come += step;
        }
    }
}

#[test]
fn a_part_that_is_cut_short_is_corrupt() {
    let packet = Packet::new(&append()).unwrap().with(frame_part(&event("e1"))).unwrap();
    let whole = Bytes::copy_from_slice(packet.as_bytes()).slice(4..);
    let words = Packet::new(&append()).unwrap().len() - 4;
    for end in words + 1..whole.len() {
        let read = Message::<ToServer>::decode(whole.slice(..end));
        assert_eq!(read.unwrap_err().kind(), ErrorKind::Corrupt, "cut at {end}");
    }
}

#[test]
fn more_parts_than_a_batch_has_frames_are_refused() {
    let mut bytes = Packet::new(&append()).unwrap().as_bytes().get(4..).unwrap().to_vec();
    bytes.extend(std::iter::repeat_n(0_u8, 4 * (Frame::BATCH_MAX + 1)));
    let read = Message::<ToServer>::decode(Bytes::from(bytes));
    assert_eq!(read.unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_message_beyond_the_bound_is_not_written() {
    let packet = Packet::new(&append()).unwrap();
    let error = packet.with(|out| out.resize(MESSAGE_BYTES_MAX + 5, 0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
}
