//! A small workspace with real keys, and the evidence of one session in it.

use std::{collections::BTreeMap, fs, ops::Range, path::Path, time::Duration};

use bus_core::{Identity, Issue};
use bus_crypto::{CryptoError, Entropy, NkeyKind, SigningKey};
use bus_envelope::{
    ChainHead, ChainScope, Draft, EventHash, MessageEnvelope, Signature, Stamp, Timestamp,
    TraceContext,
};
use bus_subjects::{AgentId, Role, Subject};

use crate::{
    BundleSummary, BundleWriter, Checkpoint, Finding, FindingKind, Log, Options, RECEIPT_COMPLETED,
    RECEIPT_CONTENT_TYPE, Report, WorkReceipt, verify, verify_files,
};

pub(super) type Files = BTreeMap<String, Vec<u8>>;

/// Who is there: the account, an orchestrator that records, two workers and an observer.
pub(super) struct World {
    pub(super) account: SigningKey,
    pub(super) boss: Identity,
    pub(super) ann: Identity,
    pub(super) bob: Identity,
    pub(super) watcher: Identity,
}

/// The evidence of the session `s1` of the workspace `w1`.
pub(super) struct Story {
    pub(super) certificates: Vec<String>,
    pub(super) tasks: Vec<MessageEnvelope>,
    pub(super) receipts: Vec<MessageEnvelope>,
    pub(super) dead_letters: Vec<MessageEnvelope>,
}

impl World {
    pub(super) fn new() -> Self {
        let account = key(NkeyKind::Account, 1);
        let member = |name, role, seed| agent(&account, "w1", name, role, seed);
        Self {
            boss: member("boss", Role::Orchestrator, 2),
            ann: member("ann", Role::Worker, 3),
            bob: member("bob", Role::Worker, 4),
            watcher: member("watcher", Role::Observer, 5),
            account,
        }
    }

    /// `tasks` tasks; all but the last are answered by ann and bob in turn, the last is given up.
    pub(super) fn story(&self, tasks: usize) -> Story {
        let tokens = [&self.boss, &self.ann, &self.bob];
        let mut story = Story {
            certificates: tokens.map(|who| who.certificate().token().to_owned()).to_vec(),
            tasks: Vec::new(),
            receipts: Vec::new(),
            dead_letters: Vec::new(),
        };
        for number in 1..=tasks {
            story.add_task(&self.boss);
            if number < tasks {
                let worker = if number % 2 == 0 { &self.bob } else { &self.ann };
                story.add_receipt(worker, number - 1);
            }
        }
        story.add_dead_letter(&self.ann, tasks - 1);
        story
    }

    /// Trusts the account of this world.
    pub(super) fn trusting(&self) -> Options {
        Options { trust: Some(*self.account.public()), ..Options::default() }
    }
}

impl Story {
    pub(super) fn add_task(&mut self, boss: &Identity) {
        let subject = "vak.work.w1.coder.task";
        let draft = draft(subject, "vak.task").id(format!("task-{}", self.tasks.len() + 1));
        let task = incarnation_next(boss, draft, &self.tasks);
        self.tasks.push(task);
    }

    pub(super) fn add_receipt(&mut self, worker: &Identity, task: usize) {
        let task = &self.tasks[task];
        let receipt = receipt(worker, task, self.receipts.last());
        self.receipts.push(receipt);
    }

    pub(super) fn add_dead_letter(&mut self, worker: &Identity, task: usize) {
        let subject = format!("vak.dlq.w1.{}.failed", worker.certificate().agent);
        let draft = draft(&subject, "vak.dlq.failed").cause(self.tasks[task].compute_hash());
        let letter = incarnation_next(worker, draft, &self.dead_letters);
        self.dead_letters.push(letter);
    }

    /// Writes a bundle of this story into `dir`, its checkpoints signed by `recorder`.
    pub(super) fn write(&self, dir: &Path, recorder: &Identity) -> BundleSummary {
        let place = recorder.certificate();
        let session = "s1".parse().unwrap();
        let mut bundle = BundleWriter::create(dir, &place.workspace, &session).unwrap();
        for token in &self.certificates {
            bundle.certificate(token).unwrap();
        }
        let logs = [
            (Log::Tasks, &self.tasks),
            (Log::Receipts, &self.receipts),
            (Log::DeadLetters, &self.dead_letters),
        ];
        for (log, envelopes) in logs {
            for envelope in envelopes {
                bundle.append(log, envelope).unwrap();
            }
        }
        bundle.finish(recorder.key(), &place.agent).unwrap()
    }

    /// The files of a real bundle of this story.
    pub(super) fn files(&self, recorder: &Identity) -> Files {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bundle");
        self.write(&path, recorder);
        read(&path)
    }
}

/// The files of a directory.
pub(super) fn read(dir: &Path) -> Files {
    let entries = dir.read_dir().unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect()
}

/// What the verifier finds in these files, trusting the world's account.
pub(super) fn judge(world: &World, files: &Files) -> Result<Report, Finding> {
    verify_files(files, &world.trusting())
}

/// The kind, file and line of what is wrong with these files.
pub(super) fn found(world: &World, files: &Files) -> (FindingKind, String, Option<u64>) {
    let finding = judge(world, files).unwrap_err();
    (finding.kind, finding.file, finding.entry)
}

/// What the verifier finds in a directory, trusting the world's account.
pub(super) fn judge_dir(world: &World, dir: &Path) -> Result<Report, Finding> {
    verify(dir, &world.trusting())
}

/// The lines of a file, changed by `change`.
pub(super) fn edit(files: &mut Files, file: &str, change: impl FnOnce(&mut Vec<String>)) {
    let text = String::from_utf8(files[file].clone()).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    change(&mut lines);
    let text: String = lines.into_iter().map(|line| line + "\n").collect();
    files.insert(file.to_owned(), text.into_bytes());
}

/// An agent of the workspace with one role.
pub(super) fn agent(
    account: &SigningKey,
    workspace: &str,
    name: &str,
    role: Role,
    seed: u8,
) -> Identity {
    let agent = AgentId::parse(name).unwrap();
    let issue = Issue::new(workspace.parse().unwrap(), agent, vec![role], time(0));
    Identity::issue(account, &issue, &Fixed(seed)).unwrap()
}

/// As [`agent`], with a certificate that is valid in these seconds only.
pub(super) fn guest(
    account: &SigningKey,
    name: &str,
    role: Role,
    seed: u8,
    valid: Range<u64>,
) -> Identity {
    let agent = AgentId::parse(name).unwrap();
    let mut issue = Issue::new("w1".parse().unwrap(), agent, vec![role], time(valid.start));
    issue.valid_for = Some(Duration::from_secs(valid.end - valid.start));
    Identity::issue(account, &issue, &Fixed(seed)).unwrap()
}

/// A worker whose certificate is bound to one session.
pub(super) fn bound_to(account: &SigningKey, session: &str) -> Identity {
    let agent = AgentId::parse("guest").unwrap();
    let mut issue = Issue::new("w1".parse().unwrap(), agent, vec![Role::Worker], time(0));
    issue.session = Some(session.parse().unwrap());
    Identity::issue(account, &issue, &Fixed(8)).unwrap()
}

/// The same heads of the logs, signed by `recorder`.
pub(super) fn record_anew(files: &mut Files, recorder: &Identity) {
    for (_, contents) in files.iter_mut().filter(|(name, _)| name.ends_with(".checkpoint")) {
        let own = Checkpoint::parse(std::str::from_utf8(contents).unwrap()).unwrap();
        let name = recorder.certificate().agent.as_str();
        let anew = Checkpoint::sign(own.origin(), own.size(), *own.root(), name, recorder.key());
        *contents = anew.unwrap().text().as_bytes().to_vec();
    }
}

pub(super) fn key(kind: NkeyKind, seed: u8) -> SigningKey {
    SigningKey::generate(kind, &Fixed(seed)).unwrap()
}

/// `seconds` after the certificates were issued.
pub(super) fn time(seconds: u64) -> Timestamp {
    Timestamp::from_unix_ns(1_767_225_600_000_000_000).plus(Duration::from_secs(seconds))
}

pub(super) fn draft(subject: &str, event_type: &str) -> Draft {
    Draft::new(Subject::parse(subject).unwrap(), event_type, r#"{"say":"it"}"#)
        .content_type("application/json")
        .session("s1".parse().unwrap())
}

/// The next envelope of `who` on the draft's subject, after those in `log`.
pub(super) fn incarnation_next(
    who: &Identity,
    draft: Draft,
    log: &[MessageEnvelope],
) -> MessageEnvelope {
    let before = log.iter().rev().find(|other| {
        other.lineage.agent == who.certificate().agent && other.subject == draft.subject
    });
    let scope = ChainScope::Incarnation {
        workspace: who.certificate().workspace.clone(),
        agent: who.certificate().agent.clone(),
        incarnation: INCARNATION.parse().unwrap(),
        subject: draft.subject.clone(),
    };
    let head = before.map_or_else(|| ChainHead::genesis(&scope), ChainHead::of);
    stamp(who, draft, head)
}

/// A receipt of `worker` for `task` after the receipt `before`.
pub(super) fn receipt(
    worker: &Identity,
    task: &MessageEnvelope,
    before: Option<&MessageEnvelope>,
) -> MessageEnvelope {
    stamp(worker, receipt_draft(worker, task), receipt_head(before))
}

/// The head of the receipts' chain after the receipt `before`.
pub(super) fn receipt_head(before: Option<&MessageEnvelope>) -> ChainHead {
    let scope = ChainScope::Subject {
        workspace: "w1".parse().unwrap(),
        subject: Subject::parse(RECEIPTS).unwrap(),
    };
    before.map_or_else(|| ChainHead::genesis(&scope), ChainHead::of)
}

pub(super) fn receipt_draft(worker: &Identity, task: &MessageEnvelope) -> Draft {
    let said = work_receipt(worker, &task.id);
    let mut draft = draft(RECEIPTS, RECEIPT_COMPLETED)
        .content_type(RECEIPT_CONTENT_TYPE)
        .cause(task.compute_hash());
    draft.payload = said.to_json().into();
    draft
}

pub(super) fn work_receipt(worker: &Identity, task_id: &str) -> WorkReceipt {
    WorkReceipt {
        task_id: task_id.to_owned(),
        role: "coder".parse().unwrap(),
        worker: worker.certificate().agent.clone(),
        attempt: 1,
        exit_code: 0,
        output_hash: EventHash::of(b"done"),
        stdout_bytes: 4,
        stderr_bytes: 0,
        started: time(10),
        finished: time(11),
    }
}

/// Makes the envelope at its place in the chain and signs it.
pub(super) fn stamp(who: &Identity, draft: Draft, head: ChainHead) -> MessageEnvelope {
    let certificate = who.certificate();
    let stamp = Stamp {
        id: format!("{}-{}-{}", certificate.agent, draft.event_type, head.next_seq()),
        time: time(60 + head.next_seq()),
        trace: TraceContext::new([7; 16], [8; 8], 1).unwrap(),
        workspace: certificate.workspace.clone(),
        agent: certificate.agent.clone(),
        incarnation: INCARNATION.parse().unwrap(),
        head,
    };
    sign(who, draft.stamp(stamp).unwrap())
}

/// Signs the envelope as it is, in place of any signature it has.
pub(super) fn sign(who: &Identity, mut envelope: MessageEnvelope) -> MessageEnvelope {
    let signer = who.certificate().nkey.text();
    let input = envelope.signature_input_as(&envelope.compute_hash(), &signer);
    envelope.signature = Some(Signature { signer, bytes: who.key().sign(&input) });
    envelope
}

/// Randomness that is none: every byte is the seed.
struct Fixed(u8);

impl Entropy for Fixed {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), CryptoError> {
        bytes.fill(self.0);
        Ok(())
    }
}

pub(super) const RECEIPTS: &str = "vak.receipts.w1.s1.completed";
pub(super) const INCARNATION: &str = "019b7f1e-0000-7000-8000-000000000001";
