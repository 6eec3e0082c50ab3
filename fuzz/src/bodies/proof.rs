//! Proofs about a log: one text for one content, and nobody proves what is not in a golden log.

use bus_core::Identity;
use bus_envelope::tree::MerkleTree;
use bus_evidence::{
    Checkpoint, ConsistencyProof, InclusionProof, Options, Proof, ProofReport, ProofShown,
    verify_proof,
};

use crate::{golden, laws};

/// What is read is the text as it was; under the golden account it verifies only for lines of the
/// golden bundle under its checkpoints.
pub fn body(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    let proof = match laws::bounded(data, || Proof::parse(text)) {
        Ok(proof) => proof,
        Err(error) => {
            laws::error_is_brief(&error);
            return false;
        }
    };
    assert_eq!(proof.to_string(), text, "the proof is another text");
    let _unknown = verify(data, text, Options::default());
    if let Some(report) = verify(data, text, trusting(&proof)) {
        let head = proof.checkpoint();
        let known = |ours: &Checkpoint| {
            (ours.origin(), ours.size(), ours.root()) == (head.origin(), head.size(), head.root())
        };
        assert!(golden::checkpoints().iter().any(known), "a checkpoint that nobody signed");
        match (&proof, report.shown) {
            (Proof::Inclusion(proof), ProofShown::Inclusion { entry, .. }) => {
                let line = lines(&report.log).nth(usize::try_from(entry).unwrap_or(0) - 1);
                assert_eq!(line, Some(&*proof.entry), "a line that is not at its place");
            }
            (Proof::Consistency(proof), ProofShown::Consistency { from }) => {
                assert_eq!(from, proof.old, "it goes on from somewhere else");
            }
            _ => panic!("one kind of proof is reported as the other"),
        }
    }
    true
}

/// A proof of each line of the golden bundle, and of its tasks going on from the first.
#[must_use]
pub fn proofs() -> Vec<Vec<u8>> {
    let mut proofs = Vec::new();
    for checkpoint in golden::checkpoints() {
        let Some(log) = log_of(&checkpoint).filter(|log| *log != "certificates") else { continue };
        let tree = tree(log);
        for (line, index) in lines(log).zip(0_u64..) {
            let hashes = tree.inclusion_proof(index, tree.size()).expect("it is in the tree");
            proofs.push(Proof::Inclusion(InclusionProof {
                entry: line.to_vec(),
                certificates: tokens(),
                index,
                hashes,
                checkpoint: checkpoint.clone(),
            }));
        }
        for old in 1..=tree.size() {
            let hashes = tree.consistency_proof(old, tree.size()).expect("it was as large");
            proofs.push(Proof::Consistency(ConsistencyProof {
                certificates: tokens(),
                old,
                hashes,
                checkpoint: checkpoint.clone(),
            }));
        }
    }
    proofs.iter().map(|proof| proof.to_string().into_bytes()).collect()
}

fn verify(data: &[u8], text: &str, options: Options) -> Option<ProofReport> {
    match laws::bounded_above(VERIFIER_BYTES, data, || verify_proof(text, &options)) {
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

/// The golden account, and for a log that goes on the golden checkpoint that it goes on from.
fn trusting(proof: &Proof) -> Options {
    let mut kept = Vec::new();
    if let (Proof::Consistency(proof), Some(log)) = (proof, log_of(proof.checkpoint())) {
        let (tree, origin) = (tree(log), proof.checkpoint.origin());
        let root = tree.root_at(proof.old).map(|root| *root.as_bytes());
        kept.extend(root.map(|root| {
            let head = Checkpoint::sign(origin, proof.old, root, "boss", golden::recorder());
            head.expect("a name of ours").text().to_owned()
        }));
    }
    Options { trust: Some(*golden::account().public()), kept, ..Options::default() }
}

/// The golden log that a checkpoint is of.
fn log_of(checkpoint: &Checkpoint) -> Option<&'static str> {
    let logs = ["certificates", "tasks", "receipts", "dead-letters"];
    logs.into_iter().find(|log| checkpoint.origin() == format!("vakbus/w1/s1/{log}"))
}

fn lines(log: &str) -> impl Iterator<Item = &'static [u8]> + use<> {
    let content = golden::bundle().get(&format!("{log}.jsonl")).expect("a golden log");
    content.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

fn tree(log: &str) -> MerkleTree {
    let mut tree = MerkleTree::new();
    for line in lines(log) {
        tree.append(line);
    }
    tree
}

fn tokens() -> Vec<String> {
    golden::identities().map(Identity::certificate).map(|own| own.token().to_owned()).collect()
}

/// What the verifier may hold for the fixed parts of a proof.
const VERIFIER_BYTES: u64 = 256 * 1024;
