//! The rules of the `CloudEvents` documents about attributes and data, case by case.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests: a damaged vector must fail the test"
)]

use serde_json::{Value, json};

use bus_envelope::{AttributeValue, CloudEvent, EventData, is_json_content_type};

fn document(file: &str) -> Option<Value> {
    bus_testdata::json(&format!("cloudevents/{file}.json"))
}

/// A minimal event with `member` set to `value`.
fn with(member: &str, value: &Value) -> Vec<u8> {
    let mut event = json!({"specversion": "1.0", "type": "t", "source": "/s", "id": "1"});
    event[member] = value.clone();
    event.to_string().into_bytes()
}

fn is_accepted(member: &str, value: &Value) -> bool {
    CloudEvent::from_json(&with(member, value)).is_ok()
}

/// What our code says to a case of `attribute_cases.json`.
fn answer(case: &Value) -> bool {
    let canonical = || AttributeValue::Text(case["canonical"].as_str().unwrap().to_owned());
    match case["group"].as_str().unwrap() {
        "attribute_name" => {
            // A number under `data` is data, so the reserved name is asked through a header.
            let name = case["name"].as_str().unwrap();
            let mut headers =
                CloudEvent::from_json(&with("id", &json!("1"))).unwrap().to_message().0;
            headers.add(format!("ce-{name}"), "1").is_ok()
                && is_accepted(name, &json!("1"))
                && CloudEvent::from_message(&headers, &"".into()).is_ok()
        }
        "integer" => canonical().as_integer().is_some(),
        "boolean" => canonical().as_boolean().is_some(),
        "binary" => canonical().as_binary().is_some_and(|bytes| {
            case["hex"].as_str().is_none_or(|hex| bytes == bus_testdata::hex(hex))
        }),
        "string" => is_accepted("ext", &case["value"]),
        "string_json" => {
            let text = String::from_utf8(with("ext", &json!("PLACE"))).unwrap();
            let text = text.replace("\"PLACE\"", case["json_text"].as_str().unwrap());
            CloudEvent::from_json(text.as_bytes()).is_ok()
        }
        "specversion" => is_accepted("specversion", &case["value"]),
        "source" => is_accepted("source", &case["value"]),
        "datacontenttype" => is_accepted("datacontenttype", &case["value"]),
        "is_json_datacontenttype" => match case["value"].as_str() {
            Some(content_type) => is_json_content_type(content_type),
            None => {
                let event = CloudEvent::from_json(&with("data", &json!({"a": 1}))).unwrap();
                matches!(event.data(), Some(EventData::Json(_)))
            }
        },
        group => panic!("unknown group {group}"),
    }
}

#[test]
fn attributes_keep_the_rules_of_the_document() {
    let Some(document) = document("attribute_cases") else { return };
    let cases = document["cases"].as_array().unwrap();
    // What the document leaves open is refused: `text/plain;` and base64 with loose bits.
    let expected =
        |case: &Value| case["json"].as_bool().unwrap_or_else(|| case["result"] == "valid");
    let wrong: Vec<_> = cases
        .iter()
        .filter(|case| answer(case) != expected(case))
        .map(|case| &case["id"])
        .collect();
    assert_eq!(cases.len(), 103, "number of cases");
    assert!(wrong.is_empty(), "{wrong:?}");
}

fn has_data(event: &CloudEvent, case: &Value) -> bool {
    match (case["data_kind"].as_str(), event.data()) {
        (Some("absent"), data) => data.is_none(),
        (Some("json"), Some(EventData::Json(text))) => {
            serde_json::from_str::<Value>(text).unwrap() == case["data_json"]
        }
        (Some("text"), Some(EventData::Text(text))) => *text == case["data_text"],
        (Some("binary"), Some(EventData::Binary(bytes))) => {
            *bytes == bus_testdata::hex(case["data_hex"].as_str().unwrap())
        }
        _ => false,
    }
}

#[test]
fn data_is_read_by_content_type_and_member() {
    let Some(document) = document("json_data_cases") else { return };
    let cases = document["cases"].as_array().unwrap();
    let is_right = |case: &Value| match CloudEvent::from_json(case["event"].to_string().as_bytes())
    {
        // The one case left open, an object under an XML content type, is refused.
        Err(_) => case["result"] != "valid",
        Ok(event) => {
            case["result"] == "valid"
                && has_data(&event, case)
                && CloudEvent::from_json(&event.to_json()) == Ok(event)
        }
    };
    let wrong: Vec<_> =
        cases.iter().filter(|case| !is_right(case)).map(|case| &case["id"]).collect();
    assert_eq!(cases.len(), 29, "number of cases");
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn the_examples_of_the_documents_are_read_and_written_back() {
    let Some(document) = document("spec_examples") else { return };
    let cases = document["cases"].as_array().unwrap();
    let is_right = |case: &Value| {
        let text = case["json"].to_string();
        let read = if case["kind"] == "batch" {
            CloudEvent::batch_from_json(text.as_bytes())
        } else {
            CloudEvent::from_json(text.as_bytes()).map(|event| vec![event])
        };
        match read {
            Err(_) => case["strict"] == "invalid",
            Ok(events) => {
                case["strict"] == "valid"
                    && events
                        .iter()
                        .all(|event| CloudEvent::from_json(&event.to_json()).as_ref() == Ok(event))
            }
        }
    };
    let wrong: Vec<_> =
        cases.iter().filter(|case| !is_right(case)).map(|case| &case["id"]).collect();
    assert_eq!(cases.len(), 28, "number of cases");
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn an_escape_in_base64_is_undone_first() {
    let text = concat!(
        r#"{"specversion":"1.0","type":"t","source":"/s","id":"1","#,
        r#""data_base64":"\u002B\u002B\u002B\u002B"}"#,
    );
    assert_eq!(
        CloudEvent::from_json(text.as_bytes()).unwrap().data_bytes().as_ref(),
        b"\xfb\xef\xbe"
    );
}
