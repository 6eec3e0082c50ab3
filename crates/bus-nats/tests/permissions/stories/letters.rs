//! Dead letters by the rights of those who look at them, send them again and throw them away.

use std::{num::NonZeroUsize, sync::Mutex};

use bus_core::{
    Alert, DeadLetters, DiscardReport, ErrorKind, Failure, Follow, GivenUpCause, Handled, Handler,
    Incoming, Job, LetterCount, LetterFilter, LetterOrder, Overflow, Redrive, Seq, Standing, Stop,
    TaskEvent, planes,
};
use bus_subjects::{Address, AddressKind, Filter, Role};

use super::stage::{Stage, task};

/// Gives every task up at once, for its text.
struct Hopeless;

impl Handler for Hopeless {
    async fn handle(&self, job: Job<'_>) -> Result<Handled, Failure> {
        let text = String::from_utf8_lossy(&job.message.payload);
        Err(Failure::Hopeless { reason: format!("cannot do {text}") })
    }
}

/// Sends these tasks and has a worker give them all up.
async fn give_up(stage: &Stage, texts: &[&str]) {
    let boss = stage.agent("boss", Role::Orchestrator).await;
    for text in texts {
        boss.send(task(text)).await.unwrap();
    }
    let (stop, left) = (Stop::default(), Mutex::new(texts.len()));
    let report = |event: TaskEvent| {
        assert!(matches!(event, TaskEvent::DeadLettered { .. }), "{event:?}");
        let mut left = left.lock().unwrap();
        *left -= 1;
        if *left == 0 {
            stop.drain.cancel();
        }
    };
    stage.worker("a1").await.run(&Hopeless, &stop, report).await.unwrap();
}

async fn positions(letters: &DeadLetters, order: LetterOrder) -> Vec<u64> {
    let mut walk = letters.list(LetterFilter::default(), order).await.unwrap();
    let mut positions = Vec::new();
    while let Some(letter) = walk.next().await {
        let letter = letter.unwrap();
        assert_eq!(letter.content.unwrap().kind, Some(GivenUpCause::Hopeless));
        positions.push(letter.seq.0);
    }
    positions
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_counts_opens_sends_again_and_throws_away_many_letters() {
    let stage = Stage::new().await;
    give_up(&stage, &["one", "two", "three"]).await;
    let letters = DeadLetters::new(stage.agent("op", Role::Operator).await);
    assert_eq!(positions(&letters, LetterOrder::NewestFirst).await, [3, 2, 1]);
    let shown = letters.show(Seq(2)).await.unwrap();
    let original = letters.original(&shown.content.unwrap()).unwrap();
    assert_eq!(&original.payload[..], b"two");

    let (one, how) = (Some("do one".to_owned()), Redrive::default());
    let filter = LetterFilter { reason: one, ..LetterFilter::default() };
    let survey = letters.survey(filter, &how).await.unwrap();
    assert_eq!(survey.count, LetterCount { ready: 1, ..LetterCount::default() });
    let done = letters.redrive_these(survey.letters, &how, |_, _| ()).await.unwrap();
    assert_eq!((done.redriven, done.kept), (1, 0));
    assert_eq!(stage.count(planes::work_stream(&stage.workspace).unwrap()).await, 1);
    let any = LetterFilter::default();
    let done = letters.discard_all(any, "no use", |_, _| ()).await.unwrap();
    assert_eq!(done, DiscardReport { discarded: 2, kept: 0 });

    assert_eq!(stage.count(planes::dead_letters_stream().unwrap()).await, 0);
    stage.check_that_nothing_was_refused();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_auditor_reads_letters_and_treats_none() {
    let stage = Stage::new().await;
    give_up(&stage, &["one", "two"]).await;
    let letters = DeadLetters::new(stage.agent("audit", Role::Auditor).await);
    assert_eq!(positions(&letters, LetterOrder::OldestFirst).await, [1, 2]);
    let count = letters.count(LetterFilter::default(), &Redrive::default()).await.unwrap();
    assert_eq!(count, LetterCount { denied: 2, ..LetterCount::default() });
    let any = LetterFilter::default;
    let redrive = letters.redrive_all(any(), &Redrive::default(), |_, _| ()).await.unwrap_err();
    let discard = letters.discard_all(any(), "not mine", |_, _| ()).await.unwrap_err();
    assert_eq!((redrive.kind(), discard.kind()), (ErrorKind::Denied, ErrorKind::Denied));
    stage.check_that_nothing_was_refused();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_s_alert_is_heard_by_whoever_may_hear_events() {
    let stage = Stage::new().await;
    let alerts = AddressKind::Alert.filter(Some(&stage.workspace));
    let overflow = Overflow::DropOldest { capacity: NonZeroUsize::new(64).unwrap() };
    let mut feeds = Vec::new();
    for role in [Role::Observer, Role::Operator, Role::Auditor] {
        let ear = stage.agent(&format!("ear-{role}"), role).await;
        feeds.push(ear.subscribe(alerts.clone(), overflow).await.unwrap());
    }
    give_up(&stage, &["one"]).await;
    for feed in &mut feeds {
        let Some(Incoming::Message(opened)) = feed.next().await else { panic!("nothing is heard") };
        let Some(Alert::DeadLetter(alert)) = Alert::of(&opened).unwrap() else {
            panic!("no alert")
        };
        assert_eq!((alert.letter, opened.standing), (Some(1), Standing::Signed));
    }
    stage.check_that_nothing_was_refused();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_finds_the_end_of_what_is_kept_and_follows_it() {
    let stage = Stage::new().await;
    give_up(&stage, &["one"]).await;
    let operator = stage.agent("op", Role::Operator).await;
    let (workspace, agent) = (stage.workspace.clone(), operator.agent().clone());
    let all = |kind: AddressKind| kind.filter(Some(&workspace));
    let own = Address::Inbox { workspace: workspace.clone(), agent }.subject();
    let mut ends = Vec::new();
    for (stream, filter) in [
        (planes::dead_letters_stream().unwrap(), all(AddressKind::DeadLetter)),
        (planes::work_stream(&workspace).unwrap(), all(AddressKind::Task)),
        (planes::receipts_stream().unwrap(), all(AddressKind::Receipt)),
        (planes::approvals_stream().unwrap(), all(AddressKind::Approval)),
        (planes::inbox_stream(&workspace).unwrap(), Filter::from(&own)),
    ] {
        ends.push(Follow::at_end(operator.clone(), stream, filter).await.unwrap());
    }
    assert_eq!(ends[0].position(), Seq(2));

    give_up(&stage, &["two"]).await;

    let mut seen = Vec::new();
    for end in &mut ends {
        end.look(|stored| seen.push(stored.frame.subject.to_string())).await.unwrap();
    }
    assert_eq!(seen, ["vak.dlq.w1.a1.failed"]);
    stage.check_that_nothing_was_refused();
}
