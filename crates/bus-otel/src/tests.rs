//! What comes out of the queue: its bound, its batches, and each span in the words of the
//! conventions.

use std::collections::BTreeMap;

use bus_core::{Operation, Span};
use bus_envelope::{Timestamp, TraceContext};
use bus_subjects::{AgentId, SessionId, Subject};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value},
    trace::v1::{self, span::SpanKind, status::StatusCode},
};
use prost::Message;

use crate::{Batches, Pair, Resource, SPANS_PER_BATCH, SPANS_WAITING_MAX, Spans, System, spans};

/// What a span is about.
struct Told {
    trace: TraceContext,
    subject: Subject,
    session: SessionId,
    agent: AgentId,
}

impl Told {
    fn of(subject: &str) -> Self {
        Self {
            trace: TraceContext::new([1; 16], [2; 8], TraceContext::SAMPLED).unwrap(),
            subject: Subject::parse(subject).unwrap(),
            session: SessionId::parse("s1").unwrap(),
            agent: AgentId::parse("ann").unwrap(),
        }
    }

    fn span(&self, operation: Operation) -> Span<'_> {
        let mut span = Span::new(operation, &self.trace, &self.subject, &self.agent);
        span.parent = Some([3; 8]);
        (span.message_id, span.session, span.body_bytes) = ("id-1", Some(&self.session), 17);
        (span.began, span.ended) = (Timestamp::from_unix_ns(1_000), Timestamp::from_unix_ns(3_000));
        span
    }
}

fn resource() -> Resource {
    let pair = |name: &str, value: &str| Pair { name: name.to_owned(), value: value.to_owned() };
    Resource {
        service: "fleet".to_owned(),
        version: "1.2.3",
        process: 7,
        attributes: vec![pair("deployment.environment.name", "test"), pair("service.name", "no")],
    }
}

fn decoded(body: &[u8]) -> ExportTraceServiceRequest {
    ExportTraceServiceRequest::decode(body).unwrap()
}

fn spans_of(request: &ExportTraceServiceRequest) -> Vec<v1::Span> {
    let scopes = request.resource_spans.iter().flat_map(|told| &told.scope_spans);
    scopes.flat_map(|scope| scope.spans.clone()).collect()
}

fn shown(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let value = |pair: &KeyValue| match pair.value.clone().unwrap().value.unwrap() {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        Value::BoolValue(is) => is.to_string(),
        other => panic!("{other:?}"),
    };
    attributes.iter().map(|pair| (pair.key.clone(), value(pair))).collect()
}

/// What one observed span looks like on the wire.
async fn told(span: &Span<'_>) -> v1::Span {
    let (spans, mut batches) = spans(&resource());
    spans.observer(System::Vakbus).ended(span);
    spans.close();
    spans_of(&decoded(&batches.next().await.unwrap().body)).pop().unwrap()
}

fn fill(spans: &Spans, count: usize) {
    let (told, observer) = (Told::of("vak.work.acme.coder.task"), spans.observer(System::Nats));
    for _ in 0..count {
        observer.ended(&told.span(Operation::Send));
    }
}

async fn sizes(batches: &mut Batches) -> Vec<usize> {
    let mut sizes = Vec::new();
    while let Some(batch) = batches.next().await {
        assert_eq!(spans_of(&decoded(&batch.body)).len(), batch.spans);
        sizes.push(batch.spans);
    }
    sizes
}

#[tokio::test]
async fn a_send_is_a_producer_with_the_context_that_its_message_carries() {
    let about = Told::of("vak.receipts.acme.s1.completed");
    let span = told(&about.span(Operation::Send)).await;
    assert_eq!(span.name, "send vak.receipts.acme.{session}.completed");
    assert_eq!(span.kind(), SpanKind::Producer);
    assert_eq!((span.trace_id, span.span_id), (vec![1; 16], vec![2; 8]));
    assert_eq!((span.parent_span_id, span.links.len()), (vec![3; 8], 0));
    assert_eq!((span.start_time_unix_nano, span.end_time_unix_nano), (1_000, 3_000));
    assert_eq!(span.status, None);
    let expected = [
        ("messaging.client.id", "ann"),
        ("messaging.destination.name", "vak.receipts.acme.s1.completed"),
        ("messaging.destination.template", "vak.receipts.acme.{session}.completed"),
        ("messaging.message.body.size", "17"),
        ("messaging.message.conversation_id", "s1"),
        ("messaging.message.id", "id-1"),
        ("messaging.operation.name", "send"),
        ("messaging.operation.type", "send"),
        ("messaging.system", "vakbus"),
        ("vakbus.workspace", "acme"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(shown(&span.attributes), BTreeMap::from(expected));
}

#[tokio::test]
async fn work_on_a_task_is_a_consumer_below_its_send_and_links_to_it() {
    let about = Told::of("vak.work.acme.coder.task");
    let mut span = about.span(Operation::Process);
    (span.attempt, span.result, span.failure) = (Some(2), Some("retried"), Some("failed"));
    let span = told(&span).await;
    assert_eq!(span.name, "process vak.work.acme.coder.task");
    assert_eq!((span.kind(), &span.parent_span_id), (SpanKind::Consumer, &vec![3; 8]));
    let [link] = &span.links[..] else { panic!("{:?}", span.links) };
    assert_eq!((&link.trace_id, &link.span_id), (&vec![1; 16], &vec![3; 8]));
    assert_eq!(span.flags, 0x301, "sampled, and its parent is another process's");
    assert_eq!(span.status.as_ref().unwrap().code(), StatusCode::Error);
    let attributes = shown(&span.attributes);
    assert_eq!(attributes["error.type"], "failed");
    assert_eq!(attributes["vakbus.delivery.attempt"], "2");
    assert_eq!(attributes["vakbus.task.result"], "retried");
    assert_eq!(attributes["messaging.consumer.group.name"], "worker_coder");
}

#[tokio::test]
async fn receiving_and_settling_are_clients() {
    let about = Told::of("vak.agent.acme.ann.inbox");
    for (operation, name, kind_of) in [
        (Operation::Receive, "receive", "receive"),
        (Operation::Ack, "ack", "settle"),
        (Operation::Retry, "retry", "settle"),
        (Operation::Release, "release", "settle"),
        (Operation::Reject, "reject", "settle"),
    ] {
        let span = told(&about.span(operation)).await;
        assert_eq!(span.name, format!("{name} vak.agent.acme.{{agent}}.inbox"));
        assert_eq!(span.kind(), SpanKind::Client);
        let attributes = shown(&span.attributes);
        assert_eq!(attributes["messaging.operation.type"], kind_of);
        assert_eq!(attributes["messaging.operation.name"], name);
    }
}

#[tokio::test]
async fn a_clock_that_was_set_back_makes_no_span_that_ends_before_it_began() {
    let about = Told::of("vak.work.acme.coder.task");
    let mut span = about.span(Operation::Send);
    (span.began, span.ended) = (Timestamp::from_unix_ns(5_000), Timestamp::from_unix_ns(4_000));
    let span = told(&span).await;
    assert_eq!((span.start_time_unix_nano, span.end_time_unix_nano), (5_000, 5_000));
}

#[tokio::test]
async fn the_resource_says_who_tells_and_what_its_users_add() {
    let (spans, mut batches) = spans(&resource());
    fill(&spans, 1);
    spans.close();
    let request = decoded(&batches.next().await.unwrap().body);
    let resource = request.resource_spans[0].resource.as_ref().unwrap();
    let attributes = shown(&resource.attributes);
    assert_eq!(attributes["service.name"], "fleet", "what is added replaces nothing");
    assert_eq!(attributes["service.version"], "1.2.3");
    assert_eq!(attributes["process.pid"], "7");
    assert_eq!(attributes["deployment.environment.name"], "test");
}

#[tokio::test(start_paused = true)]
async fn spans_that_come_together_are_one_batch() {
    let (spans, mut batches) = spans(&resource());
    fill(&spans, 3);
    assert_eq!(batches.next().await.unwrap().spans, 3);
    fill(&spans, 2);
    spans.close();
    assert_eq!(sizes(&mut batches).await, [2]);
}

#[tokio::test(start_paused = true)]
async fn what_there_is_no_room_for_is_counted_and_nobody_waits() {
    let (spans, mut batches) = spans(&resource());
    fill(&spans, SPANS_WAITING_MAX + 5);
    assert_eq!(spans.dropped(), 5);
    spans.close();
    assert_eq!(sizes(&mut batches).await, [SPANS_PER_BATCH; SPANS_WAITING_MAX / SPANS_PER_BATCH]);
}

#[tokio::test]
async fn a_closed_queue_gives_what_waits_at_once_and_takes_no_more() {
    let (spans, mut batches) = spans(&resource());
    fill(&spans, 1);
    spans.close();
    assert_eq!(sizes(&mut batches).await, [1]);
    fill(&spans, 1);
    assert_eq!((sizes(&mut batches).await, spans.dropped()), (vec![], 0));
}

#[tokio::test]
async fn the_place_of_an_answer_is_temporary_and_anonymous_and_others_are_not() {
    for (subject, is_marked) in [
        ("_INBOX.abc.1", true),
        ("vak.call.acme.git.clone", false),
        ("vak.work.acme.coder.task", false),
    ] {
        let about = Told::of(subject);
        let attributes = shown(&told(&about.span(Operation::Send)).await.attributes);
        for name in ["messaging.destination.temporary", "messaging.destination.anonymous"] {
            let is = attributes.get(name).map(String::as_str);
            assert_eq!(is, is_marked.then_some("true"), "{subject}: {name}");
        }
    }
}
