//! Batches against the golden vectors of the specification.

use bus_envelope::wire::compact;
use bus_runner::{Batch, BatchItem, Pushed};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::golden;

#[test]
fn batches_are_as_the_specification_says() {
    golden::check("recordings.json", 15, |case| {
        let text = |name: &str| case.get(name).and_then(Value::as_str).unwrap();
        if text("do") == "make" {
            return json!({ "batch": hex(&made(case.get("items").unwrap())) });
        }
        match Batch::decode(&bytes(text("batch"))) {
            Err(_) => json!({ "refused": "recording" }),
            Ok(items) => json!({ "items": items.iter().map(shown).collect::<Vec<_>>() }),
        }
    });
}

fn made(items: &Value) -> Bytes {
    let mut batch = Batch::new();
    for item in items.as_array().unwrap() {
        match item.get("missed").and_then(Value::as_u64) {
            Some(missed) => assert!(batch.gap(missed)),
            None => {
                let written = bytes(item.get("envelope").and_then(Value::as_str).unwrap());
                let envelope = compact::decode(&written).unwrap();
                assert_eq!(batch.push(&envelope), Pushed::Taken);
            }
        }
    }
    batch.encode()
}

fn shown(item: &BatchItem) -> Value {
    match item {
        BatchItem::Envelope(bytes) => json!({ "envelope": hex(bytes) }),
        BatchItem::Gap { missed } => json!({ "missed": missed }),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Bytes {
    let digits: Vec<u8> = hex.chars().map(|c| c.to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte * 16 + digit)).collect()
}
