//! The JSON test suite, as whole events and as payloads of events.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "helpers of tests: a damaged vector must fail the test"
)]

use serde_json::Value;
use uuid::Uuid;

use bus_envelope::{ChainHead, ChainScope, Draft, MessageEnvelope, Stamp, Timestamp, TraceContext};
use bus_envelope::{EnvelopeError, wire::json};
use bus_subjects::{AgentId, Subject, WorkspaceId};

/// Inputs that the suite leaves open and that are no JSON for us. The others of them are.
const REFUSED: [&str; 17] = [
    "i_string_UTF-16LE_with_BOM",
    "i_string_UTF-8_invalid_sequence",
    "i_string_UTF8_surrogate_U+D800",
    "i_string_invalid_utf-8",
    "i_string_iso_latin_1",
    "i_string_lone_utf8_continuation_byte",
    "i_string_not_in_unicode_range",
    "i_string_overlong_sequence_2_bytes",
    "i_string_overlong_sequence_6_bytes",
    "i_string_overlong_sequence_6_bytes_null",
    "i_string_truncated-utf-8",
    "i_string_utf16BE_no_BOM",
    "i_string_utf16LE_no_BOM",
    "i_structure_UTF-8_BOM_empty_object",
    "transform-string_1_invalid_codepoint",
    "transform-string_2_invalid_codepoints",
    "transform-string_3_invalid_codepoints",
];

const CASES: usize = 340;

fn bytes(case: &Value) -> Vec<u8> {
    let hex = |field: &str| case[field].as_str().map(bus_testdata::hex);
    hex("hex").unwrap_or_else(|| {
        let times = usize::try_from(case["times"].as_u64().unwrap()).unwrap();
        let mut bytes = hex("repeat_hex").unwrap().repeat(times);
        bytes.extend(hex("then_hex").unwrap_or_default());
        bytes
    })
}

fn is_json(case: &Value) -> bool {
    match case["expect"].as_str().unwrap() {
        "accept" => true,
        "reject" => false,
        _ => !REFUSED.contains(&case["id"].as_str().unwrap()),
    }
}

/// An event of JSON content type with this payload.
fn event(payload: Vec<u8>) -> MessageEnvelope {
    let subject = Subject::parse("vak.receipts.acme.s1.completed").unwrap();
    let workspace = WorkspaceId::parse("acme").unwrap();
    let scope = ChainScope::Subject { workspace: workspace.clone(), subject: subject.clone() };
    let stamp = Stamp {
        id: "e-1".to_owned(),
        time: Timestamp::from_unix_ns(0),
        trace: TraceContext::new([1; 16], [2; 8], 0).unwrap(),
        workspace,
        agent: AgentId::parse("coder-1").unwrap(),
        incarnation: Uuid::nil(),
        head: ChainHead::genesis(&scope),
    };
    Draft::new(subject, "vak.receipt", payload)
        .content_type("application/json")
        .stamp(stamp)
        .unwrap()
}

/// The event as JSON text with `data` put in as it is.
fn with_data(data: &[u8]) -> Vec<u8> {
    let mut text = json::encode(&event(b"0".to_vec()));
    text.truncate(text.len() - b"0}".len());
    text.extend_from_slice(data);
    text.push(b'}');
    text
}

/// Fails with the ids of the cases that `is_right` does not confirm.
fn walk(is_right: impl Fn(&Value, Vec<u8>) -> bool) {
    let Some(document) = bus_testdata::json("json/jsontestsuite.json") else { return };
    let cases = document["cases"].as_array().unwrap();
    let wrong: Vec<_> =
        cases.iter().filter(|case| !is_right(case, bytes(case))).map(|case| &case["id"]).collect();
    assert_eq!(cases.len(), CASES, "number of cases");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_text_of_the_suite_is_an_event() {
    walk(|_, bytes| json::decode(&bytes).is_err());
}

#[test]
fn what_is_json_is_taken_under_data_and_nothing_else() {
    walk(|case, bytes| {
        let decoded = json::decode(&with_data(&bytes));
        let is_bare = bytes.trim_ascii().len() == bytes.len();
        match decoded {
            Ok(envelope) => is_json(case) && envelope.payload == bytes,
            // White space round the value makes the event one of many ways to write it.
            Err(EnvelopeError::NotCanonical { .. }) => is_json(case) && !is_bare,
            Err(_) => !is_json(case),
        }
    });
}

#[test]
fn every_payload_survives_byte_for_byte() {
    walk(|_, bytes| {
        let envelope = event(bytes);
        let text = json::encode(&envelope);
        json::decode(&text) == Ok(envelope)
    });
}

#[test]
fn a_payload_stands_verbatim_where_it_is_json_and_as_base64_where_it_is_not() {
    walk(|case, bytes| {
        let is_verbatim = is_json(case) && bytes.trim_ascii().len() == bytes.len();
        let text = json::encode(&event(bytes.clone()));
        is_verbatim == text.ends_with(&[b"\"data\":", bytes.as_slice(), b"}"].concat())
    });
}

#[test]
fn deep_nesting_needs_no_deep_stack() {
    let Some(document) = bus_testdata::json("json/jsontestsuite.json") else { return };
    let deep: Vec<_> = document["cases"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|case| case.get("repeat_hex").is_some())
        .map(bytes)
        .collect();
    assert_eq!(deep.len(), 2, "number of cases");
    let walked = std::thread::Builder::new().stack_size(128 * 1024).spawn(move || {
        deep.iter().all(|bytes| {
            json::decode(bytes).is_err()
                && json::decode(&with_data(bytes)).is_err()
                && json::decode(&json::encode(&event(bytes.clone()))).is_ok()
        })
    });
    assert!(walked.unwrap().join().unwrap());
}
