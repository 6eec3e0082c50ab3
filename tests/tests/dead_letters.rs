//! C10: a dead letter that cannot be stored, and a worker that dies while it gives up.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::{sync::Mutex, time::Duration};

use bus_core::{
    DeadLetterEvent, Endpoint, ErrorKind, Failure, OrderKey, Outcome, Outgoing, Priority, Stop,
    TaskEvent, Verdict, Worker, WorkerSpec, planes,
};
use bus_envelope::{Draft, WireForm};
use bus_stories::{Doing, Fault, Flaky, Op, Ran, Scripted, Stage, Told, task, word, work};
use bus_subjects::Role;
use tokio::time::Instant;

const DLQ: &str = "vak.dlq.";

/// A worker that fails one task until its dead letter is stored, and all it reported with times.
async fn until_dead_lettered(stage: &Stage) -> Vec<(Duration, TaskEvent)> {
    let worker = stage.worker("coder-1").unwrap();
    let (stop, events, start) = (Stop::default(), Mutex::new(Vec::new()), Instant::now());
    let report = |event: TaskEvent| {
        if matches!(event, TaskEvent::DeadLettered { .. }) {
            stop.drain.cancel();
        }
        events.lock().unwrap().push((start.elapsed(), event));
    };
    worker.run(&Scripted::failing(99), &stop, report).await.unwrap();
    events.into_inner().unwrap()
}

async fn one_task(stage: &Stage) -> String {
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    boss.send(task(stage, "poison")).await.unwrap().id
}

fn words(events: &[(Duration, TaskEvent)]) -> Vec<&'static str> {
    events.iter().map(|(_, event)| word(event)).collect()
}

/// The one dead letter, after checks that hold whatever went wrong on the way to it.
async fn the_one_letter(stage: &Stage, task_id: &str) -> DeadLetterEvent {
    let mut letters = stage.letters().await.unwrap();
    let letter = letters.pop().unwrap();
    assert!(letters.is_empty(), "there is more than one dead letter");
    assert_eq!(letter.envelope_id, task_id);
    assert_eq!(letter.attempts, 4);
    assert_eq!(stage.metrics.snapshot().dead_letter_count, 1);
    let lag = stage.lag().await.unwrap();
    assert_eq!((lag.pending, lag.in_flight), (0, 0), "the original is still there");
    letter
}

/// One way in which storing a dead letter fails `times` times, and what follows.
async fn survives(fault: Fault, times: u32, kind: ErrorKind, in_vain: usize) {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let task_id = one_task(&stage).await;
    flaky.fail(Op::Append, DLQ, fault, times);

    let events = until_dead_lettered(&stage).await;

    let mut expected = vec!["retried"; 3];
    expected.extend(vec!["unsettled"; in_vain]);
    expected.push("dead-lettered");
    assert_eq!(words(&events), expected, "{fault:?}");
    for (_, event) in &events {
        if let TaskEvent::Unsettled { error, .. } = event {
            assert_eq!(error.kind(), kind);
        }
    }
    let letter = the_one_letter(&stage, &task_id).await;
    assert_eq!(letter.failure_reason, "retries exhausted after 4 attempts: it broke", "{fault:?}");
    assert_eq!(letter.worker_id.as_deref(), Some("coder-1"));
}

#[tokio::test(start_paused = true)]
async fn a_full_dead_letter_stream_keeps_the_original() {
    survives(Fault::Refused(ErrorKind::Full), 3, ErrorKind::Full, 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_permission_for_dead_letters_keeps_the_original() {
    survives(Fault::Refused(ErrorKind::Denied), 3, ErrorKind::Denied, 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_is_too_large_keeps_the_original() {
    survives(Fault::Refused(ErrorKind::TooLarge), 2, ErrorKind::TooLarge, 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_is_gone_keeps_the_original() {
    // Each try sends the same bytes three times.
    survives(Fault::LostBefore, 9, ErrorKind::Unavailable, 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_stored_without_an_answer_is_not_stored_again() {
    survives(Fault::LostAfter, 9, ErrorKind::Unavailable, 3).await;
}

#[tokio::test(start_paused = true)]
async fn one_lost_answer_is_not_even_noticed() {
    survives(Fault::LostAfter, 1, ErrorKind::Unavailable, 0).await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_dead_lettered_is_tried_ever_more_rarely() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    one_task(&stage).await;
    flaky.fail(Op::Append, DLQ, Fault::Refused(ErrorKind::Full), 9);

    let events = until_dead_lettered(&stage).await;

    let times: Vec<Duration> = events[3..].iter().map(|(time, _)| *time).collect();
    let rests: Vec<u64> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect();
    for (rest, expected) in rests.iter().zip([5, 10, 20, 40, 80, 160, 240, 240, 240]) {
        let within = expected * 9 / 10..=expected * 11 / 10;
        assert!(within.contains(rest), "rests of {rests:?} seconds");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_counted_while_no_dead_letter_is_stored() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    one_task(&stage).await;
    flaky.fail(Op::Append, DLQ, Fault::Refused(ErrorKind::Full), u32::MAX);
    let worker = stage.worker("coder-1").unwrap();
    let (stop, in_vain) = (Stop::default(), Mutex::new(0));
    let report = |event: TaskEvent| {
        if matches!(event, TaskEvent::Unsettled { .. }) {
            *in_vain.lock().unwrap() += 1;
        }
        if *in_vain.lock().unwrap() == 5 {
            stop.drain.cancel();
        }
    };
    worker.run(&Scripted::failing(99), &stop, report).await.unwrap();

    assert_eq!(stage.metrics.snapshot().dead_letter_count, 0);
    assert!(stage.letters().await.unwrap().is_empty());
    assert_eq!(stage.lag().await.unwrap().pending, 1, "the original is lost");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_given_up_is_not_run_again_while_its_letter_waits() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    one_task(&stage).await;
    flaky.fail(Op::Append, DLQ, Fault::Refused(ErrorKind::Full), 2);
    let worker = stage.worker("coder-1").unwrap();
    let (stop, runs) = (Stop::default(), std::sync::Arc::new(Mutex::new(0)));
    let counted = std::sync::Arc::clone(&runs);
    let hopeless = Doing(move |_: Told| -> Ran {
        *counted.lock().unwrap() += 1;
        Box::pin(async { Err(Failure::Hopeless { reason: "no such file".to_owned() }) })
    });
    let report = |event: TaskEvent| {
        if matches!(event, TaskEvent::DeadLettered { .. }) {
            stop.drain.cancel();
        }
    };
    worker.run(&hopeless, &stop, report).await.unwrap();

    assert_eq!(*runs.lock().unwrap(), 1);
    let letters = stage.letters().await.unwrap();
    assert_eq!((letters.len(), letters[0].attempts), (1, 1));
    assert_eq!(letters[0].failure_reason, "no such file");
}

#[tokio::test(start_paused = true)]
async fn another_worker_stores_the_letter_with_the_first_ones_reason() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let task_id = one_task(&stage).await;
    flaky.fail(Op::Append, DLQ, Fault::Refused(ErrorKind::Full), 1);
    let stop = Stop::default();
    let first = stage.worker("coder-1").unwrap();
    let report = |event: TaskEvent| {
        if matches!(event, TaskEvent::Unsettled { .. }) {
            stop.drain.cancel();
        }
    };
    first.run(&Scripted::failing(99), &stop, report).await.unwrap();

    let (stop, second) = (Stop::default(), stage.worker("coder-2").unwrap());
    second.run(&Scripted::failing(0), &stop, |_| stop.drain.cancel()).await.unwrap();

    let letter = the_one_letter(&stage, &task_id).await;
    assert_eq!(letter.failure_reason, "retries exhausted after 4 attempts: it broke");
    assert_eq!(letter.worker_id.as_deref(), Some("coder-1"));
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_letter_and_settlement_leaves_one_letter() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let task_id = one_task(&stage).await;
    flaky.fail(Op::Append, DLQ, Fault::StuckAfter, 1);

    let (stop, first) = (Stop::default(), stage.worker("coder-1").unwrap());
    let failing = Scripted::failing(99);
    tokio::select! {
        _ = first.run(&failing, &stop, |_| ()) => panic!("the worker did not crash"),
        () = flaky.stuck() => {}
    }
    assert_eq!(stage.lag().await.unwrap().in_flight, 1, "the original was settled first");

    let second = stage.worker("coder-2").unwrap();
    let events = Mutex::new(Vec::new());
    let report = |event: TaskEvent| {
        events.lock().unwrap().push(event);
        stop.drain.cancel();
    };
    second.run(&Scripted::failing(0), &stop, report).await.unwrap();

    let events = events.into_inner().unwrap();
    assert!(matches!(&events[..], [TaskEvent::DeadLettered { attempts: 4, .. }]), "{events:?}");
    the_one_letter(&stage, &task_id).await;
}

/// Where the appends to the dead letters and the settlements stand among the calls.
fn order(flaky: &Flaky) -> Vec<String> {
    let steps = flaky.calls().into_iter().filter_map(|call| match (call.op, call.verdict) {
        (Op::Append, _) if call.at.starts_with(DLQ) => Some("store the letter".to_owned()),
        (Op::Settle, Some(Verdict::Retry { .. })) => Some("retry".to_owned()),
        (Op::Settle, Some(Verdict::Reject { .. })) => Some("remove the original".to_owned()),
        (Op::Settle, Some(other)) => Some(format!("{other:?}")),
        _ => None,
    });
    steps.collect()
}

#[tokio::test(start_paused = true)]
async fn the_letter_is_stored_before_the_original_is_removed() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    one_task(&stage).await;
    flaky.fail(Op::Append, DLQ, Fault::Refused(ErrorKind::Full), 1);

    until_dead_lettered(&stage).await;

    let expected = [
        "retry",
        "retry",
        "retry",
        "store the letter",
        "retry",
        "store the letter",
        "remove the original",
    ];
    assert_eq!(order(&flaky), expected);
}

#[tokio::test(start_paused = true)]
async fn a_letter_whose_original_could_not_be_removed_is_not_written_twice() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let task_id = one_task(&stage).await;
    let worker = stage.worker("coder-1").unwrap();
    let (stop, events) = (Stop::default(), Mutex::new(Vec::new()));
    let report = |event: TaskEvent| {
        match &event {
            // From now on the next verdict is the rejection: it gets lost once.
            TaskEvent::Retried { attempt: 3, .. } => {
                flaky.fail(Op::Settle, "vak.work.", Fault::LostBefore, 1);
            }
            TaskEvent::Unsettled { error, .. } => assert_eq!(error.outcome(), Outcome::Unknown),
            TaskEvent::DeadLettered { .. } => stop.drain.cancel(),
            _ => {}
        }
        events.lock().unwrap().push((Duration::ZERO, event));
    };
    worker.run(&Scripted::failing(99), &stop, report).await.unwrap();

    let events = events.into_inner().unwrap();
    let expected = ["retried", "retried", "retried", "unsettled", "dead-lettered"];
    assert_eq!(words(&events), expected);
    the_one_letter(&stage, &task_id).await;
}

#[tokio::test(start_paused = true)]
async fn the_largest_task_there_is_can_be_dead_lettered() {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let mut largest = task(&stage, "");
    largest.payload = vec![7; Endpoint::PAYLOAD_BYTES_MAX].into();
    let task_id = boss.send(largest).await.unwrap().id;
    until_dead_lettered(&stage).await;
    the_one_letter(&stage, &task_id).await;
}

/// A task whose headers are as large as they get, with a payload of `bytes` bytes.
fn laden(stage: &Stage, bytes: usize) -> Draft {
    let mut draft = Draft { payload: vec![7; bytes].into(), ..task(stage, "") };
    for n in 0..64 {
        draft = draft.extension(format!("x{n}"), "\"".repeat(1024)).unwrap();
    }
    draft
}

/// The same with the longest order key there is, of bytes that need two in JSON.
fn laden_and_placed(stage: &Stage, bytes: usize) -> Outgoing {
    let key = OrderKey::parse(&"\"".repeat(OrderKey::BYTES_MAX)).unwrap();
    Outgoing::from(laden(stage, bytes)).key(key).priority(Priority::HIGHEST)
}

/// The largest payload of such a task that is not refused as too large in this wire form.
async fn largest_payload(wire: WireForm) -> usize {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let mut parts = stage.parts(stage.certified("boss", Role::Orchestrator).unwrap());
    parts.wire = wire;
    let boss = Endpoint::new(parts).unwrap();
    flaky.fail(Op::Append, "vak.work.", Fault::Refused(ErrorKind::Full), u32::MAX);
    let (mut fits, mut too_large) = (0, Endpoint::PAYLOAD_BYTES_MAX + 1);
    while too_large - fits > 1 {
        let middle = usize::midpoint(fits, too_large);
        match boss.send(laden_and_placed(&stage, middle)).await.unwrap_err().kind() {
            ErrorKind::Full => fits = middle,
            _ => too_large = middle,
        }
    }
    fits
}

#[tokio::test(start_paused = true)]
async fn whatever_can_be_sent_can_be_dead_lettered_with_the_longest_reason() {
    for wire in [WireForm::Binary, WireForm::Json, WireForm::Compact] {
        let bytes = largest_payload(wire).await;
        assert!(bytes > 256 * 1024, "{wire:?} takes only {bytes} bytes");
        let stage = Stage::new().await.unwrap();
        let mut parts = stage.parts(stage.certified("boss", Role::Orchestrator).unwrap());
        parts.wire = wire;
        Endpoint::new(parts).unwrap().send(laden_and_placed(&stage, bytes)).await.unwrap();

        let mut parts = stage.parts(stage.certified("coder-1", Role::Worker).unwrap());
        parts.wire = wire;
        let spec = WorkerSpec::new(stage.queue.clone());
        let worker = Worker::new(Endpoint::new(parts).unwrap(), spec);
        // Six bytes each in JSON.
        let reason = "\u{1}".repeat(DeadLetterEvent::REASON_BYTES_MAX);
        let handler = Doing(move |_: Told| -> Ran {
            let reason = reason.clone();
            Box::pin(async { Err(Failure::Hopeless { reason }) })
        });
        let events = work(&worker, &handler, |_| true).await.unwrap();

        assert_eq!(bus_stories::words(&events), ["dead-lettered"], "{wire:?}: {events:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reason_that_is_too_long_is_cut_for_the_engine_too() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    one_task(&stage).await;
    let handler = Doing(|_: Told| -> Ran {
        Box::pin(async { Err(Failure::Hopeless { reason: "x".repeat(2 << 20) }) })
    });
    work(&stage.worker("coder-1").unwrap(), &handler, |_| true).await.unwrap();
    let verdicts = flaky.calls().into_iter().filter_map(|call| call.verdict);
    let reasons = verdicts.filter_map(|verdict| match verdict {
        Verdict::Reject { reason } => Some(reason.len()),
        _ => None,
    });
    assert_eq!(reasons.collect::<Vec<_>>(), [DeadLetterEvent::REASON_BYTES_MAX]);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_could_not_be_dead_lettered_is_not_sent() {
    let stage = Stage::new().await.unwrap();
    let mut parts = stage.parts(stage.certified("boss", Role::Orchestrator).unwrap());
    parts.wire = WireForm::Json;
    let boss = Endpoint::new(parts).unwrap();
    let mut large = task(&stage, "");
    large.payload = vec![7; Endpoint::PAYLOAD_BYTES_MAX].into();

    let refused = boss.send(large).await.unwrap_err();

    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::TooLarge, Outcome::NotDone));
    assert_eq!(stage.lag().await.unwrap().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_holds_the_whole_original() {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let sent = boss.send(task(&stage, "poison")).await.unwrap();
    until_dead_lettered(&stage).await;

    let letter = the_one_letter(&stage, &sent.id).await;
    let headers: Vec<(String, String)> = sent
        .frame
        .headers
        .iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    assert_eq!(letter.original.headers, headers);
    assert_eq!(letter.original.id, sent.id);
    assert_eq!(letter.subject, sent.frame.subject.as_str());
    assert_eq!(letter.stream, planes::work_stream(&stage.workspace).unwrap().as_str());
    assert_eq!(letter.seq, sent.receipt.seq.0);
}
