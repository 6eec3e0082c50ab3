//! Revocations against the golden vectors of the specification.
#![expect(clippy::unwrap_used, reason = "a damaged vector file must fail the test")]

use bus_core::{ErrorKind, Revocation};
use bus_crypto::{NkeyKind, PublicKey, SigningKey};
use bus_envelope::Timestamp;
use serde_json::{Value, json};

#[path = "../../../docs/spec/vectors/golden.rs"]
mod golden;

#[test]
fn revocations_are_as_the_specification_says() {
    golden::check("revocations.json", 18, |case| {
        let text = |name: &str| case.get(name).and_then(Value::as_str).unwrap();
        if text("do") == "sign" {
            let account = key(NkeyKind::Account, text("account_seed"));
            let revocation = Revocation {
                issuer: *account.public(),
                workspace: text("workspace").parse().unwrap(),
                agent: text("agent").parse().unwrap(),
                nkey: *key(NkeyKind::User, text("agent_seed")).public(),
                at: Timestamp::parse(text("at")).unwrap(),
            };
            return json!(revocation.sign(&account).unwrap());
        }
        let account = PublicKey::parse(text("account")).unwrap();
        match Revocation::parse(text("line"), &account) {
            Ok(read) => json!({
                "workspace": read.workspace.as_str(),
                "agent": read.agent.as_str(),
                "nkey": read.nkey.text(),
                "at": read.at.to_string(),
            }),
            Err(error) if error.kind() == ErrorKind::Denied => json!({ "refused": "signature" }),
            Err(_) => json!({ "refused": "revocation" }),
        }
    });
}

fn key(kind: NkeyKind, seed: &str) -> SigningKey {
    let digits: Vec<u8> = seed.chars().map(|c| c.to_digit(16).unwrap() as u8).collect();
    let bytes: Vec<u8> =
        digits.chunks(2).map(|pair| pair.iter().fold(0, |b, d| b * 16 + d)).collect();
    SigningKey::from_seed(kind, <[u8; 32]>::try_from(bytes).unwrap().into()).unwrap()
}
