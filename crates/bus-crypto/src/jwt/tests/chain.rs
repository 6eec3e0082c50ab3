//! Rules of operators and of auth callout: who may speak about whom.

use data_encoding::BASE64URL_NOPAD;

use super::super::{
    AccountClaims, AuthResponse, OperatorClaims, decode_account, decode_auth_request,
    decode_auth_response, decode_operator, encode_account, encode_auth_response, encode_operator,
    inspect,
};
use super::{HEADER, NOW, account, is_malformed, key, user};
use crate::{CryptoError, NkeyKind, SigningKey};

fn operator() -> SigningKey {
    key(NkeyKind::Operator, 11)
}

fn operator_signer() -> SigningKey {
    key(NkeyKind::Operator, 12)
}

fn server() -> SigningKey {
    key(NkeyKind::Server, 13)
}

fn sign_as(signer: &SigningKey, payload: &str) -> String {
    let header = BASE64URL_NOPAD.encode(HEADER.as_bytes());
    let token = format!("{header}.{}", BASE64URL_NOPAD.encode(payload.as_bytes()));
    let signature = signer.sign(token.as_bytes());
    format!("{token}.{}", BASE64URL_NOPAD.encode(&signature))
}

fn account_by(issuer: &SigningKey) -> AccountClaims {
    let claims = AccountClaims::new("w", *account().public(), *issuer.public(), NOW);
    decode_account(&encode_account(&claims, issuer).unwrap()).unwrap()
}

#[test]
fn an_operator_reads_back_as_written() {
    let mut claims = OperatorClaims::new("op", *operator().public(), NOW);
    claims.signing_keys = vec![*operator_signer().public()];
    claims.system_account = Some(*account().public());
    claims.service_urls = vec!["nats://localhost:4222".to_owned()];
    claims.requires_signing_keys = true;
    let mut read = decode_operator(&encode_operator(&claims, &operator()).unwrap()).unwrap();
    read.jti = String::new();
    assert_eq!(read, claims);
}

#[test]
fn an_operator_vouches_for_accounts_that_it_or_its_signing_keys_signed() {
    let mut claims = OperatorClaims::new("op", *operator().public(), NOW);
    let wanted = Err(CryptoError::NotTrusted("issued by another operator"));
    assert_eq!(claims.check_account(&account_by(&operator())), Ok(()));
    assert_eq!(claims.check_account(&account_by(&operator_signer())), wanted);
    assert_eq!(claims.check_account(&account_by(&account())), wanted);

    claims.signing_keys = vec![*operator_signer().public()];
    assert_eq!(claims.check_account(&account_by(&operator_signer())), Ok(()));
}

#[test]
fn an_operator_that_requires_signing_keys_does_not_vouch_with_its_own() {
    let mut claims = OperatorClaims::new("op", *operator().public(), NOW);
    claims.signing_keys = vec![*operator_signer().public()];
    claims.requires_signing_keys = true;
    assert!(claims.check_account(&account_by(&operator())).is_err());
    assert_eq!(claims.check_account(&account_by(&operator_signer())), Ok(()));
}

#[test]
fn an_operator_cannot_sign_another_operator() {
    let stranger = operator_signer();
    let mut claims = OperatorClaims::new("op", *operator().public(), NOW);
    claims.issuer = *stranger.public();
    assert!(is_malformed(encode_operator(&claims, &stranger)));

    let nats = r#"{"type":"operator","version":2}"#;
    let payload = format!(
        r#"{{"iat":1,"iss":"{}","sub":"{}","nats":{nats}}}"#,
        stranger.public(),
        operator().public()
    );
    assert!(is_malformed(decode_operator(&sign_as(&stranger, &payload))));
}

#[test]
fn an_account_signed_by_another_account_is_not_read() {
    let stranger = key(NkeyKind::Account, 9);
    let payload = format!(
        r#"{{"iat":1,"iss":"{}","sub":"{}","nats":{{"type":"account","version":2}}}}"#,
        stranger.public(),
        account().public()
    );
    assert!(is_malformed(decode_account(&sign_as(&stranger, &payload))));
}

#[test]
fn claims_about_a_key_of_the_wrong_kind_are_refused() {
    let cases = [
        ("user", account(), *account().public()),
        ("user", server(), user()),
        ("account", account(), user()),
        ("operator", operator(), *account().public()),
        ("authorization_request", account(), user()),
        ("authorization_response", server(), user()),
    ];
    for (kind, signer, subject) in cases {
        let payload = format!(
            r#"{{"iat":1,"iss":"{}","sub":"{subject}","nats":{{"type":"{kind}","version":2}}}}"#,
            signer.public()
        );
        assert!(is_malformed(inspect(&sign_as(&signer, &payload))), "{kind}");
    }
}

fn question(server_id: &str, audience: &str) -> String {
    let payload = format!(
        r#"{{"aud":"{audience}","iat":1,"exp":9,"iss":"{}","sub":"{user}","nats":{{
            "server_id":{{"id":"{server_id}"}},"user_nkey":"{user}",
            "type":"authorization_request","version":2}}}}"#,
        server().public(),
        user = user(),
    );
    sign_as(&server(), &payload)
}

#[test]
fn a_question_is_taken_in_time_only() {
    let token = question(&server().public().text(), "nats-authorization-request");
    let request = decode_auth_request(&token).unwrap();
    assert_eq!(request.user, user());
    assert_eq!(request.verify_at(8), Ok(()));
    assert_eq!(request.verify_at(9), Err(CryptoError::NotTrusted("expired")));
}

#[test]
fn a_server_cannot_ask_in_another_servers_name() {
    let other = key(NkeyKind::Server, 14).public().text();
    assert!(is_malformed(decode_auth_request(&question(&other, "nats-authorization-request"))));
}

#[test]
fn a_question_for_somebody_else_is_refused() {
    let token = question(&server().public().text(), "something-else");
    assert!(is_malformed(decode_auth_request(&token)));
}

fn answer(verdict: Result<String, String>) -> AuthResponse {
    AuthResponse {
        user: user(),
        server: *server().public(),
        issuer: *account().public(),
        issued_at_unix_s: NOW,
        verdict,
        issuer_account: None,
    }
}

#[test]
fn an_answer_reads_back_as_written() {
    for verdict in [Ok("token".to_owned()), Err("not today".to_owned())] {
        let token = encode_auth_response(&answer(verdict.clone()), &account()).unwrap();
        assert_eq!(decode_auth_response(&token), Ok(answer(verdict)));
    }
}

#[test]
fn an_answer_without_content_or_server_is_not_written() {
    assert!(is_malformed(encode_auth_response(&answer(Ok(String::new())), &account())));
    assert!(is_malformed(encode_auth_response(&answer(Err(String::new())), &account())));
    let mut to_nobody = answer(Err("no".to_owned()));
    to_nobody.server = user();
    assert!(is_malformed(encode_auth_response(&to_nobody, &account())));
}
