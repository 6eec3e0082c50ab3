//! The sample bundle of the specification: written byte for byte, and judged after every edit.
#![expect(clippy::unwrap_used, reason = "a damaged vector file must fail the test")]
#![expect(clippy::indexing_slicing, reason = "a missing member must fail the test")]
#![expect(clippy::panic, reason = "an edit that nobody knows must fail the test")]

use std::collections::BTreeMap;
use std::path::Path;

use bus_core::{DeadLetterEvent, Identity, Issue, OriginalFrame};
use bus_crypto::{
    Algorithm, CryptoError, Entropy, NkeyKind, PublicKey, SealKey, SigningKey, derive_key,
};
use bus_envelope::{
    ChainHead, ChainScope, Draft, EventHash, MessageEnvelope, Seal, Signature, Stamp, Timestamp,
    TraceContext, wire,
};
use bus_evidence::{
    BundleWriter, Log, Options, RECEIPT_COMPLETED, RECEIPT_CONTENT_TYPE, Report, WorkReceipt,
    verify_files,
};
use bus_subjects::{Role, Subject};
use data_encoding::{BASE64, HEXLOWER};
use serde_json::{Value, json};

#[path = "../../../docs/spec/vectors/golden.rs"]
mod golden;

type Files = BTreeMap<String, Vec<u8>>;

#[test]
fn the_sample_bundle_is_written_byte_for_byte() {
    let written = tempfile::tempdir().unwrap();
    write(&written.path().join("bundle"));
    let found = read(&written.path().join("bundle"));
    let kept = golden::vectors().join("bundle");
    if golden::is_blessing() {
        for (name, bytes) in &found {
            std::fs::write(kept.join(name), bytes).unwrap();
        }
    }
    let kept = read(&kept);
    let texts = |files: &Files| -> BTreeMap<String, String> {
        let text = |bytes: &Vec<u8>| String::from_utf8(bytes.clone()).unwrap();
        files.iter().map(|(name, bytes)| (name.clone(), text(bytes))).collect()
    };
    assert_eq!(texts(&found), texts(&kept));
}

#[test]
fn bundles_are_judged_as_the_specification_says() {
    let bundle = read(&golden::vectors().join("bundle"));
    golden::check("bundles.json", 71, |case| {
        let mut files = bundle.clone();
        for step in case["edits"].as_array().unwrap() {
            edit(&mut files, step);
        }
        let kept = case["kept"].as_array().map_or(Vec::new(), |kept| {
            kept.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
        });
        let trust = case["trust"].as_str().map(|account| PublicKey::parse(account).unwrap());
        match verify_files(&files, &Options { trust, kept, ..Options::default() }) {
            Ok(report) => json!({
                "verdict": report.verdict(),
                "kept": report.kept.len(),
                "workspace": report.workspace,
                "session": report.session,
                "recorder": report.recorder,
                "open": report.tasks_open,
                "twice": report.tasks_twice,
                "completeness": completeness(&report),
                "chains": report.chains,
                "entries": {
                    "certificates": report.counts.certificates,
                    "tasks": report.counts.tasks,
                    "receipts": report.counts.receipts,
                    "dead-letters": report.counts.dead_letters,
                },
            }),
            Err(finding) => json!({
                "finding": finding.kind.code(),
                "file": finding.file,
                "line": finding.entry,
            }),
        }
    });
}

/// How much of each log is shown to be there, by its name.
fn completeness(report: &Report) -> Value {
    let logs = report.logs.iter();
    logs.map(|shown| (shown.log.clone(), shown.completeness.to_string())).collect()
}

/// Three tasks: two answered by two workers, one given up; the dead letter is sealed.
fn write(dir: &Path) {
    let account = SigningKey::generate(NkeyKind::Account, &Fixed(1)).unwrap();
    let agent = |name: &str, role, seed| {
        let issue = Issue::new("w1".parse().unwrap(), name.parse().unwrap(), vec![role], second(0));
        Identity::issue(&account, &issue, &Fixed(seed)).unwrap()
    };
    let boss = agent("boss", Role::Orchestrator, 2);
    let (ann, bob) = (agent("ann", Role::Worker, 3), agent("bob", Role::Worker, 4));
    let mut tasks: Vec<MessageEnvelope> = Vec::new();
    for number in 1..=3 {
        let draft = draft("vak.work.w1.coder.task", "vak.task", br#"{"say":"it"}"#)
            .id(format!("task-{number}"));
        tasks.push(sign(&boss, next(&boss, draft, tasks.last(), false)));
    }
    let mut receipts: Vec<MessageEnvelope> = Vec::new();
    for (worker, task) in [&ann, &bob].into_iter().zip(&tasks) {
        let said = receipt(worker, &task.id).to_json();
        let draft = draft("vak.receipts.w1.s1.completed", RECEIPT_COMPLETED, &said)
            .content_type(RECEIPT_CONTENT_TYPE)
            .cause(task.compute_hash())
            .id(format!("{}.receipt", task.compute_hash()));
        receipts.push(sign(worker, next(worker, draft, receipts.last(), true)));
    }
    let letter = dead_letter(&tasks[2]).to_json().unwrap();
    let draft = draft("vak.dlq.w1.ann.failed", DeadLetterEvent::EVENT_TYPE, &letter)
        .cause(tasks[2].compute_hash())
        .id("VAK_WORK_w1@1767225663000000000:3");
    let letter = sign(&ann, seal(next(&ann, draft, None, false)));

    let (workspace, session) = ("w1".parse().unwrap(), "s1".parse().unwrap());
    let mut bundle = BundleWriter::create(dir, &workspace, &session).unwrap();
    for who in [&boss, &ann, &bob] {
        bundle.certificate(who.certificate().token()).unwrap();
    }
    tasks.iter().for_each(|task| bundle.append(Log::Tasks, task).unwrap());
    receipts.iter().for_each(|receipt| bundle.append(Log::Receipts, receipt).unwrap());
    bundle.append(Log::DeadLetters, &letter).unwrap();
    bundle.finish(boss.key(), &"boss".parse().unwrap()).unwrap();
}

fn draft(subject: &str, event_type: &str, payload: &[u8]) -> Draft {
    Draft::new(Subject::parse(subject).unwrap(), event_type, payload.to_vec())
        .content_type("application/json")
        .session("s1".parse().unwrap())
}

fn next(
    who: &Identity,
    draft: Draft,
    before: Option<&MessageEnvelope>,
    is_shared: bool,
) -> MessageEnvelope {
    let certificate = who.certificate();
    let (workspace, agent) = (certificate.workspace.clone(), certificate.agent.clone());
    let incarnation = INCARNATION.parse().unwrap();
    let subject = draft.subject.clone();
    let scope = if is_shared {
        ChainScope::Subject { workspace: workspace.clone(), subject }
    } else {
        let (workspace, agent) = (workspace.clone(), agent.clone());
        ChainScope::Incarnation { workspace, agent, incarnation, subject }
    };
    let head = before.map_or_else(|| ChainHead::genesis(&scope), ChainHead::of);
    let (id, time) = (String::new(), second(60 + head.next_seq()));
    let trace = TraceContext::new([7; 16], [8; 8], 1).unwrap();
    draft.stamp(Stamp { id, time, trace, workspace, agent, incarnation, head }).unwrap()
}

fn receipt(worker: &Identity, task_id: &str) -> WorkReceipt {
    let digests = [b"done".as_slice(), b""].map(|output| *EventHash::of(output).as_bytes());
    WorkReceipt {
        task_id: task_id.to_owned(),
        role: "coder".parse().unwrap(),
        worker: worker.certificate().agent.clone(),
        attempt: 1,
        exit_code: 0,
        output_hash: EventHash::of(&digests.concat()),
        stdout_bytes: 4,
        stderr_bytes: 0,
        started: second(70),
        finished: Timestamp::from_unix_ns(second(71).unix_ns() + 500_000_000),
    }
}

fn dead_letter(task: &MessageEnvelope) -> DeadLetterEvent {
    let (headers, body) = wire::binary::encode(task);
    let headers = headers.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    DeadLetterEvent {
        envelope_id: task.id.clone(),
        subject: task.subject.to_string(),
        stream: "VAK_WORK_w1".to_owned(),
        seq: 3,
        attempts: 4,
        failure_reason: "retries exhausted after 4 attempts: exit code 1".to_owned(),
        failed_at: second(120).to_string(),
        worker_id: Some("ann".to_owned()),
        original: OriginalFrame {
            id: task.id.clone(),
            headers: headers.collect(),
            body_base64: BASE64.encode(&body),
            placement: None,
        },
    }
}

fn seal(mut envelope: MessageEnvelope) -> MessageEnvelope {
    let (key_id, algorithm) = (format!("w1.v1.{INCARNATION}"), Algorithm::Aes256Gcm);
    let nonce = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
    let name = algorithm.name().to_owned();
    envelope.seal = Some(Seal { key_id: key_id.clone(), algorithm: name, nonce });
    let key = derive_key(b"0123456789abcdef0123456789abcdef", &key_id).unwrap();
    let mut data = envelope.payload.to_vec();
    let key = SealKey::new(algorithm, &key_id, &key).unwrap();
    key.seal_in_place(&Counting, &envelope.aad(), &mut data).unwrap();
    envelope.payload = data.into();
    envelope
}

fn sign(who: &Identity, envelope: MessageEnvelope) -> MessageEnvelope {
    sign_with(who.key(), envelope)
}

fn sign_with(key: &SigningKey, mut envelope: MessageEnvelope) -> MessageEnvelope {
    let signer = key.public().text();
    let input = envelope.signature_input_as(&envelope.compute_hash(), &signer);
    envelope.signature = Some(Signature { signer, bytes: key.sign(&input) });
    envelope
}

fn edit(files: &mut Files, step: &Value) {
    let text = |at: usize| step[at].as_str().unwrap();
    let number = |at: usize| usize::try_from(step[at].as_u64().unwrap()).unwrap();
    let file = text(1).to_owned();
    match text(0) {
        "remove-file" => drop(files.remove(&file).unwrap()),
        "write-file" => drop(files.insert(file, text(2).as_bytes().to_vec())),
        "copy-file" => {
            let copy = files[text(2)].clone();
            files.insert(file, copy);
        }
        "cut-bytes" => {
            let bytes = files.get_mut(&file).unwrap();
            bytes.truncate(bytes.len() - number(2));
        }
        operation => {
            let whole = String::from_utf8(files[&file].clone()).unwrap();
            let mut lines: Vec<String> = whole.split('\n').map(str::to_owned).collect();
            let at = number(2) - 1;
            match operation {
                "remove-line" => drop(lines.remove(at)),
                "repeat-line" => lines.insert(at, lines[at].clone()),
                "swap-lines" => lines.swap(at, number(3) - 1),
                "replace" => {
                    assert!(lines[at].contains(text(3)), "{step}");
                    lines[at] = lines[at].replace(text(3), text(4));
                }
                "wrap" => {
                    let json = BASE64.encode(lines[at].as_bytes());
                    lines[at] = format!("{{\"json_base64\":\"{json}\"}}");
                }
                "sign-again" => {
                    let seed = HEXLOWER.decode(text(3).as_bytes()).unwrap();
                    let key = SigningKey::generate(NkeyKind::User, &Fixed(seed[0])).unwrap();
                    let entry = wire::json::decode(lines[at].as_bytes()).unwrap();
                    let signed = wire::json::encode(&sign_with(&key, entry));
                    lines[at] = String::from_utf8(signed).unwrap();
                }
                other => panic!("nobody knows how to {other}"),
            }
            files.insert(file, lines.join("\n").into_bytes());
        }
    }
}

fn read(dir: &Path) -> Files {
    let entries = dir.read_dir().unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
        })
        .collect()
}

/// `seconds` after the certificates were issued.
fn second(seconds: u64) -> Timestamp {
    Timestamp::from_unix_ns((1_767_225_600 + i128::from(seconds)) * 1_000_000_000)
}

/// No randomness: every byte is the seed.
struct Fixed(u8);

impl Entropy for Fixed {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), CryptoError> {
        bytes.fill(self.0);
        Ok(())
    }
}

/// No randomness: the nonce 00 01 02 and so on.
struct Counting;

impl Entropy for Counting {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), CryptoError> {
        bytes.iter_mut().zip(0..).for_each(|(byte, number)| *byte = number);
        Ok(())
    }
}

const INCARNATION: &str = "019b7f1e-0000-7000-8000-000000000001";
