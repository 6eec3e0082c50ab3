//! Sending a given-up task again, whatever breaks off in between.

use std::time::Duration;

use bus_core::{
    BulkReport, ConsumerSpec, ErrorKind, Failure, LetterCount, LetterFilter, OrderKey, Outcome,
    Outgoing, Placement, Priority, Redrive, Seq, TaskEvent, planes,
};
use bus_stories::{Doing, Fault, Op, Ran, Scripted, Stage, Told, task, work};
use bus_subjects::Role;

use super::{all, give_up_all, given_up, letters_of, seen};

#[tokio::test(start_paused = true)]
async fn a_redriven_task_begins_anew_with_its_first_attempt() {
    let stage = Stage::new().await.unwrap();
    let ids = stage.fill(&["flaky"]).await.unwrap();
    let done = |events: &[TaskEvent]| matches!(events.last(), Some(TaskEvent::DeadLettered { .. }));
    work(&stage.worker("coder-1").unwrap(), &Scripted::failing(4), done).await.unwrap();
    let letters = letters_of(&stage, "otto", Role::Operator);
    let letter = all(&letters).await.remove(0);
    assert_eq!(letter.content.as_ref().unwrap().event.attempts, 4);

    let redriven = letters.redrive(letter.seq, &Redrive::default()).await.unwrap();

    assert_eq!((redriven.letter, &redriven.task_id), (letter.seq, &ids[0]));
    assert_eq!(redriven.frame_id.as_str(), format!("{}.r1", ids[0]));
    assert!(!redriven.receipt.duplicate);
    assert!(all(&letters).await.is_empty(), "the letter is still there");
    assert_eq!(letters.show(letter.seq).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(seen(&stage, "coder-2").await, [(ids[0].clone(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_redriven_task_is_the_very_message_that_was_given_up() {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let sent = boss.send(task(&stage, "a")).await.unwrap();
    give_up_all(&stage, "coder-1").await;
    let letters = letters_of(&stage, "otto", Role::Operator);
    letters.redrive(Seq(1), &Redrive::default()).await.unwrap();

    let work = planes::work_stream(&stage.workspace).unwrap();
    let frame = stage.stored(work).await.unwrap().remove(0);
    assert_eq!((frame.subject, frame.headers, frame.body), {
        let sent = sent.frame;
        (sent.subject, sent.headers, sent.body)
    });
}

/// A worker that claims a task and dies before it left a mark.
async fn die_at_once(stage: &Stage) {
    let spec = ConsumerSpec {
        stream: planes::work_stream(&stage.workspace).unwrap(),
        name: "worker_coder".parse().unwrap(),
        filter: (&stage.tasks().subject()).into(),
        lease: Duration::from_secs(30),
    };
    let mut deliveries = stage.engine.consume(spec).await.unwrap();
    assert_eq!(deliveries.next().await.unwrap().unwrap().attempt, 1);
}

#[tokio::test(start_paused = true)]
async fn a_mark_of_the_earlier_life_does_not_count() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let ids = stage.fill(&["a"]).await.unwrap();
    // The mark of the earlier life stays, with the verdict of that time in it.
    flaky.fail(Op::Append, "vak.dlq.", Fault::Refused(ErrorKind::Full), 1);
    flaky.fail(Op::Delete, "VAK_CLAIMS_w1.", Fault::Refused(ErrorKind::Unavailable), 1);
    let hopeless = Doing(|_: Told| -> Ran {
        Box::pin(async { Err(Failure::Hopeless { reason: "no such file".to_owned() }) })
    });
    let done = |events: &[TaskEvent]| matches!(events.last(), Some(TaskEvent::DeadLettered { .. }));
    work(&stage.worker("coder-1").unwrap(), &hopeless, done).await.unwrap();
    letters_of(&stage, "otto", Role::Operator).redrive(Seq(1), &Redrive::default()).await.unwrap();
    die_at_once(&stage).await;

    assert_eq!(seen(&stage, "coder-2").await, [(ids[0].clone(), 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_task_is_sent_again_three_times_and_then_only_by_force() {
    let (stage, ids, letters) = given_up(&["a"]).await;
    let how = Redrive::default();
    for n in 1..=3 {
        let letter = all(&letters).await.remove(0);
        assert_eq!(letter.content.as_ref().unwrap().redrives, n - 1);
        let redriven = letters.redrive(letter.seq, &how).await.unwrap();
        assert_eq!(redriven.frame_id.as_str(), format!("{}.r{n}", ids[0]));
        give_up_all(&stage, "coder-1").await;
    }
    let letter = all(&letters).await.remove(0);

    let refused = letters.redrive(letter.seq, &how).await.unwrap_err();
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Conflict, Outcome::NotDone));
    assert_eq!(all(&letters).await.len(), 1, "the letter of a refused redrive is gone");

    let forced = Redrive { is_forced: true, ..how };
    let redriven = letters.redrive(letter.seq, &forced).await.unwrap();
    assert_eq!(redriven.frame_id.as_str(), format!("{}.r4", ids[0]));
}

/// A redrive that breaks off at the step that is named, and its repeat.
async fn breaks_off(op: Op, at: &str) {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let id = stage.fill(&["a"]).await.unwrap().remove(0);
    give_up_all(&stage, "coder-1").await;
    let letters = letters_of(&stage, "otto", Role::Operator);
    flaky.fail(op, at, Fault::StuckAfter, 1);
    let how = Redrive::default();
    tokio::select! {
        done = letters.redrive(Seq(1), &how) => panic!("it did not break off: {done:?}"),
        () = flaky.stuck() => {}
    }

    // Somebody else repeats what the first one may have done.
    let repeat = letters_of(&stage, "olga", Role::Operator).redrive(Seq(1), &how).await;

    match op {
        Op::Append => assert!(repeat.unwrap().receipt.duplicate),
        _ => assert_eq!(repeat.unwrap_err().kind(), ErrorKind::NotFound),
    }
    assert!(all(&letters).await.is_empty(), "the letter is still there");
    assert_eq!(seen(&stage, "coder-2").await, [(id, 1)], "{op:?}");
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_the_task_and_its_letter_sends_it_once() {
    breaks_off(Op::Append, "vak.work.").await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_the_letter_went_sends_it_once() {
    breaks_off(Op::Discard, "VAK_DLQ").await;
}

#[tokio::test(start_paused = true)]
async fn the_task_is_stored_before_its_letter_goes() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    stage.fill(&["a"]).await.unwrap();
    give_up_all(&stage, "coder-1").await;
    let letters = letters_of(&stage, "otto", Role::Operator);
    flaky.fail(Op::Append, "vak.work.", Fault::Refused(ErrorKind::Full), 1);

    let refused = letters.redrive(Seq(1), &Redrive::default()).await.unwrap_err();

    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Full, Outcome::NotDone));
    assert_eq!(all(&letters).await.len(), 1, "the task is in neither place");
    flaky.forget();
    letters.redrive(Seq(1), &Redrive::default()).await.unwrap();
    let calls = flaky.calls();
    let steps: Vec<Op> = calls
        .iter()
        .map(|call| call.op)
        .filter(|op| [Op::Append, Op::Discard].contains(op))
        .collect();
    assert_eq!(steps, [Op::Append, Op::Discard]);
}

#[tokio::test(start_paused = true)]
async fn one_lost_answer_of_the_queue_is_not_even_noticed() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let ids = stage.fill(&["a"]).await.unwrap();
    give_up_all(&stage, "coder-1").await;
    flaky.fail(Op::Append, "vak.work.", Fault::LostAfter, 1);
    let letters = letters_of(&stage, "otto", Role::Operator);
    letters.redrive(Seq(1), &Redrive::default()).await.unwrap();
    assert_eq!(seen(&stage, "coder-2").await, [(ids[0].clone(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_could_not_be_removed_is_told_as_an_unknown_outcome() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    stage.fill(&["a"]).await.unwrap();
    give_up_all(&stage, "coder-1").await;
    flaky.fail(Op::Discard, "VAK_DLQ", Fault::Refused(ErrorKind::Unavailable), 1);
    let letters = letters_of(&stage, "otto", Role::Operator);
    let told = letters.redrive(Seq(1), &Redrive::default()).await.unwrap_err();
    assert_eq!((told.kind(), told.outcome()), (ErrorKind::Unavailable, Outcome::Unknown));
}

#[tokio::test(start_paused = true)]
async fn priority_and_order_key_are_kept_over_a_dead_letter() {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let key = Some(OrderKey::parse("repository-1").unwrap());
    let placement =
        Placement { not_before: Some(stage.clock.now()), priority: Priority::HIGHEST, key };
    let mut outgoing = Outgoing::from(task(&stage, "a"));
    outgoing.placement = placement.clone();
    boss.send(outgoing).await.unwrap();
    give_up_all(&stage, "coder-1").await;

    let letters = letters_of(&stage, "otto", Role::Operator);
    letters.redrive(Seq(1), &Redrive::default()).await.unwrap();

    let work = planes::work_stream(&stage.workspace).unwrap();
    let frame = stage.stored(work).await.unwrap().remove(0);
    // Its time has come already.
    let kept = Placement { not_before: None, ..placement };
    assert_eq!(frame.placement.as_deref(), Some(&kept));
}

#[tokio::test(start_paused = true)]
async fn many_letters_are_counted_first_and_then_redriven_with_a_report_of_each() {
    let (stage, ids, letters) = given_up(&["a", "b", "c"]).await;
    let how = Redrive { redrives_max: 1, is_forced: false };
    // One of them has been sent again already.
    letters.redrive(Seq(1), &how).await.unwrap();
    give_up_all(&stage, "coder-1").await;

    let count = letters.count(LetterFilter::default(), &how).await.unwrap();
    assert_eq!(count, LetterCount { ready: 2, spent: 1, ..LetterCount::default() });
    assert_eq!(stage.lag().await.unwrap().pending, 0, "counting sent something");

    let mut told = Vec::new();
    let report = |seq: Seq, result: &bus_core::Result<bus_core::Redriven>| {
        told.push((seq.0, result.as_ref().map_err(|error| error.kind()).map(drop)));
    };
    let done = letters.redrive_all(LetterFilter::default(), &how, report).await.unwrap();

    assert_eq!(done, BulkReport { redriven: 2, kept: 1 });
    assert_eq!(told, [(2, Ok(())), (3, Ok(())), (4, Err(ErrorKind::Conflict))]);
    let redone: Vec<(String, u32)> = ids[1..].iter().map(|id| (id.clone(), 1)).collect();
    assert_eq!(seen(&stage, "coder-2").await, redone);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_nobody_known_sent_counts_as_one_that_cannot_be_opened() {
    let stage = Stage::new().await.unwrap();
    let issue = stage.issue("stranger", Role::Orchestrator).unwrap();
    let entropy = bus_crypto::SystemEntropy::new();
    let unknown = bus_core::Identity::issue(stage.account(), &issue, &entropy).unwrap();
    stage.endpoint(unknown).unwrap().send(task(&stage, "a")).await.unwrap();
    give_up_all(&stage, "coder-1").await;
    let letters = letters_of(&stage, "otto", Role::Operator);
    let how = Redrive::default();

    let count = letters.count(LetterFilter::default(), &how).await.unwrap();

    assert_eq!(count, LetterCount { unreadable: 1, ..LetterCount::default() });
    let refused = letters.redrive(Seq(1), &how).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
}
