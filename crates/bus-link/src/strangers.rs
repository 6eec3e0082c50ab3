//! The readers of the protocol, for tests that give them the bytes of strangers.
//!
//! Each reads bytes as one kind of message and writes down again what it understood, or says
//! nothing when it refuses them.

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

use crate::wire::{Challenge, Message, Packet, Response, ToClient, ToServer, Welcome};

/// A reader that writes down what it understood.
pub type Reader = fn(&[u8]) -> Option<Vec<u8>>;

/// Every reader with the name of what it reads.
pub const READERS: &[(&str, Reader)] = &[
    ("challenge", |bytes| Challenge::decode(bytes).ok().map(|read| read.encode())),
    ("response", |bytes| Response::decode(bytes).ok().map(|read| read.encode())),
    ("welcome", message::<Welcome>),
    ("to server", message::<ToServer>),
    ("to client", message::<ToClient>),
];

fn message<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Option<Vec<u8>> {
    let read = Message::<T>::decode(Bytes::copy_from_slice(bytes)).ok()?;
    let mut packet = Packet::new(&read.words).ok()?;
    for part in &read.parts {
        packet = packet.with(|out| out.extend_from_slice(part)).ok()?;
    }
    packet.as_bytes().get(4..).map(<[u8]>::to_vec)
}

/// One message of each kind, to begin with.
#[must_use]
pub fn samples() -> Vec<Vec<u8>> {
    use crate::wire::{Answer, Call, Item, Versions};
    let challenge = Challenge { versions: Versions::OURS, server: [1; 16], nonce: [2; 32] };
    let token = "a.b.c".to_owned();
    let response = Response { versions: Versions::OURS, signature: [3; 64], token };
    let call = Call::Read { stream: "VAK_WORK_w1".to_owned(), seq: 7 };
    let packets = [
        Packet::new(&ToServer::Call { id: 1, call }),
        Packet::new(&ToServer::Want { id: 2, round: 3, max: 4 }),
        Packet::new(&ToServer::Part { id: 5 }).and_then(|packet| packet.with(|out| out.push(6))),
        Packet::new(&ToClient::Answer { id: 1, answer: Ok(Answer::WasThere(true)) }),
        Packet::new(&ToClient::Item { id: 1, item: Item::Gap(9) }),
        Packet::new(&ToClient::Closing { why: None }),
    ];
    let packets = packets.into_iter().flatten();
    let mut all: Vec<_> =
        packets.filter_map(|packet| packet.as_bytes().get(4..).map(<[u8]>::to_vec)).collect();
    all.extend([challenge.encode(), response.encode()]);
    all
}
