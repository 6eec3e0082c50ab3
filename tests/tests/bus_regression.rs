//! The regression tests that the design document names, on the embedded engine.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::{num::NonZeroUsize, sync::Mutex, time::Duration};

use bus_core::{
    ConsumerSpec, DeadLetterEvent, ErrorKind, Incoming, Overflow, Seq, Stop, TaskEvent, Verdict,
    Worker, WorkerSpec, planes,
};
use bus_envelope::{Draft, EventHash, MessageEnvelope, TraceContext, wire};
use bus_stories::{Scripted, Stage, task};
use bus_subjects::{ConsumerName, Filter, Role, Subject};

const ROOM: Overflow = Overflow::DropOldest { capacity: NonZeroUsize::new(64).unwrap() };

#[tokio::test(start_paused = true)]
async fn test_trace_context_propagation() {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let parent = TraceContext::new([1; 16], [2; 8], 1).unwrap();

    let sent = boss.send(task(&stage, "a").trace(parent.clone())).await.unwrap();
    let task = wire::decode(&sent.frame.headers, &sent.frame.body).unwrap();
    let child = task.trace.child_span([9; 8]);

    assert_eq!(task.trace.trace_id(), parent.trace_id());
    assert_ne!(task.trace.span_id(), parent.span_id());
    assert_eq!(child.trace_id(), parent.trace_id());
    assert_ne!(child.span_id(), task.trace.span_id());
}

/// Two tasks in a row on one chain, as they are stored.
async fn two_linked_tasks(stage: &Stage) -> (MessageEnvelope, MessageEnvelope) {
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let mut envelopes = Vec::new();
    for text in ["a", "b"] {
        let frame = boss.send(task(stage, text)).await.unwrap().frame;
        envelopes.push(wire::decode(&frame.headers, &frame.body).unwrap());
    }
    let second = envelopes.pop().unwrap();
    (envelopes.pop().unwrap(), second)
}

#[tokio::test(start_paused = true)]
async fn test_envelope_merkle_chaining() {
    let stage = Stage::new().await.unwrap();
    let (first, second) = two_linked_tasks(&stage).await;

    assert_eq!(second.lineage.seq_num, first.lineage.seq_num + 1);
    assert!(MessageEnvelope::verify_merkle_link(&first, &second));
}

#[tokio::test(start_paused = true)]
async fn a_sequence_mismatch_breaks_the_link() {
    let stage = Stage::new().await.unwrap();
    let (first, mut second) = two_linked_tasks(&stage).await;
    second.lineage.seq_num += 1;
    assert!(!MessageEnvelope::verify_merkle_link(&first, &second));
}

#[tokio::test(start_paused = true)]
async fn a_forged_hash_breaks_the_link() {
    let stage = Stage::new().await.unwrap();
    let (first, mut second) = two_linked_tasks(&stage).await;
    second.lineage.prev_event_hash = EventHash::of(b"forged");
    assert!(!MessageEnvelope::verify_merkle_link(&first, &second));
}

#[tokio::test(start_paused = true)]
async fn a_changed_payload_breaks_the_link() {
    let stage = Stage::new().await.unwrap();
    let (mut first, second) = two_linked_tasks(&stage).await;
    first.payload = bytes::Bytes::from_static(b"something else");
    assert!(!MessageEnvelope::verify_merkle_link(&first, &second));
}

#[tokio::test(start_paused = true)]
async fn test_crypto_envelope_round_trip_and_tampering() {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let worker = stage.agent("coder-1", Role::Worker).unwrap();
    let frame = boss.send(task(&stage, "the secret text")).await.unwrap().frame;

    assert_eq!(&worker.open(&frame).unwrap().payload[..], b"the secret text");
    assert!(!frame.body.windows(6).any(|window| window == b"secret"), "the body is in plain");

    for at in 0..frame.body.len() {
        let mut body = frame.body.to_vec();
        body[at] ^= 1;
        let mut forged = frame.clone();
        forged.body = body.into();
        assert!(worker.open(&forged).is_err(), "byte {at} of the body was changed unnoticed");
    }
}

#[tokio::test(start_paused = true)]
async fn every_header_of_a_durable_message_is_covered() {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let worker = stage.agent("coder-1", Role::Worker).unwrap();
    let draft = task(&stage, "text").extension("priority", "high").unwrap();
    let frame = boss.send(draft).await.unwrap().frame;

    for (number, (name, value)) in frame.headers.iter().enumerate() {
        let mut forged = frame.clone();
        forged.headers = bus_envelope::Headers::new();
        for (other, (name, value)) in frame.headers.iter().enumerate() {
            let value = if other == number { altered(name, value) } else { value.to_owned() };
            forged.headers.add(name, value).unwrap();
        }
        assert!(worker.open(&forged).is_err(), "header {name} was changed from {value} unnoticed");
    }
}

/// Another value of the same form: the last letter or digit is changed. Of the trace only the id
/// is covered, so that is what changes there.
fn altered(name: &str, value: &str) -> String {
    let last = if name == "ce-traceparent" { value.find('-').unwrap() + 4 } else { value.len() };
    let at = value[..last].rfind(|c: char| c.is_ascii_alphanumeric()).unwrap();
    let other = if value[at..].starts_with('1') { "2" } else { "1" };
    format!("{}{other}{}", &value[..at], &value[at + 1..])
}

#[tokio::test(start_paused = true)]
async fn a_message_moved_to_another_subject_is_refused() {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let worker = stage.agent("coder-1", Role::Worker).unwrap();
    let mut frame = boss.send(task(&stage, "text")).await.unwrap().frame;
    frame.subject = Subject::parse("vak.work.w1.tester.task").unwrap();

    let refused = worker.open(&frame).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt);
}

#[tokio::test(start_paused = true)]
async fn test_subjects_and_acl_enforcement() {
    let stage = Stage::new().await.unwrap();
    let worker = stage.agent("coder-1", Role::Worker).unwrap();

    let forged = worker.send(task(&stage, "forged")).await.unwrap_err();
    assert_eq!(forged.kind(), ErrorKind::Denied);
    for filter in ["vak.approvals.w1.>", "vak.*.w1.s1.request", "vak.agent.w1.*.inbox", "vak.>"] {
        let refused = worker.subscribe(Filter::parse(filter).unwrap(), ROOM).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Denied, "{filter}");
    }
    let own = Draft::new(stage.tokens().subject(), "vak.token", "hi");
    worker.publish(own).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn test_ephemeral_pub_sub_fanout() {
    let stage = Stage::new().await.unwrap();
    let worker = stage.agent("coder-1", Role::Worker).unwrap();
    let mut feeds = Vec::new();
    for number in 0..8 {
        let viewer = stage.agent(&format!("viewer-{number}"), Role::Observer).unwrap();
        let filter = Filter::parse("vak.events.w1.s1.>").unwrap();
        feeds.push(viewer.subscribe(filter, ROOM).await.unwrap());
    }
    for text in ["a", "b", "c"] {
        worker.publish(Draft::new(stage.tokens().subject(), "vak.token", text)).await.unwrap();
    }
    for feed in &mut feeds {
        for text in ["a", "b", "c"] {
            let Some(Incoming::Message(opened)) = feed.next().await else {
                panic!("a subscriber missed {text}")
            };
            assert_eq!(&opened.payload[..], text.as_bytes());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn test_durable_work_queue_claim_and_ack() {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let spec = ConsumerSpec {
        stream: planes::work_stream(&stage.workspace).unwrap(),
        name: ConsumerName::parse("worker_coder").unwrap(),
        filter: Filter::from(&stage.tasks().subject()),
        lease: Duration::from_secs(30),
    };
    let one = stage.agent("coder-1", Role::Worker).unwrap();
    let two = stage.agent("coder-2", Role::Worker).unwrap();
    let mut first = one.consume(spec.clone()).await.unwrap();
    let mut second = two.consume(spec.clone()).await.unwrap();
    for text in ["a", "b"] {
        boss.send(task(&stage, text)).await.unwrap();
    }

    let (a, b) = (first.next().await.unwrap().unwrap(), second.next().await.unwrap().unwrap());
    let texts = [one.open(&a.frame).unwrap().payload, two.open(&b.frame).unwrap().payload];
    assert_eq!([&texts[0][..], &texts[1][..]], [b"a", b"b"]);
    a.settle(Verdict::Ack).await.unwrap();
    b.settle(Verdict::Ack).await.unwrap();

    let lag = stage.engine.lag(spec.stream).await.unwrap();
    assert_eq!((lag.pending, lag.in_flight), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn test_dead_letter_queue_on_max_retries() {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let endpoint = stage.agent("coder-1", Role::Worker).unwrap();
    let sent = boss.send(task(&stage, "poison")).await.unwrap();

    let stop = Stop::default();
    let events = Mutex::new(Vec::new());
    let worker = Worker::new(endpoint, WorkerSpec::new(stage.queue.clone()));
    let report = |event: TaskEvent| {
        if matches!(event, TaskEvent::DeadLettered { .. }) {
            stop.drain.cancel();
        }
        events.lock().unwrap().push(event);
    };
    worker.run(&Scripted::failing(9), &stop, report).await.unwrap();

    let events = events.into_inner().unwrap();
    let retries = events.iter().filter(|e| matches!(e, TaskEvent::Retried { .. })).count();
    assert_eq!(retries, 3);

    let mut letters = stage
        .engine
        .replay(planes::dead_letters_stream().unwrap(), Filter::all(), Seq(1))
        .await
        .unwrap();
    let frame = letters.next().await.unwrap().unwrap().frame;
    assert!(letters.next().await.is_none(), "there is more than one dead letter");
    assert_eq!(frame.subject.as_str(), "vak.dlq.w1.coder-1.failed");
    let operator = stage.agent("op", Role::Operator).unwrap();
    let letter = DeadLetterEvent::from_json(&operator.open(&frame).unwrap().payload).unwrap();
    assert_eq!(letter.envelope_id, sent.id);
    assert_eq!(letter.attempts, 4);
    assert_eq!(letter.worker_id.as_deref(), Some("coder-1"));
    assert_eq!(letter.failure_reason, "retries exhausted after 4 attempts: it broke");
    assert_eq!(stage.metrics.snapshot().dead_letter_count, 1);

    let lag = stage.engine.lag(planes::work_stream(&stage.workspace).unwrap()).await.unwrap();
    assert_eq!((lag.pending, lag.in_flight), (0, 0));
}
