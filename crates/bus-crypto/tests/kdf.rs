//! HKDF-SHA256 against the answers of RFC 5869 and Wycheproof, and the HMAC it is made of against
//! RFC 4231 and Wycheproof.
#![expect(clippy::unwrap_used, reason = "a damaged vector file must fail the test")]

use bus_crypto::{CryptoError, hkdf_sha256};
use bus_testdata::{hex, json};
use ring::hmac;
use serde_json::Value;

fn derive(test: &Value, length: &str) -> Result<Vec<u8>, CryptoError> {
    let bytes = |name: &str| hex(test[name].as_str().unwrap());
    let mut out = vec![0; usize::try_from(test[length].as_u64().unwrap()).unwrap()];
    hkdf_sha256(&bytes("ikm"), &bytes("salt"), &[&bytes("info")], &mut out)?;
    Ok(out)
}

#[test]
fn rfc_5869() {
    let Some(file) = json("rfc/hkdf_sha256.json") else { return };
    let mut walked = 0;
    for test in file["cases"].as_array().unwrap() {
        assert_eq!(
            derive(test, "length"),
            Ok(hex(test["okm"].as_str().unwrap())),
            "{}",
            test["id"]
        );
        walked += 1;
    }
    assert_eq!(walked, 4);
}

#[test]
fn wycheproof() {
    let Some(file) = json("wycheproof/hkdf_sha256_test.json") else { return };
    let mut walked = 0;
    for test in
        file["testGroups"].as_array().unwrap().iter().flat_map(|g| g["tests"].as_array().unwrap())
    {
        let wanted = match test["result"].as_str().unwrap() {
            "valid" => Ok(hex(test["okm"].as_str().unwrap())),
            _ => Err(CryptoError::DerivationTooLong { bytes_max: 8160 }),
        };
        assert_eq!(derive(test, "size"), wanted, "{}", test["tcId"]);
        walked += 1;
    }
    assert_eq!(walked, 86);
}

#[test]
fn info_is_the_concatenation_of_its_parts() {
    let derive = |info: &[&[u8]]| {
        let mut out = [0; 32];
        hkdf_sha256(b"secret", b"salt", info, &mut out).map(|()| out)
    };
    assert_eq!(derive(&[b"ab", b"c"]), derive(&[b"abc"]));
}

/// The code that HKDF runs on, in the library that HKDF is taken from.
fn hmac_sha256(test: &Value) -> hmac::Tag {
    let bytes = |name: &str| hex(test[name].as_str().unwrap());
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &bytes("key")), &bytes("msg"))
}

#[test]
fn hmac_of_rfc_4231() {
    let Some(file) = json("rfc/hmac_sha256.json") else { return };
    let mut walked = 0;
    for test in file["cases"].as_array().unwrap() {
        let wanted = hex(test["mac"].as_str().unwrap());
        assert_eq!(hmac_sha256(test).as_ref(), wanted, "{}", test["id"]);
        walked += 1;
    }
    assert_eq!(walked, 6);
}

#[test]
fn hmac_of_wycheproof() {
    let Some(file) = json("wycheproof/hmac_sha256_test.json") else { return };
    let mut walked = 0;
    for test in
        file["testGroups"].as_array().unwrap().iter().flat_map(|g| g["tests"].as_array().unwrap())
    {
        // Half of the tags are cut off after 16 bytes.
        let is_tag = hmac_sha256(test).as_ref().starts_with(&hex(test["tag"].as_str().unwrap()));
        assert_eq!(is_tag, test["result"] == "valid", "{}", test["tcId"]);
        walked += 1;
    }
    assert_eq!(walked, 174);
}
