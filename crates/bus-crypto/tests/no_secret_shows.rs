//! No secret is ever printed: every type that holds one, and every error about one (C09).
#![expect(clippy::unwrap_used, reason = "what is arranged here must succeed")]

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs;
use std::path::Path;

use bus_crypto::jwt::{
    AuthResponse, ConnectOptions, UserClaims, decode_auth_request, decode_user, encode_user,
};
use bus_crypto::{
    Algorithm, BoxKey, Credentials, CryptoError, Keyring, NkeyKind, OpenKey, SealKey, SigningKey,
    WorkspaceSecret, XKey, creds, sealed_box,
};
use data_encoding::{BASE64, BASE64URL_NOPAD, HEXLOWER};

const CANARY: &str = "canary-canary-canary-canary-1234";

fn canary_bytes() -> [u8; 32] {
    CANARY.as_bytes().try_into().unwrap()
}

fn signing_key(kind: NkeyKind) -> SigningKey {
    SigningKey::from_seed(kind, canary_bytes().into()).unwrap()
}

fn xkey() -> XKey {
    XKey::from_box_key(BoxKey::from_secret(canary_bytes().into()))
}

/// A token that lets its bearer in.
fn bearer_token() -> String {
    let account = signing_key(NkeyKind::Account);
    let user = signing_key(NkeyKind::User);
    let mut claims = UserClaims::new("agent", *user.public(), *account.public(), 1);
    claims.is_bearer = true;
    encode_user(&claims, &account).unwrap()
}

/// The secret in every form in which it could slip out.
fn forms() -> Vec<String> {
    let bytes = canary_bytes();
    vec![
        CANARY.to_owned(),
        HEXLOWER.encode(&bytes),
        BASE64.encode(&bytes),
        BASE64URL_NOPAD.encode(&bytes),
        bytes[..4].iter().map(u8::to_string).collect::<Vec<_>>().join(", "),
        bytes[..4].iter().map(u8::to_string).collect::<Vec<_>>().join(",\n    "),
        signing_key(NkeyKind::User).seed_text().to_string(),
        signing_key(NkeyKind::Account).seed_text().to_string(),
        xkey().seed_text().to_string(),
        bearer_token(),
    ]
}

fn assert_hidden(what: &str, shown: &str) {
    for form in forms() {
        assert!(!shown.contains(&form), "{what} shows a secret: {shown}");
    }
}

fn assert_debug_hides(what: &str, value: &dyn Debug) {
    assert_hidden(what, &format!("{value:?}"));
    assert_hidden(what, &format!("{value:#?}"));
}

fn credentials() -> Credentials {
    let seed = signing_key(NkeyKind::User).seed_text();
    Credentials::from_parts(&bearer_token(), &seed).unwrap()
}

fn connect_options() -> ConnectOptions {
    ConnectOptions {
        user: Some("alice".to_owned()),
        password: Some(CANARY.to_owned().into()),
        token: Some(CANARY.to_owned().into()),
        jwt: Some(bearer_token().into()),
        ..ConnectOptions::default()
    }
}

fn auth_response() -> AuthResponse {
    AuthResponse {
        user: *signing_key(NkeyKind::User).public(),
        server: *signing_key(NkeyKind::Server).public(),
        issuer: *signing_key(NkeyKind::Account).public(),
        issued_at_unix_s: 1,
        verdict: Ok(bearer_token()),
        issuer_account: None,
    }
}

/// Every type of this crate that holds a secret, by name.
fn holders() -> Vec<(&'static str, Box<dyn Debug>)> {
    let keyring = Keyring::new();
    keyring.add_secret("w", "k1", WorkspaceSecret::from_text(CANARY).unwrap()).unwrap();
    keyring.sealing_key("w", "life").unwrap();
    keyring.opening_key("w.k1.life").unwrap();
    let key = canary_bytes();
    vec![
        ("WorkspaceSecret", Box::new(WorkspaceSecret::from_text(CANARY).unwrap())),
        ("Keyring", Box::new(keyring)),
        ("SealKey", Box::new(SealKey::new(Algorithm::Aes256Gcm, "k", &key).unwrap())),
        ("OpenKey", Box::new(OpenKey::new(Algorithm::Aes256Gcm, "k", &key).unwrap())),
        ("SigningKey", Box::new(signing_key(NkeyKind::User))),
        ("BoxKey", Box::new(BoxKey::from_secret(canary_bytes().into()))),
        ("XKey", Box::new(xkey())),
        ("Credentials", Box::new(credentials())),
        ("ConnectOptions", Box::new(connect_options())),
        ("AuthResponse", Box::new(auth_response())),
    ]
}

#[test]
fn no_type_that_holds_a_secret_prints_it() {
    for (name, holder) in holders() {
        assert_debug_hides(name, &holder);
    }
}

/// Public structs whose fields hold key material directly, found in the source text.
fn holders_in_source(folder: &Path, found: &mut BTreeSet<String>) {
    let material = ["Zeroizing<", "LessSafeKey", "Ed25519KeyPair", ": SigningKey", ": BoxKey"];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            holders_in_source(&path, found);
            continue;
        }
        let source = fs::read_to_string(&path).unwrap();
        for item in source.split("\npub struct ").skip(1) {
            let body = item.split("\n}").next().unwrap_or_default();
            if material.iter().any(|word| body.contains(word)) {
                let name: String = item.chars().take_while(char::is_ascii_alphanumeric).collect();
                found.insert(name);
            }
        }
    }
}

#[test]
fn the_list_of_holders_is_complete() {
    let mut found = BTreeSet::new();
    holders_in_source(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    let listed: BTreeSet<_> = holders().into_iter().map(|(name, _)| name.to_owned()).collect();
    assert!(found.len() >= 8, "the search found only {found:?}");
    let missing: Vec<_> = found.difference(&listed).collect();
    assert!(missing.is_empty(), "not tested: {missing:?}");
}

#[test]
fn no_error_quotes_what_it_refused() {
    let seed = signing_key(NkeyKind::User).seed_text();
    let damaged = format!("{}A", &seed[..seed.len() - 1]);
    let mut foreign = creds::render(&bearer_token(), &signing_key(NkeyKind::User))
        .replace(seed.as_str(), &damaged);
    foreign.push_str(CANARY);
    let errors: Vec<Option<CryptoError>> = vec![
        WorkspaceSecret::from_text(&CANARY[1..]).err(),
        WorkspaceSecret::from_text(&format!("base64:{CANARY}")).err(),
        WorkspaceSecret::from_text(&format!("hex:{CANARY}")).err(),
        SigningKey::from_seed_text(&damaged).err(),
        SigningKey::from_seed_text(CANARY).err(),
        XKey::from_seed_text(&seed).err(),
        XKey::from_seed_text(CANARY).err(),
        sealed_box::open(xkey().box_key(), CANARY.as_bytes()).err(),
        xkey().open(&xkey().public(), CANARY.as_bytes()).err(),
        creds::parse(&foreign).err(),
        creds::parse(CANARY).err(),
        Credentials::from_parts(&seed, &bearer_token()).err(),
        decode_user(&format!("{}A", bearer_token())).err(),
        decode_user(CANARY).err(),
        decode_auth_request(&bearer_token()).err(),
    ];
    for error in errors {
        let error = error.unwrap();
        assert_hidden("an error", &format!("{error} {error:?}"));
    }
}
