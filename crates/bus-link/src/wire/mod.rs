//! What goes over the socket: frames of bytes with a length, the handshake, and the messages.

mod convert;
mod fault;
mod hello;
mod message;
mod packet;

pub(crate) use convert::{
    WireBlob, WireConsumer, WireConsumerState, WireDelivery, WireExpect, WireExpectRevision,
    WireLag, WireOverflow, WirePlace, WirePut, WireReceipt, WireState, WireStream, WireVerdict,
    time,
};
pub(crate) use fault::Fault;
pub(crate) use hello::{Challenge, Response, SERVER_ID_BYTES, Versions, Welcome, Welcomed};
pub(crate) use message::{Answer, Call, Item, ToClient, ToServer};
pub(crate) use packet::{Message, Packet, frame_part, read_message};

/// The version that this program speaks.
pub(crate) const VERSION: u16 = 1;

/// The most bytes of one message: a batch of frames, or what a frame and its names take.
pub(crate) const MESSAGE_BYTES_MAX: usize = 32 << 20;

/// The most bytes of one message before the peer is known.
pub(crate) const HELLO_BYTES_MAX: usize = 16 << 10;
