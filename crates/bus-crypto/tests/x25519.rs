//! X25519 against RFC 7748 and Wycheproof; a shared secret of zeros is refused.
#![expect(clippy::unwrap_used, reason = "a damaged vector file must fail the test")]

use bus_crypto::{BoxKey, BoxPublicKey, CryptoError};
use bus_testdata::{hex, json};
use serde_json::Value;

fn array(test: &Value, name: &str) -> [u8; 32] {
    hex(test[name].as_str().unwrap()).try_into().unwrap()
}

fn x25519(secret: [u8; 32], public: [u8; 32]) -> Result<[u8; 32], CryptoError> {
    let public = BoxPublicKey::from_bytes(public)?;
    Ok(*BoxKey::from_secret(secret.into()).agree(&public))
}

fn has_flag(test: &Value, flag: &str) -> bool {
    test["flags"].as_array().unwrap().iter().any(|found| found == flag)
}

#[test]
fn wycheproof() {
    let Some(file) = json("wycheproof/x25519_test.json") else { return };
    let (mut agreed, mut refused) = (0, 0);
    for group in file["testGroups"].as_array().unwrap() {
        for test in group["tests"].as_array().unwrap() {
            let shared = x25519(array(test, "private"), array(test, "public"));
            if has_flag(test, "ZeroSharedSecret") {
                assert_eq!(shared, Err(CryptoError::ZeroSharedSecret), "{}", test["tcId"]);
                refused += 1;
            } else {
                assert_eq!(shared, Ok(array(test, "shared")), "{}", test["tcId"]);
                agreed += 1;
            }
        }
    }
    assert_eq!((agreed, refused), (487, 31));
}

#[test]
fn rfc_7748() {
    let Some(file) = json("rfc/x25519.json") else { return };
    let mut walked = 0;
    for test in file["cases"].as_array().unwrap() {
        let (mut scalar, mut point) = (array(test, "scalar"), array(test, "u"));
        for _ in 0..test["iterations"].as_u64().unwrap_or(1) {
            (scalar, point) = (x25519(scalar, point).unwrap(), scalar);
        }
        assert_eq!(scalar, array(test, "out"), "{}", test["id"]);
        walked += 1;
    }
    assert_eq!(walked, 8);
}

#[test]
fn the_public_half_is_the_secret_times_nine() {
    let mut nine = [0; 32];
    nine[0] = 9;
    for secret in [[1; 32], [0x80; 32], [0xff; 32]] {
        let public = *BoxKey::from_secret(secret.into()).public().as_bytes();
        assert_eq!(x25519(secret, nine), Ok(public));
    }
}
