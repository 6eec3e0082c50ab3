//! Events and samples, calls and their answers, approvals and their verdicts.

use std::{num::NonZeroUsize, time::Duration};

use bus_core::{
    ApprovalEnd, ApprovalRequest, Asked, Bus as _, CallOutcome, ErrorKind, FeedItem, Frame,
    FrameId, NotRecorded, Overflow,
};
use bus_subjects::{Filter, Role, Subject};
use bytes::Bytes;
use tokio::time::Instant;

use super::stage::{Stage, draft};

const ROOM: NonZeroUsize = NonZeroUsize::new(16).unwrap();

fn frame(subject: &str, text: &str) -> Frame {
    Frame::new(Subject::parse(subject).unwrap(), FrameId::parse(text).unwrap(), text.to_owned())
}

async fn hear(subscription: &mut bus_core::Subscription) -> String {
    let heard = tokio::time::timeout(Duration::from_secs(20), subscription.next());
    match heard.await.expect("it comes in time").unwrap() {
        FeedItem::Frame(frame) => frame.into_frame().id.to_string(),
        gap => unreachable!("{gap:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_observer_hears_what_a_worker_tells_and_late_ones_its_latest_sample() {
    let stage = Stage::new().await;
    let observer = stage.bus("eye", Role::Observer).await;
    let worker = stage.bus("a1", Role::Worker).await;
    let events = Filter::parse("vak.events.w1.>").unwrap();
    let drop_oldest = Overflow::DropOldest { capacity: ROOM };
    let mut heard = observer.subscribe(events.clone(), drop_oldest).await.unwrap();
    worker.publish(frame("vak.events.w1.s1.tokens", "one")).await.unwrap();
    worker.publish(frame("vak.events.w1.s1.telemetry", "two")).await.unwrap();
    assert_eq!([hear(&mut heard).await, hear(&mut heard).await], ["one", "two"]);
    // Stored beside being heard: whoever comes late asks until it is there.
    for role in [Role::Observer, Role::Auditor, Role::Orchestrator] {
        let late = stage.bus("late", role).await;
        let latest = Overflow::Latest { subjects: ROOM };
        let mut samples = late.subscribe(events.clone(), latest).await.unwrap();
        assert_eq!(hear(&mut samples).await, "two", "{role}");
    }
    stage.check_that_nothing_was_refused();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_role_may_not_hear_or_say_is_denied_to_its_engine() {
    let stage = Stage::new().await;
    let observer = stage.bus("eye", Role::Observer).await;
    let receipts = Filter::parse("vak.receipts.w1.*.completed").unwrap();
    let drop_oldest = Overflow::DropOldest { capacity: ROOM };
    let refused = observer.subscribe(receipts, drop_oldest).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
    let task = frame("vak.work.w1.coder.task", "t");
    let refused = observer.append(task, bus_core::Expect::Any).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");
    // That the other stories would see it. The server tells us before it is read what it logs.
    let begun = Instant::now();
    while stage.refused().len() < 2 && begun.elapsed() < Duration::from_secs(20) {
        tokio::task::yield_now().await;
    }
    assert_eq!(stage.refused().len(), 2, "{:#?}", stage.refused());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_answered_by_a_worker_and_the_answer_comes_home() {
    let stage = Stage::new().await;
    let boss = stage.agent("boss", Role::Orchestrator).await;
    let coder = stage.agent("a1", Role::Worker).await;
    let filter = Filter::parse("vak.call.w1.coder.*").unwrap();
    let mut calls = coder.calls(filter, ROOM).await.unwrap();
    let question = draft("vak.call.w1.coder.review", "vak.call", "is this right?");
    let (outcome, ()) = tokio::join!(boss.ask(question, Duration::from_secs(20)), async {
        let Asked::Question(heard) = calls.next().await.unwrap() else { unreachable!() };
        coder.answer(&heard, Ok(Bytes::from_static(b"yes"))).await.unwrap();
    });
    let CallOutcome::Answered(answer) = outcome.unwrap() else { unreachable!("it failed") };
    assert_eq!(&answer.payload[..], b"yes");
    assert_eq!(answer.envelope.lineage.agent.as_str(), "a1");
    stage.check_that_nothing_was_refused();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_asks_for_an_approval_and_an_operator_resolves_it() {
    let stage = Stage::new().await;
    let worker = stage.agent("a1", Role::Worker).await;
    let otto = stage.agent("otto", Role::Operator).await;
    let request = ApprovalRequest::new("deploy.production", "web-1", &["yes", "no"]).unwrap();
    let asked = worker.request_approval("ask-1", &request).await.unwrap();
    let open = otto.open_approvals(Some(&stage.session)).await.unwrap();
    assert_eq!(open.list().len(), 1);
    let resolved = otto.resolve_approval(&stage.session, asked.hash, "yes", Some("go")).await;
    assert_eq!(resolved.unwrap().verdict.choice(), "yes");
    let auditor = stage.agent("audit", Role::Auditor).await;
    let open = auditor.open_approvals(None).await.unwrap();
    assert!(open.is_empty());
    stage.check_that_nothing_was_refused();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_uses_an_approval_and_reads_no_request() {
    let stage = Stage::new().await;
    let worker = stage.agent("a1", Role::Worker).await;
    let otto = stage.agent("otto", Role::Operator).await;
    let request = ApprovalRequest::new("deploy.production", "web-1", &["yes", "no"]).unwrap();
    let asked = worker.request_approval("ask-1", &request).await.unwrap();
    otto.resolve_approval(&stage.session, asked.hash, "yes", None).await.unwrap();
    let mut mailbox = worker.mailbox(Duration::from_secs(30)).await.unwrap();
    let mail = mailbox.next().await.unwrap().unwrap();
    let verdict = worker.approval_verdict(mail.content.as_ref().unwrap()).unwrap();

    let what = verdict.authorization().unwrap().clone();
    let end = ApprovalEnd::consumed(asked.hash, "ask-1", asked.hash, what, "yes").unwrap();
    let receipts = "vak.receipts.w1.s1.completed";
    for number in 0..2_u64 {
        let json = String::from_utf8(end.to_json().unwrap()).unwrap();
        let record = draft(receipts, end.kind().event_type(), &json).cause(asked.hash);
        let mut seen = 0_u64;
        let see = |seen: &mut u64, _: &bus_core::Stored| *seen += 1;
        let decide = |seen: &mut u64| if *seen == 0 { Ok(()) } else { Err(*seen) };
        let stored = worker.record_seen(record, &mut seen, see, decide).await;
        match number {
            0 => assert_eq!(stored.unwrap().id.len(), 36),
            _ => assert!(matches!(stored, Err(NotRecorded::Refused(1))), "{stored:?}"),
        }
    }
    mail.ack().await.unwrap();
    stage.check_that_nothing_was_refused();
}
