//! C26: an approval is for one action, target, run, session and agent, byte for byte.

use bus_authority::{Ask, Book};
use bus_core::{ApprovalEnd, EndKind, Expect, Guarded, planes};
use bus_subjects::SessionId;

use super::*;

/// A refused use: its code, and that the exact use works after it.
async fn refused(scene: &Scene, asked: &Requested, change: impl FnOnce(&mut Ask<'_>)) -> String {
    let mut ask = scene.desk.ask(ACTION, TARGET, None).unwrap();
    change(&mut ask);
    let told = code(scene.desk.take(&asked.approval.into(), &ask, None).await);
    assert!(scene.records().await.is_empty(), "nothing is stored for what is refused");
    told.to_owned()
}

#[tokio::test(start_paused = true)]
async fn the_exact_call_works_once() {
    let scene = Scene::new().await;
    let asked = scene.allowed().await;
    let used = scene.take(&asked).await.unwrap();
    assert_eq!((used.approval, used.verdict.by.as_str()), (asked.approval, "otto"));
    assert_eq!(code(scene.take(&asked).await), "decision-consumed");
    assert_eq!(scene.records().await, ["vak.approval.consumed"]);
}

#[tokio::test(start_paused = true)]
async fn an_approval_for_another_target_is_refused_and_stays_usable() {
    let scene = Scene::new().await;
    let asked = scene.allowed().await;
    for target in ["", "web-2", "WEB-1", "web-1 ", " web-1", "web-1\u{0}", "we\u{308}b-1"] {
        let told = refused(&scene, &asked, |ask| ask.target = target).await;
        assert_eq!(told, "target-mismatch", "{target:?}");
    }
    scene.take(&asked).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn another_composition_of_a_letter_is_another_target() {
    let scene = Scene::new().await;
    let request = ApprovalRequest::new(ACTION, "caf\u{e9}", &["yes", "no"]).unwrap();
    let asked = scene.desk.request(None, &request).await.unwrap();
    scene.answer(&asked, "yes").await;
    let told = refused(&scene, &asked, |ask| ask.target = "cafe\u{301}").await;
    assert_eq!(told, "target-mismatch");
    let ask = scene.desk.ask(ACTION, "caf\u{e9}", None).unwrap();
    scene.desk.take(&asked.approval.into(), &ask, None).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_approval_for_another_action_is_refused_and_stays_usable() {
    let scene = Scene::new().await;
    let asked = scene.allowed().await;
    for action in ["", "deploy", "Deploy.production", "deploy.production "] {
        let told = refused(&scene, &asked, |ask| ask.action = action).await;
        assert_eq!(told, "action-mismatch", "{action:?}");
    }
    scene.take(&asked).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_approval_for_another_run_is_refused_and_stays_usable() {
    let scene = Scene::new().await;
    let asked = scene.desk.request(None, &request().run("r-1").unwrap()).await.unwrap();
    scene.answer(&asked, "yes").await;
    for run in [None, Some(""), Some("r-2")] {
        let told = refused(&scene, &asked, |ask| ask.run = run).await;
        assert_eq!(told, "run-mismatch", "{run:?}");
    }
    let ask = scene.desk.ask(ACTION, TARGET, Some("r-1")).unwrap();
    scene.desk.take(&asked.approval.into(), &ask, None).await.unwrap();
}

/// The desk of the scene's worker in the session `name`.
fn in_session(scene: &Scene, name: &str) -> Approvals {
    let mut parts = scene.stage.parts(again(&scene.worker));
    let session = SessionId::parse(name).unwrap();
    let certificate = parts.identity.certificate();
    let policy = certificate.policy_for(Some(&session), Some(&scene.stage.queue));
    parts.engine = Arc::new(Guarded::new(Arc::clone(&scene.stage.engine), policy));
    parts.session = Some(session);
    Approvals::new(Endpoint::new(parts).unwrap(), LEASE)
}

#[tokio::test(start_paused = true)]
async fn an_approval_of_another_session_is_refused_and_stays_usable() {
    let scene = Scene::new().await;
    let asked = scene.allowed().await;
    let elsewhere = in_session(&scene, "s2");
    assert_eq!(code(take(&elsewhere, &asked, None).await), "session-mismatch");
    scene.take(&asked).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_approval_of_another_agent_is_refused_and_stays_usable() {
    let scene = Scene::new().await;
    let asked = scene.allowed().await;
    let sibling = Approvals::new(scene.stage.agent("coder-2", Role::Worker).unwrap(), LEASE);
    // It has no verdict; and had it one, it is not the one who asked.
    assert_eq!(code(take(&sibling, &asked, None).await), "decision-open");
    let ask = sibling.ask(ACTION, TARGET, None).unwrap();
    let known = scene.known(&asked).await;
    assert_eq!(code(sibling.consume(&known, &ask).await), "asker-mismatch");
    scene.take(&asked).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_approval_of_another_workspace_is_none() {
    let (here, there) = (Scene::new().await, Scene::new().await);
    let asked = there.allowed().await;
    let inbox = planes::inbox_stream(&there.stage.workspace).unwrap();
    let mut letters = there.stage.stored(inbox).await.unwrap();
    // Its verdict, put into the mailbox of the agent of the same name here.
    here.stage.engine.append(letters.remove(0), Expect::Any).await.unwrap();
    assert_eq!(code(here.take(&asked).await), "decision-open");
    there.take(&asked).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_sibling_of_the_session_can_neither_use_nor_block_it() {
    let scene = Scene::new().await;
    let asked = scene.allowed().await;
    let sibling = scene.stage.agent("coder-2", Role::Worker).unwrap();
    let known = scene.known(&asked).await;
    let verdict = known.verdict().unwrap();
    let what = verdict.authorization.clone().unwrap();
    let ends = [
        ApprovalEnd::consumed(asked.approval, &asked.id, verdict.leaf, what, "yes").unwrap(),
        ApprovalEnd::withdrawn(asked.approval),
        ApprovalEnd::superseded(asked.approval, "ask-9").unwrap(),
    ];
    for end in ends {
        let subject = scene.stage.receipts().subject();
        let json = end.to_json().unwrap();
        let draft = bus_envelope::Draft::new(subject, end.kind().event_type(), json);
        sibling.record(draft.cause(asked.approval)).await.unwrap();
    }
    assert!(scene.known(&asked).await.end().is_none(), "ends of others are ignored");
    scene.take(&asked).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn later_is_no_yes() {
    for choice in ["no", "later"] {
        let scene = Scene::new().await;
        let asked = scene.ask().await;
        scene.answer(&asked, choice).await;
        assert_eq!(code(scene.take(&asked).await), "choice-refused", "{choice}");
        assert!(scene.records().await.is_empty());
        // It was told; what is of no use does not fill the mailbox.
        assert_eq!(scene.waiting().await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_shown_and_what_was_used_are_the_same_bytes() {
    let scene = Scene::new().await;
    let request = ApprovalRequest::new("d\u{e9}ploy \"x\"", " web\u{2011}1 ", &["ja", "nein"])
        .unwrap()
        .approval_choice("ja")
        .unwrap();
    let asked = scene.desk.request(None, &request).await.unwrap();
    let open = scene.otto.open_approvals(None).await.unwrap();
    let shown = open.get(&asked.approval).unwrap().request.clone();
    scene.answer(&asked, "ja").await;
    let ask = scene.desk.ask(request.action(), request.target(), None).unwrap();
    scene.desk.take(&asked.approval.into(), &ask, None).await.unwrap();

    let frames = scene.stage.stored(planes::receipts_stream().unwrap()).await.unwrap();
    let record = scene.otto.open(&frames[0]).unwrap();
    let end = ApprovalEnd::from_json(EndKind::Consumed, &record.payload).unwrap();
    let used = end.authorization().unwrap();
    assert_eq!((used.action(), used.target()), (shown.action(), shown.target()));
    assert_eq!((used.approval_choice(), end.choice()), ("ja", Some("ja")));
    let book = Book::read(&scene.otto, None).await.unwrap();
    assert_eq!(end.verdict(), book.list()[0].verdict().map(|verdict| verdict.leaf));
    assert_eq!(record.envelope.lineage.cause, Some(asked.approval));
}

#[tokio::test(start_paused = true)]
async fn a_verdict_of_an_older_resolver_is_shown_and_cannot_be_used() {
    let scene = Scene::new().await;
    let asked = scene.ask().await;
    // As they were written before they said what they are for.
    let json = format!(r#"{{"request_id":"{}","choice":"yes"}}"#, asked.id);
    let subject = scene.otto.open_approvals(None).await.unwrap();
    let session = subject.get(&asked.approval).unwrap().session.clone();
    let workspace = scene.stage.workspace.clone();
    let subject = bus_subjects::Address::Approval { workspace, session: session.clone() }.subject();
    let draft = bus_envelope::Draft::new(subject, "vak.approval.resolved", json)
        .cause(asked.approval)
        .session(session);
    let bus_core::Recorded::Stored(stored) = scene.otto.record(draft.clone()).await.unwrap() else {
        unreachable!("it names no id")
    };
    let notice = draft.id(format!("{}.notice", stored.hash));
    scene.otto.send_to(scene.worker.agent(), notice).await.unwrap();

    assert_eq!(scene.known(&asked).await.verdict().unwrap().choice, "yes");
    assert_eq!(code(scene.take(&asked).await), "decision-unbound");
}

#[tokio::test(start_paused = true)]
async fn an_expired_verdict_is_not_used_and_an_expired_request_not_answered() {
    let scene = Scene::new().await;
    let short = request().valid_for(Duration::from_secs(10)).unwrap();
    let asked = scene.desk.request(None, &short).await.unwrap();
    scene.answer(&asked, "yes").await;
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(code(scene.take(&asked).await), "decision-expired");

    let until = request().answer_until(scene.in_a_minute());
    let asked = scene.desk.request(None, &until).await.unwrap();
    tokio::time::advance(Duration::from_secs(60)).await;
    let session = &scene.stage.session;
    let late = scene.otto.resolve_approval(session, asked.approval, "yes", None).await;
    assert_eq!(late.unwrap_err().kind(), bus_core::ErrorKind::Conflict);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_no_answer_allows_is_not_asked() {
    let scene = Scene::new().await;
    let request = ApprovalRequest::new(ACTION, TARGET, &["ja", "nein"]).unwrap();
    let refused = scene.desk.request(None, &request).await.unwrap_err();
    assert_eq!(refused.kind(), bus_core::ErrorKind::Invalid);
    assert!(scene.otto.open_approvals(None).await.unwrap().is_empty());
}
