//! Something else under an id, a key or a name that is ours: it never passes for ours.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use bus_core::{
    Bus, DeadLetterEvent, Endpoint, EndpointParts, ErrorKind, Expect, Frame, FrameId, Guarded,
    Identity, Incoming, Outcome, Overflow, Recorded, Revocation, Roster, TaskEvent, Worker,
    WorkerSpec, planes,
};
use bus_crypto::{SigningKey, SystemEntropy, WorkspaceSecret};
use bus_envelope::{Draft, EventHash, wire};
use bus_stories::{Fault, Flaky, Op, Scripted, Stage, task, words, work};
use bus_subjects::{Address, AgentId, Filter, Role, Subject};

const WORK: &str = "vak.work.";

async fn orchestrator() -> (Stage, Arc<Flaky>, Endpoint) {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    (stage, flaky, boss)
}

/// A receipt of `worker` about the event `cause`.
fn receipt(stage: &Stage, id: &str, cause: &[u8]) -> Draft {
    Draft::new(stage.receipts().subject(), "vak.receipt.completed", "{}")
        .cause(EventHash::of(cause))
        .id(id)
}

#[tokio::test(start_paused = true)]
async fn another_message_under_the_id_is_a_conflict_even_after_a_lost_answer() {
    let (stage, flaky, boss) = orchestrator().await;
    let rival = stage.agent("rival", Role::Orchestrator).unwrap();
    rival.send(task(&stage, "theirs").id("t-1")).await.unwrap();
    flaky.fail(Op::Append, WORK, Fault::LostAfter, 1);

    let refused = boss.send(task(&stage, "ours").id("t-1")).await.unwrap_err();

    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Conflict, Outcome::NotDone));
    boss.send(task(&stage, "next")).await.unwrap();
    let frames = stage.stored(planes::work_stream(&stage.workspace).unwrap()).await.unwrap();
    let next = wire::decode(&frames[1].headers, &frames[1].body).unwrap();
    assert_eq!((frames.len(), next.lineage.seq_num), (2, 1), "the chain moved without a message");
}

#[tokio::test(start_paused = true)]
async fn a_receipt_of_another_task_under_the_id_is_a_conflict() {
    let stage = Stage::new().await.unwrap();
    let worker = stage.agent("coder-1", Role::Worker).unwrap();
    worker.record(receipt(&stage, "r-1", b"one task")).await.unwrap();

    let refused = worker.record(receipt(&stage, "r-1", b"another task")).await.unwrap_err();

    assert_eq!(refused.kind(), ErrorKind::Conflict);
}

#[tokio::test(start_paused = true)]
async fn the_same_receipt_is_stored_once_whoever_brings_it() {
    let stage = Stage::new().await.unwrap();
    let first = stage.agent("coder-1", Role::Worker).unwrap();
    let second = stage.agent("coder-2", Role::Worker).unwrap();
    first.record(receipt(&stage, "r-1", b"a task")).await.unwrap();
    first.record(receipt(&stage, "r-2", b"between")).await.unwrap();

    let again = second.record(receipt(&stage, "r-1", b"a task")).await.unwrap();

    assert_eq!(again, Recorded::AlreadyThere);
}

#[tokio::test(start_paused = true)]
async fn an_unsigned_frame_under_the_id_of_a_receipt_is_a_conflict() {
    let stage = Stage::new().await.unwrap();
    let worker = stage.agent("coder-1", Role::Worker).unwrap();
    let subject = stage.receipts().subject();
    worker.record(receipt(&stage, "r-0", b"a head")).await.unwrap();
    let junk = Frame::new(subject.clone(), FrameId::parse("r-1").unwrap(), "junk");
    stage.engine.append(junk, Expect::Any).await.unwrap();

    let refused = worker.record(receipt(&stage, "r-1", b"a task")).await.unwrap_err();

    assert!(matches!(refused.kind(), ErrorKind::Conflict | ErrorKind::Corrupt), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn something_else_under_the_id_of_a_dead_letter_does_not_swallow_the_task() {
    let (stage, flaky, boss) = orchestrator().await;
    boss.send(task(&stage, "poison")).await.unwrap();
    let worker = stage.worker("coder-1").unwrap();
    // The id is known to whoever was handed the task: its moment of storing and its position.
    let work_stream = planes::work_stream(&stage.workspace).unwrap();
    let stored = flaky.read(work_stream.clone(), bus_core::Seq(1)).await.unwrap().unwrap();
    let id = format!("{work_stream}@{}:1", stored.time.unix_ns());
    let rival = stage.agent("coder-1", Role::Worker).unwrap();
    let (workspace, agent) = (stage.workspace.clone(), rival.agent().clone());
    let subject = Address::DeadLetter { workspace, agent }.subject();
    rival.send(Draft::new(subject, DeadLetterEvent::EVENT_TYPE, "{}").id(id)).await.unwrap();

    let ended = |events: &[TaskEvent]| words(events).contains(&"dead-lettered");
    work(&worker, &Scripted::failing(9), ended).await.unwrap();

    let frames = stage.stored(planes::dead_letters_stream().unwrap()).await.unwrap();
    let operator = stage.agent("op", Role::Operator).unwrap();
    let letters = frames.iter().filter_map(|frame| {
        DeadLetterEvent::from_json(&operator.open(frame).unwrap().payload).ok()
    });
    assert_eq!((frames.len(), letters.count()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_live_event_sealed_with_another_workspaces_key_is_refused() {
    let stage = Stage::new().await.unwrap();
    let identity = stage.certified("viewer", Role::Observer).unwrap();
    let parts = stage.parts(identity);
    let keyring = Arc::clone(&parts.keyring);
    let viewer = Endpoint::new(parts).unwrap();
    // The viewer's process holds the secret of a second workspace, which mallory has too.
    let entropy = SystemEntropy::new();
    keyring.add_secret("w2", "v1", WorkspaceSecret::generate(&entropy).unwrap()).unwrap();
    let worker = stage.agent("coder-1", Role::Worker).unwrap();
    let filter = Filter::parse("vak.events.w1.s1.>").unwrap();
    let room = Overflow::DropOldest { capacity: NonZeroUsize::MIN };
    let mut frames = stage.engine.subscribe(filter, room).await.unwrap();
    worker.publish(Draft::new(stage.tokens().subject(), "vak.token", "hi")).await.unwrap();
    let Some(bus_core::FeedItem::Frame(frame)) = frames.next().await else { unreachable!() };
    let mut forged = wire::decode(&frame.headers, &frame.body).unwrap();
    let key = keyring.sealing_key("w2", &forged.lineage.incarnation.to_string()).unwrap();
    let seal = forged.seal.as_mut().unwrap();
    seal.key_id = key.key_id().to_owned();
    let mut payload = b"forged".to_vec();
    let nonce = key.seal_in_place(&entropy, &forged.aad(), &mut payload).unwrap();
    forged.seal.as_mut().unwrap().nonce = nonce;
    forged.payload = payload.into();
    let (headers, body) = wire::encode(bus_envelope::WireForm::Binary, &forged);

    let refused = viewer.open(&Frame { headers, body, ..frame.into_frame() }).unwrap_err();

    assert_eq!(refused.kind(), ErrorKind::Corrupt);
}

#[tokio::test(start_paused = true)]
async fn a_message_with_another_agents_source_is_refused() {
    let (stage, _flaky, boss) = orchestrator().await;
    let worker = stage.agent("coder-1", Role::Worker).unwrap();
    let identity = stage.certified("clerk", Role::Orchestrator).unwrap();
    let mut envelope = {
        let frame = boss.send(task(&stage, "a")).await.unwrap().frame;
        wire::decode(&frame.headers, &frame.body).unwrap()
    };
    // The clerk signs what says that it comes from the boss.
    sign_as(&mut envelope, &identity);
    let (headers, body) = wire::encode(bus_envelope::WireForm::Binary, &envelope);
    let id = FrameId::parse(&envelope.id).unwrap();
    let frame = Frame {
        subject: envelope.subject.clone(),
        id,
        reply: None,
        headers,
        body,
        placement: None,
    };

    assert_eq!(worker.open(&frame).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(stage.roster.verify(&envelope), Err(bus_core::SignerError::WrongSource));
}

/// Names `identity` as the sender and signs, but leaves the source as it is.
fn sign_as(envelope: &mut bus_envelope::MessageEnvelope, identity: &Identity) {
    envelope.lineage.agent = identity.certificate().agent.clone();
    let signer = identity.key().public().text();
    envelope.signature = Some(bus_envelope::Signature { signer, bytes: [0; 64] });
    let bytes = identity.key().sign(&envelope.signature_input(&envelope.compute_hash()));
    envelope.signature.as_mut().unwrap().bytes = bytes;
}

#[tokio::test(start_paused = true)]
async fn a_message_sent_again_under_another_id_is_refused() {
    let (stage, _flaky, boss) = orchestrator().await;
    let worker = stage.agent("coder-1", Role::Worker).unwrap();
    let mut frame = boss.send(task(&stage, "a")).await.unwrap().frame;
    let redriven = FrameId::parse(&format!("{}.r1", frame.id)).unwrap();
    frame.id = FrameId::parse("another").unwrap();
    assert_eq!(worker.open(&frame).unwrap_err().kind(), ErrorKind::Corrupt);

    frame.id = redriven;
    assert!(worker.open(&frame).is_ok(), "a redrive is refused");
}

#[tokio::test(start_paused = true)]
async fn a_worker_reads_no_approval_by_way_of_the_last_one() {
    let stage = Stage::new().await.unwrap();
    let identity = stage.certified("coder-1", Role::Worker).unwrap();
    let (session, queue) = (Some(&stage.session), Some(&stage.queue));
    let policy = identity.certificate().policy_for(session, queue);
    let guarded = Guarded::new(Arc::clone(&stage.engine), policy);
    let subject = Subject::parse("vak.approvals.w1.s1.request").unwrap();

    assert_eq!(guarded.last(subject).await.unwrap_err().kind(), ErrorKind::Denied);
    let receipts = stage.receipts().subject();
    assert_eq!(guarded.last(receipts).await.unwrap(), None, "its own session's receipts");
}

#[tokio::test(start_paused = true)]
async fn a_stored_message_that_a_policy_does_not_show_is_not_read_by_position() {
    let (stage, _flaky, boss) = orchestrator().await;
    let (workspace, agent) = (stage.workspace.clone(), "coder-1".parse().unwrap());
    let inbox = Address::Inbox { workspace, agent }.subject();
    let sent = boss.send(Draft::new(inbox, "vak.note", "for one pair of eyes")).await.unwrap();
    let identity = stage.certified("clerk", Role::Orchestrator).unwrap();
    let guarded = stage.parts(identity).engine;

    let refused = guarded.read(sent.receipt.stream, sent.receipt.seq).await.unwrap_err();

    assert_eq!(refused.kind(), ErrorKind::Denied);
}

#[tokio::test(start_paused = true)]
async fn work_that_was_done_but_not_removed_is_only_acknowledged() {
    let (stage, flaky, boss) = orchestrator().await;
    boss.send(task(&stage, "a")).await.unwrap();
    let worker = stage.worker("coder-1").unwrap();
    flaky.fail(Op::Settle, WORK, Fault::Refused(ErrorKind::Unavailable), 1);

    // Had it to be done again, it would fail now and for ever.
    let once = Scripted::succeeding_once();
    let ended = |events: &[TaskEvent]| events.len() == 2;
    let events = work(&worker, &once, ended).await.unwrap();

    assert_eq!(words(&events), ["unsettled", "completed"]);
    assert!(stage.letters().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lease_beyond_a_day_is_refused_before_anything_is_claimed() {
    let stage = Stage::new().await.unwrap();
    let endpoint = stage.agent("coder-1", Role::Worker).unwrap();
    for lease in [Duration::ZERO, Duration::MAX] {
        let mut spec = WorkerSpec::new(stage.queue.clone());
        spec.lease = lease;
        let worker = Worker::new(endpoint.clone(), spec);
        let refused = work(&worker, &Scripted::failing(0), |_| true).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{lease:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_on_no_registered_subject_has_to_be_signed() {
    let stage = Stage::new().await.unwrap();
    let viewer = stage.agent("viewer", Role::Observer).unwrap();
    let worker = stage.agent("coder-1", Role::Worker).unwrap();
    let filter = Filter::parse("vak.events.w1.s1.>").unwrap();
    let room = Overflow::DropOldest { capacity: NonZeroUsize::MIN };
    let mut feed = viewer.subscribe(filter, room).await.unwrap();
    // Within the worker's rights, but none of the registered events.
    let subject = Subject::parse("vak.events.w1.s1.gossip.x").unwrap();
    worker.publish(Draft::new(subject, "vak.gossip", "hi")).await.unwrap();

    let Some(Incoming::Message(opened)) = feed.next().await else { unreachable!() };
    assert!(opened.envelope.signature.is_some());
}

#[tokio::test(start_paused = true)]
async fn the_revoked_key_of_an_agent_that_is_gone_speaks_for_no_other() {
    let stage = Stage::new().await.unwrap();
    let gone = stage.certified("gone", Role::Worker).unwrap();
    let (token, seed) = (gone.certificate().token().to_owned(), gone.key().seed_text());
    let revocation = Revocation::of(gone.certificate(), stage.clock.now());
    let worker = Endpoint::new(stage.parts(gone)).unwrap();
    worker.record(receipt(&stage, "r-1", b"a task")).await.unwrap();
    let frames = stage.stored(planes::receipts_stream().unwrap()).await.unwrap();
    // A process that begins later: it finds the certificate among those that are kept, if it looks.
    let roster =
        Roster::new(*stage.roster.account()).keeping(move |_| Ok::<_, String>(Some(token.clone())));
    roster.revoke(&revocation).unwrap();
    let parts = stage.parts(stage.certified("op", Role::Operator).unwrap());
    roster.admit(parts.identity.certificate().token()).unwrap();
    let reader = Endpoint::new(EndpointParts { roster: Arc::new(roster), ..parts }).unwrap();

    let key = SigningKey::from_seed_text(&seed).unwrap();
    let mut forged = wire::decode(&frames[0].headers, &frames[0].body).unwrap();
    forged.lineage.agent = AgentId::parse("coder-1").unwrap();
    let signed = forged.signature_input(&forged.compute_hash());
    forged.signature.as_mut().unwrap().bytes = key.sign(&signed);
    let (headers, body) = wire::encode(bus_envelope::WireForm::Binary, &forged);
    let forged = Frame { headers, body, ..frames[0].clone() };

    assert!(!reader.is_of_revoked_key(&forged), "it speaks for coder-1");
    assert!(reader.is_of_revoked_key(&frames[0]), "it is its own word");
}
