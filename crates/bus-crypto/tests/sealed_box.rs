//! Sealed boxes and boxes between two keys against libsodium, Go and `RustCrypto`.
#![expect(clippy::unwrap_used, reason = "a damaged vector file must fail the test")]

use bus_crypto::{BoxKey, CryptoError, Entropy, XKey, sealed_box};
use bus_testdata::{hex, json};
use ring::digest::{SHA512, digest};
use serde_json::Value;

/// A source that gives these bytes and then nothing.
struct Given(std::sync::Mutex<Vec<u8>>);

impl Given {
    fn new(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl Entropy for Given {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), CryptoError> {
        let mut left = self.0.lock().unwrap();
        if left.len() < bytes.len() {
            return Err(CryptoError::Entropy);
        }
        let taken: Vec<u8> = left.drain(..bytes.len()).collect();
        bytes.copy_from_slice(&taken);
        Ok(())
    }
}

fn bytes(test: &Value, name: &str) -> Vec<u8> {
    hex(test[name].as_str().unwrap())
}

fn key(test: &Value, name: &str) -> BoxKey {
    BoxKey::from_secret(<[u8; 32]>::try_from(bytes(test, name)).unwrap().into())
}

#[test]
fn sealed_boxes_open_or_are_refused_as_by_libsodium() {
    let Some(file) = json("sealed-box/crypto_box_seal.json") else { return };
    let (mut opened, mut refused, mut small_order) = (0, 0, 0);
    for test in file["cases"].as_array().unwrap() {
        let id = test["id"].as_str().unwrap();
        let recipient = key(test, "recipient_sk");
        let answer = sealed_box::open(&recipient, &bytes(test, "sealed"));
        if test["result"] == "valid" {
            assert_eq!(*answer.unwrap(), bytes(test, "plaintext"), "{id}");
            opened += 1;
        } else if id.starts_with("neg-low-order") {
            assert_eq!(answer, Err(CryptoError::ZeroSharedSecret), "{id}");
            small_order += 1;
        } else if id == "neg-pk-mismatch" {
            // A secret key with another's public key cannot be handed in.
            assert_ne!(recipient.public().as_bytes()[..], bytes(test, "recipient_pk"), "{id}");
            refused += 1;
        } else {
            assert_eq!(answer, Err(CryptoError::DecryptionFailed), "{id}");
            refused += 1;
        }
    }
    assert_eq!((opened, refused, small_order), (25, 17, 7));
}

#[test]
fn with_the_same_fresh_key_the_same_box_is_sealed() {
    let Some(file) = json("sealed-box/crypto_box_seal.json") else { return };
    let mut walked = 0;
    let with_key = |test: &&Value| test["ephemeral_sk"].is_string();
    for test in file["cases"].as_array().unwrap().iter().filter(with_key) {
        let recipient = key(test, "recipient_sk");
        let entropy = Given::new(bytes(test, "ephemeral_sk"));
        let sealed = sealed_box::seal(&entropy, recipient.public(), &bytes(test, "plaintext"));
        assert_eq!(sealed.unwrap(), bytes(test, "sealed"), "{}", test["id"]);
        walked += 1;
    }
    assert_eq!(walked, 20);
}

fn is_the_pair_of_its_seed(test: &Value) -> bool {
    let hash = digest(&SHA512, &bytes(test, "seed"));
    hash.as_ref().starts_with(&bytes(test, "sk"))
        && key(test, "sk").public().as_bytes()[..] == bytes(test, "pk")
}

#[test]
fn boxes_between_two_keys_are_those_of_the_reference() {
    let Some(file) = json("sealed-box/crypto_box.json") else { return };
    let mut walked = 0;
    for test in file["cases"].as_array().unwrap() {
        let id = test["id"].as_str().unwrap();
        walked += 1;
        if test["op"] == "seed_keypair" {
            assert!(is_the_pair_of_its_seed(test), "{id}");
            continue;
        }
        let sender = XKey::from_box_key(key(test, "sender_sk"));
        let recipient = XKey::from_box_key(key(test, "recipient_sk"));
        let entropy = Given::new(bytes(test, "nonce"));
        let plain = bytes(test, "plaintext");
        let sealed = sender.seal(&entropy, &recipient.public(), &plain).unwrap();
        let wanted = [&b"xkv1"[..], &bytes(test, "nonce"), &bytes(test, "boxed")].concat();
        assert_eq!(recipient.public().as_bytes()[..], bytes(test, "recipient_pk"), "{id}");
        assert_eq!(sealed, wanted, "{id}");
        assert_eq!(*recipient.open(&sender.public(), &sealed).unwrap(), plain, "{id}");
    }
    assert_eq!(walked, 3);
}
