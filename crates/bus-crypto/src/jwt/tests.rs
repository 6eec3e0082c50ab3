//! Rules of tokens: strict reading, trust, time.

mod chain;
mod exchange;
mod questions;

use data_encoding::BASE64URL_NOPAD;

use super::{
    AccountClaims, AccountSigner, Permissions, SigningScope, TOKEN_BYTES_MAX, UserClaims,
    UserLimits, decode_account, decode_user, encode_account, encode_user, inspect,
};
use crate::{CryptoError, NkeyKind, PublicKey, SigningKey};

const NOW: i64 = 1_800_000_000;
const HEADER: &str = r#"{"typ":"JWT","alg":"ed25519-nkey"}"#;

fn key(kind: NkeyKind, seed: u8) -> SigningKey {
    SigningKey::from_seed(kind, [seed; 32].into()).unwrap()
}

fn account() -> SigningKey {
    key(NkeyKind::Account, 1)
}

fn user() -> PublicKey {
    *key(NkeyKind::User, 2).public()
}

fn claims() -> UserClaims {
    UserClaims::new("agent", user(), *account().public(), NOW)
}

/// Signs whatever it is given, as a careless or hostile issuer would.
fn sign(header: &str, payload: &str, covers_header: bool) -> String {
    let body = BASE64URL_NOPAD.encode(payload.as_bytes());
    let token = format!("{}.{body}", BASE64URL_NOPAD.encode(header.as_bytes()));
    let covered = if covers_header { &token } else { &body };
    let signature = account().sign(covered.as_bytes());
    format!("{token}.{}", BASE64URL_NOPAD.encode(&signature))
}

fn payload(nats: &str) -> String {
    format!(r#"{{"iat":1,"iss":"{}","sub":"{}","nats":{nats}}}"#, account().public(), user())
}

const USER: &str = r#"{"type":"user","version":2}"#;

fn is_malformed<T>(read: Result<T, CryptoError>) -> bool {
    matches!(read, Err(CryptoError::BadJwt(_)))
}

#[test]
fn the_smallest_sound_token_is_read() {
    let read = decode_user(&sign(HEADER, &payload(USER), true)).unwrap();
    assert_eq!(read.subject, user());
}

#[test]
fn a_member_given_twice_is_refused_at_every_depth() {
    let twice = payload(USER).replace(r#""iat":1"#, r#""iat":1,"iat":1"#);
    assert!(is_malformed(inspect(&sign(HEADER, &twice, true))));
    for nats in [
        r#"{"type":"user","version":2,"version":2}"#,
        r#"{"type":"user","version":2,"pub":{"allow":["a"],"\u0061llow":["b"]}}"#,
        r#"{"type":"user","version":2,"unknown":[{"x":1,"x":2}]}"#,
    ] {
        assert!(is_malformed(decode_user(&sign(HEADER, &payload(nats), true))), "{nats}");
    }
    for header in [
        r#"{"typ":"JWT","alg":"none","alg":"ed25519-nkey"}"#,
        r#"{"typ":"JWT","alg":"ed25519-nkey","x":1,"x":2}"#,
    ] {
        assert!(is_malformed(inspect(&sign(header, &payload(USER), true))), "{header}");
    }
}

#[test]
fn bytes_after_the_claims_are_refused() {
    let payload = payload(USER) + "{}";
    assert!(is_malformed(inspect(&sign(HEADER, &payload, true))));
}

#[test]
fn other_algorithms_are_refused() {
    for algorithm in ["none", "HS256", "EdDSA", "ED25519-NKEY", ""] {
        let header = format!(r#"{{"typ":"JWT","alg":"{algorithm}"}}"#);
        assert!(is_malformed(inspect(&sign(&header, &payload(USER), true))), "{algorithm}");
    }
}

#[test]
fn the_first_generations_signature_does_not_carry_claims_of_the_second() {
    let header = r#"{"typ":"jwt","alg":"ed25519"}"#;
    assert!(is_malformed(inspect(&sign(header, &payload(USER), false))));
    assert_eq!(inspect(&sign(HEADER, &payload(USER), false)), Err(CryptoError::BadSignature));
}

#[test]
fn two_spellings_of_one_signature_are_not_both_read() {
    let token = encode_user(&claims(), &account()).unwrap();
    // 64 bytes leave four unused bits in the last character: only zero is canonical.
    let (start, last) = token.split_at(token.len() - 1);
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let place = alphabet.find(last).unwrap();
    let other = format!("{start}{}", &alphabet[place + 1..place + 2]);
    assert!(decode_user(&token).is_ok());
    assert!(is_malformed(decode_user(&other)));
}

#[test]
fn a_token_over_64_kib_is_refused_unread_and_not_written() {
    let long = "x".repeat(TOKEN_BYTES_MAX + 1);
    assert_eq!(inspect(&long), Err(CryptoError::BadJwt("longer than 64 KiB")));

    let mut claims = claims();
    claims.name = long;
    let wanted = Err(CryptoError::BadJwt("longer than 64 KiB"));
    assert_eq!(encode_user(&claims, &account()), wanted);
}

#[test]
fn deep_nesting_is_refused_and_does_not_overflow() {
    let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
    let nats = format!(r#"{{"type":"user","version":2,"x":{deep}}}"#);
    assert!(is_malformed(inspect(&sign(HEADER, &payload(&nats), true))));
}

#[test]
fn claims_of_another_kind_are_not_a_user() {
    let claims = AccountClaims::new("w", *account().public(), *account().public(), NOW);
    let token = encode_account(&claims, &account()).unwrap();
    assert_eq!(decode_user(&token), Err(CryptoError::BadJwt("claims of another kind")));
}

#[test]
fn every_flipped_character_is_refused() {
    let token = encode_user(&claims(), &account()).unwrap();
    for at in 0..token.len() {
        let mut bytes = token.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(bytes).unwrap();
        assert!(decode_user(&changed).is_err(), "character {at}");
    }
}

#[test]
fn only_the_issuer_can_sign() {
    let wanted = Err(CryptoError::BadJwt("the issuer is not the signer"));
    assert_eq!(encode_user(&claims(), &key(NkeyKind::Account, 9)), wanted);
}

#[test]
fn times_are_closed_at_the_start_and_open_at_the_end() {
    let mut claims = claims();
    claims.not_before_unix_s = Some(NOW);
    claims.expires_unix_s = Some(NOW + 10);
    let late = Err(CryptoError::NotTrusted("expired"));
    assert_eq!(claims.verify_at(NOW - 1), Err(CryptoError::NotTrusted("not yet valid")));
    assert_eq!(claims.verify_at(NOW), Ok(()));
    assert_eq!(claims.verify_at(NOW + 9), Ok(()));
    assert_eq!(claims.verify_at(NOW + 10), late);
}

#[test]
fn nobody_joins_an_account_by_naming_it() {
    let stranger = key(NkeyKind::Account, 9);
    let mut forged = UserClaims::new("agent", user(), *stranger.public(), NOW);
    forged.issuer_account = Some(*account().public());
    let token = encode_user(&forged, &stranger).unwrap();

    let read = decode_user(&token).unwrap();

    let wanted = Err(CryptoError::NotTrusted("issued by another account"));
    assert_eq!(read.issued_by(account().public()), wanted);
    let ours = AccountClaims::new("w", *account().public(), *account().public(), NOW);
    assert_eq!(ours.check_user(&read), wanted);
}

#[test]
fn an_account_key_that_signs_for_another_account_is_not_believed() {
    let mut foreign = claims();
    foreign.issuer_account = Some(*key(NkeyKind::Account, 9).public());
    let wanted = Err(CryptoError::NotTrusted("issued by another account"));
    assert_eq!(foreign.issued_by(account().public()), wanted);

    foreign.issuer_account = Some(*account().public());
    assert_eq!(foreign.issued_by(account().public()), Ok(()));
}

#[test]
fn an_account_cannot_sign_another_account() {
    let other = *key(NkeyKind::Account, 9).public();
    let claims = AccountClaims::new("w", other, *account().public(), NOW);
    assert!(is_malformed(encode_account(&claims, &account())));
}

fn with_scope() -> (AccountClaims, SigningKey) {
    let signer = key(NkeyKind::Account, 5);
    let mut ours = AccountClaims::new("w", *account().public(), *account().public(), NOW);
    let mut permissions = Permissions::default();
    permissions.publish.allow = vec!["vak.events.w.>".to_owned()];
    let scope = SigningScope {
        role: "worker".to_owned(),
        description: Some("runs tasks".to_owned()),
        permissions,
        limits: UserLimits::default(),
        connection_types: Vec::new(),
    };
    ours.signing_keys.push(AccountSigner { key: *signer.public(), scope: Some(scope) });
    (ours, signer)
}

fn scoped_user(signer: &SigningKey) -> UserClaims {
    let mut scoped = UserClaims::new("agent", user(), *signer.public(), NOW);
    scoped.issuer_account = Some(*account().public());
    scoped.limits.subscriptions_max = 0;
    scoped.limits.data_bytes_max = 0;
    scoped.limits.payload_bytes_max = 0;
    scoped
}

#[test]
fn scoped_signing_keys_read_back_as_written() {
    let (ours, _) = with_scope();
    let token = encode_account(&ours, &account()).unwrap();
    let mut read = decode_account(&token).unwrap();
    read.jti = String::new();
    assert_eq!(read, ours);
}

#[test]
fn a_user_of_a_scoped_key_has_no_rights_of_its_own() {
    let (ours, signer) = with_scope();
    let mut scoped = scoped_user(&signer);
    assert_eq!(ours.check_user(&scoped), Ok(()));

    scoped.permissions.publish.allow = vec![">".to_owned()];

    let wanted = Err(CryptoError::NotTrusted("a scoped key cannot give other rights"));
    assert_eq!(ours.check_user(&scoped), wanted);
}

#[test]
fn a_signing_key_must_name_its_account() {
    let (ours, signer) = with_scope();
    let mut scoped = scoped_user(&signer);
    scoped.issuer_account = None;
    let wanted = Err(CryptoError::NotTrusted("a signing key signed for another account"));
    assert_eq!(ours.check_user(&scoped), wanted);
}

#[test]
fn a_revoked_user_comes_back_only_with_a_later_token() {
    let mut ours = AccountClaims::new("w", *account().public(), *account().public(), NOW);
    for revoked in [user().text(), "*".to_owned()] {
        ours.revocations = [(revoked, NOW)].into();
        let mut agent = claims();
        assert_eq!(ours.check_user(&agent), Err(CryptoError::NotTrusted("revoked")));
        agent.issued_at_unix_s = NOW + 1;
        assert_eq!(ours.check_user(&agent), Ok(()));
    }
}

#[test]
fn members_of_an_account_that_are_not_shown_are_kept() {
    let mappings = r#"{"a":[{"subject":"vak.events.\u003e","weight":100}]}"#;
    let nats = format!(r#"{{"mappings":{mappings},"type":"account","version":2}}"#);
    let payload = payload(&nats).replace(&user().text(), &account().public().text());
    let read = decode_account(&sign(HEADER, &payload, true)).unwrap();

    let again = encode_account(&read, &account()).unwrap();

    let body = again.split('.').nth(1).unwrap();
    let body = String::from_utf8(BASE64URL_NOPAD.decode(body.as_bytes()).unwrap()).unwrap();
    assert!(body.contains(mappings), "{body}");
}
