//! Evidence bundles: a stranger can neither change the golden one nor make the verifier misbehave.
//!
//! An input is a bundle in one text: a line `=== <file>` begins each file.

use std::collections::BTreeMap;

use bus_core::Certificate;
use bus_envelope::tree::MerkleTree;
use bus_envelope::wire::json;
use bus_evidence::{Checkpoint, Options, Report, verify_files};

use crate::{golden, laws};

/// The files of a bundle by their names.
pub type Files = BTreeMap<String, Vec<u8>>;

/// What a signer signs of a line: all of it but the span, the flags and the state of its trace,
/// which a hop may change. `None` for what is no envelope.
fn bound(line: &[u8]) -> Option<Vec<u8>> {
    let envelope = json::decode(line).ok()?;
    Some(envelope.signature_input(&envelope.compute_hash()))
}

/// Whether a line is a certificate by our account: one of before, under another policy, is, too.
fn is_certified(line: &[u8]) -> bool {
    let read: Option<serde_json::Value> = serde_json::from_slice(line).ok();
    let token = read.as_ref().and_then(|line| line["token"].as_str());
    token
        .and_then(|token| Certificate::parse(token).ok())
        .is_some_and(|certificate| certificate.issuer == *golden::account().public())
}

/// As it is, the bundle verifies only if it is the golden one, with the log of the tasks or
/// without, and a report tells these apart. With checkpoints signed anew it holds nothing that
/// nobody signed. With every envelope signed anew the report counts what is there.
pub fn body(data: &[u8]) -> bool {
    let files = read(data);
    let golden = golden::bundle();
    if let Some(report) = verify(data, &files, &Options::default()) {
        let expected = if report.tasks_shown { golden.clone() } else { records() };
        assert_eq!(files, expected, "a bundle that nobody signed is consistent");
    }
    let mut files = files;
    sign_checkpoints(&mut files);
    let accepted = verify(data, &files, &trusting()).is_some();
    if accepted {
        for (file, content) in files.iter().filter(|(file, _)| file.ends_with(".jsonl")) {
            let known = |line: &[u8]| {
                lines(&golden[file]).any(|golden| {
                    golden == line || bound(golden).is_some_and(|own| Some(own) == bound(line))
                }) || is_certified(line)
            };
            assert!(lines(content).all(known), "{file} holds a line that nobody signed");
        }
    }
    sign_envelopes(&mut files);
    sign_checkpoints(&mut files);
    let signed = verify(data, &files, &trusting());
    if let Some(report) = &signed {
        let counts = &report.counts;
        let logs = [
            ("certificates.jsonl", counts.certificates),
            ("tasks.jsonl", counts.tasks),
            ("receipts.jsonl", counts.receipts),
            ("dead-letters.jsonl", counts.dead_letters),
        ];
        for (file, count) in logs {
            let found = files.get(file).map_or(0, |content| lines(content).count() as u64);
            assert_eq!(found, count, "{file} is counted otherwise");
        }
        assert!(report.tasks_open <= counts.tasks, "more open tasks than tasks");
    }
    accepted || signed.is_some()
}

/// Reads a bundle out of one text.
#[must_use]
pub fn read(data: &[u8]) -> Files {
    let mut files = Files::new();
    let mut content = None;
    for line in data.split_inclusive(|byte| *byte == b'\n') {
        if let Some(name) = line.strip_prefix(b"=== ") {
            let name = String::from_utf8_lossy(name).trim_end().to_owned();
            content = Some(files.entry(name).or_default());
        } else if let Some(content) = &mut content {
            content.extend_from_slice(line);
        }
    }
    files
}

/// Writes a bundle as one text.
#[must_use]
pub fn write(files: &Files) -> Vec<u8> {
    let mut text = Vec::new();
    for (name, content) in files {
        text.extend_from_slice(format!("=== {name}\n").as_bytes());
        text.extend_from_slice(content);
    }
    text
}

/// The golden bundle without its tasks.
#[must_use]
pub fn records() -> Files {
    let mut files = golden::bundle().clone();
    files.retain(|file, _| !file.starts_with("tasks."));
    files
}

fn trusting() -> Options {
    Options { trust: Some(*golden::account().public()), ..Options::default() }
}

fn verify(data: &[u8], files: &Files, options: &Options) -> Option<Report> {
    match laws::bounded_above(VERIFIER_BYTES, data, || verify_files(files, options)) {
        Ok(report) => {
            assert!(!report.to_string().is_empty(), "a report without words");
            Some(report)
        }
        Err(finding) => {
            assert!(!finding.to_string().is_empty(), "a finding without words");
            None
        }
    }
}

/// Signs the checkpoint of every log that is there anew, over whatever the log holds.
fn sign_checkpoints(files: &mut Files) {
    for name in ["certificates", "tasks", "receipts", "dead-letters"] {
        let Some(content) = files.get(&format!("{name}.jsonl")) else { continue };
        let mut tree = MerkleTree::new();
        for line in lines(content) {
            tree.append(line);
        }
        let (origin, root) = (format!("vakbus/w1/s1/{name}"), *tree.root().as_bytes());
        let signed = Checkpoint::sign(&origin, tree.size(), root, "boss", golden::recorder());
        let text = signed.expect("a name of ours").text().to_owned();
        files.insert(format!("{name}.checkpoint"), text.into_bytes());
    }
}

/// Signs every envelope that can be read anew, with the golden key that it names.
fn sign_envelopes(files: &mut Files) {
    for name in ["tasks.jsonl", "receipts.jsonl", "dead-letters.jsonl"] {
        let Some(content) = files.get_mut(name) else { continue };
        let mut signed = Vec::new();
        for line in lines(content) {
            match json::decode(line) {
                Ok(envelope) => signed.extend(json::encode(&golden::signed(envelope))),
                Err(_) => signed.extend_from_slice(line),
            }
            signed.push(b'\n');
        }
        *content = signed;
    }
}

fn lines(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    content.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

/// What the verifier may hold for the fixed parts of a bundle.
const VERIFIER_BYTES: u64 = 256 * 1024;
