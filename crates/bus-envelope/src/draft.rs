//! A draft: what a sender wants to say, before it gets its place in time and chain.

use std::collections::BTreeMap;

use bytes::Bytes;
use uuid::Uuid;

use crate::{
    ChainHead, EnvelopeError, EventHash, Lineage, MessageEnvelope, Timestamp, TraceContext, rules,
};
use bus_subjects::{AgentId, SessionId, Subject, WorkspaceId};

/// An event to be: everything that its sender decides.
///
/// ```
/// use bus_envelope::Draft;
/// use bus_subjects::Subject;
///
/// let subject = Subject::parse("vak.work.acme.coder.task")?;
/// let draft = Draft::new(subject, "vak.task", r#"{"do":"it"}"#)
///     .content_type("application/json")
///     .extension("priority", "high")?;
/// assert_eq!(draft.extensions["priority"], "high");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// Where it goes.
    pub subject: Subject,
    /// The `CloudEvents` `type`.
    pub event_type: String,
    /// The media type of the payload.
    pub content_type: Option<String>,
    /// The plain payload.
    pub payload: Bytes,
    /// The trace it belongs to; `None` starts one.
    pub trace: Option<TraceContext>,
    /// The leaf hash of the event that led to this one.
    pub cause: Option<EventHash>,
    /// The run of work it belongs to.
    pub session: Option<SessionId>,
    /// Other attributes.
    pub extensions: BTreeMap<String, String>,
    /// Its id; `None` lets the stamp name it.
    pub id: Option<String>,
}

/// What the sending side adds to a draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// The id of the event when the draft names none.
    pub id: String,
    /// When the event is made.
    pub time: Timestamp,
    /// The trace and span of the event.
    pub trace: TraceContext,
    /// The workspace of the sender.
    pub workspace: WorkspaceId,
    /// The sender.
    pub agent: AgentId,
    /// The sender's process life.
    pub incarnation: Uuid,
    /// The chain's head that the event follows.
    pub head: ChainHead,
}

impl Draft {
    /// A draft with nothing but its destination, type and payload.
    #[must_use]
    pub fn new(subject: Subject, event_type: impl Into<String>, payload: impl Into<Bytes>) -> Self {
        Self {
            subject,
            event_type: event_type.into(),
            content_type: None,
            payload: payload.into(),
            trace: None,
            cause: None,
            session: None,
            extensions: BTreeMap::new(),
            id: None,
        }
    }

    /// Names the media type of the payload.
    #[must_use]
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = Some(content_type.into());
        self
    }

    /// Puts the event into a trace.
    #[must_use]
    pub fn trace(mut self, trace: TraceContext) -> Self {
        self.trace = Some(trace);
        self
    }

    /// Names the event that led to this one.
    #[must_use]
    pub fn cause(mut self, cause: EventHash) -> Self {
        self.cause = Some(cause);
        self
    }

    /// Puts the event into a run of work.
    #[must_use]
    pub fn session(mut self, session: SessionId) -> Self {
        self.session = Some(session);
        self
    }

    /// Adds an attribute; a second value for a name replaces the first.
    ///
    /// # Errors
    /// An [`EnvelopeError`] when the name is no attribute name or reserved, or the value is too
    /// long or holds control characters.
    pub fn extension(
        mut self,
        name: impl Into<String>,
        value: impl Into<String>,
    ) -> Result<Self, EnvelopeError> {
        let (name, value) = (name.into(), value.into());
        rules::extension(&name, &value)?;
        self.extensions.insert(name, value);
        Ok(self)
    }

    /// Names the event's id.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Makes the plain, unsigned envelope. The trace is the stamp's, which should continue the
    /// draft's where there is one.
    ///
    /// # Errors
    /// An [`EnvelopeError`] that names the field that breaks its rule.
    pub fn stamp(self, stamp: Stamp) -> Result<MessageEnvelope, EnvelopeError> {
        let envelope = MessageEnvelope {
            id: self.id.unwrap_or(stamp.id),
            source: ["vak://", stamp.workspace.as_str(), "/", stamp.agent.as_str()].concat(),
            event_type: self.event_type,
            time: stamp.time,
            content_type: self.content_type,
            subject: self.subject,
            trace: stamp.trace,
            lineage: Lineage {
                workspace: stamp.workspace,
                session: self.session,
                agent: stamp.agent,
                incarnation: stamp.incarnation,
                seq_num: stamp.head.next_seq(),
                prev_event_hash: stamp.head.hash,
                cause: self.cause,
            },
            seal: None,
            signature: None,
            extensions: self.extensions,
            payload: self.payload,
        };
        envelope.check()?;
        Ok(envelope)
    }
}
