//! The published JSON schema of `CloudEvents`: everything we write keeps it.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "helpers of tests: a damaged vector must fail the test"
)]

use jsonschema::Validator;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::Value;

use bus_envelope::{CloudEvent, WireForm, wire};
use events::{any_envelope, any_foreign};

#[path = "samples/events.rs"]
mod events;

fn schema() -> Option<Validator> {
    let schema = bus_testdata::json("cloudevents/cloudevents.schema.json")?;
    Some(jsonschema::options().should_validate_formats(true).build(&schema).unwrap())
}

fn conformance(name: &str) -> Vec<Value> {
    let file = bus_testdata::json(&format!("cloudevents/conformance/{name}.json")).unwrap();
    file["tests"].as_array().unwrap().clone()
}

/// What is wrong with `json`.
fn faults(schema: &Validator, json: &[u8]) -> Vec<String> {
    let value = serde_json::from_slice(json).unwrap();
    schema.iter_errors(&value).map(|error| error.to_string()).collect()
}

#[test]
fn every_envelope_in_the_json_form_keeps_the_schema() {
    let Some(schema) = schema() else { return };
    TestRunner::default()
        .run(&any_envelope(), |envelope| {
            let (_, body) = wire::encode(WireForm::Json, &envelope);
            prop_assert_eq!(faults(&schema, &body), Vec::<String>::new());
            Ok(())
        })
        .unwrap();
}

#[test]
fn every_foreign_event_keeps_the_schema_when_we_write_it() {
    let Some(schema) = schema() else { return };
    TestRunner::default()
        .run(&any_foreign(), |foreign| {
            let event = CloudEvent::from_json(&foreign.to_json()).unwrap();
            prop_assert_eq!(faults(&schema, &event.to_json()), Vec::<String>::new());
            Ok(())
        })
        .unwrap();
}

#[test]
fn the_examples_of_the_documents_keep_the_schema_when_we_write_them() {
    let Some(schema) = schema() else { return };
    let mut walked = 0;
    for test in conformance("valid-events") {
        let event = CloudEvent::from_json(test["event"].to_string().as_bytes()).unwrap();
        assert!(faults(&schema, &event.to_json()).is_empty(), "{}", test["id"]);
        walked += 1;
    }
    let examples = bus_testdata::json("cloudevents/spec_examples.json").unwrap();
    for case in examples["cases"].as_array().unwrap() {
        let text = case["json"].to_string();
        let read = match case["kind"].as_str() {
            Some("batch") => CloudEvent::batch_from_json(text.as_bytes()),
            _ => CloudEvent::from_json(text.as_bytes()).map(|event| vec![event]),
        };
        for event in read.unwrap_or_default() {
            assert!(faults(&schema, &event.to_json()).is_empty(), "{}", case["id"]);
            walked += 1;
        }
    }
    assert_eq!(walked, 33);
}

#[test]
fn we_refuse_what_the_schema_refuses_and_the_six_cases_it_misses() {
    let Some(schema) = schema() else { return };
    let mut missed = Vec::new();
    let tests = conformance("invalid-events");
    for test in &tests {
        if schema.is_valid(&test["event"]) {
            missed.push(test["id"].as_str().unwrap());
        }
        assert!(CloudEvent::from_json(test["event"].to_string().as_bytes()).is_err());
    }
    let known = [
        "invalidUnknownSpecVersion",
        "invalidNonRfc2046DataContentType",
        "invalidCapitalizedExtension",
        "invalidPunctuatedExtension",
        "invalidNonIntegerExtensionValue",
        "invalidBothDataAndDataBase64",
    ];
    assert_eq!(missed, known);
    assert_eq!(tests.len(), 25);
}
