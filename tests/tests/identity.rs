//! Who signed it: strangers, forgers, the expired and the misnamed are told apart and refused.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex},
    time::Duration,
};

use bus_core::{
    Endpoint, Error, ErrorKind, Expect, Frame, Identity, Incoming, Overflow, SignerError, Stop,
    TaskEvent, Worker, WorkerSpec, certify,
};
use bus_crypto::{CryptoError, Keyring, NkeyKind, SigningKey, SystemEntropy, WorkspaceSecret};
use bus_envelope::{Draft, MessageEnvelope, Signature, wire};
use bus_stories::{Scripted, Stage, task, word};
use bus_subjects::{Filter, Role, WorkspaceId};

const ROOM: Overflow = Overflow::DropOldest { capacity: NonZeroUsize::new(64).unwrap() };

fn account() -> SigningKey {
    SigningKey::generate(NkeyKind::Account, &SystemEntropy::new()).unwrap()
}

fn user() -> SigningKey {
    SigningKey::generate(NkeyKind::User, &SystemEntropy::new()).unwrap()
}

fn copy(key: &SigningKey) -> SigningKey {
    SigningKey::from_seed_text(&key.seed_text()).unwrap()
}

/// Sends as somebody who wrote a certificate for the key himself: his own program lets him pass.
async fn send_as(stage: &Stage, key: &SigningKey, name: &str) -> Frame {
    let token = certify(&account(), key.public(), &stage.issue(name, Role::Orchestrator).unwrap());
    let rogue = Identity::from_parts(copy(key), &token.unwrap()).unwrap();
    stage.endpoint(rogue).unwrap().send(task(stage, "forged")).await.unwrap().frame
}

/// What a worker of the stage says to a frame.
fn verdict(stage: &Stage, frame: &Frame) -> Error {
    stage.agent("reader", Role::Worker).unwrap().open(frame).unwrap_err()
}

fn signer_error(error: &Error) -> SignerError {
    let source = std::error::Error::source(error).unwrap();
    *source.downcast_ref::<SignerError>().unwrap()
}

async fn genuine(stage: &Stage) -> (Endpoint, Frame) {
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let frame = boss.send(task(stage, "genuine")).await.unwrap().frame;
    (boss, frame)
}

/// The frame with its envelope changed.
fn changed(frame: &Frame, change: impl FnOnce(&mut MessageEnvelope)) -> Frame {
    let mut envelope = wire::decode(&frame.headers, &frame.body).unwrap();
    change(&mut envelope);
    let (headers, body) = wire::encode(wire::WireForm::Binary, &envelope);
    Frame { headers, body, ..frame.clone() }
}

/// Signs an envelope with `key`, whoever it names.
fn sign(envelope: &mut MessageEnvelope, key: &SigningKey) {
    let signer = key.public().text();
    envelope.signature = Some(Signature { signer, bytes: [0; 64] });
    let bytes = key.sign(&envelope.signature_input(&envelope.compute_hash()));
    envelope.signature.as_mut().unwrap().bytes = bytes;
}

#[tokio::test(start_paused = true)]
async fn a_signer_without_a_certificate_here_is_unknown() {
    let stage = Stage::new().await.unwrap();
    let frame = send_as(&stage, &user(), "boss").await;
    let refused = verdict(&stage, &frame);
    assert_eq!(refused.kind(), ErrorKind::Denied);
    assert_eq!(signer_error(&refused), SignerError::UnknownSigner);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_forges_a_task_is_not_permitted() {
    let stage = Stage::new().await.unwrap();
    let worker = stage.certified("coder-1", Role::Worker).unwrap();
    let frame = send_as(&stage, worker.key(), "coder-1").await;
    let refused = verdict(&stage, &frame);
    assert_eq!(refused.kind(), ErrorKind::Denied);
    assert_eq!(signer_error(&refused), SignerError::NotPermitted);
}

#[tokio::test(start_paused = true)]
async fn a_known_key_under_another_agents_name_is_refused() {
    let stage = Stage::new().await.unwrap();
    let boss = stage.certified("boss", Role::Orchestrator).unwrap();
    let frame = send_as(&stage, boss.key(), "boss-2").await;
    assert_eq!(signer_error(&verdict(&stage, &frame)), SignerError::WrongAgent);
}

#[tokio::test(start_paused = true)]
async fn a_certificate_of_another_workspace_does_not_count_here() {
    let stage = Stage::new().await.unwrap();
    let mut issue = stage.issue("boss", Role::Orchestrator).unwrap();
    issue.workspace = WorkspaceId::parse("w2").unwrap();
    let neighbour = Identity::issue(stage.account(), &issue, &SystemEntropy::new()).unwrap();
    stage.roster.admit(neighbour.certificate().token()).unwrap();
    let (_, frame) = genuine(&stage).await;

    let forged = changed(&frame, |envelope| sign(envelope, neighbour.key()));

    assert_eq!(signer_error(&verdict(&stage, &forged)), SignerError::WrongWorkspace);
}

/// An orchestrator whose certificate lasts a minute.
fn one_minute(stage: &Stage) -> Identity {
    let mut issue = stage.issue("boss", Role::Orchestrator).unwrap();
    issue.valid_for = Some(Duration::from_secs(60));
    let identity = Identity::issue(stage.account(), &issue, &SystemEntropy::new()).unwrap();
    stage.roster.admit(identity.certificate().token()).unwrap();
    identity
}

#[tokio::test(start_paused = true)]
async fn what_an_expired_agent_sends_is_refused() {
    let stage = Stage::new().await.unwrap();
    let expired = one_minute(&stage);
    tokio::time::advance(Duration::from_secs(61)).await;
    let frame = send_as(&stage, expired.key(), "boss").await;
    assert_eq!(signer_error(&verdict(&stage, &frame)), SignerError::Expired);
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_in_time_still_counts_after_the_certificate_ended() {
    let stage = Stage::new().await.unwrap();
    let boss = stage.endpoint(one_minute(&stage)).unwrap();
    let frame = boss.send(task(&stage, "in time")).await.unwrap().frame;
    tokio::time::advance(Duration::from_secs(3600)).await;
    let reader = stage.agent("reader", Role::Worker).unwrap();
    assert_eq!(&reader.open(&frame).unwrap().payload[..], b"in time");
}

#[tokio::test(start_paused = true)]
async fn an_agent_whose_certificate_ended_sends_and_hears_nothing_more() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let boss = stage.endpoint(one_minute(&stage)).unwrap();
    tokio::time::advance(Duration::from_secs(60)).await;

    let refused = boss.send(task(&stage, "late")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
    let filter = Filter::parse("vak.events.w1.s1.>").unwrap();
    let refused = boss.subscribe(filter, ROOM).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
    assert!(flaky.calls().is_empty(), "the engine was asked");
}

#[tokio::test(start_paused = true)]
async fn a_feed_is_over_when_its_readers_certificate_ends() {
    let stage = Stage::new().await.unwrap();
    let worker = stage.agent("coder-1", Role::Worker).unwrap();
    let boss = stage.endpoint(one_minute(&stage)).unwrap();
    let filter = Filter::parse("vak.events.w1.s1.>").unwrap();
    let mut feed = boss.subscribe(filter, ROOM).await.unwrap();
    for expected in [true, false] {
        let event = Draft::new(stage.tokens().subject(), "vak.token", "x");
        worker.publish(event).await.unwrap();
        let item = feed.next().await.unwrap();
        assert_eq!(matches!(item, Incoming::Message(_)), expected, "{item:?}");
        tokio::time::advance(Duration::from_secs(60)).await;
    }
    assert!(feed.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_worker_whose_certificate_ended_takes_no_more_tasks() {
    let stage = Stage::new().await.unwrap();
    let mut issue = stage.issue("coder-1", Role::Worker).unwrap();
    issue.valid_for = Some(Duration::from_secs(60));
    let identity = Identity::issue(stage.account(), &issue, &SystemEntropy::new()).unwrap();
    let spec = WorkerSpec::new(stage.queue.clone());
    let worker = Worker::new(stage.endpoint(identity).unwrap(), spec);
    let stop = Stop::default();
    let later = async {
        tokio::time::advance(Duration::from_secs(61)).await;
        stage.fill(&["late"]).await.unwrap();
    };

    let handler = Scripted::failing(0);
    let mut events = Vec::new();
    let (ended, ()) = tokio::join!(worker.run(&handler, &stop, |event| events.push(event)), later);

    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(bus_stories::words(&events), ["released"]);
    let next = one_delivery(&stage, "coder-2", Arc::clone(&stage.keyring)).await;
    assert!(matches!(next, TaskEvent::Completed { attempt: 1, .. }), "{next:?}");
}

#[tokio::test(start_paused = true)]
async fn a_durable_message_without_a_signature_is_refused() {
    let stage = Stage::new().await.unwrap();
    let (_, frame) = genuine(&stage).await;
    let unsigned = changed(&frame, |envelope| envelope.signature = None);
    let refused = verdict(&stage, &unsigned);
    assert_eq!(refused.kind(), ErrorKind::Corrupt);
    assert_eq!(signer_error(&refused), SignerError::Unsigned);
}

#[tokio::test(start_paused = true)]
async fn a_signature_by_another_known_key_does_not_fit() {
    let stage = Stage::new().await.unwrap();
    let (boss, frame) = genuine(&stage).await;
    let other = user();
    let forged = changed(&frame, |envelope| {
        sign(envelope, &other);
        envelope.signature.as_mut().unwrap().signer = boss.identity().key().public().text();
    });
    let refused = verdict(&stage, &forged);
    assert_eq!(refused.kind(), ErrorKind::Corrupt);
    assert_eq!(signer_error(&refused), SignerError::BadSignature);
}

#[tokio::test(start_paused = true)]
async fn a_message_in_plain_is_refused_even_if_it_is_signed() {
    let stage = Stage::new().await.unwrap();
    let (boss, frame) = genuine(&stage).await;
    let plain = changed(&frame, |envelope| {
        envelope.seal = None;
        envelope.payload = "in plain".into();
        sign(envelope, boss.identity().key());
    });
    let refused = verdict(&stage, &plain);
    assert_eq!(refused.kind(), ErrorKind::Corrupt);
    assert!(refused.to_string().ends_with("the envelope is not sealed"), "{refused}");
}

/// The end of the one delivery that waits, at a worker with this keyring.
async fn one_delivery(stage: &Stage, name: &str, keyring: Arc<Keyring>) -> TaskEvent {
    let mut parts = stage.parts(stage.certified(name, Role::Worker).unwrap());
    parts.keyring = keyring;
    let spec = WorkerSpec::new(stage.queue.clone());
    let worker = Worker::new(Endpoint::new(parts).unwrap(), spec);
    let (stop, end) = (Stop::default(), Mutex::new(None));
    let report = |event| {
        *end.lock().unwrap() = Some(event);
        stop.drain.cancel();
    };
    worker.run(&Scripted::failing(0), &stop, report).await.unwrap();
    end.into_inner().unwrap().unwrap()
}

fn secret() -> WorkspaceSecret {
    WorkspaceSecret::generate(&SystemEntropy::new()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_task_under_an_unknown_key_waits_for_a_worker_that_knows_it() {
    let stage = Stage::new().await.unwrap();
    genuine(&stage).await;
    let newcomer = Arc::new(Keyring::new());
    newcomer.add_secret("w1", "v2", secret()).unwrap();

    for _ in 0..6 {
        let end = one_delivery(&stage, "coder-1", Arc::clone(&newcomer)).await;
        assert!(matches!(end, TaskEvent::Released { .. }), "{end:?}");
    }

    let end = one_delivery(&stage, "coder-2", Arc::clone(&stage.keyring)).await;
    assert!(matches!(end, TaskEvent::Completed { attempt: 1, .. }), "{end:?}");
    assert_eq!(stage.metrics.snapshot().dead_letter_count, 0);
}

#[tokio::test(start_paused = true)]
async fn a_task_under_a_withdrawn_key_is_given_up_since_the_key_never_comes_back() {
    let stage = Stage::new().await.unwrap();
    let (_, frame) = genuine(&stage).await;
    stage.keyring.add_secret("w1", "v2", secret()).unwrap();
    stage.keyring.set_current("w1", "v2").unwrap();
    stage.keyring.withdraw("w1.v1").unwrap();

    let refused = verdict(&stage, &frame);
    let reason = std::error::Error::source(&refused).unwrap().downcast_ref::<CryptoError>();
    assert!(matches!(reason, Some(CryptoError::WithdrawnKey { .. })), "{refused}");
    assert_eq!(refused.kind(), ErrorKind::UnknownKey);
    let end = one_delivery(&stage, "coder-1", Arc::clone(&stage.keyring)).await;

    assert!(matches!(end, TaskEvent::DeadLettered { attempts: 0, .. }), "{end:?}");
    assert!(stage.letters().await.unwrap()[0].failure_reason.ends_with("was withdrawn"));
}

#[tokio::test(start_paused = true)]
async fn a_forged_task_is_kept_as_it_came_and_never_run() {
    let stage = Stage::new().await.unwrap();
    let frame = send_as(&stage, &user(), "boss").await;

    let end = one_delivery(&stage, "coder-1", Arc::clone(&stage.keyring)).await;

    assert!(matches!(end, TaskEvent::DeadLettered { attempts: 0, .. }), "{end:?}");
    let letter = stage.letters().await.unwrap().pop().unwrap();
    assert_eq!((letter.attempts, letter.worker_id), (0, None));
    assert_eq!(letter.original, bus_core::OriginalFrame::of(&frame));
    let reason = "no certificate of this workspace names the signing key";
    assert!(letter.failure_reason.ends_with(reason), "{}", letter.failure_reason);
}

#[tokio::test(start_paused = true)]
async fn bytes_that_are_no_envelope_are_kept_as_they_came() {
    let stage = Stage::new().await.unwrap();
    let id = bus_core::FrameId::parse("garbage-1").unwrap();
    let garbage = Frame::new(stage.tasks().subject(), id, vec![0xff, 0xfe, 0]);
    stage.engine.append(garbage.clone(), Expect::Any).await.unwrap();

    let end = one_delivery(&stage, "coder-1", Arc::clone(&stage.keyring)).await;

    assert_eq!(word(&end), "dead-lettered");
    let letter = stage.letters().await.unwrap().pop().unwrap();
    assert_eq!((letter.envelope_id.as_str(), letter.attempts), ("garbage-1", 0));
    assert_eq!(letter.original, bus_core::OriginalFrame::of(&garbage));
}
