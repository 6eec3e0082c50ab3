//! What is followed into the log, and which heads are signed when.

use std::{
    collections::BTreeMap,
    os::unix::fs::symlink,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
};

use bus_core::{Expect, Frame, FrameId};
use bus_envelope::{
    ChainHead, ChainScope, Draft, MessageEnvelope, Stamp, Timestamp, TraceContext, wire,
};
use bus_evidence::SessionLog;
use bus_mem::InMemoryBus;
use bus_subjects::Subject;
use serde_json::Value;

use super::*;
use crate::workspace::{Part, Workspace};

/// A data home, a bus, and a clock that stands.
struct Ground {
    dir: tempfile::TempDir,
    home: Home,
    bus: Arc<dyn Engine>,
    clock: Arc<Standing>,
    heads: BTreeMap<String, ChainHead>,
}

/// A clock that a test moves on.
#[derive(Default)]
struct Standing {
    seconds: AtomicU64,
    /// By which of the next looks at it a day has passed; zero for none.
    midnight: AtomicU64,
}

impl Clock for Standing {
    fn now(&self) -> Timestamp {
        let relaxed = Ordering::Relaxed;
        if self.midnight.fetch_update(relaxed, relaxed, |looks| looks.checked_sub(1)) == Ok(1) {
            self.seconds.fetch_add(86_400, relaxed);
        }
        let seconds = i128::from(self.seconds.load(relaxed));
        Timestamp::from_unix_ns((1_767_225_600 + seconds) * 1_000_000_000)
    }

    fn coarse(&self) -> Timestamp {
        self.now()
    }
}

impl Ground {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::locate(Some(&dir.path().join("data"))).unwrap();
        Workspace::open_or_new(&home, &name()).unwrap();
        let bus: Arc<dyn Engine> = Arc::new(InMemoryBus::new());
        for stream in planes::workspace_streams(&name()).unwrap() {
            bus.declare(stream).await.unwrap();
        }
        Self { dir, home, bus, clock: Arc::default(), heads: BTreeMap::new() }
    }

    fn audit(&self) -> Audit {
        let (bus, clock) = (Arc::clone(&self.bus), Arc::clone(&self.clock));
        Audit::new(&self.home, name(), bus, clock)
    }

    fn pass(&self, seconds: u64) {
        self.clock.seconds.fetch_add(seconds, Ordering::Relaxed);
    }

    /// Stores the next record of a session's chain.
    async fn store(&mut self, session: &str) {
        let subject = Subject::parse(&format!("vak.receipts.w1.{session}.completed")).unwrap();
        let scope = ChainScope::Subject { workspace: name(), subject: subject.clone() };
        let head = self.heads.get(session).copied().unwrap_or_else(|| ChainHead::genesis(&scope));
        let id = format!("{session}-{}", head.next_seq());
        let envelope = envelope(subject, &id, head, self.clock.now());
        self.heads.insert(session.to_owned(), ChainHead::of(&envelope));
        let (headers, body) = wire::binary::encode(&envelope);
        let mut frame = Frame::new(envelope.subject, FrameId::parse(&id).unwrap(), body);
        frame.headers = headers;
        self.bus.append(frame, Expect::Any).await.unwrap();
    }

    /// Has the file of a day meet a device without room, and says which one it is.
    fn fill(&self, folder: &str, day: &str) -> PathBuf {
        let file = self.dir.path().join(format!("data/audit/w1/{folder}/{day}.jsonl"));
        symlink("/dev/full", &file).unwrap();
        file
    }

    /// The checkpoint of a session as the stream has it.
    async fn head(&self, session: &str) -> String {
        let mut log = SessionLog::receipts(&name(), &session.parse().unwrap());
        let filter = filter_of(AuditStream::Receipts, &name());
        let stream = name_of(AuditStream::Receipts).unwrap();
        let mut records = self.bus.replay(stream, filter, Seq(1)).await.unwrap();
        while let Some(stored) = records.next().await {
            let record = AuditRecord::new(AuditStream::Receipts, &stored.unwrap());
            // Those of other sessions are refused.
            let _index = log.append(record.envelope().unwrap());
        }
        let workspace = Workspace::open(&self.home, &name()).unwrap();
        let auditor = workspace.actor(None, Part::Auditor).unwrap();
        log.checkpoint(&workspace.identity(&auditor).unwrap()).unwrap().text().to_owned()
    }

    /// The lines of one folder of the log.
    fn lines(&self, folder: &str) -> Vec<Value> {
        let dir = self.dir.path().join("data/audit/w1").join(folder);
        let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        let text: String = files.map(|file| std::fs::read_to_string(file).unwrap()).collect();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn name() -> WorkspaceId {
    "w1".parse().unwrap()
}

fn envelope(subject: Subject, id: &str, head: ChainHead, time: Timestamp) -> MessageEnvelope {
    let stamp = Stamp {
        id: id.to_owned(),
        time,
        trace: TraceContext::new([7; 16], [8; 8], 1).unwrap(),
        workspace: name(),
        agent: "ann".parse().unwrap(),
        incarnation: uuid::Uuid::from_u128(7),
        head,
    };
    Draft::new(subject, "vak.receipt.note", "x").stamp(stamp).unwrap()
}

#[tokio::test]
async fn receipts_and_approvals_are_followed_and_a_new_writer_goes_on() {
    let mut ground = Ground::new().await;
    ground.store("s1").await;
    let subject = Subject::parse("vak.approvals.w1.s1.request").unwrap();
    let foreign = Frame::new(subject, FrameId::parse("a-1").unwrap(), "no envelope");
    ground.bus.append(foreign, Expect::Any).await.unwrap();
    let mut audit = ground.audit();
    assert_eq!(audit.look().await.unwrap(), 2);
    assert_eq!(audit.look().await.unwrap(), 0);
    drop(audit);
    ground.store("s1").await;
    assert_eq!(ground.audit().look().await.unwrap(), 1);
    let seqs: Vec<_> = ground.lines("receipts").iter().map(|line| line["seq"].clone()).collect();
    assert_eq!(seqs, [1, 2]);
    let approvals = ground.lines("approvals");
    assert!(approvals[0]["unreadable"].is_string(), "{approvals:?}");
}

#[tokio::test]
async fn a_head_is_signed_after_a_minute_or_at_the_end() {
    let mut ground = Ground::new().await;
    let mut audit = ground.audit();
    ground.store("s1").await;
    audit.look().await.unwrap();
    audit.sign(false).await.unwrap();
    assert_eq!(ground.lines("checkpoints").len(), 0);
    ground.pass(60);
    audit.sign(false).await.unwrap();
    ground.store("s1").await;
    audit.look().await.unwrap();
    audit.sign(false).await.unwrap();
    let sizes = |ground: &Ground| -> Vec<Value> {
        ground.lines("checkpoints").iter().map(|line| line["size"].clone()).collect()
    };
    assert_eq!(sizes(&ground), [1]);
    audit.sign(true).await.unwrap();
    // There is nothing new to sign.
    audit.sign(true).await.unwrap();
    assert_eq!(sizes(&ground), [1, 2]);
}

#[tokio::test]
async fn a_head_is_signed_after_so_many_receipts() {
    let mut ground = Ground::new().await;
    let mut audit = ground.audit();
    for _ in 0..256 {
        ground.store("s1").await;
    }
    audit.look().await.unwrap();
    audit.sign(false).await.unwrap();
    assert_eq!(ground.lines("checkpoints")[0]["size"], 256);
}

#[tokio::test]
async fn sessions_beyond_those_in_memory_are_all_signed_for() {
    let mut ground = Ground::new().await;
    let mut audit = ground.audit();
    audit.heads.max = 64;
    for _ in 0..2 {
        for session in 0..150 {
            ground.store(&format!("s{session}")).await;
        }
        audit.look().await.unwrap();
    }
    audit.sign(true).await.unwrap();
    let mut newest = BTreeMap::new();
    for line in ground.lines("checkpoints") {
        newest.insert(line["origin"].to_string(), line["size"].clone());
    }
    assert_eq!(newest.len(), 150);
    assert!(newest.values().all(|size| *size == 2), "{newest:?}");
}

#[tokio::test]
async fn sessions_that_wait_behind_signed_ones_are_signed_for_at_the_end() {
    let mut ground = Ground::new().await;
    let mut audit = ground.audit();
    audit.heads.max = 64;
    for session in 0..150 {
        ground.store(&format!("s{session}")).await;
    }
    audit.look().await.unwrap();
    // Others wait, so these are signed at once.
    audit.sign(false).await.unwrap();
    assert_eq!(signed(&ground).len(), 64);
    audit.sign(true).await.unwrap();
    assert_eq!(signed(&ground).len(), 150);
}

#[tokio::test]
async fn many_sessions_that_grow_by_turns_are_read_once() {
    let mut ground = Ground::new().await;
    let mut audit = ground.audit();
    for session in 0..300 {
        ground.store(&format!("s{session}")).await;
    }
    audit.look().await.unwrap();
    let from = ground.heads.len() as u64;
    for session in 0..300 {
        ground.store(&format!("s{session}")).await;
    }
    for seq in from + 1..=from + 300 {
        let stream = name_of(AuditStream::Receipts).unwrap();
        let stored = ground.bus.read(stream, Seq(seq)).await.unwrap().unwrap();
        let record = AuditRecord::new(AuditStream::Receipts, &stored);
        audit.heads.note(&[record], ground.clock.now());
    }
    assert_eq!(audit.heads.away(), 0);
    let signed = audit.heads.sign(ground.clock.now(), true).unwrap();
    assert!(signed.iter().all(|(_, head)| head.size() == 2), "{signed:?}");
    assert_eq!(signed.len(), 300);
}

/// The origins of the checkpoints in the log, with their sizes.
fn signed(ground: &Ground) -> Vec<(String, u64)> {
    let lines = ground.lines("checkpoints");
    let of = |line: &Value| {
        let origin = line["origin"].as_str().unwrap().to_owned();
        (origin, line["size"].as_u64().unwrap())
    };
    lines.iter().map(of).collect()
}

#[tokio::test]
async fn what_a_killed_process_left_unsigned_is_signed_by_the_next_at_once() {
    let mut ground = Ground::new().await;
    ground.store("s1").await;
    let mut audit = ground.audit();
    audit.look().await.unwrap();
    audit.sign(true).await.unwrap();
    // Written, and not signed when the process is killed.
    ground.store("s2").await;
    audit.look().await.unwrap();
    audit.sign(false).await.unwrap();
    drop(audit);
    let mut next = ground.audit();
    next.look().await.unwrap();
    next.sign(false).await.unwrap();
    let first = ("vakbus/w1/s1/receipts".to_owned(), 1);
    assert_eq!(signed(&ground), [first, ("vakbus/w1/s2/receipts".to_owned(), 1)]);
    next.sign(true).await.unwrap();
    assert_eq!(signed(&ground).len(), 2);
}

#[tokio::test]
async fn a_head_that_is_not_due_is_found_again_although_others_were_signed_since() {
    let mut ground = Ground::new().await;
    let mut audit = ground.audit();
    ground.store("s1").await;
    audit.look().await.unwrap();
    ground.pass(30);
    for _ in 0..256 {
        ground.store("s2").await;
    }
    audit.look().await.unwrap();
    audit.sign(false).await.unwrap();
    assert_eq!(signed(&ground), [("vakbus/w1/s2/receipts".to_owned(), 256)]);
    drop(audit);
    let mut next = ground.audit();
    next.look().await.unwrap();
    next.sign(false).await.unwrap();
    assert!(signed(&ground).contains(&("vakbus/w1/s1/receipts".to_owned(), 1)));
}

#[tokio::test]
async fn a_log_without_a_note_of_what_is_signed_is_looked_at_from_its_beginning() {
    let mut ground = Ground::new().await;
    ground.store("s1").await;
    let mut audit = ground.audit();
    audit.look().await.unwrap();
    drop(audit);
    let note = ground.dir.path().join("data/audit/w1/.signed");
    for text in [None, Some("{")] {
        std::fs::remove_file(&note).unwrap();
        if let Some(text) = text {
            std::fs::write(&note, text).unwrap();
        }
        let mut next = ground.audit();
        next.look().await.unwrap();
        next.sign(false).await.unwrap();
        assert_eq!(signed(&ground).pop(), Some(("vakbus/w1/s1/receipts".to_owned(), 1)));
    }
    assert_eq!(signed(&ground).len(), 2);
}

#[tokio::test]
async fn a_session_with_a_damaged_record_is_vouched_for_no_more() {
    let mut ground = Ground::new().await;
    ground.store("s1").await;
    let subject = Subject::parse("vak.receipts.w1.s1.completed").unwrap();
    let damaged = Frame::new(subject, FrameId::parse("x").unwrap(), "no envelope");
    ground.bus.append(damaged, Expect::Any).await.unwrap();
    ground.store("s2").await;
    let mut audit = ground.audit();
    audit.look().await.unwrap();
    audit.sign(true).await.unwrap();
    let signed = ground.lines("checkpoints");
    assert_eq!((signed.len(), &signed[0]["origin"]), (1, &"vakbus/w1/s2/receipts".into()));
}

#[tokio::test]
async fn what_was_written_before_a_write_failed_is_vouched_for_all_the_same() {
    let mut ground = Ground::new().await;
    let mut audit = ground.audit();
    ground.store("s1").await;
    audit.look().await.unwrap();
    // The first of these is written, and the second meets a full device.
    ground.store("s1").await;
    ground.store("s1").await;
    let full = ground.fill("receipts", "2026-01-02");
    ground.clock.midnight.store(2, Ordering::Relaxed);
    audit.look().await.unwrap_err();
    audit.sign(true).await.unwrap();
    std::fs::remove_file(full).unwrap();
    ground.store("s1").await;
    audit.look().await.unwrap();
    audit.sign(true).await.unwrap();
    assert_eq!(ground.lines("receipts").len(), 4);
    let signed = ground.lines("checkpoints");
    assert_eq!((signed.len(), &signed[0]["size"]), (1, &4.into()));
    assert_eq!(signed[0]["note"], ground.head("s1").await);
}

#[tokio::test]
async fn a_log_that_lacks_a_record_is_made_again_from_the_stream() {
    let mut ground = Ground::new().await;
    let mut heads = Heads::new(ground.home.clone(), name());
    let mut records = Vec::new();
    for seq in 1..=3 {
        ground.store("s1").await;
        let stream = name_of(AuditStream::Receipts).unwrap();
        let stored = ground.bus.read(stream, Seq(seq)).await.unwrap().unwrap();
        records.push(AuditRecord::new(AuditStream::Receipts, &stored));
        if seq == 1 {
            heads.note(&records, ground.clock.now());
            heads.rebuild(&*ground.bus, ground.clock.now()).await.unwrap();
        }
    }
    heads.note(&records[2..], ground.clock.now());
    assert!(heads.sign(ground.clock.now(), true).unwrap().is_empty());
    heads.rebuild(&*ground.bus, ground.clock.now()).await.unwrap();
    let signed = heads.sign(ground.clock.now(), true).unwrap();
    assert_eq!(signed[0].1.text(), ground.head("s1").await);
}

#[tokio::test]
async fn a_checkpoint_that_was_not_written_is_written_later() {
    let mut ground = Ground::new().await;
    let mut audit = ground.audit();
    ground.store("s1").await;
    audit.look().await.unwrap();
    let full = ground.fill("checkpoints", "2026-01-01");
    audit.sign(true).await.unwrap_err();
    audit.sign(true).await.unwrap();
    std::fs::remove_file(full).unwrap();
    audit.look().await.unwrap();
    audit.sign(true).await.unwrap();
    assert_eq!(ground.lines("checkpoints").len(), 1);
}
