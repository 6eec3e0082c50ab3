//! Nkey texts against the answers of the NATS libraries.
#![expect(clippy::unwrap_used, reason = "a damaged vector file must fail the test")]

use bus_crypto::{CryptoError, NkeyKind, PublicKey, SigningKey, SystemEntropy};
use bus_testdata::{hex, json};
use serde_json::Value;

const SIGNING: [(NkeyKind, &str); 5] = [
    (NkeyKind::Operator, "operator"),
    (NkeyKind::Account, "account"),
    (NkeyKind::User, "user"),
    (NkeyKind::Server, "server"),
    (NkeyKind::Cluster, "cluster"),
];

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap()
}

#[test]
fn seeds_give_the_public_keys_and_signatures_of_the_reference() {
    let Some(file) = json("nats-auth/nkeys.json") else { return };
    let (mut signing, mut curve) = (0, 0);
    for test in file["cases"].as_array().unwrap() {
        let (id, seed) = (text(test, "id"), text(test, "seed"));
        let public = PublicKey::parse(text(test, "public")).unwrap();
        assert_eq!(public.as_bytes()[..], hex(text(test, "raw_public")), "{id}");
        assert_eq!(public.to_string(), text(test, "public"), "{id}");
        if text(test, "type") == "x25519" {
            assert_eq!(public.kind(), NkeyKind::Curve, "{id}");
            let refused = SigningKey::from_seed_text(seed).err();
            assert_eq!(refused, Some(CryptoError::BadNkey("a curve key cannot sign")), "{id}");
            curve += 1;
            continue;
        }
        let key = SigningKey::from_seed_text(seed).unwrap();
        let message = text(test, "sign_message").as_bytes();
        assert_eq!(*key.public(), public, "{id}");
        assert!(SIGNING.contains(&(public.kind(), text(test, "type"))), "{id}");
        assert_eq!(*key.seed_text(), seed, "{id}");
        assert_eq!(key.sign(message)[..], hex(text(test, "signature")), "{id}");
        signing += 1;
    }
    assert_eq!((signing, curve), (47, 7));
}

#[test]
fn texts_are_read_strictly_and_never_quoted() {
    let Some(file) = json("nats-auth/nkey_strings.json") else { return };
    let mut walked = 0;
    for test in file["cases"].as_array().unwrap() {
        let (id, value) = (text(test, "id"), text(test, "value"));
        let public = PublicKey::parse(value);
        let seed = SigningKey::from_seed_text(value);
        assert_eq!(public.is_ok(), test["strict_public"] == true, "{id} as a public key");
        assert_eq!(seed.is_ok(), test["valid_seed"] == true, "{id} as a seed");
        for error in [public.err(), seed.err()].into_iter().flatten() {
            let shown = format!("{error} {error:?}");
            assert!(value.len() < 6 || !shown.contains(value), "{id}: {shown}");
        }
        walked += 1;
    }
    assert_eq!(walked, 122);
}

#[test]
fn signatures_verify_as_the_reference_says() {
    let Some(file) = json("nats-auth/nkey_signatures.json") else { return };
    let (mut walked, mut other_lengths) = (0, 0);
    for test in file["cases"].as_array().unwrap() {
        let is_valid = text(test, "result") == "valid";
        let key = PublicKey::parse(text(test, "public")).unwrap();
        let Ok(signature) = hex(text(test, "signature")).try_into() else {
            assert!(!is_valid);
            other_lengths += 1;
            continue;
        };
        let verified = key.verify(&hex(text(test, "message")), &signature);
        assert_eq!(verified.is_ok(), is_valid, "{}", test["id"]);
        walked += 1;
    }
    assert_eq!((walked, other_lengths), (15, 3));
}

#[test]
fn a_generated_key_reads_back_from_its_texts() {
    for (kind, _) in SIGNING {
        let key = SigningKey::generate(kind, &SystemEntropy).unwrap();
        let again = SigningKey::from_seed_text(&key.seed_text()).unwrap();
        assert_eq!(again.public(), key.public());
        assert_eq!(PublicKey::parse(&key.public().text()), Ok(*key.public()));
        assert!(key.public().text().starts_with(kind.letter()));
    }
}

#[test]
fn a_curve_key_cannot_be_generated_for_signing() {
    let refused = SigningKey::generate(NkeyKind::Curve, &SystemEntropy).err();
    assert_eq!(refused, Some(CryptoError::BadNkey("a curve key cannot sign")));
}
