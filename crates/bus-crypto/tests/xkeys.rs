//! NATS xkeys against the Go library, a real server's sealed question, and the Rust nkeys crate.
#![expect(clippy::unwrap_used, reason = "a damaged vector file must fail the test")]

use bus_crypto::jwt::decode_auth_request;
use bus_crypto::{CryptoError, Entropy, NkeyKind, PublicKey, SigningKey, SystemEntropy, XKey};
use bus_testdata::{hex, json};
use proptest::prelude::*;
use serde_json::Value;

/// A source that gives the same bytes each time.
struct Fixed(Vec<u8>);

impl Entropy for Fixed {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), CryptoError> {
        bytes.copy_from_slice(&self.0);
        Ok(())
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap()
}

fn key(test: &Value, name: &str) -> XKey {
    XKey::from_seed_text(text(test, name)).unwrap()
}

fn seal_again(test: &Value) -> Vec<u8> {
    let recipient = PublicKey::parse(text(test, "recipient_public")).unwrap();
    let nonce = Fixed(hex(text(test, "nonce")));
    let plain = hex(text(test, "plaintext"));
    key(test, "sender_seed").seal(&nonce, &recipient, &plain).unwrap()
}

#[test]
fn boxes_are_sealed_and_opened_as_by_the_reference() {
    let Some(file) = json("nats-auth/xkeys.json") else { return };
    let (mut valid, mut invalid) = (0, Vec::new());
    for test in file["cases"].as_array().unwrap() {
        let id = text(test, "id");
        let recipient = key(test, "recipient_seed");
        assert_eq!(recipient.public().text(), text(test, "recipient_public"), "{id}");
        let opened = PublicKey::parse(text(test, "sender_public"))
            .and_then(|sender| recipient.open(&sender, &hex(text(test, "sealed"))));
        if test["result"] == "valid" {
            assert_eq!(*opened.unwrap(), hex(text(test, "plaintext")), "{id}");
            assert_eq!(seal_again(test), hex(text(test, "sealed")), "{id}");
            valid += 1;
        } else {
            invalid.push((id, opened.unwrap_err()));
        }
    }
    assert_eq!((valid, invalid.len()), (6, 14));
    for (id, error) in invalid {
        let wanted = match id {
            "neg-sender-zero" => error == CryptoError::ZeroSharedSecret,
            "neg-sender-bad" | "neg-sender-not-curve" => matches!(error, CryptoError::BadNkey(_)),
            _ => error == CryptoError::DecryptionFailed,
        };
        assert!(wanted, "{id}: {error}");
    }
}

#[test]
fn the_sealed_question_of_a_real_server_opens() {
    let Some(file) = json("nats-auth/server_auth_callout.json") else { return };
    let mut walked = 0;
    let requests = file["requests"].as_array().unwrap();
    for test in requests.iter().filter(|test| test["sealed"].is_string()) {
        let service = key(test, "service_xkey_seed");
        assert_eq!(service.public().text(), text(test, "service_xkey_public"));
        let server = PublicKey::parse(text(test, "server_xkey")).unwrap();
        let opened = service.open(&server, &hex(text(test, "sealed"))).unwrap();
        let token = std::str::from_utf8(&opened).unwrap();
        assert_eq!(token, text(test, "opens_to"));
        assert_eq!(decode_auth_request(token).unwrap().server_xkey, Some(server));
        walked += 1;
    }
    assert_eq!(walked, 1);
}

#[test]
fn seeds_give_the_public_keys_of_the_reference() {
    let Some(file) = json("nats-auth/nkeys.json") else { return };
    let (mut curve, mut signing) = (0, 0);
    for test in file["cases"].as_array().unwrap() {
        let (id, read) = (text(test, "id"), XKey::from_seed_text(text(test, "seed")));
        if text(test, "type") == "x25519" {
            let key = read.unwrap();
            assert_eq!(key.public().text(), text(test, "public"), "{id}");
            assert_eq!(*key.seed_text(), text(test, "seed"), "{id}");
            curve += 1;
        } else {
            let refused = CryptoError::BadNkey("the seed of a key that signs");
            assert_eq!(read.err(), Some(refused), "{id}");
            signing += 1;
        }
    }
    assert_eq!((curve, signing), (7, 47));
}

#[test]
fn texts_are_never_quoted() {
    let Some(file) = json("nats-auth/nkey_strings.json") else { return };
    let mut walked = 0;
    for test in file["cases"].as_array().unwrap() {
        let value = text(test, "value");
        if let Err(error) = XKey::from_seed_text(value) {
            let shown = format!("{error} {error:?}");
            assert!(value.len() < 6 || !shown.contains(value), "{}: {shown}", test["id"]);
        }
        walked += 1;
    }
    assert_eq!(walked, 122);
}

#[test]
fn a_key_that_signs_is_no_partner() {
    let ours = XKey::generate(&SystemEntropy).unwrap();
    let signer = SigningKey::generate(NkeyKind::Server, &SystemEntropy).unwrap();
    let sealed = ours.seal(&SystemEntropy, signer.public(), b"data");
    assert!(matches!(sealed, Err(CryptoError::BadNkey(_))), "{sealed:?}");
}

proptest! {
    #[test]
    fn the_nkeys_crate_opens_what_we_seal(data: Vec<u8>) {
        let (ours, theirs) = (XKey::generate(&SystemEntropy).unwrap(), nkeys::XKey::new());
        let sender = nkeys::XKey::from_public_key(&ours.public().text()).unwrap();
        let recipient = PublicKey::parse(&theirs.public_key()).unwrap();
        let sealed = ours.seal(&SystemEntropy, &recipient, &data).unwrap();
        prop_assert_eq!(theirs.open(&sealed, &sender).unwrap(), data);
    }

    #[test]
    fn we_open_what_the_nkeys_crate_seals(data: Vec<u8>) {
        let (ours, theirs) = (XKey::generate(&SystemEntropy).unwrap(), nkeys::XKey::new());
        let recipient = nkeys::XKey::from_public_key(&ours.public().text()).unwrap();
        let sender = PublicKey::parse(&theirs.public_key()).unwrap();
        let sealed = theirs.seal(&data, &recipient).unwrap();
        let opened = ours.open(&sender, &sealed).unwrap();
        prop_assert_eq!(opened.as_slice(), data);
    }

    #[test]
    fn both_read_each_other_s_seeds(secret: [u8; 32]) {
        let theirs = nkeys::XKey::new_from_raw(secret);
        let ours = XKey::from_seed_text(&theirs.seed().unwrap()).unwrap();
        prop_assert_eq!(ours.public().text(), theirs.public_key());
        prop_assert_eq!(ours.seed_text().to_string(), theirs.seed().unwrap());
    }
}
