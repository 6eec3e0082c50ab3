//! Receipts, dead letters, certificates, checkpoints and whole messages against the golden vectors.
#![expect(clippy::unwrap_used, reason = "a damaged vector file must fail the test")]

use std::time::Duration;

use bus_core::{Certificate, DeadLetterEvent, Issue, certify};
use bus_crypto::{
    Algorithm, CryptoError, Entropy, KeyId, NkeyKind, OpenKey, PublicKey, SealKey, SigningKey,
    WorkspaceSecret, Zeroizing, derive_key,
};
use bus_envelope::{
    ChainHead, Draft, EventHash, MessageEnvelope, Seal, Signature, Stamp, Timestamp, TraceContext,
    wire,
};
use bus_evidence::{Checkpoint, CheckpointError, WorkReceipt};
use bus_subjects::{RoleName, SessionId, Subject};
use data_encoding::{BASE64, HEXLOWER};
use serde_json::{Value, json};

#[path = "../../../docs/spec/vectors/golden.rs"]
mod golden;

#[test]
fn receipts_are_as_the_specification_says() {
    golden::check("receipts.json", 20, |case| {
        let refused = json!({ "refused": "receipt" });
        match case["do"].as_str() {
            Some("id") => {
                // The id is given by the worker's runner, from the hash of its task.
                let task = wire::json::decode(text(case, "task").as_bytes()).unwrap();
                format!("{}.receipt", task.compute_hash()).into()
            }
            Some("write") => {
                let receipt = WorkReceipt::parse(case["receipt"].to_string().as_bytes()).unwrap();
                String::from_utf8(receipt.to_json()).unwrap().into()
            }
            _ => WorkReceipt::parse(text(case, "json").as_bytes())
                .map_or(refused, |_| "accepted".into()),
        }
    });
}

#[test]
fn dead_letters_are_as_the_specification_says() {
    golden::check("dead-letters.json", 5, |case| {
        let letter = DeadLetterEvent::from_json(case["letter"].to_string().as_bytes()).unwrap();
        // The id is made of a delivery, which only an engine has; its parts are cut as there.
        let stream: String = letter.stream.chars().take(64).collect();
        json!({
            "json": String::from_utf8(letter.to_json().unwrap()).unwrap(),
            "id": format!("{stream}@{}:{}", case["stored_unix_ns"], letter.seq),
            "body": HEXLOWER.encode(&BASE64.decode(letter.original.body_base64.as_bytes()).unwrap()),
        })
    });
}

#[test]
fn certificates_are_as_the_specification_says() {
    golden::check("certificates.json", 42, |case| match case["do"].as_str() {
        Some("issue") => issue(case).into(),
        _ => Certificate::parse(text(case, "token")).map_or_else(
            |_| json!({ "refused": "certificate" }),
            |read| {
                let seconds =
                    |time: Timestamp| i64::try_from(time.unix_ns() / 1_000_000_000).unwrap();
                json!({
                    "workspace": read.workspace.as_str(),
                    "agent": read.agent.as_str(),
                    "roles": read.roles.iter().map(|role| role.as_str()).collect::<Vec<_>>(),
                    "session": read.session.as_ref().map(SessionId::as_str),
                    "queue": read.queue.as_ref().map(RoleName::as_str),
                    "may": may(&read, case),
                    "nkey": read.nkey.text(),
                    "issuer": read.issuer.text(),
                    "issued": seconds(read.issued),
                    "begins": seconds(read.not_before.unwrap_or(read.issued)),
                    "expires": read.expires.map(seconds),
                })
            },
        ),
    });
}

#[test]
fn checkpoints_are_as_the_specification_says() {
    golden::check("checkpoints.json", 21, |case| {
        if case["do"] == "sign" {
            let key = key(NkeyKind::User, text(case, "seed"));
            let (size, root) = (case["size"].as_u64().unwrap(), array(text(case, "root")));
            let (origin, name) = (text(case, "origin"), text(case, "name"));
            return Checkpoint::sign(origin, size, root, name, &key).unwrap().text().into();
        }
        let Ok(read) = Checkpoint::parse(text(case, "text")) else {
            return json!({ "refused": "checkpoint-form" });
        };
        let verdict = match read.verify(&PublicKey::parse(text(case, "key")).unwrap()) {
            Ok(()) => "signed",
            Err(CheckpointError::NotSigned { .. }) => "not-signed",
            Err(_) => "bad-signature",
        };
        let root = HEXLOWER.encode(read.root());
        json!({ "origin": read.origin(), "size": read.size(), "root": root, "verdict": verdict })
    });
}

#[test]
fn whole_messages_are_as_the_specification_says() {
    golden::check("messages.json", 4, |case| {
        let mut envelope = stamped(&case["envelope"]);
        let lineage = &envelope.lineage;
        let incarnation = lineage.incarnation.to_string();
        let name = text(case, "secret_name");
        let key_id = KeyId::new(lineage.workspace.as_str(), name, &incarnation).unwrap();
        let key = derive_key(&secret(text(case, "secret")), key_id.as_str()).unwrap();
        let aad = seal(&mut envelope, key_id.as_str(), &key, array(text(case, "nonce")));
        let leaf = envelope.compute_hash();
        let mut out = json!({
            "key_id": key_id.as_str(),
            "key": HEXLOWER.encode(&key[..]),
            "aad": String::from_utf8(aad).unwrap(),
            "sealed": HEXLOWER.encode(&envelope.payload),
            "leaf": leaf.to_string(),
        });
        if let Some(seed) = case["signer_seed"].as_str() {
            let input = sign(&mut envelope, &leaf, seed);
            out["signature_input"] = HEXLOWER.encode(&input).into();
            let signature = envelope.signature.as_ref().unwrap();
            out["signature"] = HEXLOWER.encode(&signature.bytes).into();
        }
        let (headers, _) = wire::binary::encode(&envelope);
        out["headers"] = headers.iter().map(|(name, value)| json!([name, value])).collect();
        out["json"] = String::from_utf8(wire::json::encode(&envelope)).unwrap().into();
        out
    });
}

/// Whether the owner of a certificate may do what a case asks about.
fn may(read: &Certificate, case: &Value) -> Vec<bool> {
    let policy = read.policy();
    let asked = case["ask"].as_array().into_iter().flatten();
    let judge = |ask: &Value| match ask[0].as_str() {
        Some("publish") => policy.can_publish(&ask[1].as_str().unwrap().parse().unwrap()),
        _ => policy.can_subscribe(&ask[1].as_str().unwrap().parse().unwrap()),
    };
    asked.map(judge).collect()
}

fn issue(case: &Value) -> String {
    let roles = case["roles"].as_array().unwrap().iter();
    let roles = roles.map(|role| role.as_str().unwrap().parse().unwrap()).collect();
    let now = i128::from(case["issued_unix_s"].as_i64().unwrap()) * 1_000_000_000;
    let (workspace, agent) = (text(case, "workspace"), text(case, "agent"));
    let now = Timestamp::from_unix_ns(now);
    let mut issue = Issue::new(workspace.parse().unwrap(), agent.parse().unwrap(), roles, now);
    issue.session = case["session"].as_str().map(|session| session.parse().unwrap());
    issue.role_name = case["queue"].as_str().map(|queue| queue.parse().unwrap());
    issue.valid_for = case["valid_s"].as_u64().map(Duration::from_secs);
    let account = key(NkeyKind::Account, text(case, "account_seed"));
    let agent = key(NkeyKind::User, text(case, "agent_seed"));
    certify(&account, agent.public(), &issue).unwrap()
}

fn stamped(fields: &Value) -> MessageEnvelope {
    let subject = Subject::parse(text(fields, "subject")).unwrap();
    let payload = HEXLOWER.decode(text(fields, "payload").as_bytes()).unwrap();
    let mut draft = Draft::new(subject, text(fields, "type"), payload).id(text(fields, "id"));
    draft.content_type = fields["content_type"].as_str().map(str::to_owned);
    draft.session = fields["session"].as_str().map(|session| session.parse().unwrap());
    draft.cause = fields["cause"].as_str().map(|cause| cause.parse().unwrap());
    let (trace_id, span_id) = (array(text(fields, "trace_id")), array(text(fields, "span_id")));
    let flags = fields["flags"].as_u64().unwrap().try_into().unwrap();
    let stamp = Stamp {
        id: String::new(),
        time: Timestamp::parse(text(fields, "time")).unwrap(),
        trace: TraceContext::new(trace_id, span_id, flags).unwrap(),
        workspace: text(fields, "workspace").parse().unwrap(),
        agent: text(fields, "agent").parse().unwrap(),
        incarnation: text(fields, "incarnation").parse().unwrap(),
        head: ChainHead {
            seq: fields["seq"].as_u64().unwrap() - 1,
            hash: text(fields, "prevhash").parse().unwrap(),
        },
    };
    draft.stamp(stamp).unwrap()
}

/// Seals in place, shows that it opens again, and returns the additional data.
fn seal(envelope: &mut MessageEnvelope, key_id: &str, key: &[u8; 32], nonce: [u8; 12]) -> Vec<u8> {
    let algorithm = Algorithm::Aes256Gcm;
    let name = algorithm.name().to_owned();
    envelope.seal = Some(Seal { key_id: key_id.to_owned(), algorithm: name, nonce });
    let aad = envelope.aad();
    let mut data = envelope.payload.to_vec();
    let sealing = SealKey::new(algorithm, key_id, key).unwrap();
    sealing.seal_in_place(&Given(nonce), &aad, &mut data).unwrap();
    let plain = std::mem::replace(&mut envelope.payload, data.clone().into());
    let opening = OpenKey::new(algorithm, key_id, key).unwrap();
    opening.open_in_place(&nonce, &envelope.aad(), &mut data).unwrap();
    assert_eq!(data, plain);
    aad
}

/// Signs, and returns the bytes that were signed.
fn sign(envelope: &mut MessageEnvelope, leaf: &EventHash, seed: &str) -> Vec<u8> {
    let key = key(NkeyKind::User, seed);
    let signer = key.public().text();
    let input = envelope.signature_input_as(leaf, &signer);
    let bytes = key.sign(&input);
    envelope.signature = Some(Signature { signer, bytes });
    input
}

/// No randomness: the nonce that the vector names.
struct Given([u8; 12]);

impl Entropy for Given {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), CryptoError> {
        bytes.copy_from_slice(&self.0);
        Ok(())
    }
}

fn secret(text: &str) -> Vec<u8> {
    let written = WorkspaceSecret::from_text(text).unwrap().to_text();
    BASE64.decode(written.strip_prefix("base64:").unwrap().as_bytes()).unwrap()
}

fn key(kind: NkeyKind, seed: &str) -> SigningKey {
    SigningKey::from_seed(kind, Zeroizing::new(array(seed))).unwrap()
}

fn array<const N: usize>(hex: &str) -> [u8; N] {
    HEXLOWER.decode(hex.as_bytes()).unwrap().try_into().unwrap()
}

fn text<'a>(case: &'a Value, name: &str) -> &'a str {
    case[name].as_str().unwrap()
}
