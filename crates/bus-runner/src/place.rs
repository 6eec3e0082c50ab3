//! Where the live events of a session go, and what they are about.

use bus_core::{Endpoint, Error, ErrorKind, Job, Result};
use bus_envelope::{Draft, EnvelopeError, EventHash, TraceContext};
use bus_subjects::{Address, SessionId, Subject};
use bytes::Bytes;

/// Whose live events these are: of a session, and of one attempt at one of its tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPlace {
    /// The session whose events they are.
    pub session: SessionId,
    /// The id of the task that they belong to, if they belong to one.
    pub task: Option<String>,
    /// The attempt at that task.
    pub attempt: Option<u32>,
    /// The leaf hash of what led to them, such as the task.
    pub cause: Option<EventHash>,
    /// The trace that they are part of.
    pub trace: Option<TraceContext>,
}

impl EventPlace {
    /// Events of a session that belong to no task.
    #[must_use]
    pub const fn of_session(session: SessionId) -> Self {
        Self { session, task: None, attempt: None, cause: None, trace: None }
    }

    /// Events of an attempt: in the task's trace, with the task as their cause.
    #[must_use]
    pub fn of_attempt(job: &Job<'_>, session: &SessionId) -> Self {
        let envelope = &job.message.envelope;
        Self {
            session: session.clone(),
            task: Some(envelope.id.clone()),
            attempt: Some(job.attempt),
            cause: Some(job.message.hash),
            trace: Some(envelope.trace.clone()),
        }
    }

    pub(crate) fn draft(
        &self,
        subject: Subject,
        event_type: &str,
        payload: impl Into<Bytes>,
    ) -> Result<Draft> {
        let mut draft = Draft::new(subject, event_type, payload).session(self.session.clone());
        if let Some(cause) = self.cause {
            draft = draft.cause(cause);
        }
        if let Some(trace) = &self.trace {
            draft = draft.trace(trace.clone());
        }
        if let Some(task) = &self.task {
            draft = draft.extension("task", task).map_err(invalid)?;
        }
        if let Some(attempt) = self.attempt {
            draft = draft.extension("attempt", attempt.to_string()).map_err(invalid)?;
        }
        Ok(draft)
    }

    /// Where the session's terminal events go.
    pub(crate) fn terminal(&self, endpoint: &Endpoint) -> Subject {
        let (workspace, session) = (endpoint.workspace().clone(), self.session.clone());
        Address::Terminal { workspace, session }.subject()
    }

    /// Where the session's token events go.
    pub(crate) fn tokens(&self, endpoint: &Endpoint) -> Subject {
        let (workspace, session) = (endpoint.workspace().clone(), self.session.clone());
        Address::Tokens { workspace, session }.subject()
    }
}

/// An attribute that no event can carry.
pub(crate) fn invalid(error: EnvelopeError) -> Error {
    Error::new(ErrorKind::Invalid, "publish", error.to_string()).because(error)
}
