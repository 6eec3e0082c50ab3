//! The JSON form of receipts: every member needed, no other taken, values held to their rules.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn good() -> Value {
    json!({
        "task_id": "t-1", "role": "coder", "worker": "ann", "attempt": 1, "exit_code": 0,
        "output_hash": "00".repeat(32), "stdout_bytes": 5, "stderr_bytes": 0,
        "started": "2026-01-01T00:00:00.000000000Z", "finished": "2026-01-01T00:00:01.000000000Z",
    })
}

fn with(member: &str, value: Value) -> Result<WorkReceipt, ReceiptError> {
    let mut receipt = good();
    receipt[member] = value;
    WorkReceipt::parse(receipt.to_string().as_bytes())
}

#[test]
fn every_member_is_needed() {
    for member in good().as_object().unwrap().keys() {
        let mut receipt = good();
        receipt.as_object_mut().unwrap().remove(member);
        assert!(WorkReceipt::parse(receipt.to_string().as_bytes()).is_err(), "{member}");
    }
}

#[test]
fn an_unknown_member_is_refused() {
    assert!(with("note", json!("x")).is_err());
}

#[test]
fn a_repeated_member_is_refused() {
    let twice = good().to_string().replacen('{', r#"{"attempt":1,"#, 1);
    assert!(WorkReceipt::parse(twice.as_bytes()).is_err());
}

#[test]
fn a_value_that_breaks_its_rule_is_refused() {
    let cases = [
        ("task_id", json!("")),
        ("task_id", json!("x".repeat(129))),
        ("role", json!("a.b")),
        ("worker", json!("*")),
        ("attempt", json!(0)),
        ("exit_code", json!(1.5)),
        ("output_hash", json!("AB".repeat(32))),
        ("output_hash", json!("ab")),
        ("stdout_bytes", json!(-1)),
        ("started", json!("2026-01-01T00:00:00Z")),
        ("finished", json!("2025-12-31T23:59:59.999999999Z")),
    ];
    for (member, value) in cases {
        assert!(with(member, value.clone()).is_err(), "{member}: {value}");
    }
}

#[test]
fn the_error_names_the_member() {
    let error = with("worker", json!("a b")).unwrap_err().to_string();
    assert!(error.contains("worker"), "{error}");
}

proptest! {
    #[test]
    fn a_receipt_survives_its_json(
        task_id in "[ -~]{1,128}",
        attempt in 1_u32..,
        exit_code in any::<i32>(),
        hash in any::<[u8; 32]>(),
        bytes in any::<(u64, u64)>(),
        seconds in 0_u32..,
    ) {
        let started = Timestamp::from_unix_ns(1_767_225_600_000_000_000);
        let receipt = WorkReceipt {
            task_id,
            role: RoleName::parse("coder").unwrap(),
            worker: AgentId::parse("ann").unwrap(),
            attempt,
            exit_code,
            output_hash: EventHash::from_bytes(hash),
            stdout_bytes: bytes.0,
            stderr_bytes: bytes.1,
            started,
            finished: started.plus(std::time::Duration::from_secs(seconds.into())),
        };
        prop_assert_eq!(WorkReceipt::parse(&receipt.to_json()), Ok(receipt));
    }
}
