//! The plain bytes of results against the golden vectors of the specification.

use serde_json::{Value, json};

use super::*;

const VECTORS: &str = include_str!("../../../../../docs/spec/vectors/results.json");

#[test]
fn results_are_as_the_specification_says() {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    let cases = vectors["cases"].as_array().unwrap();
    for case in cases {
        assert_eq!(found(&case["in"]), case["out"], "{}", case["id"]);
    }
    assert_eq!(cases.len(), 23);
}

fn found(case: &Value) -> Value {
    match case["do"].as_str().unwrap() {
        "write" => {
            let bytes = wire::encode(&written(&case["result"])).unwrap();
            hex(&bytes).into()
        }
        _ => {
            let bytes = of_hex(case["hex"].as_str().unwrap());
            wire::decode(&bytes).map_or_else(|_| json!({ "refused": "result" }), |read| told(&read))
        }
    }
}

/// The result with the members of a vector.
fn written(value: &Value) -> TaskResult {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let hash = |value: &Value| text(value).parse::<EventHash>().unwrap();
    let output = &value["output"];
    let output = if let Some(inline) = output.get("inline") {
        ResultOutput::Inline(of_hex(&text(inline)).into())
    } else if let Some(blob) = output.get("blob") {
        let key = BucketKey::parse(&text(&blob["key"])).unwrap();
        ResultOutput::Blob { key, bytes: blob["bytes"].as_u64().unwrap() }
    } else {
        ResultOutput::NotKept { reason: text(&output["not-kept"]["reason"]) }
    };
    TaskResult {
        task_id: text(&value["task_id"]),
        task: hash(&value["task"]),
        attempt: serde_json::from_value(value["attempt"].clone()).unwrap(),
        worker: AgentId::parse(&text(&value["worker"])).unwrap(),
        session: SessionId::parse(&text(&value["session"])).unwrap(),
        receipt: value.get("receipt").map(|seq| Seq(seq.as_u64().unwrap())),
        stderr_hash: hash(&value["stderr_hash"]),
        output,
        left_out: value.get("left_out").map(|gap| LeftOut {
            at: gap["at"].as_u64().unwrap(),
            bytes: gap["bytes"].as_u64().unwrap(),
            stdout_hash: hash(&gap["stdout_hash"]),
        }),
    }
}

/// What was read, with the members of a vector.
fn told(result: &TaskResult) -> Value {
    let output = match &result.output {
        ResultOutput::Inline(bytes) => json!({ "inline": hex(bytes) }),
        ResultOutput::Blob { key, bytes } => {
            json!({ "blob": { "key": key.as_str(), "bytes": bytes } })
        }
        ResultOutput::NotKept { reason } => json!({ "not-kept": { "reason": reason } }),
    };
    let mut all = json!({
        "task_id": result.task_id,
        "task": result.task.to_string(),
        "attempt": result.attempt,
        "worker": result.worker.as_str(),
        "session": result.session.as_str(),
        "stderr_hash": result.stderr_hash.to_string(),
        "output": output,
    });
    if let Some(seq) = result.receipt {
        all["receipt"] = seq.0.into();
    }
    if let Some(gap) = result.left_out {
        let hash = gap.stdout_hash.to_string();
        all["left_out"] = json!({ "at": gap.at, "bytes": gap.bytes, "stdout_hash": hash });
    }
    all
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn of_hex(text: &str) -> Vec<u8> {
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    text.as_bytes().chunks(2).map(pair).collect()
}
