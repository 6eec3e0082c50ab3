//! Listing dead letters, and throwing them away.

use std::{sync::Arc, time::Duration};

use bus_core::{
    DeadLetterEvent, DeadLetters, Endpoint, ErrorKind, LetterCount, LetterFilter, LetterOrder,
    Redrive, Seq, TaskEvent,
};
use bus_envelope::Draft;
use bus_stories::{Scripted, Stage, work};
use bus_subjects::{Address, Filter, Role};

use super::{all, give_up_all, given_up, letters_of, list, tasks_of};

#[tokio::test(start_paused = true)]
async fn letters_come_newest_or_oldest_first() {
    let (_stage, ids, letters) = given_up(&["a", "b", "c"]).await;
    let any = LetterFilter::default;
    assert_eq!(tasks_of(&letters, any(), LetterOrder::OldestFirst).await, ids);
    let newest: Vec<String> = ids.into_iter().rev().collect();
    assert_eq!(tasks_of(&letters, any(), LetterOrder::NewestFirst).await, newest);
}

#[tokio::test(start_paused = true)]
async fn letters_are_found_by_agent_reason_queue_and_age() {
    let (stage, mut ids, letters) = given_up(&["a"]).await;
    tokio::time::advance(Duration::from_secs(60)).await;
    ids.extend(stage.fill(&["b"]).await.unwrap());
    give_up_all(&stage, "coder-2").await;

    let any = LetterFilter::default;
    let minute = Some(Duration::from_secs(60));
    let tester = Filter::parse("vak.work.w1.tester.task").unwrap();
    let filters = [
        (LetterFilter { agent: Some("coder-2".parse().unwrap()), ..any() }, &ids[1..]),
        (LetterFilter { reason: Some("do a".to_owned()), ..any() }, &ids[..1]),
        (LetterFilter { subject: Some((&stage.tasks().subject()).into()), ..any() }, &ids[..]),
        (LetterFilter { subject: Some(tester), ..any() }, &[]),
        (LetterFilter { older_than: minute, ..any() }, &ids[..1]),
        (LetterFilter { newer_than: minute, ..any() }, &ids[1..]),
    ];
    for (filter, expected) in filters {
        let found = tasks_of(&letters, filter.clone(), LetterOrder::OldestFirst).await;
        assert_eq!(found, expected, "{filter:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_cannot_be_opened_is_shown_as_such() {
    let (stage, ids, letters) = given_up(&["a"]).await;
    // A worker nobody vouches for any more: its letters are not believed, and not hidden either.
    let other = Stage::new().await.unwrap();
    let stranger = other.agent("coder-9", Role::Worker).unwrap();
    let workspace = stage.workspace.clone();
    let subject = Address::DeadLetter { workspace, agent: "coder-9".parse().unwrap() }.subject();
    let sent = stranger.send(Draft::new(subject, DeadLetterEvent::EVENT_TYPE, "{}")).await.unwrap();
    stage.engine.append(sent.frame, bus_core::Expect::Any).await.unwrap();

    let listed = all(&letters).await;

    assert_eq!(listed.len(), 2);
    assert_eq!(listed[0].task_id(), Some(ids[0].as_str()));
    assert_eq!(listed[1].agent.as_ref().map(|agent| agent.as_str()), Some("coder-9"));
    assert_eq!(listed[1].content.as_ref().unwrap_err().kind(), ErrorKind::Denied);
    let reason =
        LetterFilter { reason: Some("nothing of the kind".to_owned()), ..Default::default() };
    assert_eq!(list(&letters, reason, LetterOrder::NewestFirst).await.len(), 1);
    let refused = letters.redrive(listed[1].seq, &Redrive::default()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
    assert_eq!(stage.lag().await.unwrap().pending, 0);

    // Not one that the agent may not send: nobody knows what it is.
    for (name, role, ready, denied) in
        [("otto", Role::Operator, 1, 0), ("ann", Role::Auditor, 0, 1)]
    {
        let letters = letters_of(&stage, name, role);
        let count = letters.count(LetterFilter::default(), &Redrive::default()).await.unwrap();
        let expected = LetterCount { ready, denied, spent: 0, unreadable: 1 };
        assert_eq!(count, expected, "{role}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_letter_is_discarded_with_a_reason_and_returned() {
    let (_stage, ids, letters) = given_up(&["a", "b"]).await;
    for reason in ["", &"x".repeat(1025)] {
        let refused = letters.discard(Seq(1), reason).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
    }
    let discarded = letters.discard(Seq(1), "the order was cancelled").await.unwrap();
    assert_eq!(discarded.task_id(), Some(ids[0].as_str()));
    let left = tasks_of(&letters, LetterFilter::default(), LetterOrder::NewestFirst).await;
    assert_eq!(left, ids[1..]);
    let again = letters.discard(Seq(1), "the order was cancelled").await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn only_operators_and_keepers_discard() {
    let (stage, _, _) = given_up(&["a", "b"]).await;
    for role in [Role::Worker, Role::Orchestrator, Role::Observer, Role::Auditor, Role::View] {
        let letters = letters_of(&stage, &format!("some-{role}"), role);
        let refused = letters.discard(Seq(1), "not mine").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Denied, "{role}");
        let refused = letters.redrive(Seq(1), &Redrive::default()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Denied, "{role}");
    }
    letters_of(&stage, "otto", Role::Operator).discard(Seq(1), "done by hand").await.unwrap();
    letters_of(&stage, "kim", Role::Keeper).discard(Seq(2), "swept").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_discarded_never_reaches_the_engine() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    stage.fill(&["a"]).await.unwrap();
    give_up_all(&stage, "coder-1").await;
    flaky.forget();
    let mut parts = stage.parts(stage.certified("coder-2", Role::Worker).unwrap());
    // Without the policy at the engine's door.
    parts.engine = Arc::clone(&flaky) as Arc<dyn bus_core::Engine>;
    let letters = DeadLetters::new(Endpoint::new(parts).unwrap());
    let refused = letters.discard(Seq(1), "not mine").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
    assert!(flaky.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn every_way_to_give_up_is_counted_by_its_reason() {
    let stage = Stage::new().await.unwrap();
    stage.fill(&["a"]).await.unwrap();
    give_up_all(&stage, "coder-1").await;
    stage.fill(&["b"]).await.unwrap();
    let done = |events: &[TaskEvent]| matches!(events.last(), Some(TaskEvent::DeadLettered { .. }));
    work(&stage.worker("coder-1").unwrap(), &Scripted::failing(4), done).await.unwrap();

    let outcomes = stage.metrics.report().outcomes;
    assert_eq!((outcomes.hopeless, outcomes.exhausted, outcomes.retried), (1, 1, 3));
    assert_eq!(outcomes.dead_lettered(), stage.metrics.snapshot().dead_letter_count);
}
