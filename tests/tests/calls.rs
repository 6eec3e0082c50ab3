//! A call: who may ask, who may answer, and what holds an answer to its question.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use bus_core::{
    Asked, Bus, CallOutcome, Calls, Endpoint, ErrorKind, FeedItem, Guarded, Heard, Opened, Outcome,
    Overflow, Result,
};
use bus_envelope::Draft;
use bus_stories::Stage;
use bus_subjects::{Filter, Role, Subject};
use bytes::Bytes;

const WAIT: Duration = Duration::from_secs(10);
const ROOM: NonZeroUsize = NonZeroUsize::new(16).unwrap();

fn question() -> Draft {
    let subject = Subject::parse("vak.call.w1.coder.review").unwrap();
    Draft::new(subject, "vak.call", "is this right?")
}

/// An orchestrator, a worker of the module `coder`, and the calls that it hears.
async fn people(stage: &Stage) -> (Endpoint, Endpoint, Calls) {
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let coder = stage.agent("coder-1", Role::Worker).unwrap();
    let filter = Filter::parse("vak.call.w1.coder.*").unwrap();
    let calls = coder.calls(filter, ROOM).await.unwrap();
    (boss, coder, calls)
}

async fn heard(calls: &mut Calls) -> Heard {
    match calls.next().await.unwrap() {
        Asked::Question(heard) => *heard,
        other => unreachable!("no question: {other:?}"),
    }
}

/// Asks while `work` answers.
async fn asked<T>(boss: &Endpoint, work: impl Future<Output = T>) -> (Result<CallOutcome>, T) {
    tokio::join!(boss.ask(question(), WAIT), work)
}

#[tokio::test(start_paused = true)]
async fn an_answer_comes_home_signed_and_bound_to_its_question() {
    let stage = Stage::new().await.unwrap();
    let (boss, coder, mut calls) = people(&stage).await;
    let (outcome, question) = asked(&boss, async {
        let heard = heard(&mut calls).await;
        coder.answer(&heard, Ok(Bytes::from_static(b"yes"))).await.unwrap();
        heard.opened
    })
    .await;
    let CallOutcome::Answered(answer) = outcome.unwrap() else { unreachable!("it failed") };
    assert_eq!((&question.payload[..], &answer.payload[..]), (&b"is this right?"[..], &b"yes"[..]));
    assert_eq!(answer.envelope.lineage.cause, Some(question.hash));
    assert_eq!(answer.envelope.lineage.agent.as_str(), "coder-1");
    assert!(answer.envelope.signature.is_some());
    let trace = |opened: &Opened| opened.envelope.trace.traceparent()[3..35].to_owned();
    assert_eq!(trace(&answer), trace(&question));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_failed_says_why() {
    let stage = Stage::new().await.unwrap();
    let (boss, coder, mut calls) = people(&stage).await;
    let (outcome, ()) = asked(&boss, async {
        let heard = heard(&mut calls).await;
        coder.answer(&heard, Err("no idea".to_owned())).await.unwrap();
    })
    .await;
    let CallOutcome::Failed(why) = outcome.unwrap() else { unreachable!("it was answered") };
    assert_eq!(&why.payload[..], b"no idea");
}

#[tokio::test(start_paused = true)]
async fn a_second_answer_is_denied() {
    let stage = Stage::new().await.unwrap();
    let (boss, coder, mut calls) = people(&stage).await;
    let (_, second) = asked(&boss, async {
        let heard = heard(&mut calls).await;
        coder.answer(&heard, Ok(Bytes::from_static(b"yes"))).await.unwrap();
        coder.answer(&heard, Ok(Bytes::from_static(b"no"))).await
    })
    .await;
    assert_eq!(second.unwrap_err().kind(), ErrorKind::Denied);
}

#[tokio::test(start_paused = true)]
async fn who_did_not_hear_the_question_on_its_own_connection_does_not_answer_it() {
    let stage = Stage::new().await.unwrap();
    let (boss, _coder, mut calls) = people(&stage).await;
    let other = stage.agent("coder-2", Role::Worker).unwrap();
    let (outcome, stolen) = asked(&boss, async {
        let heard = heard(&mut calls).await;
        other.answer(&heard, Ok(Bytes::from_static(b"no"))).await
    })
    .await;
    assert_eq!(stolen.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Timeout);
}

#[tokio::test(start_paused = true)]
async fn a_right_that_is_too_old_answers_nothing() {
    let stage = Stage::new().await.unwrap();
    let (boss, coder, mut calls) = people(&stage).await;
    let (outcome, late) = asked(&boss, async {
        let heard = heard(&mut calls).await;
        tokio::time::advance(bus_core::Answers::WITHIN).await;
        coder.answer(&heard, Ok(Bytes::from_static(b"yes"))).await
    })
    .await;
    assert_eq!(late.unwrap_err().kind(), ErrorKind::Denied);
    let outcome = outcome.unwrap_err();
    assert_eq!((outcome.kind(), outcome.outcome()), (ErrorKind::Timeout, Outcome::Unknown));
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_somebody_who_may_not_hear_the_question_does_not_count() {
    let stage = Stage::new().await.unwrap();
    let (boss, _coder, mut calls) = people(&stage).await;
    // Its engine refuses nothing: only the asker's own check is left.
    let mut parts = stage.parts(stage.certified("spy", Role::Observer).unwrap());
    parts.engine = Arc::clone(&stage.engine);
    let spy = Endpoint::new(parts).unwrap();
    let (outcome, ()) = asked(&boss, async {
        let heard = heard(&mut calls).await;
        spy.answer(&heard, Ok(Bytes::from_static(b"lie"))).await.unwrap();
    })
    .await;
    let error = outcome.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Denied, Outcome::Unknown));
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_another_question_does_not_count() {
    let stage = Stage::new().await.unwrap();
    let (boss, coder, mut calls) = people(&stage).await;
    let (_, first) = asked(&boss, heard(&mut calls)).await;
    let (outcome, ()) = asked(&boss, async {
        let mut second = heard(&mut calls).await;
        second.opened = first.opened;
        coder.answer(&second, Ok(Bytes::from_static(b"yes"))).await.unwrap();
    })
    .await;
    let error = outcome.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Corrupt, Outcome::Unknown));
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_hears_is_not_asked_and_leaves_no_gap() {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let error = boss.ask(question(), WAIT).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::NoRecipient, Outcome::NotDone));
    let coder = stage.agent("coder-1", Role::Worker).unwrap();
    let filter = Filter::parse("vak.call.w1.coder.review").unwrap();
    let mut calls = coder.calls(filter, ROOM).await.unwrap();
    let (_, first) = asked(&boss, heard(&mut calls)).await;
    assert_eq!(first.opened.envelope.lineage.seq_num, 1);
}

#[tokio::test(start_paused = true)]
async fn a_worker_asks_nobody() {
    let stage = Stage::new().await.unwrap();
    let (_boss, coder, _calls) = people(&stage).await;
    let error = coder.ask(question(), WAIT).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Denied, Outcome::NotDone));
}

#[tokio::test(start_paused = true)]
async fn a_worker_hears_the_calls_of_its_own_module_only() {
    let stage = Stage::new().await.unwrap();
    let coder = stage.agent("coder-1", Role::Worker).unwrap();
    for wider in ["vak.call.w1.judge.*", "vak.call.w1.>", "vak.call.w2.coder.*"] {
        let error = coder.calls(Filter::parse(wider).unwrap(), ROOM).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{wider}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_calls_are_asked() {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let draft = Draft::new(stage.tasks().subject(), "vak.call", "x");
    assert_eq!(boss.ask(draft, WAIT).await.unwrap_err().kind(), ErrorKind::Invalid);
}

/// What is told of a question that somebody kept and sends again after so long.
async fn told_again(stage: &Stage, after: Duration) -> Asked {
    let (boss, _coder, mut calls) = people(stage).await;
    let ear = Guarded::new(Arc::clone(&stage.engine), everything());
    let subjects = Filter::parse("vak.call.w1.coder.*").unwrap();
    let overflow = Overflow::DropOldest { capacity: ROOM };
    let mut heard_raw = ear.subscribe(subjects, overflow).await.unwrap();
    let (_, kept) = asked(&boss, async {
        let FeedItem::Frame(frame) = heard_raw.next().await.unwrap() else { unreachable!("a gap") };
        heard(&mut calls).await;
        frame.into_frame()
    })
    .await;
    tokio::time::advance(after).await;
    stage.engine.publish(kept).await.unwrap();
    calls.next().await.unwrap()
}

fn everything() -> bus_subjects::AclPolicy {
    let mut policy = bus_subjects::AclPolicy::default();
    policy.subscribe.allow.push(Filter::all());
    policy
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_sent_again_later_is_refused() {
    let stage = Stage::new().await.unwrap();
    let Asked::Refused(error) = told_again(&stage, WAIT).await else { unreachable!("heard") };
    assert_eq!(error.kind(), ErrorKind::Timeout);
}

#[tokio::test(start_paused = true)]
async fn a_question_without_a_place_for_its_answer_is_refused() {
    let stage = Stage::new().await.unwrap();
    let (boss, _coder, mut calls) = people(&stage).await;
    boss.publish(question()).await.unwrap();
    let Asked::Refused(error) = calls.next().await.unwrap() else { unreachable!("heard") };
    assert_eq!(error.kind(), ErrorKind::Invalid);
}
