//! When a certificate is valid, and what a refusal by the cryptography means to a caller.
#![expect(clippy::unwrap_used, reason = "what is arranged here must succeed")]

use bus_core::{Certificate, Error, ErrorKind, Issue, certify};
use bus_crypto::jwt::{Permissions, UserClaims, decode_user, encode_user};
use bus_crypto::{CryptoError, NkeyKind, SigningKey};
use bus_envelope::Timestamp;
use bus_subjects::{Filter, Role, Subject};

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
fn a_certificate_with_a_servers_permissions_lets_in_programs_alone() {
    let account = SigningKey::from_seed(NkeyKind::Account, [1; 32].into()).unwrap();
    let user = SigningKey::from_seed(NkeyKind::User, [2; 32].into()).unwrap();
    let (workspace, agent) = ("acme".parse().unwrap(), "coder-1".parse().unwrap());
    let now = Timestamp::from_unix_ns(i128::from(ISSUED_UNIX_S) * 1_000_000_000);
    let mut issue = Issue::new(workspace, agent, vec![Role::Worker], now);
    let mut permissions = Permissions::default();
    permissions.publish.allow = vec!["vak.receipts.acme.s1.completed".to_owned()];
    issue.permissions = Some(permissions.clone());
    let token = certify(&account, user.public(), &issue).unwrap();
    let claims = decode_user(&token).unwrap();
    assert_eq!((claims.permissions, claims.is_bearer), (permissions, false));
    assert_eq!(claims.connection_types, ["STANDARD"]);
    assert_eq!(Certificate::parse(&token).unwrap().policy(), issue.policy());
}

/// What is made of a certificate of `ann`, a worker of `acme`, with these tags besides.
fn bound(tags: &[&str]) -> Result<Certificate, Error> {
    let account = SigningKey::from_seed(NkeyKind::Account, [1; 32].into()).unwrap();
    let mut claims = claims(&account);
    claims.tags.extend(tags.iter().map(|tag| (*tag).to_owned()));
    Certificate::parse(&encode_user(&claims, &account).unwrap())
}

#[test]
fn a_certificate_says_which_session_and_queue_its_rights_are_bound_to() {
    let account = SigningKey::from_seed(NkeyKind::Account, [1; 32].into()).unwrap();
    let user = SigningKey::from_seed(NkeyKind::User, [2; 32].into()).unwrap();
    let (workspace, agent) = ("acme".parse().unwrap(), "coder-1".parse().unwrap());
    let now = Timestamp::from_unix_ns(i128::from(ISSUED_UNIX_S) * 1_000_000_000);
    let mut issue = Issue::new(workspace, agent, vec![Role::Worker], now);
    (issue.session, issue.role_name) =
        (Some("s1".parse().unwrap()), Some("coder".parse().unwrap()));
    let read = Certificate::parse(&certify(&account, user.public(), &issue).unwrap()).unwrap();
    assert_eq!((&read.session, &read.queue), (&issue.session, &issue.role_name));
    assert_eq!(read.policy(), issue.policy());
    let [own, other] = ["s1", "s2"]
        .map(|session| Subject::parse(&format!("vak.receipts.acme.{session}.completed")).unwrap());
    assert!(read.policy().can_publish(&own) && !read.policy().can_publish(&other));
    let [own, other] = ["coder", "judge"]
        .map(|queue| Filter::parse(&format!("vak.work.acme.{queue}.task")).unwrap());
    assert!(read.policy().can_subscribe(&own) && !read.policy().can_subscribe(&other));
}

#[test]
fn a_certificate_that_is_bound_to_nothing_is_for_the_whole_workspace() {
    let read = bound(&[]).unwrap();
    assert_eq!((&read.session, &read.queue), (&None, &None));
    for queue in ["coder", "judge"] {
        let tasks = Filter::parse(&format!("vak.work.acme.{queue}.task")).unwrap();
        assert!(read.policy().can_subscribe(&tasks));
    }
}

#[test]
fn what_a_certificate_is_bound_to_cannot_be_asked_away() {
    let read = bound(&["session:s1", "queue:coder"]).unwrap();
    let (session, queue) = ("s2".parse().unwrap(), "judge".parse().unwrap());
    assert_eq!(read.policy_for(Some(&session), Some(&queue)), read.policy());
    assert_eq!(
        bound(&["session:s1"]).unwrap().policy_for(None, read.queue.as_ref()),
        read.policy()
    );
}

#[test]
fn a_certificate_that_says_its_bounds_twice_or_wrongly_is_refused() {
    let damaged: &[&[&str]] = &[
        &["session:s1", "session:s2"],
        &["session:s1", "session:s1"],
        &["queue:coder", "queue:judge"],
        &["queue:coder", "queue:coder"],
        &["session:"],
        &["queue:"],
        &["session"],
        &["session:*"],
        &["queue:>"],
        &["queue:coder.task"],
        &["queue: coder"],
        &["Queue:coder"],
    ];
    for tags in damaged {
        let refused = bound(tags).map_err(|error| error.kind());
        assert_eq!(refused.err(), Some(ErrorKind::Invalid), "{tags:?}");
    }
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
