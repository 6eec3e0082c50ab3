//! Trees, proofs and damaged proofs of the Certificate Transparency suites.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "helpers of tests: a damaged vector must fail the test"
)]

use std::fmt::Write as _;

use serde_json::Value;

use bus_envelope::EventHash;
use bus_envelope::tree::{MerkleTree, leaf_hash, node_hash, verify_consistency, verify_inclusion};

fn hash(value: &Value) -> Option<EventHash> {
    value.as_str().unwrap().parse().ok()
}

/// Every text of the list as a hash; `None` when one has another length than a hash.
fn proof(value: &Value) -> Option<Vec<EventHash>> {
    value.as_array().unwrap().iter().map(hash).collect()
}

/// A root; where the suite has bytes of another length, any hash of them stands for them.
fn root(value: &Value) -> EventHash {
    hash(value).unwrap_or_else(|| EventHash::of(value.as_str().unwrap().as_bytes()))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn walk(file: &str, expected: usize, verify: impl Fn(&Value) -> Option<bool>) {
    let Some(document) = bus_testdata::json(file) else { return };
    let cases = document["cases"].as_array().unwrap();
    let wrong: Vec<_> = cases
        .iter()
        .filter(|case| Some(verify(case).unwrap_or(false)) != case["valid"].as_bool())
        .map(|case| &case["id"])
        .collect();
    assert_eq!(cases.len(), expected, "number of cases");
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// A tree whose leaves are the single bytes 0, 1, 2 and so on.
fn byte_tree(size: u16) -> MerkleTree {
    let mut tree = MerkleTree::new();
    for byte in 0..size {
        tree.append(&[byte as u8]);
    }
    tree
}

fn line(first: u64, second: u64, proof: &[EventHash]) -> String {
    let mut line = format!("{first} {second}");
    for hash in proof {
        write!(line, " {hash}").unwrap();
    }
    line + "\n"
}

fn trees() -> Option<Value> {
    bus_testdata::json("merkle/trees.json")
}

#[test]
fn inclusion_proofs_are_accepted_and_damaged_ones_are_not() {
    walk("merkle/inclusion.json", 98, |case| {
        let (leaf, root) = (hash(&case["leaf_hash"])?, root(&case["root"]));
        let (index, size) = (number(&case["leaf_index"]), number(&case["tree_size"]));
        Some(verify_inclusion(&leaf, index, size, &proof(&case["proof"])?, &root))
    });
}

#[test]
fn consistency_proofs_are_accepted_and_damaged_ones_are_not() {
    walk("merkle/consistency.json", 98, |case| {
        let (old_root, new_root) = (root(&case["root1"]), root(&case["root2"]));
        let (old, new) = (number(&case["size1"]), number(&case["size2"]));
        Some(verify_consistency(old, new, &old_root, &new_root, &proof(&case["proof"])?))
    });
}

#[test]
fn the_tree_of_eight_leaves_has_the_known_nodes_and_roots() {
    let Some(document) = trees() else { return };
    let mut tree = MerkleTree::new();
    let mut level = Vec::new();
    for (size, leaf) in document["ct_leaves"].as_array().unwrap().iter().enumerate() {
        assert_eq!(Some(tree.root()), hash(&document["ct_roots"][size]), "root of {size}");
        let data = bus_testdata::hex(leaf.as_str().unwrap());
        tree.append(&data);
        level.push(leaf_hash(&data));
    }
    assert_eq!(Some(tree.root()), hash(&document["ct_roots"][8]));
    let nodes = document["ct_nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 4, "number of levels");
    for expected in nodes {
        assert_eq!(Some(&level), proof(expected).as_ref());
        level = level.chunks_exact(2).map(|pair| node_hash(&pair[0], &pair[1])).collect();
    }
}

#[test]
fn trees_of_0_to_256_leaves_have_the_known_roots_then_and_later() {
    let Some(document) = trees() else { return };
    let roots = proof(&document["byte_leaf_roots"]).unwrap();
    assert_eq!(roots.len(), 257, "number of roots");
    let whole = byte_tree(256);
    for (size, root) in (0_u16..).zip(&roots) {
        assert_eq!(byte_tree(size).root(), *root, "root of {size}");
        assert_eq!(whole.root_at(u64::from(size)), Some(*root), "root at {size}");
    }
    assert_eq!(whole.root_at(257), None);
}

#[test]
fn all_inclusion_proofs_up_to_130_leaves_are_the_known_ones_and_verify() {
    let Some(document) = trees() else { return };
    let tree = byte_tree(130);
    let (mut text, mut count) = (String::new(), 0);
    for size in 1..=130 {
        for index in 0..size {
            let proof = tree.inclusion_proof(index, size).unwrap();
            let (leaf, root) = (leaf_hash(&[index as u8]), tree.root_at(size).unwrap());
            assert!(verify_inclusion(&leaf, index, size, &proof, &root), "{index} of {size}");
            text.push_str(&line(index, size, &proof));
            count += 1;
        }
    }
    assert_eq!(count, 8515, "number of proofs");
    assert_eq!(
        Some(EventHash::of(text.as_bytes())),
        hash(&document["rolling"]["inclusion_sha256"])
    );
}

#[test]
fn all_consistency_proofs_up_to_130_leaves_are_the_known_ones_and_verify() {
    let Some(document) = trees() else { return };
    let tree = byte_tree(130);
    let (mut text, mut count) = (String::new(), 0);
    for new in 1..=130 {
        for old in 1..=new {
            let proof = tree.consistency_proof(old, new).unwrap();
            let (old_root, new_root) = (tree.root_at(old).unwrap(), tree.root_at(new).unwrap());
            assert!(verify_consistency(old, new, &old_root, &new_root, &proof), "{old} of {new}");
            text.push_str(&line(old, new, &proof));
            count += 1;
        }
    }
    assert_eq!(count, 8515, "number of proofs");
    let expected = hash(&document["rolling"]["consistency_sha256"]);
    assert_eq!(Some(EventHash::of(text.as_bytes())), expected);
}

#[test]
fn the_sample_proofs_are_made_as_they_stand_in_the_file() {
    let Some(document) = trees() else { return };
    let tree = byte_tree(256);
    let inclusion = document["sample_inclusion"].as_array().unwrap();
    let consistency = document["sample_consistency"].as_array().unwrap();
    assert_eq!((inclusion.len(), consistency.len()), (34, 43), "number of samples");
    for case in inclusion {
        let made = tree.inclusion_proof(number(&case["leaf_index"]), number(&case["tree_size"]));
        assert_eq!(made, proof(&case["proof"]), "{case}");
    }
    for case in consistency {
        let made = tree.consistency_proof(number(&case["size1"]), number(&case["size2"]));
        assert_eq!(made, proof(&case["proof"]), "{case}");
    }
}

#[test]
fn sizes_near_the_end_of_the_range_never_panic_and_never_verify() {
    let node = leaf_hash(b"x");
    let numbers =
        [0, 1, 2, 3, 1 << 32, u64::MAX / 2, 1 << 63, (1 << 63) + 1, u64::MAX - 1, u64::MAX];
    for first in numbers {
        for second in numbers {
            for length in [0, 1, 2, 63, 64, 65, 128, 200] {
                let proof = vec![node; length];
                let root = leaf_hash(b"root");
                assert!(!verify_inclusion(&node, first, second, &proof, &root));
                assert!(!verify_consistency(first, second, &node, &root, &proof));
            }
        }
    }
}

#[test]
fn proofs_about_leaves_that_are_not_there_are_not_made() {
    let tree = byte_tree(5);
    assert_eq!(tree.inclusion_proof(5, 5), None);
    assert_eq!(tree.inclusion_proof(0, 6), None);
    assert_eq!(tree.inclusion_proof(u64::MAX, u64::MAX), None);
    assert_eq!(tree.consistency_proof(0, 5), None);
    assert_eq!(tree.consistency_proof(3, 2), None);
    assert_eq!(tree.consistency_proof(1, u64::MAX), None);
}
