//! Secrets, keys, seals and signatures against the golden vectors.
#![expect(clippy::unwrap_used, reason = "a damaged vector file must fail the test")]
#![expect(clippy::panic, reason = "a damaged vector file must fail the test")]

use bus_crypto::{
    Algorithm, CryptoError, Entropy, KeyId, Keyring, NkeyKind, OpenKey, PublicKey, SealKey,
    SigningKey, SystemEntropy, WorkspaceSecret, Zeroizing, derive_key,
};
use bus_testdata::hex;
use data_encoding::{BASE64, HEXLOWER};
use serde_json::{Value, json};

#[path = "../../../docs/spec/vectors/golden.rs"]
mod golden;

#[test]
fn keys_are_as_the_specification_says() {
    golden::check("keys.json", 45, |case| keys(case).unwrap_or_else(|error| refused(&error)));
}

#[test]
fn seals_are_as_the_specification_says() {
    golden::check("seals.json", 25, |case| seals(case).unwrap_or_else(|error| refused(&error)));
}

fn keys(case: &Value) -> Result<Value, CryptoError> {
    let text = |name: &str| case[name].as_str().unwrap_or_else(|| panic!("no {name} in {case}"));
    Ok(match text("do") {
        "secret" => HEXLOWER.encode(&secret_bytes(text("text"))?).into(),
        "derive" => derive(text("secret"), text("key_id"))?,
        "nkey" => {
            let key =
                SigningKey::from_seed(kind(text("kind")), Zeroizing::new(array(case, "seed")))?;
            let seed_text = key.seed_text();
            assert_eq!(SigningKey::from_seed_text(&seed_text)?.public(), key.public());
            json!({
                "public": HEXLOWER.encode(key.public().as_bytes()),
                "public_text": key.public().text(),
                "seed_text": seed_text.as_str(),
            })
        }
        "read-nkey" => {
            let key = PublicKey::parse(text("text"))?;
            json!({ "kind": kind_name(key.kind()), "public": HEXLOWER.encode(key.as_bytes()) })
        }
        "sign" => {
            let key = SigningKey::from_seed(NkeyKind::User, Zeroizing::new(array(case, "seed")))?;
            HEXLOWER.encode(&key.sign(&hex(text("message")))).into()
        }
        "verify" => {
            let key = PublicKey::from_bytes(NkeyKind::User, array(case, "public"));
            let signature = array(case, "signature");
            key.verify(&hex(text("message")), &signature).is_ok().into()
        }
        other => panic!("nobody knows how to {other}"),
    })
}

/// The bytes of a secret, which it writes itself in base64.
fn secret_bytes(text: &str) -> Result<Vec<u8>, CryptoError> {
    let written = WorkspaceSecret::from_text(text)?.to_text();
    Ok(BASE64.decode(written.strip_prefix("base64:").unwrap().as_bytes()).unwrap())
}

/// Derives the key, and shows by a seal that the key ring derives the same one.
fn derive(secret: &str, key_id: &str) -> Result<Value, CryptoError> {
    let parts = KeyId::parse(key_id)?;
    let key = derive_key(&secret_bytes(secret)?, key_id)?;
    let keyring = Keyring::new();
    keyring.add_secret(parts.workspace(), parts.name(), WorkspaceSecret::from_text(secret)?)?;
    let mut data = b"data".to_vec();
    let sealing = keyring.sealing_key(parts.workspace(), parts.incarnation())?;
    let nonce = sealing.seal_in_place(&SystemEntropy::new(), b"", &mut data)?;
    let opening = OpenKey::new(Algorithm::Aes256Gcm, sealing.key_id(), &key)?;
    opening.open_in_place(&nonce, b"", &mut data)?;
    Ok(HEXLOWER.encode(&key[..]).into())
}

fn seals(case: &Value) -> Result<Value, CryptoError> {
    let text = |name: &str| case[name].as_str().unwrap_or_else(|| panic!("no {name} in {case}"));
    let algorithm = Algorithm::parse(text("algorithm"))?;
    let (key, nonce, aad) = (array(case, "key"), array(case, "nonce"), hex(text("aad")));
    let opening = OpenKey::new(algorithm, "vector", &key)?;
    if text("do") == "open" {
        let mut data = hex(text("sealed"));
        opening.open_in_place(&nonce, &aad, &mut data)?;
        return Ok(HEXLOWER.encode(&data).into());
    }
    let mut data = hex(text("plain"));
    let sealing = SealKey::new(algorithm, "vector", &key)?;
    assert_eq!(sealing.seal_in_place(&Given(nonce), &aad, &mut data)?, nonce);
    let sealed = HEXLOWER.encode(&data).into();
    opening.open_in_place(&nonce, &aad, &mut data)?;
    assert_eq!(HEXLOWER.encode(&data), text("plain"));
    Ok(sealed)
}

/// No randomness: the nonce that the vector names.
struct Given([u8; 12]);

impl Entropy for Given {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), CryptoError> {
        bytes.copy_from_slice(&self.0);
        Ok(())
    }
}

fn array<const N: usize>(case: &Value, name: &str) -> [u8; N] {
    hex(case[name].as_str().unwrap()).try_into().unwrap()
}

const KINDS: [(&str, NkeyKind); 6] = [
    ("operator", NkeyKind::Operator),
    ("account", NkeyKind::Account),
    ("user", NkeyKind::User),
    ("server", NkeyKind::Server),
    ("cluster", NkeyKind::Cluster),
    ("curve", NkeyKind::Curve),
];

fn kind(name: &str) -> NkeyKind {
    KINDS.into_iter().find(|(known, _)| *known == name).unwrap().1
}

fn kind_name(kind: NkeyKind) -> &'static str {
    KINDS.into_iter().find(|(_, known)| *known == kind).unwrap().0
}

fn refused(error: &CryptoError) -> Value {
    let reason = match error {
        CryptoError::BadSecretText(_) => "bad-secret-text",
        CryptoError::SecretTooShort { .. } => "secret-too-short",
        CryptoError::BadKeyId => "bad-key-id",
        CryptoError::BadNkey(_) => "bad-nkey",
        CryptoError::DecryptionFailed => "decryption-failed",
        CryptoError::UnknownAlgorithm => "unknown-algorithm",
        other => panic!("no vector expects {other}"),
    };
    json!({ "refused": reason })
}
