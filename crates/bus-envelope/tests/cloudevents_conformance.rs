//! The official `CloudEvents` JSON conformance cases.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "helpers of tests: a damaged vector must fail the test"
)]

use serde_json::Value;

use bus_envelope::{CloudEvent, Timestamp};

fn tests(name: &str) -> Vec<Value> {
    let file = format!("cloudevents/conformance/{name}.json");
    let Some(document) = bus_testdata::json(&file) else { return Vec::new() };
    document["tests"].as_array().unwrap().clone()
}

fn conclude(walked: usize, expected: usize, wrong: &[String]) {
    if bus_testdata::vectors().is_some() {
        assert_eq!(walked, expected, "number of cases");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Whether the event says what the golden sample says; times compare as instants.
fn is_sample(event: &CloudEvent, sample: &Value) -> bool {
    let core = sample["attributes"].as_object().unwrap();
    let none = serde_json::Map::new();
    let extensions = sample["extensions"].as_object().unwrap_or(&none);
    let has_core = core.iter().all(|(name, expected)| {
        let expected = expected.as_str().unwrap();
        if name == "time" {
            return event.time() == Timestamp::parse_rfc3339(expected).ok();
        }
        event.attribute(name).is_some_and(|value| value.to_string() == expected)
    });
    let has_extensions = extensions.iter().all(|(name, expected)| {
        let Some(value) = event.attribute(name) else { return false };
        match expected["type"].as_str().unwrap() {
            "Integer" => value.as_integer().map(i64::from) == expected["value"].as_i64(),
            "Boolean" => value.as_boolean() == expected["value"].as_bool(),
            "Binary" => {
                let hex = bus_testdata::hex(expected["hex"].as_str().unwrap());
                value.as_binary().is_some_and(|bytes| bytes == hex)
            }
            "Timestamp" => {
                value.as_time()
                    == Timestamp::parse_rfc3339(expected["value"].as_str().unwrap()).ok()
            }
            _ => value.to_string() == expected["value"],
        }
    });
    let data = sample["data_text"].as_str().unwrap_or_default();
    has_core
        && has_extensions
        && event.attributes().count() == core.len() + extensions.len()
        && event.data_bytes() == data
}

#[test]
fn valid_events_are_the_golden_samples() {
    let Some(golden) = bus_testdata::json("cloudevents/golden_samples.json") else { return };
    let tests = tests("valid-events");
    let is_right = |test: &Value| {
        let sample = &golden["samples"][test["sampleId"].as_str().unwrap()];
        CloudEvent::from_json(test["event"].to_string().as_bytes())
            .is_ok_and(|event| is_sample(&event, sample))
    };
    let wrong: Vec<_> =
        tests.iter().filter(|test| !is_right(test)).map(|test| test["id"].to_string()).collect();
    conclude(tests.len(), 10, &wrong);
}

#[test]
fn valid_batches_are_the_golden_samples() {
    let Some(golden) = bus_testdata::json("cloudevents/golden_samples.json") else { return };
    let tests = tests("valid-batches");
    let is_right = |test: &Value| {
        let names = golden["batches"][test["sampleId"].as_str().unwrap()].as_array().unwrap();
        CloudEvent::batch_from_json(test["batch"].to_string().as_bytes()).is_ok_and(|batch| {
            let sample = |name: &Value| golden["samples"][name.as_str().unwrap()].clone();
            batch.len() == names.len()
                && batch.iter().zip(names).all(|(event, name)| is_sample(event, &sample(name)))
        })
    };
    let wrong: Vec<_> =
        tests.iter().filter(|test| !is_right(test)).map(|test| test["id"].to_string()).collect();
    conclude(tests.len(), 5, &wrong);
}

#[test]
fn invalid_events_are_refused() {
    let tests = tests("invalid-events");
    let wrong: Vec<_> = tests
        .iter()
        .filter(|test| CloudEvent::from_json(test["event"].to_string().as_bytes()).is_ok())
        .map(|test| test["id"].to_string())
        .collect();
    conclude(tests.len(), 25, &wrong);
}

#[test]
fn invalid_batches_are_refused() {
    let tests = tests("invalid-batches");
    let wrong: Vec<_> = tests
        .iter()
        .filter(|test| CloudEvent::batch_from_json(test["batch"].to_string().as_bytes()).is_ok())
        .map(|test| test["id"].to_string())
        .collect();
    conclude(tests.len(), 3, &wrong);
}
