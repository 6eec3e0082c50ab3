//! Hashes, bound bytes, wire forms, chains and trees against the golden vectors.
#![expect(clippy::unwrap_used, reason = "a damaged vector file must fail the test")]
#![expect(clippy::panic, reason = "a refusal that no vector knows must fail the test")]

use std::num::NonZeroUsize;

use bus_envelope::tree::{MerkleTree, leaf_hash, verify_consistency, verify_inclusion};
use bus_envelope::{
    ChainHead, ChainScope, ChainVerdict, ChainVerifier, EnvelopeError, EventHash, Headers,
    MessageEnvelope, Signature, WireForm, wire,
};
use bus_subjects::Subject;
use bus_testdata::hex;
use bytes::Bytes;
use data_encoding::HEXLOWER;
use serde_json::{Value, json};

#[path = "golden_fields/mod.rs"]
mod fields;
#[path = "../../../docs/spec/vectors/golden.rs"]
mod golden;

#[test]
fn all_that_is_computed_from_an_envelope_is_as_the_specification_says() {
    golden::check("envelopes.json", 23, |case| {
        let envelope = fields::read(case);
        assert_eq!(envelope.check(), Ok(()), "{case}");
        let [binary, json, compact] = [WireForm::Binary, WireForm::Json, WireForm::Compact]
            .map(|form| wire::encode(form, &envelope));
        for (headers, body) in [&binary, &json, &compact] {
            assert_eq!(wire::decode(headers, body).as_ref(), Ok(&envelope), "{case}");
        }
        let leaf = envelope.compute_hash();
        json!({
            "payload_hash": envelope.payload_hash().to_string(),
            "leaf": leaf.to_string(),
            "aad": String::from_utf8(envelope.aad()).unwrap(),
            "signature_input": HEXLOWER.encode(&envelope.signature_input(&leaf)),
            "binary": { "headers": pairs(&binary.0), "body": HEXLOWER.encode(&binary.1) },
            "json": String::from_utf8(json.1.to_vec()).unwrap(),
            "compact": HEXLOWER.encode(&compact.1),
        })
    });
}

#[test]
fn a_receiver_reads_and_refuses_as_the_specification_says() {
    golden::check("decoding.json", 104, |case| {
        let mut headers = Headers::new();
        for pair in case["headers"].as_array().unwrap() {
            headers.add(pair[0].as_str().unwrap(), pair[1].as_str().unwrap()).unwrap();
        }
        let body = match case["body_hex"].as_str() {
            Some(body) => hex(body),
            None => case["body"].as_str().unwrap().as_bytes().to_vec(),
        };
        match wire::decode(&headers, &Bytes::from(body)) {
            Ok(envelope) => fields::written(&envelope),
            Err(error) => refused(&error),
        }
    });
}

#[test]
fn chains_begin_and_go_on_as_the_specification_says() {
    golden::check("chains.json", 5, |case| {
        let subject = Subject::parse(case["subject"].as_str().unwrap()).unwrap();
        let workspace = case["workspace"].as_str().unwrap().parse().unwrap();
        let scope = match case["scope"].as_str() {
            Some("subject") => ChainScope::Subject { workspace, subject },
            _ => ChainScope::Incarnation {
                workspace,
                agent: case["agent"].as_str().unwrap().parse().unwrap(),
                incarnation: case["incarnation"].as_str().unwrap().parse().unwrap(),
                subject,
            },
        };
        let mut verifier = ChainVerifier::new(scope.clone(), NonZeroUsize::MIN);
        let after = case.get("after");
        let mut head = after.map_or_else(|| ChainHead::genesis(&scope), head_of);
        let mut expected = after.map(|_| ChainVerdict::Continued { is_known: false });
        let events = case["events"].as_array().unwrap();
        let links: Value = events
            .iter()
            .map(|event| {
                let envelope = chained(case, event, &head);
                let expected = expected.take().unwrap_or(ChainVerdict::Linked);
                assert_eq!(verifier.feed(&envelope), expected, "{event}");
                let before = std::mem::replace(&mut head, ChainHead::of(&envelope));
                json!({
                    "seq": head.seq,
                    "prevhash": before.hash.to_string(),
                    "leaf": head.hash.to_string(),
                })
            })
            .collect();
        json!({ "genesis": scope.genesis().to_string(), "links": links })
    });
}

#[test]
fn trees_are_as_the_specification_says() {
    golden::check("trees.json", 11, |case| {
        let entries: Vec<&str> =
            case["entries"].as_array().unwrap().iter().map(|e| e.as_str().unwrap()).collect();
        let mut tree = MerkleTree::new();
        for entry in &entries {
            tree.append(entry.as_bytes());
        }
        let (size, root) = (tree.size(), tree.root());
        let inclusion: Value = (0..size)
            .zip(&entries)
            .map(|(index, entry)| {
                let proof = tree.inclusion_proof(index, size).unwrap();
                let leaf = leaf_hash(entry.as_bytes());
                assert!(verify_inclusion(&leaf, index, size, &proof, &root), "{entry}");
                texts(&proof)
            })
            .collect();
        let consistency: Value = (1..=size)
            .map(|old| {
                let proof = tree.consistency_proof(old, size).unwrap();
                let old_root = tree.root_at(old).unwrap();
                assert!(verify_consistency(old, size, &old_root, &root, &proof), "{old}");
                texts(&proof)
            })
            .collect();
        json!({ "root": root.to_string(), "inclusion": inclusion, "consistency": consistency })
    });
}

fn chained(case: &Value, event: &Value, head: &ChainHead) -> MessageEnvelope {
    let mut all = case["template"].clone();
    let members = all.as_object_mut().unwrap();
    members.extend(event.as_object().unwrap().clone());
    for name in ["workspace", "subject"] {
        members.insert(name.to_owned(), case[name].clone());
    }
    members.insert("seq".to_owned(), head.next_seq().into());
    members.insert("prevhash".to_owned(), head.hash.to_string().into());
    let mut envelope = fields::read(&all);
    // A later life is taken at its word only where it is signed. The leaf holds no signature.
    envelope.signature = Some(Signature { signer: "UABC".to_owned(), bytes: [5; 64] });
    envelope
}

fn head_of(after: &Value) -> ChainHead {
    let hash = after["leaf"].as_str().unwrap().parse().unwrap();
    ChainHead { seq: after["seq"].as_u64().unwrap(), hash }
}

fn pairs(headers: &Headers) -> Value {
    headers.iter().map(|(name, value)| json!([name, value])).collect()
}

fn texts(hashes: &[EventHash]) -> Value {
    hashes.iter().map(ToString::to_string).collect()
}

fn refused(error: &EnvelopeError) -> Value {
    let kind = match error {
        EnvelopeError::Missing { .. } => "missing",
        EnvelopeError::Duplicate { .. } => "duplicate",
        EnvelopeError::Field { .. } => "field",
        EnvelopeError::TooLong { .. } => "too-long",
        EnvelopeError::TooMany { .. } => "too-many",
        EnvelopeError::Version { .. } => "version",
        EnvelopeError::Malformed { .. } => "malformed",
        EnvelopeError::NotCanonical { .. } => "not-canonical",
        EnvelopeError::UnknownForm { .. } => "unknown-form",
        other => panic!("no vector expects {other}"),
    };
    let reason =
        error.field_name().map_or_else(|| kind.to_owned(), |name| format!("{kind} {name}"));
    json!({ "refused": reason })
}
