//! The journal's lines, ids and targets against the golden vectors of the specification.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a damaged vector file must fail the test")]

use bus_envelope::Timestamp;
use bus_peers::{
    BusError, Command, Done, InstanceSecret, JournalRecord, Limits, MINTS_MAX, PeerTarget,
    Recipient, Registry, SecretHash,
};
use serde_json::{Value, json};

#[path = "../../../docs/spec/vectors/golden.rs"]
mod golden;

#[test]
fn peers_are_as_the_specification_says() {
    golden::check("peers.json", 54, |case| {
        let text = |name: &str| case.get(name).and_then(Value::as_str).unwrap();
        match text("do") {
            "record" => record(text("line")),
            "register" => {
                let suffix = case.get("suffix").and_then(Value::as_u64).unwrap();
                register(text("definition_id"), u32::try_from(suffix).unwrap())
            }
            "target" => {
                let to: Recipient = serde_json::from_value(case["to"].clone()).unwrap();
                match PeerTarget::parse(to) {
                    Ok(PeerTarget::Definition(id)) => json!({ "definition": id }),
                    Ok(PeerTarget::Instance(id)) => json!({ "instance": id }),
                    Err(error) => refused(&error),
                }
            }
            "secret" => {
                let secret = InstanceSecret::from_text(text("text").to_owned());
                secret.hash().as_bytes().map(|byte| format!("{byte:02x}")).concat().into()
            }
            other => panic!("{other}"),
        }
    });
}

fn record(line: &str) -> Value {
    match JournalRecord::parse(line.as_bytes()) {
        Ok(JournalRecord::Envelope { envelope, losses_unrecorded }) => json!({
            "envelope": serde_json::to_string(&envelope).unwrap(),
            "losses_unrecorded": losses_unrecorded,
        }),
        Ok(JournalRecord::InboxMiss(miss)) => {
            json!({ "miss": serde_json::to_string(&miss).unwrap() })
        }
        Err(_) => json!({ "refused": "record" }),
    }
}

fn register(definition_id: &str, suffix: u32) -> Value {
    let command = Command::Register {
        definition_id: definition_id.to_owned(),
        project: None,
        suffixes: [suffix; MINTS_MAX],
        secret: SecretHash::from_bytes([0; 32]),
    };
    let done = Registry::new(Limits::default()).apply(command, Timestamp::from_unix_ns(0)).done;
    match done {
        Ok(Done::Registered(meta)) => meta.instance_id.into(),
        Ok(other) => panic!("{other:?}"),
        Err(error) => refused(&error),
    }
}

fn refused(error: &BusError) -> Value {
    json!({ "refused": error.code() })
}
