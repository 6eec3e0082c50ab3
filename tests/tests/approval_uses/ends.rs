//! Approvals that are taken back, or give way to others.

use bus_authority::State;
use bus_core::ErrorKind;
use bus_stories::{Fault, Op};

use super::*;

async fn open(scene: &Scene) -> Vec<String> {
    let open = scene.otto.open_approvals(None).await.unwrap();
    open.list().iter().map(|approval| approval.id.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_its_asker_withdrew_is_neither_used_nor_answered() {
    let scene = Scene::new().await;
    let asked = scene.ask().await;
    scene.desk.withdraw(asked.approval).await.unwrap();
    assert!(open(&scene).await.is_empty());
    let session = &scene.stage.session;
    let late = scene.otto.resolve_approval(session, asked.approval, "yes", None).await;
    assert_eq!(late.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(code(scene.take(&asked).await), "decision-withdrawn");
}

#[tokio::test(start_paused = true)]
async fn what_was_allowed_can_be_withdrawn_by_who_asked_and_not_what_was_used() {
    let scene = Scene::new().await;
    let asked = scene.allowed().await;
    scene.desk.withdraw(asked.approval).await.unwrap();
    assert_eq!(code(scene.take(&asked).await), "decision-withdrawn");
    let used = scene.allowed().await;
    scene.take(&used).await.unwrap();
    let refused = scene.desk.withdraw(used.approval).await.unwrap_err();
    assert_eq!(refused.code(), "decision-consumed");
}

#[tokio::test(start_paused = true)]
async fn a_withdrawal_that_stops_half_way_is_finished_by_the_next() {
    let (scene, flaky) = Scene::flaky().await;
    let asked = scene.ask().await;
    flaky.fail(Op::Append, "vak.approvals.", Fault::Refused(ErrorKind::Full), 1);
    scene.desk.withdraw(asked.approval).await.unwrap_err();
    // It is shown as open, and can never be used.
    assert_eq!(open(&scene).await.len(), 1);
    assert_eq!(code(scene.take(&asked).await), "decision-withdrawn");
    for _ in 0..2 {
        scene.desk.withdraw(asked.approval).await.unwrap();
        assert!(open(&scene).await.is_empty());
    }
    assert_eq!(scene.records().await, ["vak.approval.withdrawn"]);
}

#[tokio::test(start_paused = true)]
async fn an_operator_withdraws_what_is_open_and_not_what_was_answered() {
    let scene = Scene::new().await;
    let session = &scene.stage.session;
    let asked = scene.ask().await;
    scene.otto.withdraw_approval(session, asked.approval).await.unwrap();
    scene.otto.withdraw_approval(session, asked.approval).await.unwrap();
    assert!(open(&scene).await.is_empty());
    assert_eq!(scene.known(&asked).await.state_at(scene.stage.clock.now()), State::Withdrawn);
    let answered = scene.allowed().await;
    let refused = scene.otto.withdraw_approval(session, answered.approval).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    let refused = scene.worker.withdraw_approval(session, answered.approval).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
}

#[tokio::test(start_paused = true)]
async fn of_a_verdict_and_an_operators_withdrawal_at_once_one_counts() {
    for _ in 0..20 {
        let scene = Scene::new().await;
        let olga = scene.stage.agent("olga", Role::Operator).unwrap();
        let asked = scene.ask().await;
        let session = &scene.stage.session;
        let (answered, withdrawn) = tokio::join!(
            scene.otto.resolve_approval(session, asked.approval, "yes", None),
            olga.withdraw_approval(session, asked.approval),
        );
        assert_ne!(answered.is_ok(), withdrawn.is_ok(), "{answered:?} {withdrawn:?}");
        let used = scene.take(&asked).await;
        assert_eq!(used.is_ok(), answered.is_ok(), "{used:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_superseded_request_cannot_be_used_and_the_new_one_can() {
    let scene = Scene::new().await;
    let old = scene.allowed().await;
    let new = scene.desk.supersede(old.approval, Some("ask-2"), &request()).await.unwrap();
    assert_eq!(code(scene.take(&old).await), "decision-superseded");
    assert_eq!(open(&scene).await, ["ask-2"]);
    scene.answer(&new, "yes").await;
    scene.take(&new).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_request_in_the_place_of_another_that_stops_half_way_is_finished_by_the_next() {
    let (scene, flaky) = Scene::flaky().await;
    let old = scene.allowed().await;
    flaky.fail(Op::Append, "vak.approvals.", Fault::Refused(ErrorKind::Full), 1);
    scene.desk.supersede(old.approval, Some("ask-2"), &request()).await.unwrap_err();
    assert_eq!(code(scene.take(&old).await), "decision-superseded");
    // Not in favour of a third one, but of the one that was to come.
    let third = scene.desk.supersede(old.approval, Some("ask-3"), &request()).await.unwrap_err();
    assert_eq!(third.code(), "decision-superseded");
    scene.desk.supersede(old.approval, Some("ask-2"), &request()).await.unwrap();
    assert_eq!(open(&scene).await, ["ask-2"]);
}

#[tokio::test(start_paused = true)]
async fn the_book_tells_how_each_approval_stands() {
    let scene = Scene::new().await;
    let mut asked = Vec::new();
    for _ in 0..5 {
        asked.push(scene.ask().await);
    }
    for resolved in &asked[1..4] {
        scene.answer(resolved, "yes").await;
    }
    scene.take(&asked[2]).await.unwrap();
    scene.desk.withdraw(asked[3].approval).await.unwrap();
    scene.desk.supersede(asked[4].approval, Some("ask-9"), &request()).await.unwrap();

    let book = Book::read(&scene.otto, None).await.unwrap();
    let now = scene.stage.clock.now();
    let states: Vec<&str> = book.list().iter().map(|one| one.state_at(now).as_str()).collect();
    assert_eq!(states, ["open", "resolved", "consumed", "withdrawn", "superseded", "open"]);
    let end = book.list()[4].end().unwrap();
    assert_eq!((end.by.as_str(), end.instead.as_deref()), ("coder-1", Some("ask-9")));
    // A worker reads nothing of it, an auditor everything.
    let refused = Book::read(&scene.worker, None).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
    let auditor = scene.stage.agent("audit", Role::Auditor).unwrap();
    let read = Book::read(&auditor, Some(&scene.stage.session)).await.unwrap();
    assert_eq!(read.list(), book.list());
}
