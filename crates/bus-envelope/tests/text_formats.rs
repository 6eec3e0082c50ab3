//! Times, URIs and UUIDs of the JSON Schema suite.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a damaged vector must fail the test")]

use bytes::Bytes;

use bus_envelope::{Headers, Timestamp, is_uri, is_uri_reference, wire};

/// Walks the cases whose data is a text; the suite's other data is not about formats.
fn walk(format: &str, expected: usize, is_accepted: impl Fn(&str) -> bool) {
    let Some(groups) = bus_testdata::json(&format!("formats/{format}.json")) else { return };
    let tests: Vec<_> = groups
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|group| group["tests"].as_array().unwrap())
        .filter_map(|test| Some((test["data"].as_str()?, test["valid"].as_bool()?)))
        .collect();
    let wrong: Vec<_> = tests.iter().filter(|(text, valid)| is_accepted(text) != *valid).collect();
    assert_eq!(tests.len(), expected, "number of cases");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Whether the binary form takes `text` as an incarnation.
fn is_incarnation(text: &str) -> bool {
    let mut headers = Headers::new();
    if headers.add("ce-incarnation", text).is_err() {
        return false;
    }
    let refused = wire::binary::decode(&headers, &Bytes::new()).unwrap_err();
    refused.field_name() != Some("incarnation")
}

#[test]
fn foreign_times_are_rfc_3339() {
    walk("date-time", 27, |text| Timestamp::parse_rfc3339(text).is_ok());
}

#[test]
fn uris_are_rfc_3986() {
    walk("uri", 40, is_uri);
}

#[test]
fn relative_references_are_rfc_3986() {
    walk("uri-reference", 22, is_uri_reference);
}

#[test]
fn uuids_are_read_in_lower_case_and_refused_in_any_other_form() {
    // Ours are written in one way only; the suite takes upper case too.
    walk("uuid", 22, |text| is_incarnation(&text.to_ascii_lowercase()));
    assert!(!is_incarnation("2EB8AA08-AA98-11EA-B4AA-73B441D16380"));
}
