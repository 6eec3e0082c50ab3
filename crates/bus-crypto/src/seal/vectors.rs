//! Known answers of others for both ciphers; here, because they need to choose the nonce.

use bus_testdata::{hex, json};
use serde_json::Value;

use super::{Algorithm, OpenKey, SealKey};
use crate::{CryptoError, derive_key};

struct Case {
    id: String,
    algorithm: Algorithm,
    key: [u8; 32],
    nonce: [u8; 12],
    aad: Vec<u8>,
    plaintext: Vec<u8>,
    sealed: Vec<u8>,
}

impl Case {
    fn open(&self) -> Result<Vec<u8>, CryptoError> {
        let mut data = self.sealed.clone();
        let key = OpenKey::new(self.algorithm, "vector", &self.key).unwrap();
        let opened = key.open_in_place(&self.nonce, &self.aad, &mut data);
        assert!(opened.is_ok() || data.is_empty(), "{} left data behind", self.id);
        opened.map(|()| data)
    }

    fn seal(&self) -> Vec<u8> {
        let mut data = self.plaintext.clone();
        let key = SealKey::new(self.algorithm, "vector", &self.key).unwrap();
        key.seal_with_nonce(self.nonce, &self.aad, &mut data).unwrap();
        data
    }

    fn check_valid(&self) {
        assert_eq!(self.open().as_ref(), Ok(&self.plaintext), "{} opens", self.id);
        assert_eq!(self.seal(), self.sealed, "{} seals", self.id);
    }

    fn check_refused(&self) {
        assert_eq!(self.open(), Err(CryptoError::DecryptionFailed), "{}", self.id);
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("{name} is missing in {value}"))
}

fn bytes(value: &Value, name: &str) -> Vec<u8> {
    hex(text(value, name))
}

fn array<const N: usize>(value: &Value, name: &str) -> [u8; N] {
    bytes(value, name).try_into().unwrap()
}

fn cases(file: &Value) -> &[Value] {
    file["cases"].as_array().unwrap()
}

fn wycheproof_case(test: &Value, algorithm: Algorithm) -> Case {
    Case {
        id: test["tcId"].to_string(),
        algorithm,
        key: array(test, "key"),
        nonce: array(test, "iv"),
        aad: bytes(test, "aad"),
        plaintext: bytes(test, "msg"),
        sealed: [bytes(test, "ct"), bytes(test, "tag")].concat(),
    }
}

/// Walks the groups that the cipher can run; returns (walked, of another key or nonce size).
fn walk_wycheproof(file: &Value, algorithm: Algorithm) -> (usize, usize) {
    let (mut walked, mut other_sizes) = (0, 0);
    for group in file["testGroups"].as_array().unwrap() {
        let tests = group["tests"].as_array().unwrap();
        if group["keySize"] != 256 || group["ivSize"] != 96 || group["tagSize"] != 128 {
            // The API takes [u8; 32] and [u8; 12]: such a key or nonce cannot be handed in.
            let fits =
                |test: &&Value| bytes(test, "key").len() == 32 && bytes(test, "iv").len() == 12;
            assert_eq!(tests.iter().filter(fits).count(), 0);
            other_sizes += tests.len();
            continue;
        }
        for test in tests {
            let case = wycheproof_case(test, algorithm);
            match text(test, "result") {
                "valid" => case.check_valid(),
                _ => case.check_refused(),
            }
            walked += 1;
        }
    }
    (walked, other_sizes)
}

#[test]
fn wycheproof_aes_256_gcm() {
    let Some(file) = json("wycheproof/aes_gcm_test.json") else { return };
    assert_eq!(walk_wycheproof(&file, Algorithm::Aes256Gcm), (66, 250));
}

#[test]
fn wycheproof_chacha20_poly1305() {
    let Some(file) = json("wycheproof/chacha20_poly1305_test.json") else { return };
    assert_eq!(walk_wycheproof(&file, Algorithm::ChaCha20Poly1305), (316, 9));
}

#[test]
fn nist_aes_256_gcm() {
    let mut walked = 0;
    for file in ["decrypt", "encrypt"] {
        let Some(file) = json(&format!("nist-cavp/aes256gcm_{file}_iv96_tag128.json")) else {
            return;
        };
        for test in cases(&file) {
            let is_valid = text(test, "result") == "valid";
            let case = Case {
                id: text(test, "id").to_owned(),
                algorithm: Algorithm::Aes256Gcm,
                key: array(test, "key"),
                nonce: array(test, "nonce"),
                aad: bytes(test, "aad"),
                plaintext: if is_valid { bytes(test, "pt") } else { Vec::new() },
                sealed: [bytes(test, "ct"), bytes(test, "tag")].concat(),
            };
            if is_valid {
                case.check_valid();
            } else {
                case.check_refused();
            }
            walked += 1;
        }
    }
    assert_eq!(walked, 750);
}

#[test]
fn profile_keys_are_derived_as_documented() {
    let Some(file) = json("profile-seed000/hkdf_keys.json") else { return };
    let mut walked = 0;
    for test in cases(&file) {
        let key = derive_key(&bytes(test, "secret"), text(test, "key_id")).unwrap();
        assert_eq!(key[..], bytes(test, "key"), "{}", text(test, "id"));
        walked += 1;
    }
    assert_eq!(walked, 24);
}

fn profile_case(test: &Value) -> Case {
    Case {
        id: text(test, "id").to_owned(),
        algorithm: Algorithm::Aes256Gcm,
        key: array(test, "key"),
        nonce: array(test, "nonce"),
        aad: profile_aad(&test["envelope"]).into_bytes(),
        plaintext: bytes(test, "plaintext"),
        sealed: bytes(test, "ciphertext_and_tag"),
    }
}

/// The associated data of the profile's plain form: `{id}:{type}:{ws}:{seq}` (S0.52).
fn profile_aad(envelope: &Value) -> String {
    let [id, kind, ws] = ["id", "type", "ws"].map(|name| text(envelope, name));
    format!("{id}:{kind}:{ws}:{}", envelope["seq"])
}

#[test]
fn profile_envelopes_seal_byte_for_byte() {
    let Some(file) = json("profile-seed000/aes_gcm_envelopes.json") else { return };
    let mut walked = 0;
    for test in cases(&file) {
        let case = profile_case(test);
        assert_eq!(case.aad, text(test, "aad_utf8").as_bytes(), "{}", case.id);
        case.check_valid();
        walked += 1;
    }
    assert_eq!(walked, 25);
}

#[test]
fn profile_envelopes_do_not_open_after_any_change() {
    let Some(file) = json("profile-seed000/aes_gcm_envelopes.json") else { return };
    let mut walked = 0;
    for test in cases(&file) {
        for field in ["id", "type", "ws"] {
            let mut changed = test.clone();
            changed["envelope"][field] = format!("{}x", text(&test["envelope"], field)).into();
            profile_case(&changed).check_refused();
        }
        let mut changed = test.clone();
        changed["envelope"]["seq"] = (test["envelope"]["seq"].as_u64().unwrap() ^ 1).into();
        profile_case(&changed).check_refused();

        for at in [0, bytes(test, "ciphertext_and_tag").len() - 1] {
            let mut case = profile_case(test);
            case.sealed[at] ^= 0x80;
            case.check_refused();
        }
        let mut case = profile_case(test);
        case.nonce[11] ^= 1;
        case.check_refused();
        let mut case = profile_case(test);
        case.key[0] ^= 1;
        case.check_refused();
        walked += 1;
    }
    assert_eq!(walked, 25);
}
