//! S0.43, S0.44, D9: an approval is open until its verdict is stored, and the verdict reaches who
//! asked.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::{sync::Arc, time::Duration};

use bus_core::{
    ApprovalRequest, ApprovalVerdict, Endpoint, ErrorKind, Expect, Identity, Mail, Opened, Outcome,
    Recorded, Sent, planes,
};
use bus_envelope::{Draft, EventHash};
use bus_stories::{Fault, Flaky, Op, Stage};
use bus_subjects::{Address, Filter, Role, SessionId};

const CHOICES: [&str; 2] = ["yes", "no"];

fn request() -> ApprovalRequest {
    ApprovalRequest::new("deploy.production", "web-1", &CHOICES).unwrap()
}

/// A worker that asked, and an operator.
struct Scene {
    stage: Stage,
    flaky: Arc<Flaky>,
    worker: Endpoint,
    otto: Endpoint,
    asked: Sent,
}

impl Scene {
    async fn new() -> Self {
        let (stage, flaky) = Stage::flaky().await.unwrap();
        let worker = stage.agent("coder-1", Role::Worker).unwrap();
        let otto = stage.agent("otto", Role::Operator).unwrap();
        let asked = worker.request_approval("ask-1", &request()).await.unwrap();
        Self { stage, flaky, worker, otto, asked }
    }

    async fn resolve(&self, by: &Endpoint, choice: &str) -> bus_core::Result<ErrorKindless> {
        let session = &self.stage.session;
        let resolved = by.resolve_approval(session, self.asked.hash, choice, Some("go")).await?;
        Ok(ErrorKindless { by: resolved.by.to_string(), choice: resolved.verdict.choice().into() })
    }

    async fn open(&self) -> Vec<String> {
        let open = self.otto.open_approvals(Some(&self.stage.session)).await.unwrap();
        open.list().iter().map(|approval| approval.id.clone()).collect()
    }

    /// The messages in the worker's mailbox, taken out.
    async fn mails(&self) -> Vec<Opened> {
        mails(&self.stage, &self.worker).await
    }

    /// How many records of verdicts are stored.
    async fn verdicts(&self) -> usize {
        let frames = self.stage.stored(planes::approvals_stream().unwrap()).await.unwrap();
        frames
            .iter()
            .filter(|frame| {
                self.otto.open(frame).unwrap().envelope.event_type == ApprovalVerdict::EVENT_TYPE
            })
            .count()
    }
}

/// What a resolution says, to compare.
#[derive(Debug, PartialEq, Eq)]
struct ErrorKindless {
    by: String,
    choice: String,
}

async fn mails(stage: &Stage, endpoint: &Endpoint) -> Vec<Opened> {
    let inbox = planes::inbox_stream(&stage.workspace).unwrap();
    let waiting = stage.engine.lag(inbox).await.unwrap().pending;
    let mut mailbox = endpoint.mailbox(Duration::from_secs(30)).await.unwrap();
    let mut mails = Vec::new();
    for _ in 0..waiting {
        let mail: Mail = mailbox.next().await.unwrap().unwrap();
        mails.push(*mail.content.as_ref().map(Clone::clone).map_err(ToString::to_string).unwrap());
        mail.ack().await.unwrap();
    }
    mails
}

#[tokio::test(start_paused = true)]
async fn a_request_is_open_until_its_verdict_is_stored_and_both_stay() {
    let scene = Scene::new().await;
    let open = scene.otto.open_approvals(None).await.unwrap();
    let approval = open.get(&scene.asked.hash).unwrap();
    assert_eq!((approval.asker.as_str(), approval.session.as_str()), ("coder-1", "s1"));
    assert_eq!(approval.request, request());

    scene.resolve(&scene.otto, "yes").await.unwrap();

    assert!(scene.open().await.is_empty());
    let stored = scene.stage.stored(planes::approvals_stream().unwrap()).await.unwrap();
    assert_eq!(stored.len(), 2);
    assert_eq!(scene.otto.open(&stored[1]).unwrap().envelope.lineage.cause, Some(scene.asked.hash));
}

#[tokio::test(start_paused = true)]
async fn the_verdict_comes_to_the_mailbox_of_who_asked() {
    let scene = Scene::new().await;
    scene.resolve(&scene.otto, "no").await.unwrap();
    let mails = scene.mails().await;
    assert_eq!(mails.len(), 1);
    assert_eq!(mails[0].envelope.lineage.cause, Some(scene.asked.hash));
    assert_eq!(mails[0].envelope.trace.trace_id(), &scene.trace_id());
    let verdict = scene.worker.approval_verdict(&mails[0]).unwrap();
    assert_eq!(
        (verdict.request_id(), verdict.choice(), verdict.note()),
        ("ask-1", "no", Some("go"))
    );
}

impl Scene {
    fn trace_id(&self) -> [u8; 16] {
        *self.otto.open(&self.asked.frame).unwrap().envelope.trace.trace_id()
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_verdict_wins_and_a_second_one_is_a_conflict() {
    let scene = Scene::new().await;
    let olga = scene.stage.agent("olga", Role::Operator).unwrap();
    scene.resolve(&scene.otto, "yes").await.unwrap();
    for (by, choice) in [(&olga, "no"), (&olga, "yes"), (&scene.otto, "no")] {
        let refused = scene.resolve(by, choice).await.unwrap_err();
        assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Conflict, Outcome::NotDone));
    }
    assert_eq!((scene.verdicts().await, scene.mails().await.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn of_two_operators_at_once_exactly_one_resolves() {
    let scene = Scene::new().await;
    let olga = scene.stage.agent("olga", Role::Operator).unwrap();
    let (otto, olga) = tokio::join!(scene.resolve(&scene.otto, "yes"), scene.resolve(&olga, "no"));
    assert_ne!(otto.is_ok(), olga.is_ok(), "{otto:?} {olga:?}");
    let (winner, loser) = if otto.is_ok() { (otto, olga) } else { (olga, otto) };
    assert_eq!(loser.unwrap_err().kind(), ErrorKind::Conflict);
    let mails = scene.mails().await;
    let told = scene.worker.approval_verdict(&mails[0]).unwrap();
    assert_eq!((mails.len(), told.choice()), (1, winner.unwrap().choice.as_str()));
}

#[tokio::test(start_paused = true)]
async fn a_repeat_of_the_same_verdict_is_stored_once_and_sent_once() {
    let scene = Scene::new().await;
    for _ in 0..3 {
        scene.resolve(&scene.otto, "yes").await.unwrap();
    }
    assert_eq!((scene.verdicts().await, scene.mails().await.len()), (1, 1));
}

/// An operator dies at the step that is named; its next life repeats the call.
async fn dies(op: Op, at: &str) {
    let scene = Scene::new().await;
    scene.flaky.fail(op, at, Fault::StuckAfter, 1);
    tokio::select! {
        done = scene.resolve(&scene.otto, "yes") => panic!("it did not die: {done:?}"),
        () = scene.flaky.stuck() => {}
    }
    assert!(scene.open().await.is_empty(), "the verdict was stored");

    let next_life = scene.stage.endpoint(again(&scene.otto)).unwrap();
    let resolved = scene.resolve(&next_life, "yes").await.unwrap();

    assert_eq!(resolved, ErrorKindless { by: "otto".to_owned(), choice: "yes".to_owned() });
    assert_eq!((scene.verdicts().await, scene.mails().await.len()), (1, 1), "{op:?} at {at}");
}

/// The same identity for another process life.
fn again(endpoint: &Endpoint) -> Identity {
    let identity = endpoint.identity();
    let seed = identity.key().seed_text();
    let key = bus_crypto::SigningKey::from_seed_text(&seed).unwrap();
    Identity::from_parts(key, identity.certificate().token()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_the_verdict_was_stored_sends_it_once() {
    dies(Op::Append, "vak.approvals.").await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_the_verdict_was_sent_sends_it_once() {
    dies(Op::Append, "vak.agent.").await;
}

#[tokio::test(start_paused = true)]
async fn a_verdict_that_cannot_be_sent_is_stored_and_says_so() {
    let scene = Scene::new().await;
    scene.flaky.fail(Op::Append, "vak.agent.", Fault::Refused(ErrorKind::Full), 1);
    let told = scene.resolve(&scene.otto, "yes").await.unwrap_err();
    assert_eq!((told.kind(), told.outcome()), (ErrorKind::Full, Outcome::Unknown));
    assert!(scene.open().await.is_empty());

    scene.resolve(&scene.otto, "yes").await.unwrap();
    assert_eq!((scene.verdicts().await, scene.mails().await.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn only_an_operator_resolves() {
    let scene = Scene::new().await;
    let mut issue = scene.stage.issue("both", Role::Operator).unwrap();
    issue.roles.push(Role::Worker);
    let both = scene.identity(&issue);
    let mut agents = vec![scene.stage.endpoint(both).unwrap()];
    for role in [Role::Worker, Role::Orchestrator, Role::Observer, Role::Auditor, Role::Keeper] {
        agents.push(scene.stage.agent(&format!("some-{role}"), role).unwrap());
    }
    for agent in agents {
        let refused = scene.resolve(&agent, "yes").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Denied, "{agent:?}");
    }
    assert_eq!(scene.open().await, ["ask-1"]);
}

impl Scene {
    fn identity(&self, issue: &bus_core::Issue) -> Identity {
        let entropy = bus_crypto::SystemEntropy::new();
        let identity = Identity::issue(self.stage.account(), issue, &entropy).unwrap();
        self.stage.roster.admit(identity.certificate().token()).unwrap();
        identity
    }
}

#[tokio::test(start_paused = true)]
async fn who_asks_does_not_resolve() {
    let scene = Scene::new().await;
    let asked = scene.otto.request_approval("ask-2", &request()).await.unwrap();
    let session = &scene.stage.session;
    let refused = scene.otto.resolve_approval(session, asked.hash, "yes", None).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
    let olga = scene.stage.agent("olga", Role::Operator).unwrap();
    olga.resolve_approval(session, asked.hash, "yes", None).await.unwrap();
}

/// A verdict on the scene's request that an agent in `role` stores by hand, under the id that a
/// true one has, past the policy at the engine's door.
async fn verdict_by_hand(scene: &Scene, role: Role) {
    let mut parts = scene.stage.parts(scene.stage.certified("scribe", role).unwrap());
    parts.engine = Arc::clone(&scene.stage.engine);
    let subject = scene.asked.frame.subject.clone();
    let json = r#"{"request_id":"ask-1","choice":"yes"}"#;
    let draft = Draft::new(subject, ApprovalVerdict::EVENT_TYPE, json)
        .id(format!("{}.verdict", scene.asked.hash))
        .cause(scene.asked.hash);
    let recorded = Endpoint::new(parts).unwrap().record(draft).await.unwrap();
    assert!(matches!(recorded, Recorded::Stored(_)));
}

#[tokio::test(start_paused = true)]
async fn a_verdict_an_operator_stored_by_hand_is_a_verdict_too() {
    let scene = Scene::new().await;
    verdict_by_hand(&scene, Role::Operator).await;
    assert!(scene.open().await.is_empty());
    let refused = scene.resolve(&scene.otto, "yes").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
}

#[tokio::test(start_paused = true)]
async fn a_verdict_that_a_worker_forged_neither_resolves_nor_prevents_the_true_one() {
    let scene = Scene::new().await;
    verdict_by_hand(&scene, Role::Worker).await;
    assert_eq!(scene.open().await, ["ask-1"]);

    scene.resolve(&scene.otto, "no").await.unwrap();

    assert!(scene.open().await.is_empty());
    let mails = scene.mails().await;
    assert_eq!(scene.worker.approval_verdict(&mails[0]).unwrap().choice(), "no");
}

#[tokio::test(start_paused = true)]
async fn a_request_under_the_id_of_a_verdict_does_not_prevent_it() {
    let scene = Scene::new().await;
    // Whatever a worker may store there is a request of its own; its id is its own choice.
    let id = format!("{}.verdict", scene.asked.hash);
    scene.worker.request_approval(id, &request()).await.unwrap();
    assert_eq!(scene.open().await.len(), 2);

    scene.resolve(&scene.otto, "no").await.unwrap();

    assert_eq!(scene.verdicts().await, 1);
    let mails = scene.mails().await;
    assert_eq!(scene.worker.approval_verdict(&mails[0]).unwrap().choice(), "no");
}

#[tokio::test(start_paused = true)]
async fn a_verdict_in_the_mailbox_that_no_operator_signed_is_none() {
    let scene = Scene::new().await;
    let boss = scene.stage.agent("boss", Role::Orchestrator).unwrap();
    let json = r#"{"request_id":"ask-1","choice":"yes"}"#;
    let draft = Draft::new(scene.asked.frame.subject.clone(), ApprovalVerdict::EVENT_TYPE, json)
        .cause(scene.asked.hash);
    boss.send_to(scene.worker.agent(), draft).await.unwrap();
    let mails = scene.mails().await;
    let refused = scene.worker.approval_verdict(&mails[0]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
}

#[tokio::test(start_paused = true)]
async fn a_verdict_that_an_operator_sent_to_itself_is_none() {
    let scene = Scene::new().await;
    let asked = scene.otto.request_approval("ask-2", &request()).await.unwrap();
    let json = r#"{"request_id":"ask-2","choice":"yes"}"#;
    let draft = Draft::new(asked.frame.subject.clone(), ApprovalVerdict::EVENT_TYPE, json)
        .cause(asked.hash);
    scene.otto.send_to(scene.otto.agent(), draft).await.unwrap();
    let mails = mails(&scene.stage, &scene.otto).await;
    let refused = scene.otto.approval_verdict(&mails[0]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
}

#[tokio::test(start_paused = true)]
async fn a_worker_asks_in_its_own_session_and_reads_nothing() {
    let scene = Scene::new().await;
    let refused = scene.worker.open_approvals(None).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
    let mut parts = scene.stage.parts(scene.stage.certified("coder-2", Role::Worker).unwrap());
    parts.session = None;
    let homeless = Endpoint::new(parts).unwrap();
    let refused = homeless.request_approval("ask-2", &request()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn an_id_is_asked_under_once() {
    let scene = Scene::new().await;
    let refused = scene.worker.request_approval("ask-1", &request()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
}

#[tokio::test(start_paused = true)]
async fn what_was_not_asked_or_not_offered_is_not_resolved() {
    let scene = Scene::new().await;
    let session = &scene.stage.session;
    let other = EventHash::of(b"nobody asked");
    let refused = scene.otto.resolve_approval(session, other, "yes", None).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    let elsewhere = SessionId::parse("s2").unwrap();
    let hash = scene.asked.hash;
    let refused = scene.otto.resolve_approval(&elsewhere, hash, "yes", None).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    let refused = scene.otto.resolve_approval(session, hash, "maybe", None).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert_eq!(scene.open().await, ["ask-1"]);
}

#[tokio::test(start_paused = true)]
async fn sessions_are_listed_apart_and_together() {
    let scene = Scene::new().await;
    let mut parts = scene.stage.parts(scene.stage.certified("coder-2", Role::Worker).unwrap());
    let session = SessionId::parse("s2").unwrap();
    let certificate = parts.identity.certificate();
    let policy = certificate.policy_for(Some(&session), Some(&scene.stage.queue));
    parts.engine = Arc::new(bus_core::Guarded::new(Arc::clone(&scene.stage.engine), policy));
    parts.session = Some(session.clone());
    Endpoint::new(parts).unwrap().request_approval("ask-2", &request()).await.unwrap();

    assert_eq!(scene.open().await, ["ask-1"]);
    let all = scene.otto.open_approvals(None).await.unwrap();
    let ids: Vec<&str> = all.list().iter().map(|approval| approval.id.as_str()).collect();
    assert_eq!(ids, ["ask-1", "ask-2"]);
    assert_eq!(scene.otto.open_approvals(Some(&session)).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_opened_is_counted() {
    let scene = Scene::new().await;
    let mut frame = scene.asked.frame.clone();
    frame.id = bus_core::FrameId::parse("another").unwrap();
    scene.stage.engine.append(frame, Expect::Any).await.unwrap();
    let open = scene.otto.open_approvals(None).await.unwrap();
    assert_eq!((open.len(), open.passed_over()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_approval_cannot_be_discarded_by_any_role() {
    let scene = Scene::new().await;
    let stream = planes::approvals_stream().unwrap();
    for role in Role::ALL {
        let identity = scene.stage.certified(&format!("some-{role}"), role).unwrap();
        let guarded = scene.stage.parts(identity).engine;
        let refused = guarded.discard(stream.clone(), scene.asked.receipt.seq).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Denied, "{role}");
    }
    let approvals = Filter::from(
        &Address::Approval {
            workspace: scene.stage.workspace.clone(),
            session: scene.stage.session.clone(),
        }
        .subject(),
    );
    assert!(scene.otto.replay(stream, approvals).await.unwrap().next().await.is_some());
}
