//! Text that is not UTF-8: refused where text must stand, carried as bytes where it is payload,
//! never replaced.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "helpers of tests: a damaged vector must fail the test"
)]

use bytes::Bytes;
use serde_json::Value;

use bus_envelope::{
    ChainHead, ChainScope, CloudEvent, Draft, Headers, MessageEnvelope, Stamp, Timestamp,
    TraceContext, WireForm, wire,
};
use bus_subjects::{AgentId, Subject, WorkspaceId};

/// Walks the file of malformed and well-formed texts: its bytes, and whether they are UTF-8.
fn walk(mut look: impl FnMut(&str, &[u8], bool)) {
    let Some(file) = bus_testdata::json("utf8/utf8tests.json") else { return };
    let (mut valid, mut invalid) = (0, 0);
    for test in file["cases"].as_array().unwrap() {
        let is_valid = test["valid"] == true;
        look(text(test, "id"), &bus_testdata::hex(text(test, "hex")), is_valid);
        *(if is_valid { &mut valid } else { &mut invalid }) += 1;
    }
    assert_eq!((valid, invalid), (77, 145));
}

fn text<'a>(test: &'a Value, name: &str) -> &'a str {
    test[name].as_str().unwrap()
}

/// JSON takes well-formed text without control characters as it stands.
fn is_json_text(bytes: &[u8], is_valid: bool) -> bool {
    is_valid && bytes.iter().all(|byte| *byte >= 0x20)
}

/// An event whose payload is one JSON string around `bytes`.
fn event(bytes: &[u8]) -> MessageEnvelope {
    let workspace = WorkspaceId::parse("acme").unwrap();
    let subject = Subject::parse("vak.receipts.acme.s1.completed").unwrap();
    let scope = ChainScope::Subject { workspace: workspace.clone(), subject: subject.clone() };
    let payload = [b"\"", bytes, b"\""].concat();
    let stamp = Stamp {
        id: "e-1".to_owned(),
        time: Timestamp::from_unix_ns(1_767_323_045_000_000_006),
        trace: TraceContext::new([7; 16], [1; 8], 1).unwrap(),
        workspace,
        agent: AgentId::parse("coder-1").unwrap(),
        incarnation: "019b7f1e-0000-7000-8000-000000000001".parse().unwrap(),
        head: ChainHead::genesis(&scope),
    };
    Draft::new(subject, "t", payload).content_type("application/json").stamp(stamp).unwrap()
}

#[test]
fn a_payload_comes_back_byte_for_byte_in_every_form() {
    walk(|id, bytes, _| {
        let event = event(bytes);
        for form in [WireForm::Binary, WireForm::Json, WireForm::Compact] {
            let (headers, body) = wire::encode(form, &event);
            assert_eq!(wire::decode(&headers, &body).as_ref(), Ok(&event), "{id} as {form:?}");
        }
    });
}

#[test]
fn only_well_formed_text_stands_under_data() {
    walk(|id, bytes, is_valid| {
        let (_, body) = wire::encode(WireForm::Json, &event(bytes));
        let json: Value = serde_json::from_slice(&body).unwrap();
        let is_text = is_json_text(bytes, is_valid);
        assert_eq!(json.get("data").is_some(), is_text, "{id}");
        assert_eq!(json.get("data_base64").is_some(), !is_text, "{id}");
    });
}

#[test]
fn a_malformed_json_event_is_refused() {
    let [start, end] =
        [&br#"{"specversion":"1.0","type":"t","source":"/s","id":"1","data":""#[..], b"\"}"];
    walk(|id, bytes, is_valid| {
        let read = CloudEvent::from_json(&[start, bytes, end].concat());
        assert_eq!(read.is_ok(), is_json_text(bytes, is_valid), "{id}");
    });
}

#[test]
fn a_malformed_header_is_refused() {
    walk(|id, bytes, is_valid| {
        let mut headers = Headers::new();
        let encoded: String = bytes.iter().map(|byte| format!("%{byte:02X}")).collect();
        for (name, value) in
            [("specversion", "1.0"), ("type", "t"), ("source", "/s"), ("id", "1"), ("x", &encoded)]
        {
            headers.add(format!("ce-{name}"), value).unwrap();
        }
        let read = CloudEvent::from_message(&headers, &Bytes::new());
        // Attributes hold no control characters and no noncharacters, however well formed.
        let is_allowed = std::str::from_utf8(bytes).is_ok_and(|text| {
            let is_nothing = |code: u32| matches!(code, 0xfdd0..=0xfdef) || code & 0xfffe == 0xfffe;
            !text.chars().any(|c| c.is_control() || is_nothing(c.into()))
        });
        assert_eq!(read.is_ok(), is_valid && is_allowed, "{id}");
    });
}
