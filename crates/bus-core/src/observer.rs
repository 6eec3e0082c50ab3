//! What an endpoint tells of its work on messages to whoever records traces: spans that ended.
//!
//! The heart knows no exporter. Without an observer nothing is gathered, and what it costs is one
//! look at an `Option`.

use std::sync::Arc;

use bus_envelope::{Timestamp, TraceContext};
use bus_subjects::{AgentId, SessionId, Subject};

/// Is told of every span of an endpoint, once it has ended.
pub trait Observer: Send + Sync {
    /// Takes note of `span`. It is called on the way of a message, so it never waits; what it has
    /// no room for it leaves out.
    fn ended(&self, span: &Span<'_>);
}

/// What an endpoint does about traces. By default nobody records them, and a message whose draft
/// names no trace begins one.
#[derive(Clone, Default)]
pub struct Tracing {
    /// Who is told of spans.
    pub observer: Option<Arc<dyn Observer>>,
    /// What messages go on from whose draft names no trace: the caller's span.
    pub parent: Option<TraceContext>,
}

/// One piece of work on one message. It names what was worked on and never what that says.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Span<'a> {
    /// What was done.
    pub operation: Operation,
    /// The span itself; always sampled. That of a send is the one that its message carries.
    pub trace: &'a TraceContext,
    /// The span of the same trace that led to it. To a receive or a process that is the send of
    /// the message, to a settle the receive or the process.
    pub parent: Option<[u8; 8]>,
    /// Where the message stands.
    pub subject: &'a Subject,
    /// The envelope's id.
    pub message_id: &'a str,
    /// The session the message belongs to.
    pub session: Option<&'a SessionId>,
    /// The size of its payload in plain, in bytes.
    pub body_bytes: usize,
    /// Who does it.
    pub agent: &'a AgentId,
    /// Which delivery of the message it is, the first being 1; none of a send or a call.
    pub attempt: Option<u32>,
    /// When it began.
    pub began: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// What became of a task; none of anything else.
    pub result: Option<&'static str>,
    /// What went wrong, as a stable word; an [`crate::ErrorKind`] where it is one.
    pub failure: Option<&'static str>,
}

/// What is done with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// It is stored, published, or asked as a question.
    Send,
    /// It is taken from a mailbox.
    Receive,
    /// A task is worked on, or a question answered.
    Process,
    /// Its delivery ends: done.
    Ack,
    /// Its delivery ends: to be tried again.
    Retry,
    /// Its delivery ends: handed back.
    Release,
    /// Its delivery ends: given up.
    Reject,
}

impl<'a> Span<'a> {
    /// A span of `operation` by `agent` on a message at `subject`, about which nothing more is
    /// known.
    #[must_use]
    pub fn new(
        operation: Operation,
        trace: &'a TraceContext,
        subject: &'a Subject,
        agent: &'a AgentId,
    ) -> Self {
        Self {
            operation,
            trace,
            parent: None,
            subject,
            message_id: "",
            session: None,
            body_bytes: 0,
            agent,
            attempt: None,
            began: Timestamp::MIN,
            ended: Timestamp::MIN,
            result: None,
            failure: None,
        }
    }
}

impl Tracing {
    /// Whether anybody records spans.
    pub(crate) fn is_observed(&self) -> bool {
        self.observer.is_some()
    }
}

impl std::fmt::Debug for Tracing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracing")
            .field("is_observed", &self.is_observed())
            .field("parent", &self.parent)
            .finish()
    }
}
