//! Envelopes as the golden vectors write them: by their fields.
#![expect(clippy::unwrap_used, reason = "a damaged vector file must fail the test")]

use bus_envelope::{
    EventHash, Lineage, MessageEnvelope, Seal, Signature, Timestamp, TraceContext, TraceState,
};
use bus_subjects::{AgentId, SessionId, Subject, WorkspaceId};
use bus_testdata::hex;
use data_encoding::HEXLOWER;
use serde_json::{Value, json};

/// Reads the fields.
pub(crate) fn read(fields: &Value) -> MessageEnvelope {
    let text = |name: &str| fields[name].as_str().unwrap().to_owned();
    let optional = |name: &str| fields[name].as_str().map(str::to_owned);
    let trace = TraceContext::new(
        array(&fields["trace_id"]),
        array(&fields["span_id"]),
        fields["flags"].as_u64().unwrap().try_into().unwrap(),
    );
    let extensions = fields["extensions"].as_object().unwrap().iter();
    MessageEnvelope {
        id: text("id"),
        source: text("source"),
        event_type: text("type"),
        time: Timestamp::parse(&text("time")).unwrap(),
        content_type: optional("content_type"),
        subject: Subject::parse(&text("subject")).unwrap(),
        trace: trace.unwrap().with_tracestate(TraceState::parse(&text("tracestate")).unwrap()),
        lineage: Lineage {
            workspace: WorkspaceId::parse(&text("workspace")).unwrap(),
            session: optional("session").map(|id| SessionId::parse(&id).unwrap()),
            agent: AgentId::parse(&text("agent")).unwrap(),
            incarnation: text("incarnation").parse().unwrap(),
            seq_num: fields["seq"].as_u64().unwrap(),
            prev_event_hash: EventHash::parse(&text("prevhash")).unwrap(),
            cause: optional("cause").map(|hash| EventHash::parse(&hash).unwrap()),
        },
        seal: fields.get("seal").map(|seal| Seal {
            key_id: seal["key_id"].as_str().unwrap().to_owned(),
            algorithm: seal["algorithm"].as_str().unwrap().to_owned(),
            nonce: array(&seal["nonce"]),
        }),
        signature: fields.get("signature").map(|signature| Signature {
            signer: signature["signer"].as_str().unwrap().to_owned(),
            bytes: array(&signature["bytes"]),
        }),
        extensions: extensions
            .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
            .collect(),
        payload: hex(&text("payload")).into(),
    }
}

/// Writes the fields.
pub(crate) fn written(envelope: &MessageEnvelope) -> Value {
    let lineage = &envelope.lineage;
    let mut fields = json!({
        "id": envelope.id,
        "source": envelope.source,
        "type": envelope.event_type,
        "time": envelope.time.to_string(),
        "subject": envelope.subject.as_str(),
        "trace_id": HEXLOWER.encode(envelope.trace.trace_id()),
        "span_id": HEXLOWER.encode(envelope.trace.span_id()),
        "flags": envelope.trace.flags(),
        "tracestate": envelope.trace.tracestate().as_str(),
        "workspace": lineage.workspace.as_str(),
        "agent": lineage.agent.as_str(),
        "incarnation": lineage.incarnation.to_string(),
        "seq": lineage.seq_num,
        "prevhash": lineage.prev_event_hash.to_string(),
        "extensions": envelope.extensions,
        "payload": HEXLOWER.encode(&envelope.payload),
    });
    let mut put = |name: &str, value: Option<Value>| {
        fields.as_object_mut().unwrap().extend(value.map(|value| (name.to_owned(), value)));
    };
    put("content_type", envelope.content_type.as_deref().map(Value::from));
    put("session", lineage.session.as_ref().map(|id| id.as_str().into()));
    put("cause", lineage.cause.map(|hash| hash.to_string().into()));
    let seal = envelope.seal.as_ref().map(|seal| {
        let nonce = HEXLOWER.encode(&seal.nonce);
        json!({ "key_id": seal.key_id, "algorithm": seal.algorithm, "nonce": nonce })
    });
    put("seal", seal);
    let signature = envelope.signature.as_ref().map(|signature| {
        json!({ "signer": signature.signer, "bytes": HEXLOWER.encode(&signature.bytes) })
    });
    put("signature", signature);
    fields
}

fn array<const N: usize>(value: &Value) -> [u8; N] {
    hex(value.as_str().unwrap()).try_into().unwrap()
}
