//! D5: a new process life goes on from the last message of an earlier one, if it can read it.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::{num::NonZeroUsize, sync::Arc};

use bus_core::{Endpoint, ErrorKind, Expect, Frame, FrameId, Outcome, planes};
use bus_envelope::{
    ChainHead, ChainLimits, ChainScope, ChainSet, ChainTotals, ChainVerdict, MessageEnvelope, wire,
};
use bus_stories::{Fault, Op, Stage, task};
use bus_subjects::{Address, Role};

use ChainVerdict::{Continued, Linked};

const WORK: &str = "vak.work.";

/// A new process life of the orchestrator `name`.
fn life(stage: &Stage, name: &str) -> Endpoint {
    stage.agent(name, Role::Orchestrator).unwrap()
}

async fn send(stage: &Stage, boss: &Endpoint, texts: &[&str]) {
    for text in texts {
        boss.send(task(stage, text)).await.unwrap();
    }
}

async fn envelopes(stage: &Stage) -> Vec<MessageEnvelope> {
    let frames = stage.stored(planes::work_stream(&stage.workspace).unwrap()).await.unwrap();
    frames.iter().map(|frame| wire::decode(&frame.headers, &frame.body).unwrap()).collect()
}

/// What a reader of all these finds.
fn judged(envelopes: &[MessageEnvelope]) -> (Vec<ChainVerdict>, ChainTotals) {
    let some = |n| NonZeroUsize::new(n).unwrap();
    let mut chains = ChainSet::new(ChainLimits { chains_max: some(64), window: some(4096) });
    let verdicts =
        envelopes.iter().map(|e| chains.feed(ChainScope::incarnation_of(e), e)).collect();
    (verdicts, chains.totals())
}

#[tokio::test(start_paused = true)]
async fn a_new_life_goes_on_from_the_last_message_of_the_old_one() {
    let stage = Stage::new().await.unwrap();
    let old = life(&stage, "boss");
    send(&stage, &old, &["a", "b"]).await;
    let new = life(&stage, "boss");
    send(&stage, &new, &["c", "d"]).await;

    let stored = envelopes(&stage).await;

    assert_eq!(stored[2].lineage.prev_event_hash, stored[1].compute_hash());
    assert_eq!(stored[2].lineage.seq_num, 3);
    assert_eq!(stored[2].continues(), Some(old.incarnation()));
    assert_eq!(stored[3].continues(), None);
    let (verdicts, totals) = judged(&stored);
    assert_eq!(verdicts, [Linked, Linked, Continued { is_known: true }, Linked]);
    assert_eq!((totals.broken, totals.continued), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_a_new_life_says_it_once() {
    let stage = Stage::new().await.unwrap();
    send(&stage, &life(&stage, "boss"), &["a"]).await;
    let new = life(&stage, "boss");
    new.send_all(["b", "c"].map(|text| task(&stage, text))).await.unwrap();
    let (verdicts, _) = judged(&envelopes(&stage).await);
    assert_eq!(verdicts, [Linked, Continued { is_known: true }, Linked]);
}

#[tokio::test(start_paused = true)]
async fn an_agent_goes_on_from_nobody_elses_message() {
    let stage = Stage::new().await.unwrap();
    send(&stage, &life(&stage, "boss"), &["a"]).await;
    send(&stage, &life(&stage, "other"), &["b"]).await;
    send(&stage, &life(&stage, "boss"), &["c"]).await;
    let stored = envelopes(&stage).await;
    assert_eq!(stored.iter().map(|e| e.lineage.seq_num).collect::<Vec<_>>(), [1, 1, 1]);
    assert_eq!(judged(&stored).1.broken, 0);
}

#[tokio::test(start_paused = true)]
async fn a_life_whose_predecessor_is_gone_begins_anew() {
    let stage = Stage::new().await.unwrap();
    send(&stage, &life(&stage, "boss"), &["a"]).await;
    let stream = planes::work_stream(&stage.workspace).unwrap();
    assert!(stage.engine.discard(stream, bus_core::Seq(1)).await.unwrap());
    send(&stage, &life(&stage, "boss"), &["b"]).await;
    let stored = envelopes(&stage).await;
    assert_eq!((stored[0].lineage.seq_num, stored[0].continues()), (1, None));
}

#[tokio::test(start_paused = true)]
async fn a_life_that_may_not_read_the_subject_begins_anew() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let (workspace, agent) = (stage.workspace.clone(), "coder-1".parse().unwrap());
    let inbox = Address::Inbox { workspace, agent }.subject();
    for _ in 0..2 {
        let note = bus_envelope::Draft::new(inbox.clone(), "vak.note", "hi");
        life(&stage, "boss").send(note).await.unwrap();
    }
    let numbers: Vec<_> = flaky
        .appended("vak.agent.")
        .iter()
        .map(|frame| wire::decode(&frame.headers, &frame.body).unwrap().lineage.seq_num)
        .collect();
    assert_eq!(numbers, [1, 1]);
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_does_not_answer_holds_up_no_send() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    send(&stage, &life(&stage, "boss"), &["a"]).await;
    flaky.fail(Op::Last, WORK, Fault::Refused(ErrorKind::Unavailable), 1);
    send(&stage, &life(&stage, "boss"), &["b"]).await;
    assert_eq!(envelopes(&stage).await[1].lineage.seq_num, 1);
}

#[tokio::test(start_paused = true)]
async fn nobody_goes_on_from_a_message_that_its_agent_did_not_sign() {
    let stage = Stage::new().await.unwrap();
    send(&stage, &life(&stage, "boss"), &["a"]).await;
    // Somebody stores the same message with another payload.
    let frames = stage.stored(planes::work_stream(&stage.workspace).unwrap()).await.unwrap();
    let mut forged = frames[0].clone();
    forged.id = FrameId::parse("forged").unwrap();
    forged.body = "evil".into();
    stage.engine.append(forged, Expect::Any).await.unwrap();
    life(&stage, "boss").send(task(&stage, "b")).await.unwrap();
    let last: Frame =
        stage.stored(planes::work_stream(&stage.workspace).unwrap()).await.unwrap().remove(2);
    assert_eq!(wire::decode(&last.headers, &last.body).unwrap().lineage.seq_num, 1);
}

#[tokio::test(start_paused = true)]
async fn a_first_message_that_was_refused_leaves_its_place_to_the_next() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    send(&stage, &life(&stage, "boss"), &["a"]).await;
    let new = life(&stage, "boss");
    flaky.fail(Op::Append, WORK, Fault::Refused(ErrorKind::Full), 1);
    new.send(task(&stage, "refused")).await.unwrap_err();
    send(&stage, &new, &["b", "c"]).await;
    let (verdicts, _) = judged(&envelopes(&stage).await);
    assert_eq!(verdicts, [Linked, Continued { is_known: true }, Linked]);
}

#[tokio::test(start_paused = true)]
async fn an_old_life_that_goes_on_beside_the_new_one_forks_nothing() {
    let stage = Stage::new().await.unwrap();
    let (old, new) = (life(&stage, "boss"), life(&stage, "boss"));
    send(&stage, &old, &["a"]).await;
    send(&stage, &new, &["b"]).await;
    send(&stage, &old, &["c"]).await;
    send(&stage, &new, &["d"]).await;
    let (verdicts, totals) = judged(&envelopes(&stage).await);
    assert_eq!(verdicts, [Linked, Continued { is_known: true }, Linked, Linked]);
    assert_eq!((totals.broken, totals.forks, totals.altered), (0, 0, 0));
}

/// C06 on a subject with a chain for each writer: eight lives of one agent, all at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_lives_of_one_agent_at_once_are_eight_lines_and_no_fork() {
    let stage = Arc::new(Stage::new().await.unwrap());
    let mut lives = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let stage = Arc::clone(&stage);
        lives.spawn(async move {
            let boss = life(&stage, "boss");
            for n in 0..100 {
                boss.send(task(&stage, &n.to_string())).await.unwrap();
                tokio::task::yield_now().await;
            }
        });
    }
    while let Some(done) = lives.join_next().await {
        done.unwrap();
    }
    let stored = envelopes(&stage).await;
    let (_, totals) = judged(&stored);
    assert_eq!((stored.len(), totals.chains, totals.broken), (800, 8, 0), "{totals:?}");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_comes_in_between_sees_the_new_life_whole() {
    let stage = Stage::new().await.unwrap();
    send(&stage, &life(&stage, "boss"), &["a", "b"]).await;
    send(&stage, &life(&stage, "boss"), &["c", "d"]).await;
    let stored = envelopes(&stage).await;
    let (verdicts, totals) = judged(&stored[2..]);
    assert_eq!(verdicts, [Continued { is_known: false }, Linked]);
    assert_eq!((totals.broken, totals.gaps), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_message_of_the_old_life_shows_as_a_gap() {
    let stage = Stage::new().await.unwrap();
    send(&stage, &life(&stage, "boss"), &["a", "b"]).await;
    send(&stage, &life(&stage, "boss"), &["c", "d"]).await;
    let mut stored = envelopes(&stage).await;
    stored.remove(1);
    let (verdicts, totals) = judged(&stored);
    assert_eq!(verdicts, [Linked, ChainVerdict::Gap { missed: 1 }, Linked]);
    assert_eq!((totals.broken, totals.missed), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_draft_that_says_what_it_continues_is_refused() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let boss = life(&stage, "boss");
    let earlier = boss.incarnation().to_string();
    let lie = |text| task(&stage, text).extension(MessageEnvelope::CONTINUES, &earlier).unwrap();
    let refused = [
        boss.send(lie("a")).await.unwrap_err(),
        boss.send_all([task(&stage, "b"), lie("c")]).await.unwrap_err(),
    ];
    for error in refused {
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotDone));
    }
    assert_eq!(flaky.appended(WORK), []);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_first_message_of_a_life_shows_as_a_gap() {
    let stage = Stage::new().await.unwrap();
    send(&stage, &life(&stage, "boss"), &["a"]).await;
    send(&stage, &life(&stage, "boss"), &["b", "c"]).await;
    let mut stored = envelopes(&stage).await;
    stored.remove(1);
    assert_eq!(judged(&stored).0, [Linked, ChainVerdict::Started { earlier: 2 }]);
    assert_eq!(ChainHead::of(&stored[1]).seq, 3);
}
