//! Letters that a worker made up: an operator is not made to send what nobody signed.

use bus_core::{
    DeadLetterEvent, Endpoint, ErrorKind, OriginalFrame, OriginalPlacement, Redrive, Seq,
};
use bus_envelope::Draft;
use bus_stories::{Stage, task};
use bus_subjects::{Address, Role};

use super::letters_of;

/// A letter that a worker wrote about `task`, and nobody else.
async fn forged(
    stage: &Stage,
    worker: &Endpoint,
    event: &DeadLetterEvent,
    cause: Option<Draft>,
) -> Seq {
    let (workspace, agent) = (stage.workspace.clone(), worker.agent().clone());
    let subject = Address::DeadLetter { workspace, agent }.subject();
    let json = event.to_json().unwrap();
    let draft = Draft {
        payload: json.into(),
        ..cause.unwrap_or_else(|| Draft::new(subject.clone(), "", ""))
    };
    let draft = Draft { subject, event_type: DeadLetterEvent::EVENT_TYPE.to_owned(), ..draft };
    worker.send(draft).await.unwrap().receipt.seq
}

fn event_of(frame: &bus_core::Frame, envelope_id: &str) -> DeadLetterEvent {
    DeadLetterEvent {
        envelope_id: envelope_id.to_owned(),
        subject: frame.subject.to_string(),
        stream: "VAK_WORK_w1".to_owned(),
        seq: 1,
        attempts: 4,
        failure_reason: "it broke".to_owned(),
        failed_at: "2026-01-01T00:00:00.000000000Z".to_owned(),
        worker_id: None,
        original: OriginalFrame::of(frame),
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_cannot_have_an_operator_send_a_task_of_its_own_making() {
    let stage = Stage::new().await.unwrap();
    let worker = stage.agent("coder-1", Role::Worker).unwrap();
    // Signed by the worker, whose word is no task; and a note of the worker's own, moved.
    let event = stage.tokens().subject();
    let note = Draft::new(stage.receipts().subject(), "vak.task", "do my work");
    let bus_core::Recorded::Stored(sent) = worker.record(note).await.unwrap() else {
        panic!("the note is not stored")
    };
    for subject in [stage.tasks().subject(), event, sent.frame.subject.clone()] {
        let moved = bus_core::Frame { subject, ..sent.frame.clone() };
        let seq = forged(&stage, &worker, &event_of(&moved, &sent.id), None).await;
        let letters = letters_of(&stage, "otto", Role::Operator);
        let refused = letters.redrive(seq, &Redrive::default()).await.unwrap_err();
        let kinds = [ErrorKind::Corrupt, ErrorKind::Denied];
        assert!(kinds.contains(&refused.kind()), "{}: {refused}", moved.subject);
    }
    assert_eq!(stage.lag().await.unwrap().pending, 0, "a forged task is in the queue");
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_holds_another_task_than_it_names_is_not_redriven() {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let sent = boss.send(task(&stage, "a")).await.unwrap();
    let worker = stage.agent("coder-1", Role::Worker).unwrap();
    let letters = letters_of(&stage, "otto", Role::Operator);
    let other_cause = Draft::new(stage.tasks().subject(), "", "")
        .cause(bus_envelope::EventHash::of(b"another task"));
    let by_name = forged(&stage, &worker, &event_of(&sent.frame, "another"), None).await;
    let by_cause =
        forged(&stage, &worker, &event_of(&sent.frame, &sent.id), Some(other_cause)).await;
    for seq in [by_name, by_cause] {
        let refused = letters.redrive(seq, &Redrive::default()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_original_with_a_placement_that_is_none_is_corrupt() {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let sent = boss.send(task(&stage, "a")).await.unwrap();
    let worker = stage.agent("coder-1", Role::Worker).unwrap();
    let letters = letters_of(&stage, "otto", Role::Operator);
    for (priority, key) in [(10, None), (4, Some(String::new()))] {
        let mut event = event_of(&sent.frame, &sent.id);
        event.original.placement = Some(OriginalPlacement { priority, key });
        let seq = forged(&stage, &worker, &event, None).await;
        let refused = letters.redrive(seq, &Redrive::default()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
    }
}
