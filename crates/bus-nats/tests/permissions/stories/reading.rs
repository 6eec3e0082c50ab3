//! What is stored and read again: receipts, results, the directory; and what agents never do.

use bus_core::{
    Buckets as _, Bus as _, ErrorKind, Expect, Frame, FrameId, Put, ResultOutput, Results,
    Revision, Seq, TaskResult, WatchItem, planes,
};
use bus_envelope::EventHash;
use bus_nats::{BlobAges, NatsBus};
use bus_subjects::{BucketKey, BucketName, Filter, Role, StreamName, Subject};

use super::stage::{Stage, draft};
use crate::world::layout;

fn frame(subject: &str, id: &str) -> Frame {
    Frame::new(Subject::parse(subject).unwrap(), FrameId::parse(id).unwrap(), id.to_owned())
}

async fn replayed(bus: &NatsBus, stream: &StreamName, filter: &str) -> Vec<String> {
    let filter = Filter::parse(filter).unwrap();
    let mut replay = bus.replay(stream.clone(), filter, Seq(1)).await.unwrap();
    let mut ids = Vec::new();
    while let Some(stored) = replay.next().await {
        ids.push(stored.unwrap().frame.id.to_string());
    }
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn receipts_are_chained_by_workers_and_replayed_by_auditors() {
    let stage = Stage::new().await;
    let worker = stage.agent("a1", Role::Worker).await;
    for number in 0..3 {
        let receipt = draft("vak.receipts.w1.s1.completed", "vak.receipt", "done");
        worker.record(receipt.id(format!("r{number}"))).await.unwrap();
    }
    let auditor = stage.agent("audit", Role::Auditor).await;
    let all = Filter::parse("vak.receipts.w1.*.completed").unwrap();
    let mut replay = auditor.replay(planes::receipts_stream().unwrap(), all).await.unwrap();
    let mut read = 0;
    while let Some(stored) = replay.next().await {
        auditor.open(&stored.unwrap().frame).unwrap();
        read += 1;
    }
    assert_eq!(read, 3);
    stage.check_that_nothing_was_refused();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_is_the_part_that_one_may_read_up_to_the_head_at_its_beginning() {
    let stage = Stage::new().await;
    let receipts = planes::receipts_stream().unwrap();
    for number in 0..600 {
        let session = if number % 2 == 0 { "s1" } else { "s2" };
        let subject = format!("vak.receipts.w1.{session}.completed");
        let frame = frame(&subject, &format!("r{number}"));
        stage.store.append(frame, Expect::Any).await.unwrap();
    }
    let worker = stage.bus("a1", Role::Worker).await;
    let own = "vak.receipts.w1.s1.completed";
    let all = Filter::parse(own).unwrap();
    let mut replay = worker.replay(receipts.clone(), all, Seq(3)).await.unwrap();
    stage.store.append(frame(own, "late"), Expect::Any).await.unwrap();
    let mut read = Vec::new();
    while let Some(stored) = replay.next().await {
        let stored = stored.unwrap();
        assert_eq!(stored.frame.id.to_string(), format!("r{}", stored.seq.0 - 1));
        read.push(stored.seq.0);
    }
    assert_eq!(read, (3..600).step_by(2).collect::<Vec<u64>>());
    assert_eq!(worker.last(Subject::parse(own).unwrap()).await.unwrap().unwrap().seq, Seq(601));
    stage.check_that_nothing_was_refused();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_read_is_denied_and_not_told_that_nothing_is_there() {
    let stage = Stage::new().await;
    let (receipts, work) =
        (planes::receipts_stream().unwrap(), planes::work_stream(&stage.workspace));
    stage.store.append(frame("vak.receipts.w1.s2.completed", "r"), Expect::Any).await.unwrap();
    stage.store.append(frame("vak.work.w1.judge.task", "t"), Expect::Any).await.unwrap();
    let worker = stage.bus("a1", Role::Worker).await;
    for (stream, filter) in [
        (receipts.clone(), "vak.receipts.w1.s2.completed"),
        (receipts.clone(), "vak.receipts.w1.*.completed"),
        (receipts.clone(), ">"),
    ] {
        let filter_of = Filter::parse(filter).unwrap();
        let denied = worker.replay(stream, filter_of, Seq(1)).await.unwrap_err();
        assert_eq!(denied.kind(), ErrorKind::Denied, "{filter}: {denied}");
    }
    let denied = worker.read(receipts, Seq(1)).await.unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::Denied);
    let judge = Filter::parse("vak.work.w1.judge.task").unwrap();
    let denied = worker.replay(work.unwrap(), judge, Seq(1)).await.unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::Denied);
    let subject = Subject::parse("vak.receipts.w1.s2.completed").unwrap();
    assert_eq!(worker.last(subject).await.unwrap_err().kind(), ErrorKind::Denied);
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_and_keepers_read_the_queue_of_tasks_whole() {
    let stage = Stage::new().await;
    let boss = stage.bus("boss", Role::Orchestrator).await;
    for role in ["coder", "judge"] {
        let task = frame(&format!("vak.work.w1.{role}.task"), role);
        boss.append(task, Expect::Any).await.unwrap();
    }
    let work = planes::work_stream(&stage.workspace).unwrap();
    for role in [Role::Operator, Role::Keeper] {
        let reader = stage.bus("r1", role).await;
        assert_eq!(replayed(&reader, &work, ">").await, ["coder", "judge"], "{role}");
        assert_eq!(reader.read(work.clone(), Seq(2)).await.unwrap().unwrap().seq, Seq(2));
    }
    let operator = stage.bus("op", Role::Operator).await;
    assert_eq!(replayed(&operator, &work, "vak.work.w1.judge.task").await, ["judge"]);
    stage.check_that_nothing_was_refused();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_is_kept_and_cut_by_a_keeper_and_read_by_whoever_hears_events() {
    let stage = Stage::new().await;
    let stream = planes::recordings_stream(&stage.workspace).unwrap();
    let keeper = stage.agent("rec", Role::Keeper).await;
    let place = "vak.history.w1.terminal.s1";
    for number in 1..=3 {
        let batch = draft(place, "vak.recording.batch", "x");
        keeper.send(batch.id(format!("s1.terminal.{number}"))).await.unwrap();
    }
    assert!(keeper.discard(stream.clone(), Seq(1)).await.unwrap());
    for role in [Role::Keeper, Role::Observer, Role::Orchestrator, Role::Operator, Role::Auditor] {
        let reader = stage.agent("reader", role).await;
        let subject = Subject::parse(place).unwrap();
        let last = reader.last(subject.clone()).await.unwrap().unwrap();
        assert_eq!(reader.open(&last.frame).unwrap().envelope.id, "s1.terminal.3", "{role}");
        let filter = Filter::from(&subject);
        let mut replay = reader.replay_from(stream.clone(), filter, Seq(1)).await.unwrap();
        let mut read = Vec::new();
        while let Some(stored) = replay.next().await {
            read.push(stored.unwrap().seq.0);
        }
        assert_eq!(read, [2, 3], "{role}");
    }
    stage.check_that_nothing_was_refused();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_and_a_large_result_of_a_worker_are_read_by_an_orchestrator() {
    let stage = Stage::new().await;
    let worker = Results::new(stage.agent("a1", Role::Worker).await);
    let reader = Results::new(stage.agent("boss", Role::Orchestrator).await);
    let mut watch = reader.watch("t-0").await.unwrap();
    for (number, bytes) in [40, 600_000].into_iter().enumerate() {
        let id = format!("t-{number}");
        let output = vec![b'x'; bytes];
        let mut writer = worker.writer(&id).unwrap();
        writer.write(&output).await.unwrap();
        let result = TaskResult {
            task_id: id.clone(),
            task: EventHash::of(b"task"),
            attempt: 1,
            worker: "a1".parse().unwrap(),
            session: stage.session.clone(),
            receipt: None,
            stderr_hash: EventHash::of(b""),
            output: writer.finish().await.unwrap(),
            left_out: None,
        };
        assert_eq!(bytes > 1000, matches!(result.output, ResultOutput::Blob { .. }));
        worker.put(&result).await.unwrap();
        let found = reader.get(&id).await.unwrap().unwrap();
        assert_eq!(found, result);
        let mut output = reader.output(&found).await.unwrap().unwrap();
        let mut read = 0;
        while let Some(piece) = output.next().await {
            read += piece.unwrap().len();
        }
        assert_eq!(read, bytes);
    }
    assert_eq!(watch.next().await.unwrap().unwrap().task_id, "t-0");
    assert_eq!(reader.list().await.unwrap().len(), 2);
    stage.check_that_nothing_was_refused();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_role_reads_the_directory_and_none_writes_there() {
    let stage = Stage::new().await;
    let bucket = BucketName::agents(&stage.workspace);
    let key = BucketKey::parse("certificate.U1").unwrap();
    stage.store.put(bucket.clone(), key.clone(), Put::new("token")).await.unwrap();
    for role in Role::ALL {
        let agent = stage.bus("a1", role).await;
        let entry = agent.get(bucket.clone(), key.clone()).await.unwrap().unwrap();
        assert_eq!(&entry.value[..], b"token", "{role}");
        let watching = agent.watch(bucket.clone(), Filter::all(), Revision::START);
        let mut watch = watching.await.unwrap();
        let first = watch.next().await.unwrap().unwrap();
        assert!(matches!(first, WatchItem::Changed(change) if change.key == key), "{role}");
        assert!(matches!(watch.next().await.unwrap().unwrap(), WatchItem::Current), "{role}");
        let refused = agent.put(bucket.clone(), key.clone(), Put::new("forged")).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Denied, "{role}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_set_up_nothing_and_ask_no_server_to() {
    let stage = Stage::new().await;
    let agent = stage.bus("op", Role::Operator).await;
    let is_denied = |error: bus_core::Error| assert_eq!(error.kind(), ErrorKind::Denied);
    is_denied(agent.declare_workspace(&layout()).await.unwrap_err());
    for spec in layout().streams().unwrap() {
        is_denied(agent.declare(spec).await.unwrap_err());
    }
    let results = BucketName::results(&stage.workspace);
    is_denied(agent.sweep_blobs(&results, BlobAges::default()).await.unwrap_err());
    let other = Subject::parse("vak.work.w2.coder.task").unwrap();
    assert_eq!(agent.last(other).await.unwrap_err().kind(), ErrorKind::NotFound);
    stage.check_that_nothing_was_refused();
}
