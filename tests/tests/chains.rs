//! C06, C08 and C13: one line of records however many write, and bytes that are sent twice but
//! stored once.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::{collections::HashSet, num::NonZeroUsize, sync::Arc, time::Duration};

use bus_core::{Endpoint, ErrorKind, Frame, Outcome, Recorded, planes};
use bus_crypto::{Keyring, SystemEntropy, WorkspaceSecret};
use bus_envelope::{ChainScope, ChainVerdict, ChainVerifier, Draft, MessageEnvelope, wire};
use bus_stories::{Fault, Flaky, Op, Stage, Tap, task};
use bus_subjects::Role;

const WINDOW: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
const WORK: &str = "vak.work.";
const RECEIPTS: &str = "vak.receipts.";

fn envelope(frame: &Frame) -> MessageEnvelope {
    wire::decode(&frame.headers, &frame.body).unwrap()
}

fn receipt(stage: &Stage, text: &str) -> Draft {
    Draft::new(stage.receipts().subject(), "vak.receipt", text.to_owned())
}

/// Everything stored under the stage's tasks, as one chain of one sender.
async fn sent_chain(stage: &Stage) -> Vec<MessageEnvelope> {
    let frames = stage.stored(planes::work_stream(&stage.workspace).unwrap()).await.unwrap();
    let envelopes: Vec<_> = frames.iter().map(envelope).collect();
    if let Some(first) = envelopes.first() {
        assert_unbroken(ChainScope::incarnation_of(first), &envelopes);
    }
    envelopes
}

fn assert_unbroken(scope: ChainScope, envelopes: &[MessageEnvelope]) {
    let mut verifier = ChainVerifier::new(scope, WINDOW);
    for envelope in envelopes {
        let seq = envelope.lineage.seq_num;
        assert_eq!(verifier.feed(envelope), ChainVerdict::Linked, "number {seq}");
    }
    assert!(verifier.is_complete());
}

/// The payloads in plain, in the order they are stored.
fn texts(stage: &Stage, frames: &[Frame]) -> Vec<String> {
    let reader = stage.agent("reader", Role::Operator).unwrap();
    let text = |frame| String::from_utf8(reader.open(frame).unwrap().payload.to_vec()).unwrap();
    frames.iter().map(text).collect()
}

async fn record_many(worker: &Endpoint, drafts: Vec<Draft>) {
    for draft in drafts {
        let recorded = worker.record(draft).await.unwrap();
        assert!(matches!(recorded, Recorded::Stored(_)), "a record of ours was there before");
        tokio::task::yield_now().await;
    }
}

/// All receipts stored, after a look that they are one line.
async fn one_line_of_receipts(stage: &Stage) -> Vec<Frame> {
    let frames = stage.stored(planes::receipts_stream().unwrap()).await.unwrap();
    let envelopes: Vec<_> = frames.iter().map(envelope).collect();
    let (workspace, subject) = (stage.workspace.clone(), stage.receipts().subject());
    assert_unbroken(ChainScope::Subject { workspace, subject }, &envelopes);
    let predecessors: HashSet<_> = envelopes.iter().map(|e| e.lineage.prev_event_hash).collect();
    assert_eq!(predecessors.len(), frames.len(), "two records name one predecessor");
    frames
}

/// Eight agents record 200 receipts each on one subject at once; then the chain is walked.
async fn eight_agents_record(stage: Stage) {
    let stage = Arc::new(stage);
    let mut agents = tokio::task::JoinSet::new();
    for agent in 0..8 {
        let worker = stage.agent(&format!("coder-{agent}"), Role::Worker).unwrap();
        let drafts = (0..200).map(|n| receipt(&stage, &format!("{agent}/{n}"))).collect();
        agents.spawn(async move { record_many(&worker, drafts).await });
    }
    while let Some(done) = agents.join_next().await {
        done.unwrap();
    }

    let frames = one_line_of_receipts(&stage).await;
    assert_eq!(frames.len(), 1600);
    let texts: HashSet<_> = texts(&stage, &frames).into_iter().collect();
    assert_eq!(texts.len(), 1600, "a record is missing or stored twice");
}

#[tokio::test(start_paused = true)]
async fn eight_agents_write_one_line_of_receipts() {
    eight_agents_record(Stage::new().await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_agents_on_four_threads_write_one_line_of_receipts() {
    eight_agents_record(Stage::new().await.unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn lost_answers_neither_fork_nor_repeat_the_line_of_receipts() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let worker = stage.agent("coder-1", Role::Worker).unwrap();
    let other = stage.agent("coder-2", Role::Worker).unwrap();
    for n in 0..50 {
        // Now stored without an answer, now not stored without an answer, now answered.
        match n % 3 {
            0 => flaky.fail(Op::Append, RECEIPTS, Fault::LostAfter, 2),
            1 => flaky.fail(Op::Append, RECEIPTS, Fault::LostBefore, 1),
            _ => {}
        }
        let (one, two) = tokio::join!(
            worker.record(receipt(&stage, &format!("one/{n}"))),
            other.record(receipt(&stage, &format!("two/{n}")))
        );
        one.and(two).unwrap();
    }

    let frames = one_line_of_receipts(&stage).await;
    let texts: HashSet<_> = texts(&stage, &frames).into_iter().collect();
    assert_eq!((frames.len(), texts.len()), (100, 100));
}

#[tokio::test(start_paused = true)]
async fn a_record_with_an_id_is_stored_once() {
    let stage = Stage::new().await.unwrap();
    let worker = stage.agent("coder-1", Role::Worker).unwrap();
    let draft = receipt(&stage, "done").id("receipt-1");
    let first = worker.record(draft.clone()).await.unwrap();
    worker.record(receipt(&stage, "another")).await.unwrap();

    let again = worker.record(draft).await.unwrap();

    assert!(matches!(first, Recorded::Stored(_)));
    assert_eq!(again, Recorded::AlreadyThere);
    assert_eq!(stage.stored(planes::receipts_stream().unwrap()).await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_cannot_be_read_is_called_corrupt() {
    let stage = Stage::new().await.unwrap();
    let worker = stage.agent("coder-1", Role::Worker).unwrap();
    let id = bus_core::FrameId::parse("x").unwrap();
    let garbage = Frame::new(stage.receipts().subject(), id, "garbage");
    stage.engine.append(garbage, bus_core::Expect::Any).await.unwrap();

    let refused = worker.record(receipt(&stage, "done")).await.unwrap_err();

    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Corrupt, Outcome::NotDone));
}

async fn orchestrator() -> (Stage, Arc<Flaky>, Endpoint) {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    (stage, flaky, boss)
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_repeats_the_same_bytes_and_stores_them_once() {
    for fault in [Fault::LostAfter, Fault::LostBefore] {
        let (stage, flaky, boss) = orchestrator().await;
        flaky.fail(Op::Append, WORK, fault, 2);

        boss.send(task(&stage, "a")).await.unwrap();
        boss.send(task(&stage, "b")).await.unwrap();

        let sent = flaky.appended(WORK);
        assert_eq!(sent.len(), 4, "{fault:?}");
        assert_eq!((&sent[0], &sent[0]), (&sent[1], &sent[2]), "the bytes differ: {fault:?}");
        assert_eq!(sent_chain(&stage).await.len(), 2, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_stays_unknown_says_so_and_the_next_send_repeats_it_first() {
    for fault in [Fault::LostAfter, Fault::LostBefore] {
        let (stage, flaky, boss) = orchestrator().await;
        flaky.fail(Op::Append, WORK, fault, 3);

        let unknown = boss.send(task(&stage, "a")).await.unwrap_err();
        assert_eq!((unknown.kind(), unknown.outcome()), (ErrorKind::Unavailable, Outcome::Unknown));
        boss.send(task(&stage, "b")).await.unwrap();

        let sent = flaky.appended(WORK);
        assert_eq!(sent.len(), 5, "{fault:?}");
        assert_eq!(sent[0], sent[3], "the earlier bytes did not go first: {fault:?}");
        assert_eq!(sent_chain(&stage).await.len(), 2);
        let frames = stage.stored(planes::work_stream(&stage.workspace).unwrap()).await.unwrap();
        assert_eq!(texts(&stage, &frames), ["a", "b"], "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_after_a_lost_answer_is_still_unknown() {
    let (stage, flaky, boss) = orchestrator().await;
    flaky.fail(Op::Append, WORK, Fault::LostAfter, 1);
    flaky.fail(Op::Append, WORK, Fault::Refused(ErrorKind::Full), 1);

    let unknown = boss.send(task(&stage, "a")).await.unwrap_err();
    assert_eq!((unknown.kind(), unknown.outcome()), (ErrorKind::Full, Outcome::Unknown));
    boss.send(task(&stage, "b")).await.unwrap();

    let chain = sent_chain(&stage).await;
    assert_eq!(chain.len(), 2, "a message that was stored got a twin");
}

#[tokio::test(start_paused = true)]
async fn what_an_unknown_message_keeps_back_was_certainly_not_sent() {
    let (stage, flaky, boss) = orchestrator().await;
    flaky.fail(Op::Append, WORK, Fault::LostBefore, 6);
    boss.send(task(&stage, "a")).await.unwrap_err();

    let kept_back = boss.send(task(&stage, "b")).await.unwrap_err();

    assert_eq!(kept_back.outcome(), Outcome::NotDone);
    boss.send(task(&stage, "c")).await.unwrap();
    let frames = stage.stored(planes::work_stream(&stage.workspace).unwrap()).await.unwrap();
    assert_eq!(texts(&stage, &frames), ["a", "c"]);
    sent_chain(&stage).await;
}

#[tokio::test(start_paused = true)]
async fn our_own_repeat_of_an_unknown_draft_is_done_not_a_conflict() {
    for fault in [Fault::LostAfter, Fault::LostBefore] {
        let (stage, flaky, boss) = orchestrator().await;
        flaky.fail(Op::Append, WORK, fault, 3);
        let draft = task(&stage, "a").id("task-1");
        boss.send(draft.clone()).await.unwrap_err();

        let sent = boss.send(draft).await.unwrap();

        assert_eq!(sent.id, "task-1");
        assert_eq!(flaky.appended(WORK)[0], sent.frame, "the bytes differ");
        assert_eq!(sent_chain(&stage).await.len(), 1, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_equal_drafts_without_an_id_are_two_messages() {
    let (stage, flaky, boss) = orchestrator().await;
    flaky.fail(Op::Append, WORK, Fault::LostAfter, 3);
    boss.send(task(&stage, "a")).await.unwrap_err();
    boss.send(task(&stage, "a")).await.unwrap();
    assert_eq!(sent_chain(&stage).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_first_attempt_that_is_a_duplicate_is_a_conflict() {
    let (stage, _, boss) = orchestrator().await;
    boss.send(task(&stage, "a").id("task-1")).await.unwrap();

    for text in ["a", "other bytes"] {
        let refused = boss.send(task(&stage, text).id("task-1")).await.unwrap_err();
        assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Conflict, Outcome::NotDone));
    }

    boss.send(task(&stage, "b")).await.unwrap();
    assert_eq!(sent_chain(&stage).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_id_that_another_agent_used_is_a_conflict() {
    let (stage, _, boss) = orchestrator().await;
    let other = stage.agent("boss-2", Role::Orchestrator).unwrap();
    boss.send(task(&stage, "a").id("task-1")).await.unwrap();
    let refused = other.send(task(&stage, "a").id("task-1")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
}

#[tokio::test(start_paused = true)]
async fn a_send_that_is_dropped_half_way_leaves_the_chain_whole() {
    let (stage, flaky, boss) = orchestrator().await;
    boss.send(task(&stage, "a")).await.unwrap();
    flaky.fail(Op::Append, WORK, Fault::StuckAfter, 1);
    let dropped = tokio::time::timeout(Duration::from_secs(1), boss.send(task(&stage, "b"))).await;
    assert!(dropped.is_err());

    boss.send(task(&stage, "c")).await.unwrap();

    let frames = stage.stored(planes::work_stream(&stage.workspace).unwrap()).await.unwrap();
    assert_eq!(texts(&stage, &frames), ["a", "b", "c"]);
    assert_eq!(sent_chain(&stage).await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn many_senders_of_one_endpoint_make_one_chain() {
    let (stage, flaky, boss) = orchestrator().await;
    // The first is repeated by itself and then by those behind it, until its answer arrives.
    flaky.fail(Op::Append, WORK, Fault::LostAfter, 20);
    let sends = (0..100).map(|n| boss.send(task(&stage, &n.to_string())));
    let sent = futures_util::future::join_all(sends).await;

    let outcomes: Vec<_> = sent.iter().filter_map(|s| s.as_ref().err()?.outcome().into()).collect();
    assert_eq!(outcomes.len(), 6);
    assert_eq!(outcomes[0], Outcome::Unknown);
    assert!(outcomes[1..].iter().all(|outcome| *outcome == Outcome::NotDone));
    assert_eq!(sent_chain(&stage).await.len(), 95);
}

#[tokio::test(start_paused = true)]
async fn a_worn_key_refuses_before_anything_is_sent() {
    let (mut stage, flaky) = Stage::flaky().await.unwrap();
    let keyring = Keyring::new().with_seal_limit(10);
    let secret = WorkspaceSecret::generate(&SystemEntropy::new()).unwrap();
    keyring.add_secret("w1", "v1", secret).unwrap();
    stage.keyring = Arc::new(keyring);
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    for n in 0..10 {
        boss.send(task(&stage, &n.to_string())).await.unwrap();
    }

    let worn = boss.send(task(&stage, "one too many")).await.unwrap_err();

    assert_eq!((worn.kind(), worn.outcome()), (ErrorKind::Exhausted, Outcome::NotDone));
    assert_eq!(flaky.appended(WORK).len(), 10);
    assert_eq!(sent_chain(&stage).await.len(), 10);

    // The next process life seals under a key of its own.
    let reborn = stage.agent("boss", Role::Orchestrator).unwrap();
    reborn.send(task(&stage, "goes on")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_randomness_nothing_is_sent_and_the_chain_stands_still() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let tap = Arc::new(Tap::default());
    let mut parts = stage.parts(stage.certified("boss", Role::Orchestrator).unwrap());
    parts.entropy = tap.clone();
    let boss = Endpoint::new(parts).unwrap();
    boss.send(task(&stage, "a")).await.unwrap();

    tap.shut(true);
    let dry = boss.send(task(&stage, "b")).await.unwrap_err();
    assert_eq!((dry.kind(), dry.outcome()), (ErrorKind::Unavailable, Outcome::NotDone));
    assert_eq!(flaky.appended(WORK).len(), 1);

    tap.shut(false);
    boss.send(task(&stage, "c")).await.unwrap();
    assert_eq!(sent_chain(&stage).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_without_randomness_is_not_born() {
    let stage = Stage::new().await.unwrap();
    let tap = Arc::new(Tap::default());
    let mut parts = stage.parts(stage.certified("boss", Role::Orchestrator).unwrap());
    tap.shut(true);
    parts.entropy = tap;
    let refused = Endpoint::new(parts).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn no_two_seals_of_one_endpoint_share_a_nonce() {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    for n in 0..500 {
        boss.send(task(&stage, &n.to_string())).await.unwrap();
    }
    let nonces: HashSet<_> =
        sent_chain(&stage).await.into_iter().map(|e| e.seal.unwrap().nonce).collect();
    assert_eq!(nonces.len(), 500);
}
