//! Credentials files against the strict reading that the vectors ask for.
#![expect(clippy::unwrap_used, reason = "a damaged vector file must fail the test")]
#![expect(clippy::indexing_slicing, reason = "a missing member must fail the test")]

use bus_crypto::{Credentials, CryptoError, creds};
use bus_testdata::json;
use serde_json::Value;

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap()
}

fn reference() -> Option<Value> {
    let file = json("nats-auth/creds.json")?;
    file["cases"].as_array().unwrap().iter().find(|test| test["id"] == "reference").cloned()
}

#[test]
fn files_are_read_strictly() {
    let Some(file) = json("nats-auth/creds.json") else { return };
    let (mut valid, mut refused) = (0, 0);
    for test in file["cases"].as_array().unwrap() {
        let id = text(test, "id");
        match (text(test, "strict"), creds::parse(text(test, "text"))) {
            ("valid", Ok(credentials)) => {
                assert_eq!(credentials.jwt(), text(test, "jwt"), "{id}");
                assert_eq!(*credentials.key().seed_text(), text(test, "seed"), "{id}");
                assert_eq!(credentials.key().public().text(), text(test, "public"), "{id}");
                valid += 1;
            }
            // A token alone or a seed alone are no credentials either.
            ("invalid" | "jwt only" | "seed only", Err(_)) => refused += 1,
            (strict, parsed) => panic!("{id} should be {strict}, got {parsed:?}"),
        }
    }
    assert_eq!((valid, refused), (10, 16));
}

#[test]
fn what_is_rendered_is_what_the_reference_writes() {
    let Some(test) = reference() else { return };
    let credentials = creds::parse(text(&test, "text")).unwrap();
    assert_eq!(*creds::render(credentials.jwt(), credentials.key()), text(&test, "text"));
}

#[test]
fn a_seed_in_place_of_the_token_is_refused() {
    let Some(test) = reference() else { return };
    let (jwt, seed) = (text(&test, "jwt"), text(&test, "seed"));
    assert!(matches!(Credentials::from_parts(seed, jwt), Err(CryptoError::BadCreds(_))));
    assert!(matches!(Credentials::from_parts(seed, seed), Err(CryptoError::BadCreds(_))));
}

#[test]
fn a_seed_of_another_user_is_refused() {
    let Some(test) = reference() else { return };
    let other = "SUAI5AWPK2YBBOGWDLVYE4YDDTGP35FFGXDRGOGFAD7Z64LEHA7W22DVNQ";
    let wanted = CryptoError::BadCreds("the seed is not the one of the token's subject");
    assert_eq!(Credentials::from_parts(text(&test, "jwt"), other).err(), Some(wanted));
}

#[test]
fn a_third_block_is_refused() {
    let Some(test) = reference() else { return };
    let twice = text(&test, "text").repeat(2);
    let wanted = CryptoError::BadCreds("more than two blocks");
    assert_eq!(creds::parse(&twice).err(), Some(wanted));
}

#[test]
fn a_seed_of_another_kind_is_named_as_the_reason() {
    let Some(test) = reference() else { return };
    let account = "SAACVW3GZBMBVKBYOJC5L7JN23E4PRS7Z7N353PJGIYO2RWHD74N4A2D5Y";
    let wanted = CryptoError::BadCreds("not the seed of a user");
    assert_eq!(Credentials::from_parts(text(&test, "jwt"), account).err(), Some(wanted));
}

#[test]
fn a_block_is_closed_by_its_own_name() {
    let Some(test) = reference() else { return };
    let crossed = text(&test, "text").replace("END NATS USER JWT", "END USER NKEY SEED");
    let wanted = CryptoError::BadCreds("a block is not one line, closed by its own name");
    assert_eq!(creds::parse(&crossed).err(), Some(wanted));
}
