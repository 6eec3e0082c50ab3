//! A span of an endpoint in the words of the semantic conventions for messaging.

use bus_core::{Operation, Span};
use bus_envelope::{Timestamp, TraceContext};
use opentelemetry_proto::tonic::{
    common::v1::{AnyValue, KeyValue, any_value::Value},
    trace::v1::{self, span::Link, span::SpanKind, status::StatusCode},
};

use crate::destination;

/// Whose messages they are: `messaging.system`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// An engine of this project.
    Vakbus,
    /// A NATS server.
    Nats,
}

/// The span as OTLP has it.
///
/// A receive or a process has the send of its message as its parent and links to it as well: the
/// conventions ask for the link and leave the parent to us.
pub(crate) fn to_proto(span: &Span<'_>, system: System) -> v1::Span {
    let Span { trace, subject, .. } = span;
    let template = destination::template(subject);
    let name = name(span.operation);
    let shown = destination::shown(subject, template.as_deref());
    let status = span.failure.map(|_| v1::Status {
        code: StatusCode::Error.into(),
        // The word is an attribute; more could quote what a message says.
        message: String::new(),
    });
    v1::Span {
        trace_id: trace.trace_id().to_vec(),
        span_id: trace.span_id().to_vec(),
        trace_state: trace.tracestate().as_str().to_owned(),
        parent_span_id: span.parent.map_or_else(Vec::new, |parent| parent.to_vec()),
        flags: flags(span),
        name: shown.map_or_else(|| name.to_owned(), |shown| format!("{name} {shown}")),
        kind: kind(span.operation).into(),
        start_time_unix_nano: nanos(span.began),
        // A clock that was set back makes no span that ends before it began.
        end_time_unix_nano: nanos(span.ended.max(span.began)),
        attributes: attributes(span, (system, template)),
        links: link(span).into_iter().collect(),
        status,
        ..v1::Span::default()
    }
}

fn attributes(span: &Span<'_>, (system, template): (System, Option<String>)) -> Vec<KeyValue> {
    let system = match system {
        System::Vakbus => "vakbus",
        System::Nats => "nats",
    };
    let mut all = vec![
        text("messaging.system", system),
        text("messaging.operation.name", name(span.operation)),
        text("messaging.operation.type", type_of(span.operation)),
        text("messaging.destination.name", span.subject.as_str()),
        text("messaging.message.id", span.message_id),
        whole("messaging.message.body.size", i64::try_from(span.body_bytes).unwrap_or(i64::MAX)),
        text("messaging.client.id", span.agent.as_str()),
    ];
    let mut add = |name: &str, value: Option<&str>| {
        all.extend(value.map(|value| text(name, value)));
    };
    add("messaging.destination.template", template.as_deref());
    add("messaging.message.conversation_id", span.session.map(|session| session.as_str()));
    add("error.type", span.failure);
    add("vakbus.workspace", destination::workspace(span.subject));
    add("vakbus.task.result", span.result);
    if span.operation != Operation::Send {
        add("messaging.consumer.group.name", destination::group(span.subject).as_deref());
    }
    if destination::is_of_an_answer(span.subject) {
        let marks = ["messaging.destination.temporary", "messaging.destination.anonymous"];
        all.extend(marks.map(|name| attribute(name, Value::BoolValue(true))));
    }
    all.extend(span.attempt.map(|attempt| whole("vakbus.delivery.attempt", attempt.into())));
    all
}

/// The link from work on a message to its send.
fn link(span: &Span<'_>) -> Option<Link> {
    let creation = span.parent.filter(|_| is_of_a_message(span.operation))?;
    Some(Link {
        trace_id: span.trace.trace_id().to_vec(),
        span_id: creation.to_vec(),
        trace_state: span.trace.tracestate().as_str().to_owned(),
        flags: u32::from(span.trace.flags()) | PARENT_IS_KNOWN | PARENT_IS_REMOTE,
        ..Link::default()
    })
}

/// The flags of W3C, and where it is known whether the parent is another process's.
fn flags(span: &Span<'_>) -> u32 {
    let own = u32::from(span.trace.flags() & (TraceContext::SAMPLED | TraceContext::RANDOM));
    match span.operation {
        Operation::Send => own,
        operation if is_of_a_message(operation) => own | PARENT_IS_KNOWN | PARENT_IS_REMOTE,
        _ => own | PARENT_IS_KNOWN,
    }
}

/// Whether the parent of such a span is the send of its message.
fn is_of_a_message(operation: Operation) -> bool {
    matches!(operation, Operation::Receive | Operation::Process)
}

fn name(operation: Operation) -> &'static str {
    match operation {
        Operation::Send => "send",
        Operation::Receive => "receive",
        Operation::Process => "process",
        Operation::Ack => "ack",
        Operation::Retry => "retry",
        Operation::Release => "release",
        Operation::Reject => "reject",
    }
}

fn type_of(operation: Operation) -> &'static str {
    match operation {
        Operation::Send => "send",
        Operation::Receive => "receive",
        Operation::Process => "process",
        Operation::Ack | Operation::Retry | Operation::Release | Operation::Reject => "settle",
    }
}

/// By the table of the conventions.
fn kind(operation: Operation) -> SpanKind {
    match operation {
        // Its context is the one that the message carries.
        Operation::Send => SpanKind::Producer,
        Operation::Process => SpanKind::Consumer,
        Operation::Receive
        | Operation::Ack
        | Operation::Retry
        | Operation::Release
        | Operation::Reject => SpanKind::Client,
    }
}

fn nanos(time: Timestamp) -> u64 {
    u64::try_from(time.unix_ns()).unwrap_or(0)
}

/// An attribute that is a text.
pub(crate) fn text(name: &str, value: &str) -> KeyValue {
    attribute(name, Value::StringValue(value.to_owned()))
}

/// An attribute that is a whole number.
pub(crate) fn whole(name: &str, value: i64) -> KeyValue {
    attribute(name, Value::IntValue(value))
}

fn attribute(name: &str, value: Value) -> KeyValue {
    KeyValue {
        key: name.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

/// `SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK` and `SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK` of OTLP.
const PARENT_IS_KNOWN: u32 = 0x100;
const PARENT_IS_REMOTE: u32 = 0x200;
