//! What a connection may answer: requests that it heard, once each, and nothing else.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::time::Duration;

use bus_core::{Answers, ErrorKind, FeedItem, Frame, FrameId, Subscription};
use bus_subjects::{AclPolicy, Filter, Subject};

fn subject(text: &str) -> Subject {
    Subject::parse(text).unwrap()
}

fn frame(on: &str) -> Frame {
    Frame::new(subject(on), FrameId::parse("f1").unwrap(), "body")
}

/// A call that wants its answer at `reply`.
fn call(reply: &str) -> Frame {
    Frame { reply: Some(subject(reply)), ..frame("vak.call.w1.coder.review") }
}

/// What a connection may answer that heard these frames on the filter of everything.
async fn heard(frames: Vec<Frame>) -> Answers {
    let answers = Answers::default();
    let items = frames.into_iter().map(|frame| FeedItem::Frame(frame.into()));
    let subscription = Subscription::new(futures_util::stream::iter(items));
    let mut subscription = answers.heard_by(&Filter::all(), subscription);
    while subscription.next().await.is_some() {}
    answers
}

fn may_answer(answers: &Answers, reply: &str) -> bool {
    match answers.check_publish(&AclPolicy::default(), &frame(reply)) {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Denied);
            false
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_heard_a_request_may_answer_it() {
    let answers = heard(vec![call("_INBOX.a2.1")]).await;
    assert!(may_answer(&answers, "_INBOX.a2.1"));
}

#[tokio::test(start_paused = true)]
async fn a_request_is_answered_once() {
    let answers = heard(vec![call("_INBOX.a2.1")]).await;
    assert!(may_answer(&answers, "_INBOX.a2.1"));
    assert!(!may_answer(&answers, "_INBOX.a2.1"));
}

#[tokio::test(start_paused = true)]
async fn a_right_to_one_answer_is_none_to_another() {
    let answers = heard(vec![call("_INBOX.a2.1")]).await;
    for other in ["_INBOX.a2.2", "_INBOX.a2", "_INBOX.a2.1.x", "_INBOX.a3.1"] {
        assert!(!may_answer(&answers, other), "{other}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_another_connection_heard_is_not_answered_here() {
    let (here, _there) = (heard(vec![]).await, heard(vec![call("_INBOX.a2.1")]).await);
    assert!(!may_answer(&here, "_INBOX.a2.1"));
}

#[tokio::test(start_paused = true)]
async fn a_request_is_answered_within_two_minutes() {
    let answers = heard(vec![call("_INBOX.a2.1"), call("_INBOX.a2.2")]).await;
    tokio::time::advance(Answers::WITHIN - Duration::from_millis(1)).await;
    assert!(may_answer(&answers, "_INBOX.a2.1"));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(!may_answer(&answers, "_INBOX.a2.2"));
}

#[tokio::test(start_paused = true)]
async fn of_too_many_requests_the_oldest_is_forgotten() {
    let calls = (0..=Answers::KEPT_MAX).map(|n| call(&format!("_INBOX.a2.{n}")));
    let answers = heard(calls.collect()).await;
    assert!(!may_answer(&answers, "_INBOX.a2.0"));
    assert!(may_answer(&answers, "_INBOX.a2.1"));
    assert!(may_answer(&answers, &format!("_INBOX.a2.{}", Answers::KEPT_MAX)));
}

#[tokio::test(start_paused = true)]
async fn only_calls_are_answered() {
    let event = Frame { subject: subject("vak.events.w1.s1.tokens"), ..call("_INBOX.a2.1") };
    let answers = heard(vec![event]).await;
    assert!(!may_answer(&answers, "_INBOX.a2.1"));
}

#[tokio::test(start_paused = true)]
async fn a_request_lends_no_right_outside_of_reply_subjects() {
    let answers = heard(vec![call("vak.work.w1.coder.task"), call("_INBOXES.a2.1")]).await;
    assert!(!may_answer(&answers, "vak.work.w1.coder.task"));
    assert!(!may_answer(&answers, "_INBOXES.a2.1"));
}

#[tokio::test(start_paused = true)]
async fn nobody_asks_for_an_answer_where_he_could_not_hear_it() {
    let mut policy = AclPolicy::default();
    policy.publish.allow.push(Filter::all());
    policy.subscribe.allow.push(Filter::parse("_INBOX.a1.>").unwrap());
    let answers = Answers::default();
    assert!(answers.check_publish(&policy, &call("_INBOX.a1.7")).is_ok());
    let refused = answers.check_publish(&policy, &call("_INBOX.a2.7")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
    assert!(refused.subject().is_some_and(|subject| subject == "_INBOX.a2.7"));
}
