//! NATS JWTs against the answers of the Go libraries and of a real server.
#![expect(clippy::unwrap_used, reason = "a damaged vector file must fail the test")]
#![expect(clippy::indexing_slicing, reason = "a missing member must fail the test")]
#![expect(clippy::panic, reason = "a damaged vector file must fail the test")]

use bus_crypto::jwt::{
    AuthResponse, decode_account, decode_auth_request, decode_auth_response, decode_operator,
    decode_user, encode_account, encode_auth_response, encode_operator, encode_user, inspect,
};
use bus_crypto::{CryptoError, NkeyKind, PublicKey, SigningKey};
use bus_testdata::json;
use serde_json::Value;

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("{name} is missing in {}", value["id"]))
}

fn cases(file: &Value) -> &[Value] {
    file["cases"].as_array().unwrap()
}

/// The published test key that signed as `public`.
fn signer(file: &Value, public: &str) -> SigningKey {
    let keys = file["about"]["keys"].as_array().unwrap();
    let key = keys.iter().find(|key| key["public"] == public).unwrap();
    SigningKey::from_seed_text(text(key, "seed")).unwrap()
}

fn check_info(test: &Value) {
    let id = text(test, "id");
    let info = inspect(text(test, "token")).unwrap_or_else(|error| panic!("{id}: {error}"));
    let time = |name: &str| test[name].as_i64().filter(|time| *time != 0);
    assert_eq!(info.kind.name(), text(test, "type"), "{id}");
    assert_eq!(info.version, test["claims_version"], "{id}");
    assert_eq!(info.name, test["name"].as_str().unwrap_or_default(), "{id}");
    assert_eq!(info.subject.text(), text(test, "sub"), "{id}");
    assert_eq!(info.issuer.text(), text(test, "iss"), "{id}");
    assert_eq!(info.audience.as_deref(), test["aud"].as_str(), "{id}");
    assert_eq!(Some(info.issued_at_unix_s), test["iat"].as_i64(), "{id}");
    assert_eq!(info.expires_unix_s, time("exp"), "{id}");
    assert_eq!(info.not_before_unix_s, time("nbf"), "{id}");
    assert_eq!(info.jti, text(test, "jti"), "{id}");
}

#[test]
fn form_and_signature_are_judged_as_by_the_reference() {
    let Some(file) = json("nats-auth/jwt.json") else { return };
    let (mut sound, mut refused, mut never_written) = (0, 0, 0);
    for test in cases(&file) {
        match text(test, "decode") {
            "ok" => {
                check_info(test);
                sound += 1;
            }
            "error" => {
                assert!(inspect(text(test, "token")).is_err(), "{} is accepted", test["id"]);
                refused += 1;
            }
            _ => never_written += 1,
        }
    }
    assert_eq!((sound, refused, never_written), (42, 19, 1));
}

/// Decodes by kind; what can be encoded is signed again and must be the same token.
fn decode_and_sign_again(file: &Value, test: &Value) -> Result<Option<String>, CryptoError> {
    let token = text(test, "token");
    let is_ours = !text(test, "id").starts_with("upstream");
    let key = || signer(file, text(test, "iss"));
    Ok(match text(test, "type") {
        "user" => {
            let claims = decode_user(token)?;
            is_ours.then(|| encode_user(&claims, &key()).unwrap())
        }
        "account" => {
            let claims = decode_account(token)?;
            is_ours.then(|| encode_account(&claims, &key()).unwrap())
        }
        "operator" => {
            let claims = decode_operator(token)?;
            is_ours.then(|| encode_operator(&claims, &key()).unwrap())
        }
        "authorization_response" => {
            let claims = decode_auth_response(token)?;
            is_ours.then(|| encode_auth_response(&claims, &key()).unwrap())
        }
        "authorization_request" => {
            decode_auth_request(token)?;
            None
        }
        "activation" => None,
        other => panic!("unknown type {other}"),
    })
}

#[test]
fn claims_decode_and_sign_again_to_the_same_token() {
    let Some(file) = json("nats-auth/jwt.json") else { return };
    let (mut same, mut only_read, mut refused) = (0, 0, Vec::new());
    for test in cases(&file).iter().filter(|test| test["decode"] == "ok") {
        let id = text(test, "id");
        match decode_and_sign_again(&file, test) {
            Ok(Some(again)) => {
                assert_eq!(again, text(test, "token"), "{id}");
                same += 1;
            }
            Ok(None) => only_read += 1,
            Err(error) => {
                assert!(matches!(error, CryptoError::BadJwt(_)), "{id}: {error}");
                refused.push(id);
            }
        }
    }
    // Beyond the reference's decoding: version 1 is only inspected, an answer says one thing, and
    // exports that the reference reads but calls wrong are not read: a server lets nobody in.
    let version_1: Vec<_> = (11..=20).map(|n| format!("upstream-{n}")).collect();
    let mut wanted: Vec<_> = version_1.iter().map(String::as_str).collect();
    wanted.retain(|id| *id != "upstream-16");
    wanted.extend(["account-bad-export-subject", "account-overlapping-exports"]);
    wanted.extend(["authorization-response-empty", "authorization-response-both"]);
    assert_eq!(refused, wanted);
    assert_eq!((same, only_read), (15, 14));
}

#[test]
fn an_operator_cannot_sign_a_user() {
    let Some(file) = json("nats-auth/jwt.json") else { return };
    let user = cases(&file).iter().find(|test| test["id"] == "user").unwrap();
    let mut claims = decode_user(text(user, "token")).unwrap();
    let keys = &file["about"]["keys"];
    let operator = SigningKey::from_seed_text(text(&keys[0], "seed")).unwrap();
    claims.issuer = *operator.public();
    let wanted = CryptoError::BadJwt("such a key may not issue such claims");
    assert_eq!(encode_user(&claims, &operator), Err(wanted));
}

/// What a token alone cannot tell: the proof of the key, the way and place of the connection, and
/// subjects and networks that only a server reads.
const BEYOND_CLAIMS: [&str; 7] = [
    "wrong-key",
    "wrong-nonce",
    "no-signature",
    "bearer-websocket-on-tcp",
    "limits-source",
    "bad-limits",
    "bad-permissions",
];

fn is_trusted(token: &str, accounts: &[String], now_unix_s: i64) -> Result<(), CryptoError> {
    let user = decode_user(token)?;
    user.verify_at(now_unix_s)?;
    let named = user.issuer_account.unwrap_or(user.issuer);
    let account = accounts.iter().map(|token| decode_account(token).unwrap());
    let account = account.into_iter().find(|account| account.subject == named);
    account.ok_or(CryptoError::NotTrusted("unknown account"))?.check_user(&user)
}

#[test]
fn users_are_trusted_as_by_a_real_server() {
    let (Some(tokens), Some(logins)) =
        (json("nats-auth/jwt.json"), json("nats-auth/server_jwt_login.json"))
    else {
        return;
    };
    let accounts: Vec<_> = cases(&tokens)
        .iter()
        .filter(|test| test["id"] == "account" || test["id"] == "account-2")
        .map(|test| text(test, "token").to_owned())
        .collect();
    let (mut walked, mut without_token) = (0, 0);
    for login in cases(&logins) {
        let Some(token) = login["token"].as_str() else {
            without_token += 1;
            continue;
        };
        let id = text(login, "id");
        let trusted = is_trusted(token, &accounts, 1_795_968_000);
        let wanted = login["accepted"] == true || BEYOND_CLAIMS.contains(&id);
        assert_eq!(trusted.is_ok(), wanted, "{id}: {trusted:?}");
        walked += 1;
    }
    assert_eq!((walked, without_token), (26, 1));
}

#[test]
fn questions_of_a_real_server_are_read() {
    let Some(file) = json("nats-auth/server_auth_callout.json") else { return };
    let mut walked = 0;
    for question in file["requests"].as_array().unwrap() {
        let id = text(question, "id");
        // One was sealed for the service; its opened text is read here.
        let token = if id == "encrypted" { "opens_to" } else { "request" };
        let request = decode_auth_request(text(question, token))
            .unwrap_or_else(|error| panic!("{id}: {error}"));
        let claims = &question["claims"]["nats"];
        assert_eq!(request.server.text(), text(&claims["server_id"], "id"), "{id}");
        assert_eq!(request.user.text(), text(claims, "user_nkey"), "{id}");
        let options = &claims["connect_opts"];
        assert_eq!(request.connect.user.as_deref(), options["user"].as_str(), "{id}");
        let password = request.connect.password.as_ref().map(|text| text.as_str());
        assert_eq!(password, options["pass"].as_str(), "{id}");
        assert_eq!(request.subject.text(), text(&question["claims"], "sub"), "{id}");
        let client = &claims["client_info"];
        assert_eq!(request.client_type, text(client, "type"), "{id}");
        assert_eq!(Some(request.client_id), client["id"].as_u64(), "{id}");
        assert_eq!(request.client_user, client["user"].as_str().unwrap_or_default(), "{id}");
        walked += 1;
    }
    assert_eq!(walked, 6);
}

/// What a server checks of an answer before it looks into its accounts and permissions.
fn is_let_in(answer: &str, question: &str, issuer: &PublicKey) -> Result<bool, CryptoError> {
    let request = decode_auth_request(question)?;
    let AuthResponse { user, server, issuer: found, issued_at_unix_s, verdict, .. } =
        decode_auth_response(answer)?;
    if user != request.user || server != request.server || found != *issuer {
        return Ok(false);
    }
    let Ok(token) = verdict else { return Ok(false) };
    let claims = decode_user(&token)?;
    claims.issued_by(issuer)?;
    claims.verify_at(issued_at_unix_s)?;
    Ok(claims.subject == request.user)
}

#[test]
fn answers_are_judged_as_by_a_real_server() {
    let Some(file) = json("nats-auth/server_auth_callout.json") else { return };
    let issuer = PublicKey::parse(text(&file["about"]["issuer"], "public")).unwrap();
    assert_eq!(issuer.kind(), NkeyKind::Account);
    let (mut walked, mut without_answer) = (0, 0);
    for test in cases(&file) {
        let id = text(test, "id");
        let Some(answer) = test["response"].as_str() else {
            without_answer += 1;
            continue;
        };
        let let_in = is_let_in(answer, text(test, "request"), &issuer);
        // Whether an account exists and a subject is sound, only the server knows.
        let beyond = ["user-unknown-account", "user-no-audience", "user-bad-permission"];
        let wanted = test["accepted"] == true || beyond.contains(&id);
        assert_eq!(let_in == Ok(true), wanted, "{id}: {let_in:?}");
        walked += 1;
    }
    assert_eq!((walked, without_answer), (19, 2));
}
