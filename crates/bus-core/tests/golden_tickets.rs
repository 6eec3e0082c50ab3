//! Tickets against the golden vectors of the specification.
#![expect(clippy::unwrap_used, reason = "a damaged vector file must fail the test")]

use bus_core::{EntryTicket, ErrorKind};
use bus_crypto::{NkeyKind, PublicKey, SigningKey};
use bus_envelope::Timestamp;
use serde_json::{Value, json};

#[path = "../../../docs/spec/vectors/golden.rs"]
mod golden;

#[test]
fn tickets_are_as_the_specification_says() {
    golden::check("tickets.json", 31, |case| {
        let text = |name: &str| case.get(name).and_then(Value::as_str).unwrap();
        if text("do") == "sign" {
            return sign(case);
        }
        let account = PublicKey::parse(text("account")).unwrap();
        match EntryTicket::parse(text("text"), |_| Ok(account)) {
            Ok(read) => json!({
                "id": hex(&read.id),
                "end_unix_s": (read.end.unix_ns() / 1_000_000_000) as i64,
                "workspace": read.workspace.as_str(),
                "agent": read.agent.as_str(),
                "session": read.session.map(|session| session.to_string()),
                "queue": read.queue.map(|queue| queue.to_string()),
                "roles": read.roles.iter().map(|role| role.as_str()).collect::<Vec<_>>(),
            }),
            Err(error) if error.kind() == ErrorKind::Denied => json!({ "refused": "signature" }),
            Err(_) => json!({ "refused": "ticket" }),
        }
    });
}

fn sign(case: &Value) -> Value {
    let text = |name: &str| case.get(name).and_then(Value::as_str);
    let seed = <[u8; 32]>::try_from(bytes(text("account_seed").unwrap())).unwrap();
    let account = SigningKey::from_seed(NkeyKind::Account, seed.into()).unwrap();
    let end_unix_s = case.get("end_unix_s").and_then(Value::as_i64).unwrap();
    let roles = case.get("roles").and_then(Value::as_array).unwrap().iter();
    let ticket = EntryTicket {
        id: bytes(text("id").unwrap()).try_into().unwrap(),
        issuer: *account.public(),
        workspace: text("workspace").unwrap().parse().unwrap(),
        agent: text("agent").unwrap().parse().unwrap(),
        roles: roles.map(|role| role.as_str().unwrap().parse().unwrap()).collect(),
        session: text("session").map(|session| session.parse().unwrap()),
        queue: text("queue").map(|queue| queue.parse().unwrap()),
        end: Timestamp::from_unix_ns(i128::from(end_unix_s) * 1_000_000_000),
    };
    json!(ticket.sign(&account).unwrap().as_str())
}

fn bytes(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.chars().map(|c| c.to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair.iter().fold(0, |b, d| b * 16 + d)).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
