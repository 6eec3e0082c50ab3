//! Rules of a server's questions and their answers.

use super::*;
use crate::Zeroizing;
use crate::jwt::{
    AuthRequest, AuthResponse, ConnectOptions, decode_auth_request, decode_auth_response,
    encode_auth_request, encode_auth_response,
};

fn server() -> SigningKey {
    key(NkeyKind::Server, 3)
}

fn question() -> AuthRequest {
    AuthRequest {
        server: *server().public(),
        server_name: "hub".to_owned(),
        server_xkey: Some(PublicKey::from_bytes(NkeyKind::Curve, [7; 32])),
        subject: *account().public(),
        user: user(),
        issued_at_unix_s: NOW,
        expires_unix_s: Some(NOW + 2),
        client_host: "127.0.0.1".to_owned(),
        client_id: u64::MAX,
        client_user: user().text(),
        client_name: "viewer".to_owned(),
        client_kind: "Client".to_owned(),
        client_type: "websocket".to_owned(),
        nonce: "n0nce".to_owned(),
        connect: ConnectOptions {
            user: Some("ann".to_owned()),
            password: Some(Zeroizing::new("canary-pass".to_owned())),
            token: None,
            jwt: None,
            nkey: None,
            signature: None,
            name: Some("view".to_owned()),
        },
        jti: String::new(),
    }
}

#[test]
fn a_question_is_read_as_it_was_asked() {
    let asked = question();
    let read = decode_auth_request(&encode_auth_request(&asked, &server()).unwrap()).unwrap();
    assert_eq!(read, AuthRequest { jti: read.jti.clone(), ..asked });
    assert!(read.verify_at(NOW + 1).is_ok());
    assert!(read.verify_at(NOW + 2).is_err());
}

#[test]
fn a_question_signed_by_somebody_else_is_not_asked() {
    let refused = encode_auth_request(&question(), &key(NkeyKind::Server, 4));
    assert!(matches!(refused, Err(CryptoError::BadJwt(_))), "{refused:?}");
}

#[test]
fn a_question_about_no_user_is_not_asked() {
    let asked = AuthRequest { user: *account().public(), ..question() };
    assert!(matches!(encode_auth_request(&asked, &server()), Err(CryptoError::BadJwt(_))));
}

#[test]
fn an_answer_to_a_question_is_read_as_it_was_given() {
    let asked = question();
    for verdict in [Ok("a-token".to_owned()), Err("not today".to_owned())] {
        let answer = AuthResponse {
            user: asked.user,
            server: asked.server,
            issuer: *account().public(),
            issued_at_unix_s: NOW,
            verdict,
            issuer_account: None,
        };
        let token = encode_auth_response(&answer, &account()).unwrap();
        assert_eq!(decode_auth_response(&token).unwrap(), answer);
    }
}
