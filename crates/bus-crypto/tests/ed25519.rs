//! Ed25519 against RFC 8032 and Wycheproof, and the strictness that both leave open.
#![expect(clippy::unwrap_used, reason = "a damaged vector file must fail the test")]

use bus_crypto::{CryptoError, NkeyKind, PublicKey, SigningKey};
use bus_testdata::{hex, json};
use ring::signature::{ED25519, UnparsedPublicKey};
use serde_json::Value;

fn bytes(value: &Value, name: &str) -> Vec<u8> {
    hex(value[name].as_str().unwrap())
}

fn array<const N: usize>(value: &Value, name: &str) -> [u8; N] {
    bytes(value, name).try_into().unwrap()
}

#[test]
fn rfc_8032_signs_and_verifies_byte_for_byte() {
    let Some(file) = json("rfc/ed25519.json") else { return };
    let mut walked = 0;
    for test in file["cases"].as_array().unwrap() {
        let key = SigningKey::from_seed(NkeyKind::User, array(test, "seed").into()).unwrap();
        let message = bytes(test, "msg");
        let signature = array(test, "sig");
        assert_eq!(*key.public().as_bytes(), array(test, "public"), "{}", test["id"]);
        assert_eq!(key.sign(&message), signature, "{}", test["id"]);
        assert_eq!(key.public().verify(&message, &signature), Ok(()), "{}", test["id"]);
        walked += 1;
    }
    assert_eq!(walked, 168);
}

#[test]
fn wycheproof() {
    let Some(file) = json("wycheproof/ed25519_test.json") else { return };
    let (mut walked, mut other_lengths) = (0, 0);
    for group in file["testGroups"].as_array().unwrap() {
        let key = PublicKey::from_bytes(NkeyKind::User, array(&group["publicKey"], "pk"));
        for test in group["tests"].as_array().unwrap() {
            let wanted = match test["result"].as_str().unwrap() {
                "valid" => Ok(()),
                _ => Err(CryptoError::BadSignature),
            };
            match bytes(test, "sig").try_into() {
                Ok(signature) => {
                    let verified = key.verify(&bytes(test, "msg"), &signature);
                    assert_eq!(verified, wanted, "{}", test["tcId"]);
                    walked += 1;
                }
                // Such a signature cannot be handed in.
                Err(_) => {
                    assert!(wanted.is_err(), "{}", test["tcId"]);
                    other_lengths += 1;
                }
            }
        }
    }
    assert_eq!((walked, other_lengths), (139, 12));
}

/// The encodings of all points whose order divides 8; the last two are not canonical.
const SMALL_ORDER: [&str; 7] = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
];

#[test]
fn a_key_of_small_order_verifies_nothing() {
    // With R neutral and S = 0 the plain equation holds for one message in eight or more.
    let mut signature = [0; 64];
    signature[0] = 1;
    let mut forgeries = 0;
    for (encoding, sign) in SMALL_ORDER.iter().flat_map(|encoding| [(encoding, 0), (encoding, 128)])
    {
        let mut bytes: [u8; 32] = hex(encoding).try_into().unwrap();
        bytes[31] |= sign;
        let key = PublicKey::from_bytes(NkeyKind::User, bytes);
        for message in 0_u8..=255 {
            let plain = UnparsedPublicKey::new(&ED25519, bytes).verify(&[message], &signature);
            forgeries += usize::from(plain.is_ok());
            let verified = key.verify(&[message], &signature);
            assert_eq!(verified, Err(CryptoError::BadSignature), "{encoding}");
        }
    }
    assert!(forgeries > 500, "only {forgeries} forgeries were tried");
}

#[test]
fn a_curve_key_verifies_nothing() {
    let key = SigningKey::from_seed(NkeyKind::User, [1; 32].into()).unwrap();
    let signature = key.sign(b"message");
    let curve = PublicKey::from_bytes(NkeyKind::Curve, *key.public().as_bytes());
    assert_eq!(curve.verify(b"message", &signature), Err(CryptoError::BadSignature));
}
