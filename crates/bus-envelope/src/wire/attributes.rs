//! The attributes of an envelope as text: what the binary and the JSON form have in common.

use std::collections::BTreeMap;

use bytes::Bytes;
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use uuid::Uuid;

use crate::trace::TRACEPARENT_BYTES;
use crate::{
    EnvelopeError, EventHash, Lineage, MessageEnvelope, Seal, Signature, Timestamp, TraceContext,
    TraceState, rules,
};
use bus_subjects::{AgentId, SessionId, Subject, SubjectError, WorkspaceId};

/// The content type of a sealed payload on the wire.
pub(crate) const SEALED: &str = "application/octet-stream";

/// Hands every attribute to `put` as name and value, in the one order of the wire forms.
pub(crate) fn each(envelope: &MessageEnvelope, mut put: impl FnMut(&str, &str)) {
    let lineage = &envelope.lineage;
    let mut hex = [0; 64];
    put("specversion", MessageEnvelope::SPEC_VERSION);
    put("id", &envelope.id);
    put("source", &envelope.source);
    put("type", &envelope.event_type);
    put("time", envelope.time.canonical().as_str());
    put("subject", envelope.subject.as_str());
    let (content_type, sealed_type) = match &envelope.seal {
        Some(_) => (Some(SEALED), envelope.content_type.as_deref()),
        None => (envelope.content_type.as_deref(), None),
    };
    if let Some(content_type) = content_type {
        put("datacontenttype", content_type);
    }
    put("vakversion", MessageEnvelope::VAK_VERSION);
    put("workspace", lineage.workspace.as_str());
    if let Some(session) = &lineage.session {
        put("session", session.as_str());
    }
    put("agent", lineage.agent.as_str());
    put("incarnation", lineage.incarnation.hyphenated().encode_lower(&mut Uuid::encode_buffer()));
    put("seq", decimal(lineage.seq_num, &mut [0; 20]));
    put("prevhash", HEXLOWER.encode_mut_str(lineage.prev_event_hash.as_bytes(), &mut hex));
    if let Some(cause) = &lineage.cause {
        put("cause", HEXLOWER.encode_mut_str(cause.as_bytes(), &mut hex));
    }
    put("traceparent", envelope.trace.traceparent_in(&mut [0; TRACEPARENT_BYTES]));
    if !envelope.trace.tracestate().is_empty() {
        put("tracestate", envelope.trace.tracestate().as_str());
    }
    if let Some(sealed_type) = sealed_type {
        put("sealedtype", sealed_type);
    }
    if let Some(seal) = &envelope.seal {
        put("keyid", &seal.key_id);
        put("keyalg", &seal.algorithm);
        put("nonce", HEXLOWER.encode_mut_str(&seal.nonce, hex.split_at_mut(24).0));
    }
    if let Some(signature) = &envelope.signature {
        put("signer", &signature.signer);
        put("signature", BASE64URL_NOPAD.encode_mut_str(&signature.bytes, &mut [0; 86]));
    }
    for (name, value) in &envelope.extensions {
        // A name that is taken would be read as the field itself; this one no decoder accepts.
        let is_free = rules::extension(name, value).is_ok();
        if is_free { put(name, value) } else { put("-refused", "") }
    }
}

/// The digits of a number, written at the end of `text`.
pub(crate) fn decimal(number: u64, text: &mut [u8; 20]) -> &str {
    let (mut rest, mut at) = (number, text.len());
    for place in text.iter_mut().rev() {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
        at -= 1;
        if rest == 0 {
            break;
        }
    }
    // Only digits are ever written there.
    text.get(at..).and_then(|digits| std::str::from_utf8(digits).ok()).unwrap_or_default()
}

/// Attributes read so far, each at most once and within its limit.
#[derive(Default)]
pub(crate) struct Attributes {
    spec_version: Option<()>,
    vak_version: Option<()>,
    id: Option<String>,
    source: Option<String>,
    event_type: Option<String>,
    time: Option<Timestamp>,
    subject: Option<Subject>,
    content_type: Option<String>,
    workspace: Option<WorkspaceId>,
    session: Option<SessionId>,
    agent: Option<AgentId>,
    incarnation: Option<Uuid>,
    seq: Option<u64>,
    prev_hash: Option<EventHash>,
    cause: Option<EventHash>,
    trace: Option<TraceContext>,
    trace_state: Option<TraceState>,
    sealed_type: Option<String>,
    key_id: Option<String>,
    algorithm: Option<String>,
    nonce: Option<[u8; 12]>,
    signer: Option<String>,
    signature: Option<[u8; 64]>,
    extensions: BTreeMap<String, String>,
}

impl Attributes {
    /// Takes one attribute in.
    pub(crate) fn put(&mut self, name: &str, value: &str) -> Result<(), EnvelopeError> {
        use rules::visible;
        match name {
            "specversion" => {
                let read = version("specversion", value, MessageEnvelope::SPEC_VERSION);
                once(&mut self.spec_version, "specversion", read)
            }
            "vakversion" => {
                let read = version("vakversion", value, MessageEnvelope::VAK_VERSION);
                once(&mut self.vak_version, "vakversion", read)
            }
            "id" => text(&mut self.id, "id", value, visible("id", value, rules::ID_BYTES_MAX)),
            "source" => text(&mut self.source, "source", value, rules::source(value)),
            "type" => {
                let checked = visible("type", value, rules::TYPE_BYTES_MAX);
                text(&mut self.event_type, "type", value, checked)
            }
            "time" => {
                let read = Timestamp::parse(value).map_err(|error| refused("time", error));
                once(&mut self.time, "time", read)
            }
            "subject" => once(&mut self.subject, "subject", id("subject", Subject::parse(value))),
            "datacontenttype" => {
                let checked = rules::content_type("datacontenttype", value);
                text(&mut self.content_type, "datacontenttype", value, checked)
            }
            "sealedtype" => {
                let checked = rules::content_type("sealedtype", value);
                text(&mut self.sealed_type, "sealedtype", value, checked)
            }
            "keyid" => {
                let checked = visible("keyid", value, rules::KEY_ID_BYTES_MAX);
                text(&mut self.key_id, "keyid", value, checked)
            }
            "keyalg" => {
                let checked = visible("keyalg", value, rules::ALGORITHM_BYTES_MAX);
                text(&mut self.algorithm, "keyalg", value, checked)
            }
            "nonce" => once(&mut self.nonce, "nonce", nonce(value)),
            "signer" => {
                let checked = visible("signer", value, rules::SIGNER_BYTES_MAX);
                text(&mut self.signer, "signer", value, checked)
            }
            "signature" => once(&mut self.signature, "signature", signature(value)),
            _ => self.put_lineage(name, value),
        }
    }

    /// Puts the envelope together, or names what is missing or does not go together.
    pub(crate) fn finish(self, payload: Bytes) -> Result<MessageEnvelope, EnvelopeError> {
        required("specversion", self.spec_version)?;
        required("vakversion", self.vak_version)?;
        let trace = required("traceparent", self.trace)?;
        let seal = match (self.key_id, self.algorithm, self.nonce) {
            (None, None, None) => None,
            (key_id, algorithm, nonce) => Some(Seal {
                key_id: required("keyid", key_id)?,
                algorithm: required("keyalg", algorithm)?,
                nonce: required("nonce", nonce)?,
            }),
        };
        let signature = match (self.signer, self.signature) {
            (None, None) => None,
            (signer, bytes) => Some(Signature {
                signer: required("signer", signer)?,
                bytes: required("signature", bytes)?,
            }),
        };
        let content_type = match (&seal, self.content_type, self.sealed_type) {
            (None, content_type, None) => content_type,
            (None, _, Some(_)) => {
                return Err(EnvelopeError::field("sealedtype", "expected only beside a seal"));
            }
            (Some(_), Some(content_type), sealed_type) if content_type == SEALED => sealed_type,
            (Some(_), _, _) => {
                let reason = "expected application/octet-stream for a sealed payload";
                return Err(EnvelopeError::field("datacontenttype", reason));
            }
        };
        Ok(MessageEnvelope {
            id: required("id", self.id)?,
            source: required("source", self.source)?,
            event_type: required("type", self.event_type)?,
            time: required("time", self.time)?,
            content_type,
            subject: required("subject", self.subject)?,
            trace: trace.with_tracestate(self.trace_state.unwrap_or_default()),
            lineage: Lineage {
                workspace: required("workspace", self.workspace)?,
                session: self.session,
                agent: required("agent", self.agent)?,
                incarnation: required("incarnation", self.incarnation)?,
                seq_num: required("seq", self.seq)?,
                prev_event_hash: required("prevhash", self.prev_hash)?,
                cause: self.cause,
            },
            seal,
            signature,
            extensions: self.extensions,
            payload,
        })
    }

    fn put_lineage(&mut self, name: &str, value: &str) -> Result<(), EnvelopeError> {
        match name {
            "workspace" => {
                once(&mut self.workspace, "workspace", id("workspace", WorkspaceId::parse(value)))
            }
            "session" => once(&mut self.session, "session", id("session", SessionId::parse(value))),
            "agent" => once(&mut self.agent, "agent", id("agent", AgentId::parse(value))),
            "incarnation" => once(&mut self.incarnation, "incarnation", uuid(value)),
            "seq" => once(&mut self.seq, "seq", seq(value)),
            "prevhash" => once(&mut self.prev_hash, "prevhash", hash("prevhash", value)),
            "cause" => once(&mut self.cause, "cause", hash("cause", value)),
            "traceparent" => {
                let read = TraceContext::parse(value, None);
                let read = read.map_err(|error| refused("traceparent", error));
                once(&mut self.trace, "traceparent", read)
            }
            "tracestate" => {
                // A bad list is dropped alone, as the W3C asks; the trace goes on.
                let read = TraceState::parse(value).unwrap_or_default();
                once(&mut self.trace_state, "tracestate", Ok(read))
            }
            _ => self.put_extension(name, value),
        }
    }

    fn put_extension(&mut self, name: &str, value: &str) -> Result<(), EnvelopeError> {
        rules::extension(name, value)?;
        if self.extensions.len() >= rules::EXTENSIONS_MAX {
            return Err(EnvelopeError::TooMany { count_max: rules::EXTENSIONS_MAX });
        }
        match self.extensions.insert(name.to_owned(), value.to_owned()) {
            Some(_) => Err(EnvelopeError::Duplicate { field: name.to_owned().into() }),
            None => Ok(()),
        }
    }
}

fn once<T>(
    slot: &mut Option<T>,
    field: &'static str,
    read: Result<T, EnvelopeError>,
) -> Result<(), EnvelopeError> {
    match slot.replace(read?) {
        Some(_) => Err(EnvelopeError::Duplicate { field: field.into() }),
        None => Ok(()),
    }
}

/// The value is copied only after it was checked.
fn text(
    slot: &mut Option<String>,
    field: &'static str,
    value: &str,
    checked: Result<(), EnvelopeError>,
) -> Result<(), EnvelopeError> {
    once(slot, field, checked.map(|()| value.to_owned()))
}

fn required<T>(field: &'static str, value: Option<T>) -> Result<T, EnvelopeError> {
    value.ok_or(EnvelopeError::Missing { field })
}

fn refused(field: &'static str, error: impl std::error::Error) -> EnvelopeError {
    EnvelopeError::field(field, error.to_string())
}

fn version(field: &'static str, value: &str, expected: &'static str) -> Result<(), EnvelopeError> {
    if value == expected {
        return Ok(());
    }
    Err(EnvelopeError::Version { field, found: value.chars().take(16).collect(), expected })
}

fn id<T>(field: &'static str, parsed: Result<T, SubjectError>) -> Result<T, EnvelopeError> {
    parsed.map_err(|error| refused(field, error))
}

fn uuid(value: &str) -> Result<Uuid, EnvelopeError> {
    let parsed = Uuid::try_parse(value).ok();
    let same = |uuid: &Uuid| uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == value;
    parsed.filter(same).ok_or_else(|| {
        EnvelopeError::field("incarnation", "expected a lower-case UUID with hyphens")
    })
}

/// Decimal without sign or leading zeros.
fn seq(value: &str) -> Result<u64, EnvelopeError> {
    let digits =
        value.len() <= 16 && !value.starts_with('0') && value.bytes().all(|c| c.is_ascii_digit());
    let parsed = if digits { value.parse().ok() } else { None };
    parsed
        .filter(|seq| (1..=rules::SEQ_MAX).contains(seq))
        .ok_or_else(|| EnvelopeError::field("seq", "expected 1 to 9007199254740991 in decimal"))
}

fn hash(field: &'static str, value: &str) -> Result<EventHash, EnvelopeError> {
    EventHash::parse(value).map_err(|error| refused(field, error))
}

fn nonce(value: &str) -> Result<[u8; 12], EnvelopeError> {
    let mut bytes = [0; 12];
    let is_read = value.len() == 24 && HEXLOWER.decode_mut(value.as_bytes(), &mut bytes).is_ok();
    let reason = "expected 24 lower-case hex digits";
    is_read.then_some(bytes).ok_or_else(|| EnvelopeError::field("nonce", reason))
}

fn signature(value: &str) -> Result<[u8; 64], EnvelopeError> {
    let mut bytes = [0; 64];
    let is_read =
        value.len() == 86 && BASE64URL_NOPAD.decode_mut(value.as_bytes(), &mut bytes).is_ok();
    let reason = "expected 86 characters of base64url without padding";
    is_read.then_some(bytes).ok_or_else(|| EnvelopeError::field("signature", reason))
}
