//! Laws of the wire forms, and what each refuses.

use bytes::Bytes;
use proptest::prelude::*;

use super::{WireForm, binary, compact, decode, encode, json};
use crate::samples::{any_envelope, full, plain};
use crate::{CloudEvent, EnvelopeError, Headers, MessageEnvelope, TraceState};

const FORMS: [WireForm; 3] = [WireForm::Binary, WireForm::Json, WireForm::Compact];

fn json_text(envelope: &MessageEnvelope) -> String {
    String::from_utf8(json::encode(envelope)).unwrap()
}

/// The JSON of `plain()` with one piece of text replaced.
fn edited(from: &str, to: &str) -> Result<MessageEnvelope, EnvelopeError> {
    let text = json_text(&plain());
    assert!(text.contains(from), "{from} is not in {text}");
    json::decode(text.replacen(from, to, 1).as_bytes())
}

/// The headers of `envelope`, with every value under `name` replaced.
fn with_header(envelope: &MessageEnvelope, name: &str, value: &str) -> Headers {
    let mut headers = Headers::new();
    for (known, old) in binary::encode(envelope).0.iter() {
        headers.add(known, if known == name { value } else { old }).unwrap();
    }
    headers
}

proptest! {
    #[test]
    fn every_form_gives_back_the_envelope_and_its_hash(envelope in any_envelope()) {
        prop_assert_eq!(envelope.check(), Ok(()));
        for form in FORMS {
            let (headers, body) = encode(form, &envelope);
            let decoded = decode(&headers, &body);
            prop_assert_eq!(decoded.as_ref(), Ok(&envelope), "{:?}", form);
            prop_assert_eq!(decoded.unwrap().compute_hash(), envelope.compute_hash());
        }
    }

    #[test]
    fn every_envelope_is_an_event_that_any_client_reads(envelope in any_envelope()) {
        for form in [WireForm::Binary, WireForm::Json] {
            let (headers, body) = encode(form, &envelope);
            let event = CloudEvent::from_message(&headers, &body).unwrap();
            prop_assert_eq!(event.id(), &envelope.id);
            prop_assert_eq!(event.time(), Some(envelope.time));
            prop_assert_eq!(event.data_bytes(), &envelope.payload);
        }
    }

    #[test]
    fn json_that_decodes_encodes_to_the_same_bytes(
        envelope in any_envelope(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = json::encode(&envelope);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(decoded) = json::decode(&bytes) {
            prop_assert_eq!(json::encode(&decoded), bytes);
        }
    }

    #[test]
    fn compact_bytes_that_decode_encode_to_the_same_bytes(
        envelope in any_envelope(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = compact::encode(&envelope);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(decoded) = compact::decode(&bytes) {
            prop_assert_eq!(compact::encode(&decoded), bytes);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let body = Bytes::from(bytes);
        let _refused = json::decode(&body);
        let _refused = compact::decode(&body);
        let mut versioned = vec![compact::VERSION];
        versioned.extend_from_slice(&body);
        let _refused = compact::decode(&versioned);
    }

    #[test]
    fn a_cut_off_compact_envelope_is_refused(
        envelope in any_envelope(),
        at in any::<prop::sample::Index>(),
    ) {
        let bytes = compact::encode(&envelope);
        prop_assert!(compact::decode(&bytes[..at.index(bytes.len())]).is_err());
    }
}

#[test]
fn the_json_form_is_pinned() {
    let expected = concat!(
        r#"{"specversion":"1.0","id":"019b7f1e-0000-7000-8000-00000000000a","#,
        r#""source":"vak://acme/coder-1","type":"vak.receipt","#,
        r#""time":"2026-01-02T03:04:05.000000006Z","subject":"vak.receipts.acme.s1.completed","#,
        r#""datacontenttype":"application/json","vakversion":"1","workspace":"acme","#,
        r#""agent":"coder-1","incarnation":"019b7f1e-0000-7000-8000-000000000001","seq":"1","#,
        r#""prevhash":"cee3dd53a2a1e6a1bd4cbfbb4c50e8e8a5de9d7e3d8c8ef7ea8c4ed5d9e6a5ff","#,
        r#""traceparent":"00-07070707070707070707070707070707-0101010101010101-01","#,
        r#""priority":"high","data":{"ok": true}}"#,
    );
    let mut envelope = plain();
    envelope.lineage.prev_event_hash =
        "cee3dd53a2a1e6a1bd4cbfbb4c50e8e8a5de9d7e3d8c8ef7ea8c4ed5d9e6a5ff".parse().unwrap();
    assert_eq!(json_text(&envelope), expected);
}

#[test]
fn a_json_payload_stands_verbatim_white_space_and_all() {
    assert!(json_text(&plain()).ends_with(r#","data":{"ok": true}}"#));
}

#[test]
fn a_payload_that_is_not_the_json_it_says_travels_as_base64() {
    let mut envelope = plain();
    envelope.payload = Bytes::from_static(b"\xff\xfe\x00");
    assert!(json_text(&envelope).ends_with(r#","data_base64":"//4A"}"#));
}

#[test]
fn a_sealed_payload_says_octet_stream_and_keeps_its_own_type() {
    let text = json_text(&full());
    assert!(text.contains(r#""datacontenttype":"application/octet-stream""#));
    assert!(text.contains(r#""sealedtype":"application/json""#));
}

#[test]
fn data_and_data_base64_exclude_each_other() {
    let refused = edited(r#","data":"#, r#","data_base64":"","data":"#).unwrap_err();
    assert_eq!(refused.field_name(), Some("data"));
}

#[test]
fn an_event_without_payload_is_refused_and_one_of_no_bytes_is_not() {
    assert_eq!(
        edited(r#","data":{"ok": true}"#, ""),
        Err(EnvelopeError::Missing { field: "data" })
    );
    let mut empty = plain();
    empty.payload = Bytes::new();
    assert_eq!(json::decode(&json::encode(&empty)), Ok(empty));
}

#[test]
fn data_null_is_a_payload_of_four_bytes() {
    assert_eq!(edited(r#"{"ok": true}"#, "null").unwrap().payload, "null");
}

#[test]
fn another_way_to_write_the_same_event_is_not_canonical() {
    let canonical = EnvelopeError::NotCanonical { form: "json" };
    assert_eq!(edited(r#"{"spec"#, r#"{ "spec"#), Err(canonical.clone()));
    assert_eq!(edited("acme\",", "\\u0061cme\","), Err(canonical.clone()));
    assert_eq!(edited(r#""data":{"ok": true}"#, r#""data_base64":"e30=""#), Err(canonical));
}

#[test]
fn json_with_something_behind_it_is_refused() {
    let mut bytes = json::encode(&plain());
    bytes.push(b'1');
    assert!(matches!(json::decode(&bytes), Err(EnvelopeError::Malformed { form: "json", .. })));
}

#[test]
fn bad_base64_is_refused() {
    for text in ["//4A\\n", "__4A", "//4", "//5=", "%%%"] {
        let refused = edited(r#""data":{"ok": true}"#, &format!(r#""data_base64":"{text}""#));
        assert_eq!(refused.unwrap_err().field_name(), Some("data_base64"), "{text}");
    }
}

#[test]
fn a_member_that_stands_twice_is_refused_by_name() {
    let refused = edited(r#""id":"#, r#""id":"other","id":"#);
    assert_eq!(refused, Err(EnvelopeError::Duplicate { field: "id".into() }));
}

#[test]
fn an_extension_that_stands_twice_is_refused_by_name() {
    let refused = edited(r#""priority":"high","#, r#""priority":"high","priority":"low","#);
    assert_eq!(refused, Err(EnvelopeError::Duplicate { field: "priority".into() }));
}

#[test]
fn an_unknown_version_is_refused() {
    let refused = edited(r#""vakversion":"1""#, r#""vakversion":"2""#).unwrap_err();
    assert!(matches!(refused, EnvelopeError::Version { field: "vakversion", .. }));
}

#[test]
fn an_unknown_cloudevents_version_is_refused() {
    let refused = edited(r#""specversion":"1.0""#, r#""specversion":"0.3""#).unwrap_err();
    assert!(matches!(refused, EnvelopeError::Version { field: "specversion", .. }));
}

#[test]
fn a_time_in_another_form_is_refused() {
    let refused = edited("05.000000006Z", "05.6Z").unwrap_err();
    assert_eq!(refused.field_name(), Some("time"));
}

#[test]
fn a_sequence_number_is_decimal_text() {
    for seq in ["0", "01", "+1", "-1", "1e3", "9007199254740992", "99999999999999999999", ""] {
        let refused = edited(r#""seq":"1""#, &format!(r#""seq":"{seq}""#));
        assert_eq!(refused.unwrap_err().field_name(), Some("seq"), "{seq}");
    }
}

#[test]
fn a_bad_tracestate_is_dropped_alone_in_binary_form() {
    let envelope = full();
    let decoded =
        binary::decode(&with_header(&envelope, "ce-tracestate", "FOO=1"), &envelope.payload);
    let bare = envelope.trace.clone().with_tracestate(TraceState::default());
    assert_eq!(decoded, Ok(MessageEnvelope { trace: bare, ..envelope }));
}

#[test]
fn header_names_are_read_without_regard_to_case() {
    let (headers, body) = binary::encode(&plain());
    let mut upper = Headers::new();
    for (name, value) in headers.iter() {
        upper.add(name.to_uppercase(), value).unwrap();
    }
    assert_eq!(binary::decode(&upper, &body), Ok(plain()));
}

#[test]
fn headers_without_the_prefix_are_none_of_the_events() {
    let (mut headers, body) = binary::encode(&plain());
    headers.add("Nats-Msg-Id", "7").unwrap();
    headers.add("traceparent", "junk").unwrap();
    assert_eq!(decode(&headers, &body), Ok(plain()));
}

#[test]
fn a_header_that_stands_twice_is_refused_in_whatever_case() {
    let (mut headers, body) = binary::encode(&plain());
    headers.add("CE-Id", "other").unwrap();
    assert_eq!(
        binary::decode(&headers, &body),
        Err(EnvelopeError::Duplicate { field: "id".into() })
    );
}

#[test]
fn a_missing_header_is_refused_by_name() {
    let (headers, body) = binary::encode(&plain());
    for (left_out, _) in headers.iter() {
        let mut fewer = Headers::new();
        for (name, value) in headers.iter().filter(|(name, _)| *name != left_out) {
            fewer.add(name, value).unwrap();
        }
        let optional = ["ce-datacontenttype", "ce-priority"].contains(&left_out);
        match binary::decode(&fewer, &body) {
            Ok(_) => assert!(optional, "{left_out}"),
            Err(refused) => assert_eq!(refused.field_name(), left_out.strip_prefix("ce-")),
        }
    }
}

#[test]
fn a_seal_without_its_nonce_is_refused() {
    let (headers, body) = binary::encode(&full());
    let mut fewer = Headers::new();
    for (name, value) in headers.iter().filter(|(name, _)| *name != "ce-nonce") {
        fewer.add(name, value).unwrap();
    }
    assert_eq!(binary::decode(&fewer, &body), Err(EnvelopeError::Missing { field: "nonce" }));
}

#[test]
fn a_sealed_payload_with_a_lying_content_type_is_refused() {
    let headers = with_header(&full(), "ce-datacontenttype", "application/json");
    let refused = binary::decode(&headers, &full().payload).unwrap_err();
    assert_eq!(refused.field_name(), Some("datacontenttype"));
}

#[test]
fn a_sealed_type_without_a_seal_is_refused() {
    let (mut headers, body) = binary::encode(&plain());
    headers.add("ce-sealedtype", "text/plain").unwrap();
    assert_eq!(binary::decode(&headers, &body).unwrap_err().field_name(), Some("sealedtype"));
}

#[test]
fn the_binary_form_shares_the_payload() {
    let envelope = plain();
    let (headers, body) = binary::encode(&envelope);
    let decoded = binary::decode(&headers, &body).unwrap();
    assert_eq!(decoded.payload.as_ptr(), envelope.payload.as_ptr());
}

#[test]
fn the_compact_form_shares_the_payload() {
    let body = Bytes::from(compact::encode(&plain()));
    let decoded = compact::decode_shared(&body).unwrap();
    assert!(body.as_ptr_range().contains(&decoded.payload.as_ptr()));
}

#[test]
fn compact_bytes_with_something_behind_them_are_refused() {
    let mut bytes = compact::encode(&plain());
    bytes.push(0);
    assert!(matches!(
        compact::decode(&bytes),
        Err(EnvelopeError::Malformed { form: "compact", .. })
    ));
}

#[test]
fn another_compact_version_is_refused() {
    let mut bytes = compact::encode(&plain());
    bytes[0] = 2;
    assert!(matches!(compact::decode(&bytes), Err(EnvelopeError::Version { .. })));
}

#[test]
fn a_longer_way_to_write_a_number_is_not_canonical() {
    let mut bytes = compact::encode(&plain());
    // The length of the id, 36, as two bytes of a varint.
    bytes.splice(1..2, [36 | 0x80, 0]);
    assert_eq!(compact::decode(&bytes), Err(EnvelopeError::NotCanonical { form: "compact" }));
}

#[test]
fn an_envelope_that_breaks_a_rule_is_refused_by_every_decoder() {
    type Change = fn(&mut MessageEnvelope);
    let changes: [Change; 9] = [
        |e| e.id.clear(),
        |e| e.id = "a b".to_owned(),
        |e| e.source = "x".repeat(9_000),
        |e| e.lineage.seq_num = 0,
        |e| e.content_type = Some("json".to_owned()),
        |e| drop(e.extensions.insert("FOO".to_owned(), String::new())),
        |e| drop(e.extensions.insert("session".to_owned(), "s1".to_owned())),
        |e| drop(e.extensions.insert("a".to_owned(), "b\r\nc".to_owned())),
        |e| e.extensions.extend((0..65).map(|i| (format!("x{i}"), String::new()))),
    ];
    for (number, change) in changes.iter().enumerate() {
        let mut envelope = plain();
        change(&mut envelope);
        assert!(envelope.check().is_err(), "{number}");
        for form in FORMS {
            let (headers, body) = encode(form, &envelope);
            assert!(decode(&headers, &body).is_err(), "{number} in {form:?}");
        }
    }
}

#[test]
fn a_batch_is_not_read_as_one_event() {
    let mut headers = Headers::new();
    headers.add("Content-Type", "application/cloudevents-batch+json").unwrap();
    let refused = decode(&headers, &Bytes::from_static(b"[]")).unwrap_err();
    assert!(matches!(refused, EnvelopeError::UnknownForm { .. }));
}

#[test]
fn two_content_types_are_refused() {
    let (mut headers, body) = encode(WireForm::Json, &plain());
    headers.add("Content-Type", "text/plain").unwrap();
    let refused = decode(&headers, &body);
    assert_eq!(refused, Err(EnvelopeError::Duplicate { field: "content-type".into() }));
}
