//! S0.91, C10: whoever listens hears that a task was given up, or that it could not be.

use std::num::NonZeroUsize;

use bus_core::{
    Alert, Endpoint, ErrorKind, EventFeed, Frame, GivenUpCause, Incoming, LetterAlert,
    LetterFailedAlert, Opened, Overflow, Standing, TaskEvent,
};
use bus_envelope::{WireForm, wire};
use bus_stories::{Call, Fault, Op, Scripted, Stage, task, work};
use bus_subjects::{AddressKind, Role};

use super::give_up_all;

async fn listen(stage: &Stage) -> EventFeed {
    let viewer: Endpoint = stage.agent("viewer", Role::Observer).unwrap();
    let overflow = Overflow::DropOldest { capacity: NonZeroUsize::new(64).unwrap() };
    let alerts = AddressKind::Alert.filter(Some(&stage.workspace));
    viewer.subscribe(alerts, overflow).await.unwrap()
}

async fn heard(feed: &mut EventFeed) -> (Box<Opened>, Alert) {
    let incoming = feed.next().await.unwrap();
    let Incoming::Message(opened) = incoming else { unreachable!("no alert is heard") };
    let alert = Alert::of(&opened).unwrap().unwrap();
    (opened, alert)
}

async fn until_dead_lettered(stage: &Stage) {
    let done = |events: &[TaskEvent]| matches!(events.last(), Some(TaskEvent::DeadLettered { .. }));
    work(&stage.worker("coder-1").unwrap(), &Scripted::failing(99), done).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_heard_as_a_signed_alert() {
    let stage = Stage::new().await.unwrap();
    let mut feed = listen(&stage).await;
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let sent = boss.send(task(&stage, "a")).await.unwrap();

    give_up_all(&stage, "coder-1").await;

    let (opened, alert) = heard(&mut feed).await;
    let expected = LetterAlert {
        letter: Some(1),
        task: sent.id,
        kind: GivenUpCause::Hopeless,
        attempts: 1,
        queue: "coder".to_owned(),
    };
    assert_eq!(alert, Alert::DeadLetter(expected));
    // The stage has no checkpoints: it is signed by itself.
    assert_eq!(opened.standing, Standing::Signed);
    assert_eq!(opened.envelope.lineage.agent.as_str(), "coder-1");
    assert_eq!(opened.envelope.lineage.cause, Some(sent.hash));
    assert_eq!(opened.envelope.event_type, Alert::DEAD_LETTER);
}

#[tokio::test(start_paused = true)]
async fn an_alert_holds_nothing_of_the_reason_and_nothing_of_the_task() {
    let stage = Stage::new().await.unwrap();
    let mut feed = listen(&stage).await;
    stage.fill(&["canary-payload"]).await.unwrap();
    give_up_all(&stage, "coder-1").await;

    let (opened, _) = heard(&mut feed).await;

    let text = String::from_utf8(opened.payload.to_vec()).unwrap();
    assert!(!text.contains("canary") && !text.contains("cannot do"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_cannot_be_stored_is_an_alert_and_counts_as_failed() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let mut feed = listen(&stage).await;
    let id = stage.fill(&["a"]).await.unwrap().remove(0);
    flaky.fail(Op::Append, "vak.dlq.", Fault::Refused(ErrorKind::Full), 2);

    until_dead_lettered(&stage).await;

    let failed = Alert::DeadLetterFailed(LetterFailedAlert {
        task: id.clone(),
        kind: GivenUpCause::Exhausted,
        error_kind: "full".to_owned(),
        queue: "coder".to_owned(),
    });
    for _ in 0..2 {
        let (opened, alert) = heard(&mut feed).await;
        assert_eq!((alert, opened.standing), (failed.clone(), Standing::Signed));
    }
    let (_, Alert::DeadLetter(stored)) = heard(&mut feed).await else { panic!("it was stored") };
    assert_eq!((stored.task, stored.letter, stored.attempts), (id, Some(1), 4));
    let counted = stage.metrics.snapshot();
    assert_eq!((counted.dead_letter_failed_count, counted.dead_letter_count), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn an_alert_that_is_not_taken_keeps_no_task_from_its_end() {
    for fault in [Fault::Refused(ErrorKind::Unavailable), Fault::StuckAfter] {
        let (stage, flaky) = Stage::flaky().await.unwrap();
        stage.fill(&["a"]).await.unwrap();
        flaky.fail(Op::Publish, "vak.events.", fault, 99);

        until_dead_lettered(&stage).await;

        assert_eq!(stage.letters().await.unwrap().len(), 1, "{fault:?}");
        assert_eq!(stage.metrics.snapshot().dead_letter_count, 1, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_alert_without_a_signature_is_refused() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    stage.fill(&["a"]).await.unwrap();
    give_up_all(&stage, "coder-1").await;
    let is_alert = |call: &Call| call.op == Op::Publish && call.at.ends_with(".alert");
    let frame = flaky.calls().into_iter().find(is_alert).and_then(|call| call.frame).unwrap();
    let viewer = stage.agent("viewer", Role::Observer).unwrap();
    assert_eq!(viewer.open(&frame).unwrap().standing, Standing::Signed);

    let mut envelope = wire::decode(&frame.headers, &frame.body).unwrap();
    envelope.signature = None;
    let (headers, body) = wire::encode(WireForm::Binary, &envelope);
    let refused = viewer.open(&Frame { headers, body, ..frame }).unwrap_err();

    assert_eq!(refused.kind(), ErrorKind::Corrupt);
}
