//! Recordings without an engine: the form of their batches, and the line of past and present.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

mod batches;
mod golden_batches;
mod splices;

#[path = "../../../../docs/spec/vectors/golden.rs"]
mod golden;

use bus_envelope::{ChainHead, Draft, EventHash, MessageEnvelope, Stamp, Timestamp, TraceContext};
use uuid::Uuid;

/// An event at the place `seq` of the chain of one process life.
pub(crate) fn event(life: u128, seq: u64, payload: &[u8]) -> MessageEnvelope {
    let subject = "vak.events.w1.s1.terminal".parse().unwrap();
    let stamp = Stamp {
        id: format!("e-{life}-{seq}"),
        time: Timestamp::from_unix_ns(0),
        trace: TraceContext::new([1; 16], [1; 8], 1).unwrap(),
        workspace: "w1".parse().unwrap(),
        agent: "coder-1".parse().unwrap(),
        incarnation: Uuid::from_u128(life),
        head: ChainHead { seq: seq - 1, hash: EventHash::of(b"before") },
    };
    Draft::new(subject, "vak.terminal.stdout", payload.to_vec()).stamp(stamp).unwrap()
}
