//! The six counters of a small run, exact to the frame and to the byte; latencies under a stopped
//! clock; queues by name.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::{sync::Mutex, time::Duration};

use bus_core::{Endpoint, ErrorKind, Latencies, MetricsSnapshot, Stop, TaskEvent, Verdict, planes};
use bus_envelope::Draft;
use bus_stories::{Fault, Op, Scripted, Stage, task};
use bus_subjects::Role;
use proptest::prelude::*;

/// Works until the queue has seen `ends` tasks to their end.
async fn work(stage: &Stage, failures: usize, ends: usize) {
    let (stop, seen) = (Stop::default(), Mutex::new(0));
    let report = |event: TaskEvent| {
        let is_end = matches!(event, TaskEvent::Completed { .. } | TaskEvent::DeadLettered { .. });
        *seen.lock().unwrap() += usize::from(is_end);
        if *seen.lock().unwrap() == ends {
            stop.drain.cancel();
        }
    };
    let worker = stage.worker("coder-1").unwrap();
    worker.run(&Scripted::failing(failures), &stop, report).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn all_six_counters_are_exact() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let mut parts = stage.parts(stage.certified("op", Role::Operator).unwrap());
    parts.engine = stage.engine.clone();
    let operator = Endpoint::new(parts).unwrap();
    let queue = planes::work_stream(&stage.workspace).unwrap();

    let poison = boss.send(task(&stage, "poison")).await.unwrap().frame.bytes();
    let lag = operator.queue_lag(queue.clone()).await.unwrap();
    assert_eq!((lag.pending, stage.metrics.snapshot().active_queue_lag), (1, 1));
    // Four failures in a row are one dead letter; then come two good tasks.
    work(&stage, 4, 1).await;
    let mut good = Vec::new();
    for text in ["good", "a good one with more bytes"] {
        good.push(boss.send(task(&stage, text)).await.unwrap().frame.bytes());
    }
    work(&stage, 0, 2).await;
    operator.queue_lag(queue).await.unwrap();

    let letter = flaky.appended("vak.dlq.")[0].bytes();
    let alerts = flaky.calls().into_iter().filter(|call| call.at.ends_with(".alert"));
    let alert = alerts.filter_map(|call| call.frame).map(|frame| frame.bytes()).next().unwrap();
    let good: usize = good.iter().sum();
    let expected = MetricsSnapshot {
        published_count: 5,
        received_count: 6,
        bytes_published: (poison + good + letter + alert) as u64,
        bytes_received: (4 * poison + good) as u64,
        dead_letter_count: 1,
        dead_letter_failed_count: 0,
        active_queue_lag: 0,
    };
    assert_eq!(stage.metrics.snapshot(), expected);
}

#[tokio::test(start_paused = true)]
async fn bytes_that_are_sent_three_times_are_counted_once() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    flaky.fail(Op::Append, "vak.work.", Fault::LostAfter, 2);
    let bytes = boss.send(task(&stage, "a")).await.unwrap().frame.bytes();
    let counted = stage.metrics.snapshot();
    assert_eq!((counted.published_count, counted.bytes_published), (1, bytes as u64));
}

#[tokio::test(start_paused = true)]
async fn what_was_refused_is_not_counted() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let worker = stage.agent("coder-1", Role::Worker).unwrap();
    worker.send(task(&stage, "forged")).await.unwrap_err();
    flaky.fail(Op::Append, "vak.work.", Fault::Refused(ErrorKind::Full), 1);
    boss.send(task(&stage, "full")).await.unwrap_err();
    flaky.fail(Op::Publish, "vak.events.", Fault::Refused(ErrorKind::Closed), 1);
    let event = Draft::new(stage.tokens().subject(), "vak.token", "x");
    worker.publish(event).await.unwrap_err();

    assert_eq!(stage.metrics.snapshot(), MetricsSnapshot::default());
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_is_refused_is_not_received() {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let mut frame = boss.send(task(&stage, "x")).await.unwrap().frame;
    frame.body = "forged".into();
    boss.open(&frame).unwrap_err();
    assert_eq!(stage.metrics.snapshot().received_count, 0);
}

#[tokio::test(start_paused = true)]
async fn work_under_a_lease_and_work_that_rests_are_lag_too() {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    for text in ["held", "waits"] {
        boss.send(task(&stage, text)).await.unwrap();
    }
    let mut parts = stage.parts(stage.certified("op", Role::Operator).unwrap());
    parts.engine = stage.engine.clone();
    let operator = Endpoint::new(parts).unwrap();
    let worker = stage.agent("coder-1", Role::Worker).unwrap();
    let spec = bus_core::ConsumerSpec {
        stream: planes::work_stream(&stage.workspace).unwrap(),
        name: "worker_coder".parse().unwrap(),
        filter: bus_subjects::Filter::from(&stage.tasks().subject()),
        lease: Duration::from_secs(30),
    };
    let mut deliveries = worker.consume(spec.clone()).await.unwrap();
    let held = deliveries.next().await.unwrap().unwrap();

    let lag = operator.queue_lag(spec.stream).await.unwrap();

    assert_eq!((lag.pending, lag.in_flight), (1, 1));
    assert_eq!(stage.metrics.snapshot().active_queue_lag, 2);
    drop(held);
}

/// A member of the stage's queue, through an endpoint.
async fn member(stage: &Stage) -> bus_core::Deliveries {
    let spec = bus_core::ConsumerSpec {
        stream: planes::work_stream(&stage.workspace).unwrap(),
        name: "worker_coder".parse().unwrap(),
        filter: bus_subjects::Filter::from(&stage.tasks().subject()),
        lease: Duration::from_secs(30),
    };
    stage.agent("coder-1", Role::Worker).unwrap().consume(spec).await.unwrap()
}

/// An operator that no policy keeps from looking.
fn operator(stage: &Stage) -> Endpoint {
    let mut parts = stage.parts(stage.certified("op", Role::Operator).unwrap());
    parts.engine = stage.engine.clone();
    Endpoint::new(parts).unwrap()
}

#[tokio::test(start_paused = true)]
async fn latencies_are_what_the_clock_was_moved() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let worker = stage.agent("coder-2", Role::Worker).unwrap();
    let slow = |ms| Fault::SlowBefore(Duration::from_millis(ms));
    flaky.fail(Op::Append, "vak.work.", slow(100), 1);
    flaky.fail(Op::Publish, "vak.events.", slow(20), 1);
    flaky.fail(Op::Settle, "vak.work.", slow(7), 1);
    let mut deliveries = member(&stage).await;
    worker.publish(Draft::new(stage.tokens().subject(), "vak.token", "x")).await.unwrap();
    boss.send(task(&stage, "a")).await.unwrap();
    tokio::time::advance(Duration::from_millis(3000)).await;
    let delivery = deliveries.next().await.unwrap().unwrap();
    delivery.settle(Verdict::Ack).await.unwrap();

    let Latencies { publish, append, claim, settle } = stage.metrics.report().latencies;

    for (found, ms) in [(publish, 20), (append, 100), (claim, 3000), (settle, 7)] {
        let ns = ms * 1_000_000;
        assert_eq!(found.count, 1);
        assert!((ns..=ns + ns / 16).contains(&found.p50_ns), "{ms} ms as {} ns", found.p50_ns);
    }
}

#[tokio::test(start_paused = true)]
async fn a_later_attempt_is_no_wait_in_the_queue() {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    boss.send(task(&stage, "a")).await.unwrap();
    let mut deliveries = member(&stage).await;
    let retry = Verdict::Retry { after: Duration::from_secs(60) };
    deliveries.next().await.unwrap().unwrap().settle(retry).await.unwrap();
    deliveries.next().await.unwrap().unwrap().settle(Verdict::Ack).await.unwrap();
    let latencies = stage.metrics.report().latencies;
    assert_eq!((latencies.claim.count, latencies.settle.count), (1, 2));
    assert_eq!(latencies.claim.max_ns, 0);
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_one_append_and_each_of_its_messages_is_counted() {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let sent = boss.send_all(["a", "b", "c"].map(|text| task(&stage, text))).await.unwrap();
    let bytes: usize = sent.iter().map(|sent| sent.frame.bytes()).sum();
    let report = stage.metrics.report();
    assert_eq!(report.latencies.append.count, 1);
    let counted = report.counters;
    assert_eq!((counted.published_count, counted.bytes_published), (3, bytes as u64));
}

#[tokio::test(start_paused = true)]
async fn each_queue_is_told_with_what_waits_and_the_age_of_the_oldest() {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    for text in ["held", "waits", "waits too"] {
        boss.send(task(&stage, text)).await.unwrap();
    }
    let mut deliveries = member(&stage).await;
    let held = deliveries.next().await.unwrap().unwrap();
    tokio::time::advance(Duration::from_secs(9)).await;

    let queues = operator(&stage).queues(planes::work_stream(&stage.workspace).unwrap()).await;

    assert_eq!(queues.unwrap().len(), 1);
    let queue = stage.metrics.report().queues.remove(0);
    assert_eq!(queue.consumer.as_deref(), Some("worker_coder"));
    assert_eq!((queue.pending, queue.in_flight, queue.oldest_ms), (2, 1, Some(9000)));
    drop(held);
}

/// One thing that can happen to a queue.
#[derive(Debug, Clone, Copy)]
enum Step {
    Send,
    Ack,
    Retry,
    Release,
    Reject,
    Drop,
    Wait,
}

/// C16: whatever happens, a gauge is what is there, and at rest it is zero.
async fn gauges_hold(steps: Vec<Step>) {
    let stage = Stage::new().await.unwrap();
    let (boss, operator) = (stage.agent("boss", Role::Orchestrator).unwrap(), operator(&stage));
    let stream = planes::work_stream(&stage.workspace).unwrap();
    let mut deliveries = member(&stage).await;
    let (mut sent, mut done) = (0_u64, 0_u64);
    let mut steps = steps.into_iter();
    loop {
        let step = match steps.next() {
            Some(step) => step,
            None if done == sent => break,
            None => Step::Ack,
        };
        let verdict = match step {
            Step::Send => {
                boss.send(task(&stage, "x")).await.unwrap();
                sent += 1;
                continue;
            }
            Step::Wait => {
                tokio::time::advance(Duration::from_secs(31)).await;
                continue;
            }
            Step::Ack => Some(Verdict::Ack),
            Step::Retry => Some(Verdict::Retry { after: Duration::from_secs(5) }),
            Step::Release => Some(Verdict::Release { after: Duration::ZERO }),
            Step::Reject => Some(Verdict::Reject { reason: "poison".to_owned() }),
            Step::Drop => None,
        };
        // Under the stopped clock this waits for leases and rests to end.
        if done < sent {
            let delivery = deliveries.next().await.unwrap().unwrap();
            done += u64::from(matches!(verdict, Some(Verdict::Ack | Verdict::Reject { .. })));
            if let Some(verdict) = verdict {
                delivery.settle(verdict).await.unwrap();
            }
        }
        operator.queue_lag(stream.clone()).await.unwrap();
        assert_eq!(stage.metrics.snapshot().active_queue_lag, sent - done);
    }
    operator.queue_lag(stream).await.unwrap();
    let report = stage.metrics.report();
    assert_eq!((report.counters.active_queue_lag, report.counters.published_count), (0, sent));
    let found: Vec<_> = report.queues.iter().map(|q| (q.pending, q.oldest_ms)).collect();
    assert_eq!(found, [(0, None)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_gauge_never_wraps_and_is_zero_at_rest(
        steps in prop::collection::vec(
            prop_oneof![
                3 => Just(Step::Send),
                2 => Just(Step::Ack),
                1 => Just(Step::Retry),
                1 => Just(Step::Release),
                1 => Just(Step::Reject),
                1 => Just(Step::Drop),
                1 => Just(Step::Wait),
            ],
            1..40,
        )
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap().block_on(gauges_hold(steps));
    }
}
