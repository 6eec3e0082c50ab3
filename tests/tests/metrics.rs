//! The six counters of a small run, exact to the frame and to the byte.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::sync::Mutex;

use bus_core::{Endpoint, ErrorKind, MetricsSnapshot, Stop, TaskEvent, planes};
use bus_envelope::Draft;
use bus_stories::{Fault, Op, Scripted, Stage, task};
use bus_subjects::Role;

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
    let good: usize = good.iter().sum();
    let expected = MetricsSnapshot {
        published_count: 4,
        received_count: 6,
        bytes_published: (poison + good + letter) as u64,
        bytes_received: (4 * poison + good) as u64,
        dead_letter_count: 1,
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
        lease: std::time::Duration::from_secs(30),
    };
    let mut deliveries = worker.consume(spec.clone()).await.unwrap();
    let held = deliveries.next().await.unwrap().unwrap();

    let lag = operator.queue_lag(spec.stream).await.unwrap();

    assert_eq!((lag.pending, lag.in_flight), (1, 1));
    assert_eq!(stage.metrics.snapshot().active_queue_lag, 2);
    drop(held);
}
