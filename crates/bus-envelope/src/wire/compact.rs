//! The compact form: a version byte, the attributes in postcard, the payload behind its length.
//!
//! ```text
//! 01 | postcard(attributes) | payload length, u32 big-endian | payload
//! ```

use std::fmt;

use bytes::Bytes;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use uuid::Uuid;

use crate::{
    EnvelopeError, EventHash, Lineage, MessageEnvelope, Seal, Signature, Timestamp, TraceContext,
    TraceState, rules,
};
use bus_subjects::{AgentId, SessionId, Subject, SubjectError, WorkspaceId};

/// The `content-type` of this form.
pub const CONTENT_TYPE: &str = "application/vnd.vakbus.envelope";

/// The version of this form, its first byte.
pub const VERSION: u8 = 1;

/// Writes `envelope` as one run of bytes.
#[must_use]
pub fn encode(envelope: &MessageEnvelope) -> Vec<u8> {
    let mut bytes = head(envelope);
    bytes.reserve_exact(LENGTH_BYTES + envelope.payload.len());
    // A payload over 4 GiB gets a length that does not fit it, which every decoder refuses.
    let length = u32::try_from(envelope.payload.len()).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&envelope.payload);
    bytes
}

/// Reads an envelope from exactly its bytes.
///
/// # Errors
/// An [`EnvelopeError`] that names the field and the reason;
/// [`NotCanonical`](EnvelopeError::NotCanonical) when [`encode`] would write the same envelope as
/// other bytes.
pub fn decode(bytes: &[u8]) -> Result<MessageEnvelope, EnvelopeError> {
    let (envelope, payload) = split(bytes)?;
    Ok(MessageEnvelope { payload: Bytes::copy_from_slice(payload), ..envelope })
}

/// Like [`decode`], with a payload that shares `bytes`.
///
/// # Errors
/// As [`decode`].
pub fn decode_shared(bytes: &Bytes) -> Result<MessageEnvelope, EnvelopeError> {
    let (envelope, payload) = split(bytes)?;
    let payload = bytes.slice_ref(payload);
    Ok(MessageEnvelope { payload, ..envelope })
}

const LENGTH_BYTES: usize = 4;

fn malformed(reason: impl Into<String>) -> EnvelopeError {
    EnvelopeError::Malformed { form: "compact", reason: reason.into() }
}

/// The envelope without its payload, and the payload.
fn split(bytes: &[u8]) -> Result<(MessageEnvelope, &[u8]), EnvelopeError> {
    match bytes.first() {
        Some(&VERSION) => {}
        Some(other) => {
            let (field, found, expected) = ("compact form", other.to_string(), "1");
            return Err(EnvelopeError::Version { field, found, expected });
        }
        None => return Err(malformed("empty")),
    }
    let body = bytes.get(1..).unwrap_or_default();
    let (attributes, rest) = postcard::take_from_bytes::<Attributes<'_>>(body)
        .map_err(|error| malformed(error.to_string()))?;
    let (length, payload) = rest
        .split_first_chunk::<LENGTH_BYTES>()
        .ok_or_else(|| malformed("the length is cut off"))?;
    if usize::try_from(u32::from_be_bytes(*length)) != Ok(payload.len()) {
        return Err(malformed("the payload does not have the length that is written before it"));
    }
    let envelope = attributes.into_envelope()?;
    envelope.check()?;
    // Postcard reads some numbers in more than one way, so only the bytes themselves decide.
    if bytes.starts_with(&head(&envelope)) {
        Ok((envelope, payload))
    } else {
        Err(EnvelopeError::NotCanonical { form: "compact" })
    }
}

/// The version and the attributes.
fn head(envelope: &MessageEnvelope) -> Vec<u8> {
    let mut head = Vec::with_capacity(512);
    head.push(VERSION);
    // Into a vector, and with lengths that are known, postcard cannot fail; if it did, what is left
    // would be refused by every decoder.
    postcard::to_extend(&Attributes::of(envelope), head).unwrap_or_default()
}

/// The attributes as they stand in the bytes. Their order is the form: never change it, raise
/// [`VERSION`].
#[derive(Serialize, Deserialize)]
struct Attributes<'a> {
    id: &'a str,
    source: &'a str,
    event_type: &'a str,
    unix_ns: i128,
    content_type: Option<&'a str>,
    subject: &'a str,
    trace_id: [u8; 16],
    span_id: [u8; 8],
    flags: u8,
    tracestate: &'a str,
    workspace: &'a str,
    session: Option<&'a str>,
    agent: &'a str,
    incarnation: [u8; 16],
    seq: u64,
    prev_hash: [u8; 32],
    cause: Option<[u8; 32]>,
    #[serde(borrow)]
    seal: Option<SealAttributes<'a>>,
    #[serde(borrow)]
    signature: Option<SignatureAttributes<'a>>,
    #[serde(borrow)]
    extensions: Extensions<'a>,
}

#[derive(Serialize, Deserialize)]
struct SealAttributes<'a> {
    key_id: &'a str,
    algorithm: &'a str,
    nonce: [u8; 12],
}

#[derive(Serialize, Deserialize)]
struct SignatureAttributes<'a> {
    signer: &'a str,
    left: [u8; 32],
    right: [u8; 32],
}

/// Names and values, counted before they are stored: the bytes claim a count of their own.
#[derive(Serialize)]
struct Extensions<'a>(Vec<(&'a str, &'a str)>);

impl<'de: 'a, 'a> Deserialize<'de> for Extensions<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ExtensionsVisitor;
        impl<'de> Visitor<'de> for ExtensionsVisitor {
            type Value = Vec<(&'de str, &'de str)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("names and values")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut extensions = Vec::new();
                while let Some(extension) = list.next_element()? {
                    if extensions.len() >= rules::EXTENSIONS_MAX {
                        return Err(serde::de::Error::custom("too many extensions"));
                    }
                    extensions.push(extension);
                }
                Ok(extensions)
            }
        }
        deserializer.deserialize_seq(ExtensionsVisitor).map(Self)
    }
}

impl<'a> Attributes<'a> {
    fn of(envelope: &'a MessageEnvelope) -> Self {
        let lineage = &envelope.lineage;
        Self {
            id: &envelope.id,
            source: &envelope.source,
            event_type: &envelope.event_type,
            unix_ns: envelope.time.unix_ns(),
            content_type: envelope.content_type.as_deref(),
            subject: envelope.subject.as_str(),
            trace_id: *envelope.trace.trace_id(),
            span_id: *envelope.trace.span_id(),
            flags: envelope.trace.flags(),
            tracestate: envelope.trace.tracestate().as_str(),
            workspace: lineage.workspace.as_str(),
            session: lineage.session.as_ref().map(SessionId::as_str),
            agent: lineage.agent.as_str(),
            incarnation: *lineage.incarnation.as_bytes(),
            seq: lineage.seq_num,
            prev_hash: *lineage.prev_event_hash.as_bytes(),
            cause: lineage.cause.map(|cause| *cause.as_bytes()),
            seal: envelope.seal.as_ref().map(|seal| SealAttributes {
                key_id: &seal.key_id,
                algorithm: &seal.algorithm,
                nonce: seal.nonce,
            }),
            signature: envelope.signature.as_ref().map(SignatureAttributes::of),
            extensions: Extensions(
                envelope
                    .extensions
                    .iter()
                    .map(|(name, value)| (name.as_str(), value.as_str()))
                    .collect(),
            ),
        }
    }

    fn into_envelope(self) -> Result<MessageEnvelope, EnvelopeError> {
        // Before anything is copied: a string that is far too long is refused where it lies.
        for (field, text, bytes_max) in self.long_texts() {
            if text.len() > bytes_max {
                let bytes = text.len();
                return Err(EnvelopeError::TooLong { field: field.into(), bytes, bytes_max });
            }
        }
        for (name, value) in &self.extensions.0 {
            rules::extension(name, value)?;
        }
        let trace = TraceContext::new(self.trace_id, self.span_id, self.flags)
            .map_err(|error| EnvelopeError::field("traceparent", error.to_string()))?;
        let tracestate = TraceState::parse(self.tracestate).unwrap_or_default();
        Ok(MessageEnvelope {
            id: self.id.to_owned(),
            source: self.source.to_owned(),
            event_type: self.event_type.to_owned(),
            time: Timestamp::from_unix_ns(self.unix_ns),
            content_type: self.content_type.map(str::to_owned),
            subject: id("subject", Subject::parse(self.subject))?,
            trace: trace.with_tracestate(tracestate),
            lineage: Lineage {
                workspace: id("workspace", WorkspaceId::parse(self.workspace))?,
                session: self
                    .session
                    .map(|session| id("session", SessionId::parse(session)))
                    .transpose()?,
                agent: id("agent", AgentId::parse(self.agent))?,
                incarnation: Uuid::from_bytes(self.incarnation),
                seq_num: self.seq,
                prev_event_hash: EventHash::from_bytes(self.prev_hash),
                cause: self.cause.map(EventHash::from_bytes),
            },
            seal: self.seal.map(|seal| Seal {
                key_id: seal.key_id.to_owned(),
                algorithm: seal.algorithm.to_owned(),
                nonce: seal.nonce,
            }),
            signature: self.signature.map(SignatureAttributes::into_signature),
            extensions: self
                .extensions
                .0
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            payload: Bytes::new(),
        })
    }

    fn long_texts(&self) -> [(&'static str, &str, usize); 7] {
        let (key_id, algorithm) =
            self.seal.as_ref().map_or(("", ""), |seal| (seal.key_id, seal.algorithm));
        let signer = self.signature.as_ref().map_or("", |signature| signature.signer);
        [
            ("id", self.id, rules::ID_BYTES_MAX),
            ("source", self.source, rules::SOURCE_BYTES_MAX),
            ("type", self.event_type, rules::TYPE_BYTES_MAX),
            (
                "datacontenttype",
                self.content_type.unwrap_or_default(),
                rules::CONTENT_TYPE_BYTES_MAX,
            ),
            ("keyid", key_id, rules::KEY_ID_BYTES_MAX),
            ("keyalg", algorithm, rules::ALGORITHM_BYTES_MAX),
            ("signer", signer, rules::SIGNER_BYTES_MAX),
        ]
    }
}

impl<'a> SignatureAttributes<'a> {
    fn of(signature: &'a Signature) -> Self {
        // 64 bytes are more than serde takes as one array.
        let (left, right) = signature.bytes.split_at(32);
        Self {
            signer: &signature.signer,
            left: left.try_into().unwrap_or_default(),
            right: right.try_into().unwrap_or_default(),
        }
    }

    fn into_signature(self) -> Signature {
        let mut bytes = [0; 64];
        for (place, byte) in bytes.iter_mut().zip(self.left.into_iter().chain(self.right)) {
            *place = byte;
        }
        Signature { signer: self.signer.to_owned(), bytes }
    }
}

fn id<T>(field: &'static str, parsed: Result<T, SubjectError>) -> Result<T, EnvelopeError> {
    parsed.map_err(|error| EnvelopeError::field(field, error.to_string()))
}
