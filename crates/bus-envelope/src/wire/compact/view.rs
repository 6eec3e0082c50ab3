//! What a compact envelope says, checked in full and left where it lies.

use bytes::Bytes;
use uuid::Uuid;

use super::fields::Fields;
use crate::{
    EnvelopeError, EventHash, Lineage, MessageEnvelope, Seal, Signature, Timestamp, TraceContext,
    TraceState, rules,
};
use bus_subjects::{AgentId, SessionId, Subject, SubjectError, WorkspaceId};

/// An envelope that keeps every rule, borrowed from its compact bytes.
#[derive(Debug, Clone)]
pub struct EnvelopeView<'a> {
    fields: Fields<'a>,
    trace: TraceContext,
    payload: &'a [u8],
}

impl<'a> EnvelopeView<'a> {
    pub(super) fn new(
        fields: Fields<'a>,
        is_canonical: bool,
        payload: &'a [u8],
    ) -> Result<Self, EnvelopeError> {
        let trace = fields.check(is_canonical)?;
        id("subject", Subject::check(fields.subject))?;
        id("workspace", WorkspaceId::check(fields.workspace))?;
        fields.session.map_or(Ok(()), |session| id("session", SessionId::check(session)))?;
        id("agent", AgentId::check(fields.agent))?;
        Ok(Self { fields, trace, payload })
    }

    /// The id, unique within the source.
    #[must_use]
    pub const fn id(&self) -> &'a str {
        self.fields.id
    }

    /// Where the event was made.
    #[must_use]
    pub const fn source(&self) -> &'a str {
        self.fields.source
    }

    /// The `CloudEvents` `type`.
    #[must_use]
    pub const fn event_type(&self) -> &'a str {
        self.fields.event_type
    }

    /// When the event was made.
    #[must_use]
    pub const fn time(&self) -> Timestamp {
        Timestamp::from_unix_ns(self.fields.unix_ns)
    }

    /// The media type of the plain payload.
    #[must_use]
    pub const fn content_type(&self) -> Option<&'a str> {
        self.fields.content_type
    }

    /// Where the event was sent.
    #[must_use]
    pub const fn subject(&self) -> &'a str {
        self.fields.subject
    }

    /// The trace and the span.
    #[must_use]
    pub const fn trace(&self) -> &TraceContext {
        &self.trace
    }

    /// The workspace that owns the event.
    #[must_use]
    pub const fn workspace(&self) -> &'a str {
        self.fields.workspace
    }

    /// The run of work it belongs to.
    #[must_use]
    pub const fn session(&self) -> Option<&'a str> {
        self.fields.session
    }

    /// The agent that made it.
    #[must_use]
    pub const fn agent(&self) -> &'a str {
        self.fields.agent
    }

    /// The process life of that agent.
    #[must_use]
    pub const fn incarnation(&self) -> Uuid {
        Uuid::from_bytes(*self.fields.incarnation)
    }

    /// The place in the chain.
    #[must_use]
    pub const fn seq_num(&self) -> u64 {
        self.fields.seq
    }

    /// The leaf hash of the event before.
    #[must_use]
    pub const fn prev_event_hash(&self) -> EventHash {
        EventHash::from_bytes(*self.fields.prev_hash)
    }

    /// The leaf hash of the event that led to this one.
    #[must_use]
    pub fn cause(&self) -> Option<EventHash> {
        self.fields.cause.copied().map(EventHash::from_bytes)
    }

    /// The id of the key that the payload is sealed with; `None` when it is plain.
    #[must_use]
    pub fn key_id(&self) -> Option<&'a str> {
        self.fields.seal.as_ref().map(|seal| seal.key_id)
    }

    /// Who signed the event.
    #[must_use]
    pub fn signer(&self) -> Option<&'a str> {
        self.fields.signature.as_ref().map(|signature| signature.signer)
    }

    /// Other attributes in the order of their names.
    pub fn extensions(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.fields.extensions.iter()
    }

    /// The payload; sealed bytes when there is a key id.
    #[must_use]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The envelope with copies of everything.
    ///
    /// # Errors
    /// None in practice: a view keeps every rule of an envelope.
    pub fn to_envelope(&self) -> Result<MessageEnvelope, EnvelopeError> {
        self.fields.to_envelope(self.trace.clone(), Bytes::copy_from_slice(self.payload))
    }
}

impl Fields<'_> {
    /// Holds all but the ids and the subject against their rules, without copying a text; gives
    /// the trace, which has to be put together for that.
    ///
    /// `is_canonical` tells whether the numbers were; the rest of the one way is looked at here.
    pub(super) fn check(&self, is_canonical: bool) -> Result<TraceContext, EnvelopeError> {
        rules::visible("id", self.id, rules::ID_BYTES_MAX)?;
        rules::source(self.source)?;
        rules::visible("type", self.event_type, rules::TYPE_BYTES_MAX)?;
        if let Some(content_type) = self.content_type {
            rules::content_type("datacontenttype", content_type)?;
        }
        if !(1..=rules::SEQ_MAX).contains(&self.seq) {
            return Err(EnvelopeError::field("seq", "expected 1 to 9007199254740991"));
        }
        if let Some(seal) = &self.seal {
            rules::visible("keyid", seal.key_id, rules::KEY_ID_BYTES_MAX)?;
            rules::visible("keyalg", seal.algorithm, rules::ALGORITHM_BYTES_MAX)?;
        }
        if let Some(signature) = &self.signature {
            rules::visible("signer", signature.signer, rules::SIGNER_BYTES_MAX)?;
        }
        let (mut before, mut is_sorted) = (None, true);
        for (name, value) in self.extensions.iter() {
            rules::extension(name, value)?;
            is_sorted &= before.is_none_or(|before| before < name);
            before = Some(name);
        }
        let trace = TraceContext::new(*self.trace_id, *self.span_id, self.flags)
            .map_err(|error| EnvelopeError::field("traceparent", error.to_string()))?;
        let same_flags = trace.flags() == self.flags;
        let same_time = Timestamp::from_unix_ns(self.unix_ns).unix_ns() == self.unix_ns;
        let trace = match self.tracestate {
            "" => trace,
            list => trace.with_tracestate(TraceState::parse(list).unwrap_or_default()),
        };
        let same_state = trace.tracestate().as_str() == self.tracestate;
        if is_canonical && is_sorted && same_flags && same_time && same_state {
            Ok(trace)
        } else {
            Err(EnvelopeError::NotCanonical { form: "compact" })
        }
    }

    /// Copies what [`check`](Self::check) accepted, and parses the ids and the subject.
    pub(super) fn to_envelope(
        &self,
        trace: TraceContext,
        payload: Bytes,
    ) -> Result<MessageEnvelope, EnvelopeError> {
        Ok(MessageEnvelope {
            id: self.id.to_owned(),
            source: self.source.to_owned(),
            event_type: self.event_type.to_owned(),
            time: Timestamp::from_unix_ns(self.unix_ns),
            content_type: self.content_type.map(str::to_owned),
            subject: id("subject", Subject::parse(self.subject))?,
            trace,
            lineage: Lineage {
                workspace: id("workspace", WorkspaceId::parse(self.workspace))?,
                session: self
                    .session
                    .map(|session| id("session", SessionId::parse(session)))
                    .transpose()?,
                agent: id("agent", AgentId::parse(self.agent))?,
                incarnation: Uuid::from_bytes(*self.incarnation),
                seq_num: self.seq,
                prev_event_hash: EventHash::from_bytes(*self.prev_hash),
                cause: self.cause.copied().map(EventHash::from_bytes),
            },
            seal: self.seal.as_ref().map(|seal| Seal {
                key_id: seal.key_id.to_owned(),
                algorithm: seal.algorithm.to_owned(),
                nonce: *seal.nonce,
            }),
            signature: self.signature.as_ref().map(|signature| Signature {
                signer: signature.signer.to_owned(),
                bytes: *signature.bytes,
            }),
            extensions: self
                .extensions
                .iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            payload,
        })
    }
}

fn id<T>(field: &'static str, parsed: Result<T, SubjectError>) -> Result<T, EnvelopeError> {
    parsed.map_err(|error| EnvelopeError::field(field, error.to_string()))
}
