//! Holds the payloads of events against their golden vectors.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a damaged vector file must fail the test")]

#[path = "../../../docs/spec/vectors/golden.rs"]
mod golden;

use serde_json::{Value, json};

use bus_runner::{
    EventError, TELEMETRY, TERMINAL_END, TERMINAL_SIZE, TelemetryRecord, TerminalEnd, TerminalSize,
};

#[test]
fn events_are_as_their_vectors_say() {
    golden::check("events.json", 35, out);
}

fn out(case: &Value) -> Value {
    let text = |name: &str| case.get(name).and_then(Value::as_str).unwrap();
    match written(text("type"), text("json").as_bytes()) {
        Ok(payload) => json!(String::from_utf8(payload).unwrap()),
        Err(error) => json!({ "refused": format!("event {}", error.field()) }),
    }
}

/// Reads a payload and writes it again.
fn written(event_type: &str, payload: &[u8]) -> Result<Vec<u8>, EventError> {
    Ok(match event_type {
        TERMINAL_SIZE => TerminalSize::parse_json(payload)?.to_json(),
        TERMINAL_END => TerminalEnd::parse(payload)?.to_json(),
        TELEMETRY => TelemetryRecord::parse(payload)?.to_json(),
        other => panic!("no event: {other}"),
    })
}
