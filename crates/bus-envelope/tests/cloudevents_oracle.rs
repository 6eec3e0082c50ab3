//! The official `CloudEvents` SDK as an oracle: it reads what we write, and we read what it writes.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "helpers of tests: what is arranged here must succeed"
)]

use std::collections::BTreeMap;

use cloudevents::event::ExtensionValue;
use cloudevents::{AttributesReader, Data, Event, EventBuilder, EventBuilderV10};
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use proptest::prelude::*;
use serde_json::Value;

use bus_envelope::{
    AttributeValue, CloudEvent, EventData, MessageEnvelope, Timestamp, WireForm, wire,
};
use events::{Foreign, ForeignData, any_envelope, any_foreign};

#[path = "samples/events.rs"]
mod events;

/// The instant that the SDK read.
fn instant(event: &Event) -> Option<Timestamp> {
    let time = event.time()?;
    let unix_ns = i128::from(time.timestamp()) * 1_000_000_000;
    Some(Timestamp::from_unix_ns(unix_ns + i128::from(time.timestamp_subsec_nanos())))
}

/// All attributes of an envelope beyond those that `CloudEvents` defines.
fn extensions(envelope: &MessageEnvelope) -> BTreeMap<String, String> {
    let (lineage, trace) = (&envelope.lineage, &envelope.trace);
    let hex = |bytes: &[u8]| HEXLOWER.encode(bytes);
    let seal = envelope.seal.as_ref();
    let signature = envelope.signature.as_ref();
    let state = trace.tracestate().as_str();
    let ours = [
        ("vakversion", Some("1".to_owned())),
        ("workspace", Some(lineage.workspace.to_string())),
        ("session", lineage.session.as_ref().map(ToString::to_string)),
        ("agent", Some(lineage.agent.to_string())),
        ("incarnation", Some(lineage.incarnation.to_string())),
        ("seq", Some(lineage.seq_num.to_string())),
        ("prevhash", Some(hex(lineage.prev_event_hash.as_bytes()))),
        ("cause", lineage.cause.map(|hash| hex(hash.as_bytes()))),
        ("traceparent", Some(trace.traceparent())),
        ("tracestate", (!state.is_empty()).then(|| state.to_owned())),
        ("sealedtype", seal.and(envelope.content_type.clone())),
        ("keyid", seal.map(|seal| seal.key_id.clone())),
        ("keyalg", seal.map(|seal| seal.algorithm.clone())),
        ("nonce", seal.map(|seal| hex(&seal.nonce))),
        ("signer", signature.map(|signature| signature.signer.clone())),
        ("signature", signature.map(|signature| BASE64URL_NOPAD.encode(&signature.bytes))),
    ];
    let mut all = envelope.extensions.clone();
    all.extend(ours.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    all
}

/// Whether the SDK holds these bytes; JSON is compared as values, since it keeps no text.
fn is_payload(data: Option<&Data>, payload: &[u8]) -> bool {
    match data {
        Some(Data::Binary(bytes)) => bytes == payload,
        Some(Data::String(text)) => text.as_bytes() == payload,
        Some(Data::Json(value)) => {
            serde_json::from_slice::<Value>(payload).ok().as_ref() == Some(value)
        }
        None => false,
    }
}

/// Whether both readers say the same of one event.
fn is_same(ours: &CloudEvent, theirs: &Event) -> bool {
    let mut attributes = 4;
    let mut has = |name: &str, value: Option<&str>| {
        attributes += usize::from(value.is_some() && name != "id" && name != "source");
        ours.attribute(name).map(ToString::to_string).as_deref() == value
    };
    let core = has("id", Some(theirs.id()))
        && has("source", Some(theirs.source()))
        && has("subject", theirs.subject())
        && has("datacontenttype", theirs.datacontenttype())
        && has("dataschema", theirs.dataschema().map(|url| url.as_str()));
    attributes += usize::from(theirs.time().is_some()) + theirs.iter_extensions().count();
    let has_extension = |(name, value): (&str, &ExtensionValue)| {
        let value = match value {
            ExtensionValue::String(text) => AttributeValue::Text(text.clone()),
            ExtensionValue::Boolean(value) => AttributeValue::Boolean(*value),
            ExtensionValue::Integer(value) => {
                AttributeValue::Integer(i32::try_from(*value).unwrap())
            }
        };
        ours.attribute(name) == Some(&value)
    };
    core && ours.event_type() == theirs.ty()
        && ours.time() == instant(theirs)
        && theirs.iter_extensions().all(has_extension)
        && ours.attributes().count() == attributes
        && has_same_data(ours.data(), theirs.data())
}

fn has_same_data(ours: Option<&EventData>, theirs: Option<&Data>) -> bool {
    match (ours, theirs) {
        (None, None) => true,
        (Some(EventData::Json(text)), Some(Data::Json(value))) => {
            serde_json::from_str::<Value>(text).ok().as_ref() == Some(value)
        }
        (Some(EventData::Text(text)), Some(Data::String(found))) => text == found,
        // Under a JSON content type the SDK reads bytes as the JSON they hold.
        (Some(EventData::Binary(bytes)), data) => is_payload(data, bytes),
        _ => false,
    }
}

fn made_by_the_sdk(foreign: &Foreign) -> Event {
    let mut builder =
        EventBuilderV10::new().id(&*foreign.id).source(&*foreign.source).ty(&*foreign.event_type);
    if let Some(subject) = &foreign.subject {
        builder = builder.subject(&**subject);
    }
    if let Some(time) = &foreign.time {
        builder = builder.time(&**time);
    }
    if let Some((content_type, data)) = &foreign.data {
        let data = match data {
            ForeignData::Json(value) => Data::Json(value.clone()),
            ForeignData::Text(text) => Data::String(text.clone()),
            ForeignData::Binary(bytes) => Data::Binary(bytes.clone()),
        };
        builder = match &foreign.schema {
            Some(schema) => builder.data_with_schema(*content_type, &**schema, data),
            None => builder.data(*content_type, data),
        };
    }
    for (name, value) in &foreign.extensions {
        builder = match value {
            Value::Bool(value) => builder.extension(name, *value),
            Value::Number(value) => builder.extension(name, value.as_i64().unwrap()),
            value => builder.extension(name, value.as_str().unwrap()),
        };
    }
    builder.build().unwrap()
}

proptest! {
    #[test]
    fn the_sdk_reads_our_envelopes(envelope in any_envelope()) {
        let (_, body) = wire::encode(WireForm::Json, &envelope);
        let read: Event = serde_json::from_slice(&body).unwrap();
        let content_type = match envelope.seal {
            Some(_) => Some("application/octet-stream"),
            None => envelope.content_type.as_deref(),
        };
        prop_assert_eq!(read.id(), &envelope.id);
        prop_assert_eq!(read.source(), &envelope.source);
        prop_assert_eq!(read.ty(), &envelope.event_type);
        prop_assert_eq!(read.subject(), Some(envelope.subject.as_str()));
        prop_assert_eq!(instant(&read), Some(envelope.time));
        prop_assert_eq!(read.datacontenttype(), content_type);
        let found: BTreeMap<_, _> = read
            .iter_extensions()
            .map(|(name, value)| (name.to_owned(), value.to_string()))
            .collect();
        prop_assert_eq!(found, extensions(&envelope));
        prop_assert!(is_payload(read.data(), &envelope.payload), "{:?}", read.data());
    }

    #[test]
    fn the_sdk_reads_our_envelopes_as_our_foreign_reader_does(envelope in any_envelope()) {
        let (_, body) = wire::encode(WireForm::Json, &envelope);
        let theirs: Event = serde_json::from_slice(&body).unwrap();
        let ours = CloudEvent::from_json(&body).unwrap();
        prop_assert!(is_same(&ours, &theirs), "{:?} {:?}", ours, theirs);
    }

    #[test]
    fn we_read_what_the_sdk_writes(foreign in any_foreign()) {
        let theirs = made_by_the_sdk(&foreign);
        let ours = CloudEvent::from_json(&serde_json::to_vec(&theirs).unwrap()).unwrap();
        prop_assert!(is_same(&ours, &theirs), "{:?} {:?}", ours, theirs);
    }

    #[test]
    fn the_sdk_reads_what_we_write_again(foreign in any_foreign()) {
        let ours = CloudEvent::from_json(&foreign.to_json()).unwrap();
        let theirs: Event = serde_json::from_slice(&ours.to_json()).unwrap();
        prop_assert!(is_same(&ours, &theirs), "{:?} {:?}", ours, theirs);
    }
}

#[test]
fn the_sdk_reads_the_golden_events_as_we_do() {
    let Some(file) = bus_testdata::json("cloudevents/conformance/valid-events.json") else {
        return;
    };
    let mut walked = 0;
    for test in file["tests"].as_array().unwrap() {
        let json = test["event"].to_string();
        let ours = CloudEvent::from_json(json.as_bytes()).unwrap();
        let theirs: Event = serde_json::from_str(&json).unwrap();
        assert!(is_same(&ours, &theirs), "{}", test["id"]);
        walked += 1;
    }
    assert_eq!(walked, 10);
}

/// Where the SDK leaves the specification; when one of these fails, the SDK has learnt.
#[test]
fn the_sdk_does_not_see_json_behind_a_parameter() {
    let json = concat!(
        r#"{"specversion":"1.0","type":"t","source":"/s","id":"1","#,
        r#""datacontenttype":"application/vnd.x+json; charset=utf-8","data":{"a":1}}"#,
    );
    let ours = CloudEvent::from_json(json.as_bytes()).unwrap();
    assert_eq!(ours.data_bytes().as_ref(), br#"{"a":1}"#);
    assert!(serde_json::from_str::<Event>(json).is_err());
}

/// The specification gives integers 32 bits; the SDK gives them 64.
#[test]
fn an_integer_of_the_sdk_beyond_32_bits_is_refused() {
    let builder = EventBuilderV10::new().id("1").source("/s").ty("t");
    let event = builder.extension("x", i64::from(i32::MAX) + 1).build().unwrap();
    assert!(CloudEvent::from_json(&serde_json::to_vec(&event).unwrap()).is_err());
}
