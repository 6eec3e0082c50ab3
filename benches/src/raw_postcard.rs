//! The fields of an envelope as bare postcard writes them: nothing is checked but UTF-8.
//!
//! Hashes are slices: that is how postcard is fastest with them, an array it takes byte by byte.

use bus_envelope::MessageEnvelope;
use serde::{Deserialize, Serialize};

/// Every field of an envelope, borrowed.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Raw<'a> {
    id: &'a str,
    source: &'a str,
    event_type: &'a str,
    unix_ns: i128,
    content_type: Option<&'a str>,
    subject: &'a str,
    trace_id: &'a [u8],
    span_id: &'a [u8],
    flags: u8,
    tracestate: &'a str,
    workspace: &'a str,
    session: Option<&'a str>,
    agent: &'a str,
    incarnation: &'a [u8],
    seq: u64,
    prev_hash: &'a [u8],
    cause: Option<&'a [u8]>,
    key_id: &'a str,
    algorithm: &'a str,
    nonce: &'a [u8],
    signer: &'a str,
    signature: &'a [u8],
    extensions: Vec<(&'a str, &'a str)>,
    payload: &'a [u8],
}

impl<'a> Raw<'a> {
    /// The fields of a sealed and signed envelope; `None` of any other.
    pub(crate) fn of(envelope: &'a MessageEnvelope) -> Option<Self> {
        let (lineage, trace) = (&envelope.lineage, &envelope.trace);
        let (seal, signature) = (envelope.seal.as_ref()?, envelope.signature.as_ref()?);
        Some(Self {
            id: &envelope.id,
            source: &envelope.source,
            event_type: &envelope.event_type,
            unix_ns: envelope.time.unix_ns(),
            content_type: envelope.content_type.as_deref(),
            subject: envelope.subject.as_str(),
            trace_id: trace.trace_id(),
            span_id: trace.span_id(),
            flags: trace.flags(),
            tracestate: trace.tracestate().as_str(),
            workspace: lineage.workspace.as_str(),
            session: lineage.session.as_ref().map(|session| session.as_str()),
            agent: lineage.agent.as_str(),
            incarnation: lineage.incarnation.as_bytes(),
            seq: lineage.seq_num,
            prev_hash: lineage.prev_event_hash.as_bytes(),
            cause: lineage.cause.as_ref().map(|cause| cause.as_bytes().as_slice()),
            key_id: &seal.key_id,
            algorithm: &seal.algorithm,
            nonce: &seal.nonce,
            signer: &signature.signer,
            signature: &signature.bytes,
            extensions: envelope
                .extensions
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect(),
            payload: &envelope.payload,
        })
    }
}
