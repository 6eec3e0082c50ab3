//! An id names one approval: the answer to an old question is never taken for that to a new one.

use bus_authority::{ApprovalName, State};
use bus_core::{ErrorKind, Revocation, Sent};
use bus_subjects::SessionId;

use super::*;

const ID: &str = "nightly";

/// Longer than the bus knows ids again.
const TWO_DAYS: Duration = Duration::from_secs(2 * 24 * 3600);

/// A request that may be answered and used for a week.
fn lasting() -> ApprovalRequest {
    request().valid_for(Duration::from_secs(7 * 24 * 3600)).unwrap()
}

impl Scene {
    /// Asks under the id, whatever was asked under it before.
    async fn ask_again(&self) -> Sent {
        tokio::time::advance(TWO_DAYS).await;
        self.worker.request_approval(ID, &lasting()).await.unwrap()
    }

    async fn answer_to(&self, sent: &Sent, choice: &str) -> bus_core::Result<()> {
        let session = self.session();
        self.otto.resolve_approval(&session, sent.hash, choice, None).await.map(drop)
    }

    fn session(&self) -> SessionId {
        self.worker.session().unwrap().clone()
    }

    async fn take_named(&self, name: &ApprovalName) -> Result<Used, NotUsed> {
        let ask = self.desk.ask(ACTION, TARGET, None)?;
        self.desk.take(name, &ask, None).await
    }
}

#[tokio::test(start_paused = true)]
async fn an_id_whose_approval_was_used_names_no_other_however_long_ago_that_was() {
    let scene = Scene::new().await;
    let asked = scene.desk.request(Some(ID), &request()).await.unwrap();
    scene.answer(&asked, "yes").await;
    scene.take(&asked).await.unwrap();
    tokio::time::advance(TWO_DAYS).await;
    let again = scene.desk.request(Some(ID), &request()).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Conflict);
}

#[tokio::test(start_paused = true)]
async fn an_id_whose_answer_lies_in_the_mailbox_names_no_other() {
    let scene = Scene::new().await;
    let asked = scene.desk.request(Some(ID), &lasting()).await.unwrap();
    scene.answer(&asked, "yes").await;
    tokio::time::advance(TWO_DAYS).await;
    let again = scene.desk.request(Some(ID), &lasting()).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Conflict);
    // The answer is still there to be used.
    scene.take(&asked).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_id_of_two_answered_approvals_is_refused_and_their_leaves_are_not() {
    let scene = Scene::new().await;
    let first = scene.ask_again().await;
    scene.answer_to(&first, "yes").await.unwrap();
    let second = scene.ask_again().await;
    scene.answer_to(&second, "no").await.unwrap();
    let refused = scene.take_named(&ApprovalName::new(ID)).await;
    assert_eq!(code(refused), "decision-ambiguous");
    assert_eq!(code(scene.take_named(&second.hash.into()).await), "choice-refused");
    assert_eq!(scene.take_named(&first.hash.into()).await.unwrap().approval, first.hash);
}

#[tokio::test(start_paused = true)]
async fn an_id_of_a_used_and_an_answered_approval_is_refused() {
    let scene = Scene::new().await;
    let first = scene.ask_again().await;
    scene.answer_to(&first, "yes").await.unwrap();
    scene.take_named(&first.hash.into()).await.unwrap();
    let second = scene.ask_again().await;
    scene.answer_to(&second, "yes").await.unwrap();
    let refused = scene.take_named(&ApprovalName::new(ID)).await;
    assert_eq!(code(refused), "decision-ambiguous");
    scene.take_named(&second.hash.into()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_newer_question_under_an_id_takes_the_place_of_the_older() {
    let scene = Scene::new().await;
    let first = scene.ask_again().await;
    let second = scene.ask_again().await;
    let open = scene.otto.open_approvals(None).await.unwrap();
    let open: Vec<_> = open.list().iter().map(|asked| asked.hash).collect();
    assert_eq!(open, [second.hash]);
    let late = scene.answer_to(&first, "yes").await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Conflict);
    let book = Book::read(&scene.otto, None).await.unwrap();
    let state = book.get(&first.hash).unwrap().state_at(scene.stage.clock.now());
    assert_eq!(state, State::Superseded);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_there_is_found_however_slow_the_engine_is() {
    let (scene, flaky) = Scene::flaky().await;
    let asked = scene.allowed().await;
    flaky.slow_down(Duration::from_secs(2));
    scene.take(&asked).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_look_takes_no_longer_than_the_caller_has() {
    let (scene, flaky) = Scene::flaky().await;
    let asked = scene.ask().await;
    flaky.slow_down(Duration::from_secs(3));
    let until = scene.stage.clock.now().plus(Duration::from_secs(4));
    let open = take(&scene.desk, &asked, Some(until)).await;
    assert_eq!(code(open), "decision-open");
    assert!(scene.stage.clock.now() < until.plus(Duration::from_secs(1)));
}

#[tokio::test(start_paused = true)]
async fn what_was_said_before_its_key_was_revoked_stays_in_the_book() {
    let scene = Scene::new().await;
    let asked = scene.allowed().await;
    scene.take(&asked).await.unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    let reader = scene.stage.agent("olga", Role::Operator).unwrap();
    for gone in [&scene.worker, &scene.otto] {
        let now = scene.stage.clock.now();
        let revocation = Revocation::of(gone.identity().certificate(), now);
        scene.stage.roster.revoke(&revocation).unwrap();
    }
    let book = Book::read(&reader, None).await.unwrap();
    assert_eq!((book.list().len(), book.passed_over()), (1, 0));
    let approval = book.get(&asked.approval).unwrap();
    assert_eq!(approval.state_at(scene.stage.clock.now()), State::Consumed);
    assert_eq!(approval.verdict().unwrap().by.as_str(), "otto");
}

#[tokio::test(start_paused = true)]
async fn what_was_stored_after_its_key_was_revoked_is_passed_over() {
    let scene = Scene::new().await;
    let reader = scene.stage.agent("olga", Role::Operator).unwrap();
    let asked = scene.ask().await;
    let now = scene.stage.clock.now();
    let revocation = Revocation::of(scene.worker.identity().certificate(), now);
    scene.stage.roster.revoke(&revocation).unwrap();
    let book = Book::read(&reader, None).await.unwrap();
    assert_eq!((book.get(&asked.approval), book.passed_over()), (None, 1));
}
