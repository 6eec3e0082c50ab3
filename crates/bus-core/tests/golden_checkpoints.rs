//! Checkpoints of live messages against the golden vectors of the specification.
#![expect(clippy::unwrap_used, reason = "a damaged vector file must fail the test")]

use bus_core::LiveCheckpoint;
use bus_envelope::{ChainHead, Draft, EventHash, MessageEnvelope, Stamp, Timestamp, TraceContext};
use bus_subjects::Subject;
use serde_json::{Value, json};
use uuid::Uuid;

#[path = "../../../docs/spec/vectors/golden.rs"]
mod golden;

#[test]
fn checkpoints_are_as_the_specification_says() {
    golden::check("live-checkpoints.json", 10, |case| {
        let text = |name: &str| case.get(name).and_then(Value::as_str).unwrap();
        if text("do") == "make" {
            let leaves = case.get("leaves").and_then(Value::as_array).unwrap();
            let leaves: Vec<EventHash> =
                leaves.iter().map(|leaf| leaf.as_str().unwrap().parse().unwrap()).collect();
            return json!({ "payload": hex(&LiveCheckpoint::payload(&leaves)) });
        }
        let seq = case.get("seq").and_then(Value::as_u64).unwrap();
        let head = ChainHead { seq: seq - 1, hash: text("prevhash").parse().unwrap() };
        let envelope = message(text("type"), head);
        match LiveCheckpoint::read(&envelope, &bytes(text("payload"))) {
            Err(_) => json!({ "refused": "checkpoint" }),
            Ok(checkpoint) => {
                let leaves = || checkpoint.leaves();
                let hashes: Vec<String> = leaves().map(|(_, leaf)| leaf.to_string()).collect();
                json!({ "first_seq": leaves().next().map(|(seq, _)| seq), "leaves": hashes })
            }
        }
    });
}

/// A message of this type at the place behind `head`.
fn message(event_type: &str, head: ChainHead) -> MessageEnvelope {
    let subject = Subject::parse("vak.events.acme.s1.tokens").unwrap();
    let stamp = Stamp {
        id: "e-1".to_owned(),
        time: Timestamp::from_unix_ns(0),
        trace: TraceContext::new([1; 16], [1; 8], 1).unwrap(),
        workspace: "acme".parse().unwrap(),
        agent: "coder-1".parse().unwrap(),
        incarnation: Uuid::from_u128(1),
        head,
    };
    Draft::new(subject, event_type, "").stamp(stamp).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().map(|c| c.to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte * 16 + digit)).collect()
}
