//! When a certificate is valid, and what a refusal by the cryptography means to a caller.
#![expect(clippy::unwrap_used, reason = "what is arranged here must succeed")]

use bus_core::{Certificate, Error, ErrorKind};
use bus_crypto::jwt::{UserClaims, encode_user};
use bus_crypto::{CryptoError, NkeyKind, SigningKey};
use bus_envelope::Timestamp;

const ISSUED_UNIX_S: i64 = 1_800_000_000;

fn claims(account: &SigningKey) -> UserClaims {
    let user = SigningKey::from_seed(NkeyKind::User, [2; 32].into()).unwrap();
    let mut claims = UserClaims::new("coder-1", *user.public(), *account.public(), ISSUED_UNIX_S);
    claims.tags = vec!["workspace:acme".to_owned(), "role:worker".to_owned()];
    claims
}

/// A certificate that is issued and begins at these times.
fn certificate(not_before_unix_s: Option<i64>) -> Certificate {
    let account = SigningKey::from_seed(NkeyKind::Account, [1; 32].into()).unwrap();
    let mut claims = claims(&account);
    claims.not_before_unix_s = not_before_unix_s;
    Certificate::parse(&encode_user(&claims, &account).unwrap()).unwrap()
}

fn is_valid_at(certificate: &Certificate, unix_s: i64) -> bool {
    certificate.is_valid_at(Timestamp::from_unix_ns(i128::from(unix_s) * 1_000_000_000))
}

#[test]
fn a_certificate_is_not_valid_before_its_not_before() {
    let certificate = certificate(Some(ISSUED_UNIX_S + 60));
    assert!(!is_valid_at(&certificate, ISSUED_UNIX_S + 59));
    assert!(is_valid_at(&certificate, ISSUED_UNIX_S + 60));
}

#[test]
fn a_certificate_is_not_valid_before_it_was_issued() {
    for not_before in [None, Some(ISSUED_UNIX_S - 60)] {
        let certificate = certificate(not_before);
        assert!(!is_valid_at(&certificate, ISSUED_UNIX_S - 1), "{not_before:?}");
        assert!(is_valid_at(&certificate, ISSUED_UNIX_S), "{not_before:?}");
    }
}

#[test]
fn tags_are_compared_as_they_are_written() {
    let account = SigningKey::from_seed(NkeyKind::Account, [1; 32].into()).unwrap();
    let mut claims = claims(&account);
    claims.tags = vec!["workspace:Acme".to_owned(), "role:worker".to_owned()];
    let certificate = Certificate::parse(&encode_user(&claims, &account).unwrap()).unwrap();
    assert_eq!(certificate.workspace.as_str(), "Acme");
}

#[test]
fn a_refusal_by_the_cryptography_has_the_kind_a_caller_can_act_on() {
    let key_id = || "acme.k1.life".to_owned();
    let kinds = [
        (CryptoError::NotTrusted("expired"), ErrorKind::Denied),
        (CryptoError::KeyringFull { keys_max: 1 }, ErrorKind::Full),
        (CryptoError::KeyExhausted { key_id: key_id() }, ErrorKind::Exhausted),
        (CryptoError::UnknownKey { key_id: key_id() }, ErrorKind::UnknownKey),
        (CryptoError::WithdrawnKey { key_id: key_id() }, ErrorKind::UnknownKey),
        (CryptoError::DecryptionFailed, ErrorKind::Corrupt),
        (CryptoError::BadSignature, ErrorKind::Corrupt),
        (CryptoError::ZeroSharedSecret, ErrorKind::Corrupt),
        (CryptoError::Entropy, ErrorKind::Unavailable),
        (CryptoError::BadKeyId, ErrorKind::Invalid),
    ];
    for (error, kind) in kinds {
        assert_eq!(Error::from(error.clone()).kind(), kind, "{error}");
    }
}
