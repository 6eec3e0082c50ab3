//! C06, C08 and C13 in bulk: batches that are stored whole or not at all, and pipelines that pack
//! what waits.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::{collections::HashSet, num::NonZeroUsize, sync::Arc, time::Duration};

use bus_core::{
    Endpoint, Error, ErrorKind, Frame, Identity, OrderKey, Outcome, Outgoing, Pipeline, Priority,
    planes,
};
use bus_crypto::{Keyring, SystemEntropy, WorkspaceSecret};
use bus_envelope::{
    ChainLimits, ChainScope, ChainSet, ChainTotals, ChainVerdict, Draft, MessageEnvelope, wire,
};
use bus_stories::{Fault, Flaky, Op, Stage, task};
use bus_subjects::{Address, Role, RoleName};

const WORK: &str = "vak.work.";

async fn orchestrator() -> (Stage, Arc<Flaky>, Endpoint) {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    (stage, flaky, boss)
}

/// Tasks with these texts in the stage's own queue.
fn tasks(stage: &Stage, texts: &[&str]) -> Vec<Outgoing> {
    texts.iter().map(|text| task(stage, text).into()).collect()
}

/// A task in another queue.
fn task_of(stage: &Stage, role: &str, text: &str) -> Draft {
    let role = RoleName::parse(role).unwrap();
    let subject = Address::Task { workspace: stage.workspace.clone(), role }.subject();
    Draft { subject, ..task(stage, text) }
}

async fn stored(stage: &Stage) -> Vec<Frame> {
    stage.stored(planes::work_stream(&stage.workspace).unwrap()).await.unwrap()
}

/// The payloads in the order they are stored.
async fn texts(stage: &Stage) -> Vec<String> {
    let reader = stage.agent("reader", Role::Operator).unwrap();
    let text = |frame| String::from_utf8(reader.open(frame).unwrap().payload.to_vec()).unwrap();
    stored(stage).await.iter().map(text).collect()
}

/// Everything stored, each chain judged.
async fn judged(stage: &Stage) -> (ChainTotals, Vec<ChainVerdict>) {
    let some = |n| NonZeroUsize::new(n).unwrap();
    let mut chains = ChainSet::new(ChainLimits { chains_max: some(64), window: some(8192) });
    let mut verdicts = Vec::new();
    for frame in stored(stage).await {
        let envelope: MessageEnvelope = wire::decode(&frame.headers, &frame.body).unwrap();
        verdicts.push(chains.feed(ChainScope::incarnation_of(&envelope), &envelope));
    }
    (chains.totals(), verdicts)
}

async fn assert_whole(stage: &Stage) {
    let (totals, verdicts) = judged(stage).await;
    assert_eq!((totals.broken, totals.gaps), (0, 0), "{totals:?}");
    assert!(verdicts.iter().all(|verdict| *verdict == ChainVerdict::Linked), "{verdicts:?}");
}

fn batches(flaky: &Flaky) -> usize {
    flaky.calls().iter().filter(|call| call.op == Op::AppendAll).count()
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_stored_in_one_go_and_in_its_order() {
    let (stage, flaky, boss) = orchestrator().await;
    let sent = boss.send_all(tasks(&stage, &["a", "b", "c"])).await.unwrap();
    assert_eq!(sent.iter().map(|sent| sent.receipt.seq.0).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(
        (batches(&flaky), texts(&stage).await),
        (1, vec!["a".into(), "b".into(), "c".into()])
    );
    assert_whole(&stage).await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_on_several_subjects_moves_each_of_their_chains() {
    let (stage, _, boss) = orchestrator().await;
    for _ in 0..2 {
        let drafts = ["coder", "judge", "coder", "tester", "judge"];
        boss.send_all(drafts.map(|role| task_of(&stage, role, role))).await.unwrap();
    }
    boss.send(task(&stage, "single")).await.unwrap();
    assert_whole(&stage).await;
    assert_eq!(judged(&stage).await.0.chains, 3);
}

#[tokio::test(start_paused = true)]
async fn an_empty_batch_is_no_work() {
    let (_, flaky, boss) = orchestrator().await;
    assert_eq!(boss.send_all(Vec::<Outgoing>::new()).await.unwrap(), []);
    assert_eq!(flaky.calls(), []);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_cannot_be_is_refused_before_anything_is_sent() {
    let (stage, flaky, boss) = orchestrator().await;
    let many = (0..=Frame::BATCH_MAX).map(|_| task(&stage, "x"));
    let twice = [task(&stage, "a").id("t-1"), task(&stage, "b").id("t-1")];
    let large =
        Draft { payload: vec![0; Endpoint::PAYLOAD_BYTES_MAX + 1].into(), ..task(&stage, "") };
    let inbox =
        Address::Receipt { workspace: stage.workspace.clone(), session: stage.session.clone() };
    let foreign = Draft { subject: inbox.subject(), ..task(&stage, "") };
    let refusals = [
        (boss.send_all(many).await, ErrorKind::TooLarge),
        (boss.send_all(twice).await, ErrorKind::Invalid),
        (boss.send_all([task(&stage, "a"), large]).await, ErrorKind::TooLarge),
        (boss.send_all([task(&stage, "a"), foreign]).await, ErrorKind::Denied),
    ];
    for (refused, kind) in refusals {
        let error = refused.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (kind, Outcome::NotDone));
    }
    assert_eq!(flaky.calls(), []);
}

#[tokio::test(start_paused = true)]
async fn a_batch_with_a_record_for_an_evidence_subject_is_refused() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let worker = stage.agent("coder-1", Role::Worker).unwrap();
    let record = Draft { subject: stage.receipts().subject(), ..task(&stage, "") };
    let refused = worker.send_all([record.clone()]).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert_eq!(worker.send(record).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(flaky.calls(), []);
}

#[tokio::test(start_paused = true)]
async fn a_refused_batch_moves_no_chain() {
    let (stage, flaky, boss) = orchestrator().await;
    flaky.fail(Op::AppendAll, WORK, Fault::Refused(ErrorKind::Full), 1);
    let full = boss.send_all(tasks(&stage, &["a", "b"])).await.unwrap_err();
    assert_eq!((full.kind(), full.outcome()), (ErrorKind::Full, Outcome::NotDone));
    boss.send_all(tasks(&stage, &["c", "d"])).await.unwrap();
    assert_eq!(texts(&stage).await, ["c", "d"]);
    assert_whole(&stage).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_repeats_the_same_batch_and_stores_it_once() {
    for fault in [Fault::LostAfter, Fault::LostBefore] {
        let (stage, flaky, boss) = orchestrator().await;
        flaky.fail(Op::AppendAll, WORK, fault, 2);
        let sent = boss.send_all(tasks(&stage, &["a", "b"])).await.unwrap();
        assert_eq!(batches(&flaky), 3, "{fault:?}");
        let frames: Vec<_> = sent.into_iter().map(|sent| sent.frame).collect();
        assert_eq!(stored(&stage).await, frames, "{fault:?}");
        assert_whole(&stage).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_unknown_outcome_goes_first_whichever_of_its_subjects_is_sent_to() {
    for fault in [Fault::LostAfter, Fault::LostBefore] {
        for next in ["coder", "judge"] {
            let (stage, flaky, boss) = orchestrator().await;
            flaky.fail(Op::AppendAll, WORK, fault, 3);
            let batch = [task_of(&stage, "coder", "a"), task_of(&stage, "judge", "b")];
            let unknown = boss.send_all(batch).await.unwrap_err();
            assert_eq!(unknown.outcome(), Outcome::Unknown, "{fault:?}");

            boss.send(task_of(&stage, next, "c")).await.unwrap();

            assert_eq!(texts(&stage).await, ["a", "b", "c"], "{fault:?} {next}");
            assert_whole(&stage).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_subject_that_an_unknown_batch_does_not_touch_is_not_held_up() {
    let (stage, flaky, boss) = orchestrator().await;
    flaky.fail(Op::AppendAll, WORK, Fault::LostBefore, 6);
    let batch = || [task_of(&stage, "coder", "a"), task_of(&stage, "judge", "b")];
    boss.send_all(batch()).await.unwrap_err();

    boss.send(task_of(&stage, "tester", "free")).await.unwrap();
    let held = boss.send(task_of(&stage, "judge", "held")).await.unwrap_err();

    assert_eq!(held.outcome(), Outcome::NotDone);
    assert_eq!(texts(&stage).await, ["free"]);
}

#[tokio::test(start_paused = true)]
async fn two_unknown_batches_are_both_repeated_before_a_batch_over_both() {
    let (stage, flaky, boss) = orchestrator().await;
    flaky.fail(Op::AppendAll, WORK, Fault::LostBefore, 6);
    boss.send_all([task_of(&stage, "a", "1"), task_of(&stage, "b", "2")]).await.unwrap_err();
    boss.send_all([task_of(&stage, "c", "3"), task_of(&stage, "d", "4")]).await.unwrap_err();
    boss.send_all([task_of(&stage, "d", "5"), task_of(&stage, "b", "6")]).await.unwrap();
    assert_eq!(texts(&stage).await, ["1", "2", "3", "4", "5", "6"]);
    assert_whole(&stage).await;
}

#[tokio::test(start_paused = true)]
async fn our_own_repeat_of_an_unknown_batch_is_done_not_a_conflict() {
    for fault in [Fault::LostAfter, Fault::LostBefore] {
        let (stage, flaky, boss) = orchestrator().await;
        flaky.fail(Op::AppendAll, WORK, fault, 3);
        let batch = [task(&stage, "a").id("t-1"), task(&stage, "b").id("t-2")];
        boss.send_all(batch.clone()).await.unwrap_err();

        let sent = boss.send_all(batch).await.unwrap();

        assert_eq!(sent.iter().map(|sent| sent.id.as_str()).collect::<Vec<_>>(), ["t-1", "t-2"]);
        assert_eq!(stored(&stage).await.len(), 2, "{fault:?}");
        assert_whole(&stage).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_dropped_half_way_leaves_its_chains_whole() {
    let (stage, flaky, boss) = orchestrator().await;
    flaky.fail(Op::AppendAll, WORK, Fault::StuckAfter, 1);
    let batch = [task_of(&stage, "coder", "a"), task_of(&stage, "judge", "b")];
    let dropped = tokio::time::timeout(Duration::from_secs(1), boss.send_all(batch)).await;
    assert!(dropped.is_err());

    boss.send(task_of(&stage, "judge", "c")).await.unwrap();

    assert_eq!(texts(&stage).await, ["a", "b", "c"]);
    assert_whole(&stage).await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_whose_ids_were_all_used_is_a_conflict_and_stores_nothing() {
    let (stage, _, boss) = orchestrator().await;
    let other = stage.agent("boss-2", Role::Orchestrator).unwrap();
    let batch = [task(&stage, "a").id("t-1"), task(&stage, "b").id("t-2")];
    other.send_all(batch.clone()).await.unwrap();

    let refused = boss.send_all(batch).await.unwrap_err();

    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Conflict, Outcome::NotDone));
    boss.send(task(&stage, "c")).await.unwrap();
    assert_whole(&stage).await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_with_one_used_id_is_a_conflict_and_stores_nothing() {
    let (stage, _, boss) = orchestrator().await;
    let other = stage.agent("boss-2", Role::Orchestrator).unwrap();
    other.send(task(&stage, "theirs").id("t-2")).await.unwrap();
    let batch = [task(&stage, "a"), task(&stage, "b").id("t-2"), task(&stage, "c")];

    let refused = boss.send_all(batch).await.unwrap_err();

    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Conflict, Outcome::NotDone));
    assert_eq!(texts(&stage).await, ["theirs"]);
    boss.send(task(&stage, "d")).await.unwrap();
    assert_whole(&stage).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_batch_that_meets_a_used_id_does_not_hold_up_its_subjects_for_ever() {
    let (stage, flaky, boss) = orchestrator().await;
    let other = stage.agent("boss-2", Role::Orchestrator).unwrap();
    flaky.fail(Op::AppendAll, WORK, Fault::LostBefore, 3);
    let batch = [task(&stage, "a"), task(&stage, "b").id("t-2")];
    let unknown = boss.send_all(batch).await.unwrap_err();
    assert_eq!(unknown.outcome(), Outcome::Unknown);
    other.send(task(&stage, "theirs").id("t-2")).await.unwrap();

    let held_up = boss.send(task(&stage, "c")).await.unwrap_err();
    assert_eq!((held_up.kind(), held_up.outcome()), (ErrorKind::Conflict, Outcome::NotDone));
    boss.send(task(&stage, "d")).await.unwrap();

    assert_eq!(texts(&stage).await, ["theirs", "d"]);
    assert_whole(&stage).await;
}

#[tokio::test(start_paused = true)]
async fn a_worn_key_refuses_the_whole_batch() {
    let (mut stage, flaky) = Stage::flaky().await.unwrap();
    let keyring = Keyring::new().with_seal_limit(3);
    keyring
        .add_secret("w1", "v1", WorkspaceSecret::generate(&SystemEntropy::new()).unwrap())
        .unwrap();
    stage.keyring = Arc::new(keyring);
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let worn = boss.send_all(tasks(&stage, &["a", "b", "c", "d"])).await.unwrap_err();
    assert_eq!((worn.kind(), worn.outcome()), (ErrorKind::Exhausted, Outcome::NotDone));
    assert_eq!((batches(&flaky), flaky.appended(WORK).len()), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn batches_over_the_same_subjects_in_any_order_neither_wait_for_ever_nor_fork() {
    let stage = Arc::new(Stage::new().await.unwrap());
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let mut senders = tokio::task::JoinSet::new();
    for sender in 0..8_usize {
        let (stage, boss) = (Arc::clone(&stage), boss.clone());
        senders.spawn(async move {
            for n in 0..25_usize {
                let mut roles = ["a", "b", "c", "d"];
                roles.rotate_left((sender + n) % 4);
                boss.send_all(roles.map(|role| task_of(&stage, role, "x"))).await.unwrap();
            }
        });
    }
    let all = async {
        while let Some(done) = senders.join_next().await {
            done.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(60), all).await.unwrap();
    assert_eq!(stored(&stage).await.len(), 800);
    assert_whole(&stage).await;
}

#[tokio::test(start_paused = true)]
async fn an_outgoing_message_is_placed_and_a_repeat_goes_to_the_same_place() {
    let (stage, flaky, boss) = orchestrator().await;
    flaky.fail(Op::Append, WORK, Fault::LostBefore, 2);
    let key = OrderKey::parse("repository-1").unwrap();
    let outgoing = Outgoing::from(task(&stage, "later"))
        .after(Duration::from_secs(60))
        .priority(Priority::HIGHEST)
        .key(key.clone());
    let due = stage.clock.now().plus(Duration::from_secs(60));

    let sent = boss.send(outgoing).await.unwrap();

    let placement = sent.frame.placement.clone().unwrap();
    assert_eq!((placement.not_before, placement.priority), (Some(due), Priority::HIGHEST));
    assert_eq!(placement.key, Some(key));
    assert!(flaky.appended(WORK).iter().all(|frame| *frame == sent.frame));
}

#[tokio::test(start_paused = true)]
async fn a_delayed_message_that_is_sent_again_after_an_unknown_outcome_keeps_its_time() {
    let (stage, flaky, boss) = orchestrator().await;
    flaky.fail(Op::Append, WORK, Fault::LostBefore, 3);
    let outgoing = Outgoing::from(task(&stage, "later").id("t-1")).after(Duration::from_secs(60));
    let due = stage.clock.now().plus(Duration::from_secs(60));
    boss.send(outgoing.clone()).await.unwrap_err();
    tokio::time::advance(Duration::from_secs(30)).await;

    let sent = boss.send(outgoing).await.unwrap();

    assert_eq!(sent.frame.placement.unwrap().not_before, Some(due));
}

fn pipeline(boss: &Endpoint, window: usize) -> Pipeline {
    boss.pipeline(NonZeroUsize::new(window).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_pipeline_stores_in_the_order_of_the_pushes() {
    let (stage, _, boss) = orchestrator().await;
    let pipeline = pipeline(&boss, 16);
    for n in 0..100 {
        let _unwatched = pipeline.push(task(&stage, &n.to_string())).await.unwrap();
    }
    pipeline.flush().await.unwrap();
    let expected: Vec<_> = (0..100).map(|n| n.to_string()).collect();
    assert_eq!(texts(&stage).await, expected);
    assert_whole(&stage).await;
}

#[tokio::test(start_paused = true)]
async fn what_waits_while_a_batch_is_under_way_goes_together() {
    let (stage, flaky, boss) = orchestrator().await;
    let pipeline = pipeline(&boss, 64);
    // The first one is stuck on its way; the others gather behind it.
    flaky.fail(Op::Append, WORK, Fault::SlowBefore(Duration::from_secs(1)), 1);
    let mut tickets = Vec::new();
    for n in 0..33 {
        tickets.push(pipeline.push(task(&stage, &n.to_string())).await.unwrap());
    }
    for ticket in tickets {
        ticket.wait().await.unwrap();
    }
    assert_eq!((flaky.appended(WORK).len(), batches(&flaky)), (1, 1));
    assert_eq!(stored(&stage).await.len(), 33);
}

#[tokio::test(start_paused = true)]
async fn a_push_beyond_the_window_waits_for_room() {
    let (stage, flaky, boss) = orchestrator().await;
    let pipeline = pipeline(&boss, 2);
    flaky.fail(Op::Append, WORK, Fault::SlowBefore(Duration::from_secs(1)), 1);
    let start = tokio::time::Instant::now();
    for text in ["a", "b"] {
        let _unwatched = pipeline.push(task(&stage, text)).await.unwrap();
    }
    assert!(start.elapsed().is_zero(), "there was room");
    let _unwatched = pipeline.push(task(&stage, "c")).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn producers_that_each_wait_for_their_own_ticket_share_batches() {
    let (stage, flaky, boss) = orchestrator().await;
    let pipeline = pipeline(&boss, 64);
    flaky.fail(Op::Append, WORK, Fault::SlowBefore(Duration::from_secs(1)), 1);
    let producers = (0..64).map(|n| {
        let (pipeline, draft) = (pipeline.clone(), task(&stage, &n.to_string()));
        async move { pipeline.push(draft).await?.wait().await }
    });
    let sent = futures_util::future::join_all(producers).await;
    assert!(sent.iter().all(Result::is_ok));
    assert_eq!((flaky.appended(WORK).len(), batches(&flaky)), (1, 1));
    assert_whole(&stage).await;
}

/// Kinds and outcomes of what the tickets of these pushes say; `None`: stored.
async fn answers(pipeline: &Pipeline, drafts: Vec<Draft>) -> Vec<Option<(ErrorKind, Outcome)>> {
    let mut tickets = Vec::new();
    for draft in drafts {
        tickets.push(pipeline.push(draft).await.unwrap());
    }
    let mut answers = Vec::new();
    for ticket in tickets {
        let told = |error: Error| (error.kind(), error.outcome());
        answers.push(ticket.wait().await.err().map(told));
    }
    answers
}

#[tokio::test(start_paused = true)]
async fn one_bad_message_stops_its_own_subject_and_no_other() {
    let (stage, flaky, boss) = orchestrator().await;
    let pipeline = pipeline(&boss, 64);
    flaky.fail(Op::Append, WORK, Fault::SlowBefore(Duration::from_secs(1)), 1);
    // The batch behind the first one is refused; alone only the one of the judge is.
    flaky.fail(Op::AppendAll, WORK, Fault::Refused(ErrorKind::Full), 1);
    flaky.fail(Op::Append, "vak.work.w1.judge.", Fault::Refused(ErrorKind::Full), 1);
    let of = |role, text| task_of(&stage, role, text);
    let drafts = vec![
        of("coder", "1"),
        of("judge", "bad"),
        of("coder", "2"),
        of("judge", "3"),
        of("coder", "4"),
    ];

    let answers = answers(&pipeline, drafts).await;

    let bad = Some((ErrorKind::Full, Outcome::NotDone));
    let behind = Some((ErrorKind::Conflict, Outcome::NotDone));
    assert_eq!(answers, [None, bad, None, behind, None]);
    assert_eq!(texts(&stage).await, ["1", "2", "4"]);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_subject_is_open_again_once_a_flush_has_told_the_failure() {
    let (stage, flaky, boss) = orchestrator().await;
    let pipeline = pipeline(&boss, 64);
    flaky.fail(Op::Append, WORK, Fault::Refused(ErrorKind::Full), 1);
    let drafts = ["bad", "behind"].map(|text| task(&stage, text)).to_vec();
    assert!(answers(&pipeline, drafts).await.iter().all(Option::is_some));

    assert_eq!(pipeline.flush().await.unwrap_err().kind(), ErrorKind::Full);

    assert_eq!(answers(&pipeline, vec![task(&stage, "good")]).await, [None]);
    pipeline.flush().await.unwrap();
    assert_eq!(texts(&stage).await, ["good"]);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_is_told_for_each_message_of_the_batch() {
    let (stage, flaky, boss) = orchestrator().await;
    let pipeline = pipeline(&boss, 64);
    flaky.fail(Op::Append, WORK, Fault::SlowBefore(Duration::from_secs(1)), 1);
    flaky.fail(Op::AppendAll, WORK, Fault::LostAfter, 3);
    let drafts = ["first", "a", "b"].map(|text| task(&stage, text)).to_vec();

    let unknown = Some((ErrorKind::Unavailable, Outcome::Unknown));
    assert_eq!(answers(&pipeline, drafts).await, [None, unknown, unknown]);

    pipeline.flush().await.unwrap_err();
    assert_eq!(answers(&pipeline, vec![task(&stage, "c")]).await, [None]);
    assert_eq!(texts(&stage).await, ["first", "a", "b", "c"]);
    assert_whole(&stage).await;
}

#[tokio::test(start_paused = true)]
async fn two_messages_with_one_id_are_one_message_and_one_conflict() {
    let (stage, flaky, boss) = orchestrator().await;
    let pipeline = pipeline(&boss, 64);
    flaky.fail(Op::Append, WORK, Fault::SlowBefore(Duration::from_secs(1)), 1);
    let drafts =
        vec![task(&stage, "first"), task(&stage, "a").id("t-1"), task(&stage, "twin").id("t-1")];
    let conflict = Some((ErrorKind::Conflict, Outcome::NotDone));
    assert_eq!(answers(&pipeline, drafts).await, [None, None, conflict]);
    assert_eq!(texts(&stage).await, ["first", "a"]);
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_sent_is_refused_by_the_push_itself() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let worker = stage.agent("coder-1", Role::Worker).unwrap();
    let pipeline = pipeline(&worker, 4);
    let denied = pipeline.push(task(&stage, "forged")).await.unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::Denied);
    pipeline.flush().await.unwrap();
    assert_eq!(flaky.calls(), []);
}

#[tokio::test(start_paused = true)]
async fn what_waited_until_its_senders_certificate_ended_is_not_sent() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let mut issue = stage.issue("boss", Role::Orchestrator).unwrap();
    issue.valid_for = Some(Duration::from_secs(3));
    let identity = Identity::issue(stage.account(), &issue, &SystemEntropy::new()).unwrap();
    stage.roster.admit(identity.certificate().token()).unwrap();
    let pipeline = pipeline(&Endpoint::new(stage.parts(identity)).unwrap(), 64);
    flaky.fail(Op::Append, WORK, Fault::SlowBefore(Duration::from_secs(5)), 1);
    let in_time = pipeline.push(task(&stage, "a")).await.unwrap();
    let waits = pipeline.push(task(&stage, "b")).await.unwrap();

    in_time.wait().await.unwrap();
    let ended = waits.wait().await.unwrap_err();

    assert_eq!((ended.kind(), ended.outcome()), (ErrorKind::Denied, Outcome::NotDone));
    assert_eq!(stored(&stage).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_ticket_that_is_given_up_while_it_waits_leaves_the_batch_to_others() {
    let (stage, flaky, boss) = orchestrator().await;
    let pipeline = pipeline(&boss, 64);
    flaky.fail(Op::Append, WORK, Fault::SlowBefore(Duration::from_secs(5)), 1);
    let given_up = pipeline.push(task(&stage, "a")).await.unwrap();
    let kept = pipeline.push(task(&stage, "b")).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(1), given_up.wait()).await.is_err());

    kept.wait().await.unwrap();

    assert_eq!(texts(&stage).await, ["a", "b"]);
    assert_whole(&stage).await;
}

#[tokio::test(start_paused = true)]
async fn a_pipeline_dropped_on_its_way_leaves_the_chain_whole_and_what_was_answered_stored() {
    let (stage, flaky, boss) = orchestrator().await;
    let pipeline = pipeline(&boss, 64);
    pipeline.push(task(&stage, "answered")).await.unwrap().wait().await.unwrap();
    flaky.fail(Op::Append, WORK, Fault::StuckAfter, 1);
    let ticket = pipeline.push(task(&stage, "unanswered")).await.unwrap();
    drop((pipeline, ticket));

    boss.send(task(&stage, "next")).await.unwrap();

    assert_eq!(texts(&stage).await, ["answered", "unanswered", "next"]);
    assert_whole(&stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_producers_on_four_threads_make_one_chain_a_subject() {
    let stage = Arc::new(Stage::new().await.unwrap());
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let pipeline = pipeline(&boss, 32);
    let mut producers = tokio::task::JoinSet::new();
    for producer in 0..16 {
        let (stage, pipeline) = (Arc::clone(&stage), pipeline.clone());
        producers.spawn(async move {
            let role = ["a", "b", "c"][producer % 3];
            for n in 0..50 {
                let draft = task_of(&stage, role, &format!("{producer}/{n}"));
                pipeline.push(draft).await.unwrap().wait().await.unwrap();
            }
        });
    }
    let all = async {
        while let Some(done) = producers.join_next().await {
            done.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(60), all).await.unwrap();
    let texts: HashSet<_> = texts(&stage).await.into_iter().collect();
    assert_eq!((texts.len(), judged(&stage).await.0.chains), (800, 3));
    assert_whole(&stage).await;
}
