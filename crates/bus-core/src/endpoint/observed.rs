//! The spans of an endpoint that is observed: those of sends, and those of work on what came.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bus_envelope::{Draft, MessageEnvelope, Timestamp, TraceContext};
use bus_subjects::{Address, AddressKind, SessionId, Subject};

use super::{Endpoint, Opened, chain::Batch, live::must_be_signed, send::Failed};
use crate::{
    Delivery, Error, ErrorKind, Operation, Outcome, Receipt, Result, Span, TaskEvent, Verdict,
};

/// The span of a message that is sent.
pub(super) struct Sending {
    trace: TraceContext,
    parent: Option<[u8; 8]>,
    subject: Subject,
    message_id: String,
    began: Timestamp,
    session: Option<SessionId>,
    body_bytes: usize,
    /// A message that is stored by a repeat is sent once all the same.
    is_told: AtomicBool,
}

/// What is known of that span before the message is stamped.
pub(super) struct Begun {
    parent: Option<[u8; 8]>,
    body_bytes: usize,
}

/// The span of one message that came and is worked on.
pub(crate) struct Seen {
    endpoint: Endpoint,
    operation: Operation,
    trace: TraceContext,
    /// The send of the message.
    parent: [u8; 8],
    subject: Subject,
    message_id: String,
    session: Option<SessionId>,
    body_bytes: usize,
    attempt: Option<u32>,
    began: Timestamp,
}

/// The span of a question, told once: with its answer, or as unanswered when nobody is left to
/// answer it.
#[derive(Debug)]
pub(super) struct Asking {
    seen: Arc<Seen>,
    is_told: AtomicBool,
}

impl Asking {
    pub(super) const fn new(seen: Arc<Seen>) -> Self {
        Self { seen, is_told: AtomicBool::new(false) }
    }

    /// Ends the span, the first time.
    pub(super) fn end(&self, failure: Option<&'static str>) {
        if !self.is_told.swap(true, Ordering::Relaxed) {
            self.seen.end(failure);
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.end(Some("unanswered"));
    }
}

impl Endpoint {
    /// Begins the span of a send, if anybody wants to know. Live events make none: they are too
    /// many, and nobody waits for one of them.
    pub(super) fn begin_sending(&self, draft: &Draft) -> Option<Begun> {
        if !self.0.tracing.is_observed() || !must_be_signed(&draft.subject) {
            return None;
        }
        let parent = draft.trace.as_ref().or(self.0.tracing.parent.as_ref());
        let parent = parent.map(|parent| *parent.span_id());
        Some(Begun { parent, body_bytes: draft.payload.len() })
    }

    /// Tells the span of a message of which is known whether it was sent; the first time alone.
    pub(super) fn tell_sent(&self, sending: Option<&Sending>, failure: Option<ErrorKind>) {
        let (Some(sending), Some(observer)) = (sending, &self.0.tracing.observer) else { return };
        if sending.is_told.swap(true, Ordering::Relaxed) {
            return;
        }
        observer.ended(&Span {
            operation: Operation::Send,
            trace: &sending.trace,
            parent: sending.parent,
            subject: &sending.subject,
            message_id: &sending.message_id,
            session: sending.session.as_ref(),
            body_bytes: sending.body_bytes,
            agent: self.agent(),
            attempt: None,
            began: sending.began,
            ended: self.clock().now(),
            result: None,
            failure: failure.map(ErrorKind::as_str),
        });
    }

    /// Tells the spans of messages that were stored together or not. While nobody knows that they
    /// are not told: the next send on their subjects finds out.
    pub(super) fn tell_stored(&self, batch: &Batch, stored: &Result<Vec<Result<Receipt, Failed>>>) {
        if !self.0.tracing.is_observed() {
            return;
        }
        for (at, prepared) in batch.0.iter().enumerate() {
            let failure = match stored {
                Err(error) if error.outcome() == Outcome::Unknown => continue,
                Err(error) => Some(error.kind()),
                Ok(each) => match each.get(at) {
                    // Another worker's letter about the same task, or this one gets another id.
                    Some(Err(Failed::Duplicate(_))) if is_letter(&prepared.frame.subject) => {
                        continue;
                    }
                    one => one.and_then(|one| one.as_ref().err()).map(Failed::kind),
                },
            };
            self.tell_sent(prepared.sending.as_deref(), failure);
        }
    }
}

impl Begun {
    /// The span of the message that was stamped; none where its trace is not recorded.
    pub(super) fn stamped(self, envelope: &MessageEnvelope) -> Option<Box<Sending>> {
        let Self { parent, body_bytes } = self;
        envelope.trace.is_sampled().then(|| {
            Box::new(Sending {
                trace: envelope.trace.clone(),
                parent,
                subject: envelope.subject.clone(),
                message_id: envelope.id.clone(),
                began: envelope.time,
                session: envelope.lineage.session.clone(),
                body_bytes,
                is_told: AtomicBool::new(false),
            })
        })
    }
}

fn is_letter(subject: &Subject) -> bool {
    Address::kind_of(subject).is_ok_and(|kind| kind == AddressKind::DeadLetter)
}

impl Seen {
    /// Begins a span of work on `opened`, if anybody wants to know and its trace is recorded. From
    /// then on the message's trace names that span, so that whatever follows from it is its child.
    pub(crate) fn begin(
        endpoint: &Endpoint,
        opened: &mut Opened,
        operation: Operation,
        attempt: Option<u32>,
    ) -> Option<Arc<Self>> {
        let sent = &opened.envelope.trace;
        if !endpoint.0.tracing.is_observed() || !sent.is_sampled() {
            return None;
        }
        let mut span_id = [0; 8];
        // Without randomness there is no span: the work is what counts.
        endpoint.entropy().fill(&mut span_id).ok()?;
        let (parent, trace) = (*sent.span_id(), sent.child_span(span_id));
        opened.envelope.trace = trace.clone();
        Some(Arc::new(Self {
            endpoint: endpoint.clone(),
            operation,
            trace,
            parent,
            subject: opened.envelope.subject.clone(),
            message_id: opened.envelope.id.clone(),
            session: opened.envelope.lineage.session.clone(),
            body_bytes: opened.payload.len(),
            attempt,
            began: endpoint.clock().now(),
        }))
    }

    /// Tells the span as one that ends now.
    pub(crate) fn end(&self, failure: Option<&'static str>) {
        self.tell(self.span(failure));
    }

    /// Tells the span of a task that came to this end.
    pub(crate) fn end_task(&self, event: &TaskEvent) {
        let (result, failure) = match event {
            TaskEvent::Completed { .. } => ("completed", None),
            TaskEvent::Retried { .. } => ("retried", Some("failed")),
            TaskEvent::DeadLettered { .. } => ("dead-lettered", Some("given-up")),
            TaskEvent::Released { .. } => ("released", None),
            TaskEvent::Unsettled { error, .. } => ("unsettled", Some(error.kind().as_str())),
        };
        self.tell(Span { result: Some(result), ..self.span(failure) });
    }

    /// Tells the span of the settling of this message, which began at `began` and ends now.
    pub(crate) fn settled(&self, operation: Operation, began: Timestamp, settled: &Result<()>) {
        let mut span_id = [0; 8];
        if self.endpoint.entropy().fill(&mut span_id).is_err() {
            return;
        }
        let trace = self.trace.child_span(span_id);
        let failure = settled.as_ref().err().map(|error| error.kind().as_str());
        let parent = Some(*self.trace.span_id());
        self.tell(Span { operation, trace: &trace, parent, began, ..self.span(failure) });
    }

    /// The time by the clock that the spans are told in.
    pub(crate) fn now(&self) -> Timestamp {
        self.endpoint.clock().now()
    }

    fn span(&self, failure: Option<&'static str>) -> Span<'_> {
        Span {
            operation: self.operation,
            trace: &self.trace,
            parent: Some(self.parent),
            subject: &self.subject,
            message_id: &self.message_id,
            session: self.session.as_ref(),
            body_bytes: self.body_bytes,
            agent: self.endpoint.agent(),
            attempt: self.attempt,
            began: self.began,
            ended: self.now(),
            result: None,
            failure,
        }
    }

    fn tell(&self, span: Span<'_>) {
        if let Some(observer) = &self.endpoint.0.tracing.observer {
            observer.ended(&span);
        }
    }
}

impl Verdict {
    /// What settling with it is called.
    pub(crate) fn operation(&self) -> Operation {
        match self {
            Self::Ack => Operation::Ack,
            Self::Retry { .. } => Operation::Retry,
            Self::Release { .. } => Operation::Release,
            Self::Reject { .. } => Operation::Reject,
        }
    }
}

impl Failed {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Error(error) => error.kind(),
            Self::Duplicate(_) => ErrorKind::Conflict,
        }
    }
}

/// Settles a delivery, and tells of it where somebody watches.
pub(crate) async fn settle(
    seen: Option<&Seen>,
    delivery: Delivery,
    verdict: Verdict,
) -> Result<(), Error> {
    let Some(seen) = seen else { return delivery.settle(verdict).await };
    let (operation, began) = (verdict.operation(), seen.now());
    let settled = delivery.settle(verdict).await;
    seen.settled(operation, began, &settled);
    settled
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seen")
            .field("operation", &self.operation)
            .field("trace", &self.trace)
            .finish_non_exhaustive()
    }
}
