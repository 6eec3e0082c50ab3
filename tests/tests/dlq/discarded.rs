//! Throwing many letters away: what was counted, and nothing by a guess.

use std::time::Duration;

use bus_core::{
    DeadLetter, DeadLetterEvent, DiscardReport, ErrorKind, GivenUpCause, LetterFilter, Redrive,
    Result, Seq, Tasks,
};
use bus_envelope::Draft;
use bus_stories::Stage;
use bus_subjects::{Address, Role};

use super::{all, give_up_all, given_up, letters_of};

/// What was reported of each letter.
type Told = Vec<(u64, std::result::Result<(), ErrorKind>)>;

fn told(told: &mut Told) -> impl FnMut(Seq, &Result<DeadLetter>) + Send {
    |seq, result| told.push((seq.0, result.as_ref().map(drop).map_err(bus_core::Error::kind)))
}

/// Stores a letter that nobody here can open: its writer is certified by another account.
async fn unreadable(stage: &Stage) {
    let other = Stage::new().await.unwrap();
    let stranger = other.agent("coder-9", Role::Worker).unwrap();
    let workspace = stage.workspace.clone();
    let subject = Address::DeadLetter { workspace, agent: "coder-9".parse().unwrap() }.subject();
    let sent = stranger.send(Draft::new(subject, DeadLetterEvent::EVENT_TYPE, "{}")).await.unwrap();
    stage.engine.append(sent.frame, bus_core::Expect::Any).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn many_letters_are_discarded_with_a_report_of_each() {
    let (stage, _, letters) = given_up(&["a", "b"]).await;
    tokio::time::advance(Duration::from_secs(60)).await;
    stage.fill(&["c"]).await.unwrap();
    give_up_all(&stage, "coder-1").await;
    let filter =
        LetterFilter { older_than: Some(Duration::from_secs(60)), ..LetterFilter::default() };

    let mut reported = Told::new();
    let done = letters.discard_all(filter, "too old", told(&mut reported)).await.unwrap();

    assert_eq!(done, DiscardReport { discarded: 2, kept: 0 });
    assert_eq!(reported, [(1, Ok(())), (2, Ok(()))]);
    assert_eq!(all(&letters).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_cannot_be_opened_is_thrown_away_by_no_guess_of_what_it_says() {
    let (stage, _, letters) = given_up(&["a"]).await;
    unreadable(&stage).await;
    let guess = LetterFilter { kind: Some(GivenUpCause::Hopeless), ..LetterFilter::default() };

    let survey = letters.survey_discard(guess.clone()).await.unwrap();
    assert_eq!((survey.letters, survey.unknown), (vec![Seq(1)], 1));
    let done = letters.discard_all(guess, "hopeless", |_, _| ()).await.unwrap();

    assert_eq!(done, DiscardReport { discarded: 1, kept: 1 });
    assert_eq!(all(&letters).await[0].seq, Seq(2));
    // By its agent it is known.
    let agent = Some("coder-9".parse().unwrap());
    let filter = LetterFilter { agent, ..LetterFilter::default() };
    let done = letters.discard_all(filter, "a stranger's", |_, _| ()).await.unwrap();
    assert_eq!(done, DiscardReport { discarded: 1, kept: 0 });
}

#[tokio::test(start_paused = true)]
async fn without_a_reason_and_without_the_right_nothing_is_thrown_away() {
    let (stage, _, letters) = given_up(&["a"]).await;
    let any = LetterFilter::default;
    let refused = letters.discard_all(any(), "", |_, _| ()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    let auditor = letters_of(&stage, "ann", Role::Auditor);
    let refused = auditor.discard_all(any(), "not mine", |_, _| ()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
    assert_eq!(all(&letters).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_came_after_the_count_is_not_treated_with_it() {
    let (stage, _, letters) = given_up(&["a", "b"]).await;
    let (any, how) = (LetterFilter::default, Redrive::default());
    let discard = letters.survey_discard(any()).await.unwrap();
    let redrive = letters.survey(any(), &how).await.unwrap();
    assert_eq!(redrive.letters, discard.letters);
    assert_eq!(redrive.count.ready, 2);
    stage.fill(&["c"]).await.unwrap();
    give_up_all(&stage, "coder-1").await;

    let done = letters.redrive_these(redrive.letters, &how, |_, _| ()).await.unwrap();
    assert_eq!((done.redriven, done.kept), (2, 0));
    let mut reported = Told::new();
    let done = letters.discard_these(discard.letters, "old", told(&mut reported)).await.unwrap();

    assert_eq!((done.discarded, done.kept), (0, 2));
    assert_eq!(reported, [(1, Err(ErrorKind::NotFound)), (2, Err(ErrorKind::NotFound))]);
    assert_eq!(all(&letters).await[0].seq, Seq(3));
}

#[tokio::test(start_paused = true)]
async fn a_kind_travels_with_the_letter_and_an_old_letter_is_unknown() {
    let (stage, ids, letters) = given_up(&["a"]).await;
    // As they were written before there were kinds.
    let worker = stage.agent("coder-2", Role::Worker).unwrap();
    let letter = all(&letters).await.remove(0).content.unwrap();
    let (workspace, agent) = (stage.workspace.clone(), worker.agent().clone());
    let subject = Address::DeadLetter { workspace, agent }.subject();
    let json = letter.event.to_json().unwrap();
    worker.send(Draft::new(subject, DeadLetterEvent::EVENT_TYPE, json)).await.unwrap();

    let listed = all(&letters).await;

    let kinds: Vec<_> = listed.iter().map(|one| one.content.as_ref().unwrap().kind).collect();
    assert_eq!(kinds, [Some(GivenUpCause::Hopeless), None]);
    assert!(listed.iter().all(|one| one.task_id() == Some(ids[0].as_str())));
}

#[tokio::test(start_paused = true)]
async fn the_letter_of_a_cancelled_task_says_that_it_was() {
    let stage = Stage::new().await.unwrap();
    let ids = stage.fill(&["a"]).await.unwrap();
    let tasks = Tasks::new(stage.agent("otto", Role::Operator).unwrap());
    let found = tasks.find(&ids[0]).await.unwrap().unwrap();
    tasks.cancel(&found, None).await.unwrap();
    let letters = letters_of(&stage, "otto-2", Role::Operator);
    let letter = all(&letters).await.remove(0).content.unwrap();
    assert_eq!(letter.kind, Some(GivenUpCause::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn the_original_of_a_letter_is_opened_and_checked() {
    let (_, ids, letters) = given_up(&["a payload"]).await;
    let letter = all(&letters).await.remove(0).content.unwrap();
    let original = letters.original(&letter).unwrap();
    assert_eq!((&original.envelope.id, &original.payload[..]), (&ids[0], &b"a payload"[..]));
    let mut forged = *letter;
    forged.event.envelope_id = "another".to_owned();
    assert_eq!(letters.original(&forged).unwrap_err().kind(), ErrorKind::Corrupt);
}
