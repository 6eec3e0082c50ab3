//! Proofs about the sample bundle: written byte for byte, and judged after every change.
#![expect(clippy::unwrap_used, reason = "a damaged vector file must fail the test")]
#![expect(clippy::indexing_slicing, reason = "a missing member must fail the test")]

use bus_crypto::{NkeyKind, PublicKey, SigningKey, Zeroizing};
use bus_envelope::tree::MerkleTree;
use bus_evidence::{
    Checkpoint, ConsistencyProof, InclusionProof, Options, Proof, ProofReport, ProofShown,
    verify_proof,
};
use data_encoding::HEXLOWER;
use serde_json::{Value, json};

#[path = "../../../docs/spec/vectors/golden.rs"]
mod golden;

#[test]
fn proofs_are_written_and_judged_as_the_specification_says() {
    golden::check("proofs.json", 43, |case| {
        let mut text = written(case);
        if case["do"] == "write" {
            return text.into();
        }
        for change in case["replace"].as_array().into_iter().flatten() {
            let [old, new] = [&change[0], &change[1]].map(|text| text.as_str().unwrap());
            assert!(text.contains(old), "{case}");
            text = text.replacen(old, new, 1);
        }
        let kept = case["kept"].as_array().map_or(Vec::new(), |kept| {
            kept.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
        });
        let trust = case["trust"].as_str().map(|account| PublicKey::parse(account).unwrap());
        match verify_proof(&text, &Options { trust, kept, ..Options::default() }) {
            Ok(report) => shown(&report),
            Err(finding) => json!({ "finding": finding.kind.code(), "file": finding.file }),
        }
    });
}

/// The proof that a case describes.
fn written(case: &Value) -> String {
    let bundle = golden::vectors().join("bundle");
    let read = |file: &str| std::fs::read_to_string(bundle.join(file)).unwrap();
    let (receipts, certificates) = (read("receipts.jsonl"), read("certificates.jsonl"));
    let tokens: Vec<String> = certificates
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["token"].as_str().unwrap().into())
        .collect();
    let at = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    let chosen = case["certificates"].as_array().unwrap().iter();
    let certificates = chosen.map(|number| tokens[at(number)].clone()).collect();
    let lines: Vec<&str> = receipts.lines().take(case.get("entries").map_or(2, at)).collect();
    let mut tree = MerkleTree::new();
    for line in &lines {
        tree.append(line.as_bytes());
    }
    let seed = HEXLOWER.decode(case["seed"].as_str().unwrap().as_bytes()).unwrap();
    let seed = Zeroizing::new(seed.try_into().unwrap());
    let key = SigningKey::from_seed(NkeyKind::User, seed).unwrap();
    let (size, root) = (tree.size(), *tree.root().as_bytes());
    let name = case["name"].as_str().unwrap();
    let checkpoint = Checkpoint::sign("vakbus/w1/s1/receipts", size, root, name, &key).unwrap();
    let number = case["number"].as_u64().unwrap();
    let proof = if case["proof"] == "inclusion" {
        let entry = lines[at(&case["number"])].as_bytes().to_vec();
        let hashes = tree.inclusion_proof(number, size).unwrap();
        Proof::Inclusion(InclusionProof { entry, certificates, index: number, hashes, checkpoint })
    } else {
        let hashes = tree.consistency_proof(number, size).unwrap();
        Proof::Consistency(ConsistencyProof { certificates, old: number, hashes, checkpoint })
    };
    proof.to_string()
}

fn shown(report: &ProofReport) -> Value {
    let mut value = json!({
        "verdict": report.verdict(),
        "workspace": report.workspace,
        "session": report.session,
        "log": report.log,
        "entries": report.entries,
        "recorder": report.recorder,
        "kept": report.kept.len(),
    });
    let more = match &report.shown {
        ProofShown::Inclusion { entry, leaf, signer, task, .. } => json!({
            "proof": "inclusion", "entry": entry, "leaf": leaf, "signer": signer, "task": task,
        }),
        ProofShown::Consistency { from } => json!({ "proof": "consistency", "from": from }),
    };
    let members = value.as_object_mut().unwrap();
    members.extend(more.as_object().unwrap().clone());
    value
}
