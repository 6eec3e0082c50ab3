//! Any envelope of ours and any event made elsewhere, for the tests that ask somebody else's code.
//!
//! Content types are those that both sides take alike; where they differ, a test of its own says
//! so.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::Value;
use uuid::Uuid;

use bus_envelope::{
    EventHash, Lineage, MessageEnvelope, Seal, Signature, Timestamp, TraceContext, TraceState,
};
use bus_subjects::{AgentId, SessionId, Subject, WorkspaceId};

/// What an event made elsewhere consists of.
#[derive(Debug, Clone)]
pub(crate) struct Foreign {
    pub(crate) id: String,
    pub(crate) source: String,
    pub(crate) event_type: String,
    pub(crate) subject: Option<String>,
    pub(crate) time: Option<String>,
    pub(crate) schema: Option<String>,
    pub(crate) data: Option<(&'static str, ForeignData)>,
    pub(crate) extensions: BTreeMap<String, Value>,
}

/// Its payload, in the three ways that the JSON format knows.
#[derive(Debug, Clone)]
pub(crate) enum ForeignData {
    Json(Value),
    Text(String),
    Binary(Vec<u8>),
}

impl Foreign {
    /// The event in the JSON format.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let mut event = serde_json::json!({
            "specversion": "1.0",
            "id": self.id,
            "source": self.source,
            "type": self.event_type,
        });
        let mut put = |name: &str, value: Value| event[name] = value;
        let optional = [("subject", &self.subject), ("time", &self.time)];
        for (name, value) in optional.into_iter().chain([("dataschema", &self.schema)]) {
            if let Some(value) = value {
                put(name, value.as_str().into());
            }
        }
        if let Some((content_type, data)) = &self.data {
            put("datacontenttype", (*content_type).into());
            match data {
                ForeignData::Json(value) => put("data", value.clone()),
                ForeignData::Text(text) => put("data", text.as_str().into()),
                ForeignData::Binary(bytes) => put("data_base64", STANDARD.encode(bytes).into()),
            }
        }
        for (name, value) in &self.extensions {
            put(name, value.clone());
        }
        event.to_string().into_bytes()
    }
}

pub(crate) fn any_foreign() -> impl Strategy<Value = Foreign> {
    let extension =
        prop_oneof![any::<bool>().prop_map(Value::from), any::<i32>().prop_map(Value::from), {
            "[ -~äöü€😀]{0,40}".prop_map(Value::from)
        }];
    let about = (
        "[ -~é]{1,40}",
        "(https://example\\.com)?/[a-z0-9/._~-]{0,20}",
        "[ -~é]{1,40}",
        option::of("[ -~é]{1,40}"),
        option::of(any_time_text()),
        option::of("https://example\\.com/schemas/[a-z]{0,8}"),
    );
    // The prefix keeps clear of the attributes that are defined already.
    let extensions = btree_map("x[a-z0-9]{0,19}", extension, 0..6);
    (about, option::of(any_data()), extensions).prop_map(|(about, data, extensions)| {
        let (id, source, event_type, subject, time, schema) = about;
        Foreign { id, source, event_type, subject, time, schema, data, extensions }
    })
}

/// Any envelope that keeps its rules.
pub(crate) fn any_envelope() -> impl Strategy<Value = MessageEnvelope> {
    let about = (
        "[!-~]{1,128}",
        "[a-z]{1,8}://[a-z0-9/._~-]{1,40}",
        "[!-~]{1,128}",
        (Timestamp::MIN.unix_ns()..=Timestamp::MAX.unix_ns()).prop_map(Timestamp::from_unix_ns),
        option::of(prop::sample::select(&CONTENT_TYPES[..])),
        "[a-z0-9é-]{1,12}(\\.[a-z0-9é-]{1,12}){0,4}",
        any_payload(),
    );
    let seal = ("[!-~]{1,80}", any::<[u8; 12]>());
    let signature = ("[A-Z2-7]{56}", vec(any::<u8>(), 64));
    let extensions = btree_map("x[a-z0-9]{0,19}", "[ -~äöü€😀]{0,40}", 0..5);
    let rest = (any_trace(), any_lineage(), option::of(seal), option::of(signature), extensions);
    (about, rest).prop_map(|(about, rest)| {
        let (id, source, event_type, time, content_type, subject, payload) = about;
        let (trace, lineage, seal, signature, extensions) = rest;
        let envelope = MessageEnvelope {
            id,
            source,
            event_type,
            time,
            content_type: content_type.map(str::to_owned),
            subject: Subject::parse(&subject).unwrap(),
            trace,
            lineage,
            seal: seal.map(|(key_id, nonce)| Seal {
                key_id,
                algorithm: "AES-256-GCM".to_owned(),
                nonce,
            }),
            signature: signature
                .map(|(signer, bytes)| Signature { signer, bytes: bytes.try_into().unwrap() }),
            extensions,
            payload,
        };
        envelope.check().unwrap();
        envelope
    })
}

fn any_time_text() -> impl Strategy<Value = String> {
    (
        0_i64..4_000_000_000,
        prop::sample::select(vec!["Z", "+00:00", "+05:30", "-11:00"]),
        0..10_usize,
    )
        .prop_map(|(unix_s, zone, digits)| {
            let time = Timestamp::from_unix_ns(i128::from(unix_s) * 1_000_000_000 + 123_456_789);
            let canonical = time.to_string();
            let (second, fraction) = canonical.split_at(19);
            // A dot and so many of the nine digits.
            let fraction = if digits == 0 { "" } else { &fraction[..=digits] };
            format!("{second}{fraction}{zone}")
        })
}

fn any_data() -> impl Strategy<Value = (&'static str, ForeignData)> {
    let json = prop::sample::select(&["application/json", "application/vnd.x+json"][..]);
    let other = prop::sample::select(&["text/plain", "application/xml"][..]);
    prop_oneof![
        (json, any_json()).prop_map(|(name, value)| (name, ForeignData::Json(value))),
        (other, "\\PC{0,40}").prop_map(|(name, text)| (name, ForeignData::Text(text))),
        (prop::sample::select(&CONTENT_TYPES[..]), vec(any::<u8>(), 0..60))
            .prop_map(|(name, bytes)| (name, ForeignData::Binary(bytes))),
    ]
}

fn any_payload() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        vec(any::<u8>(), 0..200).prop_map(Bytes::from),
        "\\PC{0,40}".prop_map(Bytes::from),
        any_json().prop_map(|value| Bytes::from(value.to_string())),
        any_json().prop_map(|value| Bytes::from(format!(" {value}\n"))),
    ]
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(Value::from),
        "\\PC{0,12}|[\\x00-\\x7f]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map("\\PC{0,6}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn any_trace() -> impl Strategy<Value = TraceContext> {
    let state = option::of("[a-z][a-z0-9_-]{0,8}=[a-z0-9]{1,8}");
    (1..=u128::MAX, 1..=u64::MAX, 0_u8..4, state).prop_map(|(trace, span, flags, state)| {
        let trace = TraceContext::new(trace.to_be_bytes(), span.to_be_bytes(), flags).unwrap();
        match state {
            Some(text) => trace.with_tracestate(TraceState::parse(&text).unwrap()),
            None => trace,
        }
    })
}

fn any_lineage() -> impl Strategy<Value = Lineage> {
    let id = "[A-Za-z0-9_~-]{1,64}";
    let hash = any::<[u8; 32]>().prop_map(EventHash::from_bytes);
    let seq = 1_u64..1 << 53;
    (id, option::of(id), id, any::<u128>(), seq, hash.clone(), option::of(hash)).prop_map(
        |(workspace, session, agent, incarnation, seq_num, prev_event_hash, cause)| Lineage {
            workspace: WorkspaceId::parse(&workspace).unwrap(),
            session: session.map(|id| SessionId::parse(&id).unwrap()),
            agent: AgentId::parse(&agent).unwrap(),
            incarnation: Uuid::from_u128(incarnation),
            seq_num,
            prev_event_hash,
            cause,
        },
    )
}

const CONTENT_TYPES: [&str; 5] = [
    "application/json",
    "application/json; charset=utf-8",
    "application/vnd.vakbus.task+json",
    "text/plain",
    "application/octet-stream",
];
