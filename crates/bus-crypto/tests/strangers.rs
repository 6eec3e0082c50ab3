//! Laws of the parsers that read strangers' text: no panic, one spelling per value.
#![expect(clippy::unwrap_used, reason = "what is arranged here must succeed")]

use bus_crypto::jwt::{UserClaims, decode_user, encode_user, inspect};
use bus_crypto::{
    BoxKey, KeyId, NkeyKind, PublicKey, SigningKey, SystemEntropy, WorkspaceSecret, XKey, creds,
    sealed_box,
};
use proptest::prelude::*;
use proptest::sample::Index;

fn kinds() -> impl Strategy<Value = NkeyKind> {
    prop_oneof![
        Just(NkeyKind::Operator),
        Just(NkeyKind::Account),
        Just(NkeyKind::User),
        Just(NkeyKind::Server),
        Just(NkeyKind::Cluster),
    ]
}

fn account() -> SigningKey {
    SigningKey::from_seed(NkeyKind::Account, [1; 32].into()).unwrap()
}

fn agent() -> SigningKey {
    SigningKey::from_seed(NkeyKind::User, [2; 32].into()).unwrap()
}

fn token(name: &str, tags: Vec<String>) -> String {
    let mut claims = UserClaims::new(name, *agent().public(), *account().public(), 1);
    claims.tags = tags;
    encode_user(&claims, &account()).unwrap()
}

/// Replaces one character; the text stays UTF-8.
fn change(text: &str, at: Index, to: char) -> String {
    let at = at.index(text.chars().count());
    text.chars().enumerate().map(|(place, c)| if place == at { to } else { c }).collect()
}

proptest! {
    #[test]
    fn no_text_makes_a_parser_panic(text in "\\PC{0,200}|[A-Z2-7]{56,58}|[-A-Z \n]{0,200}") {
        let _ignored = PublicKey::parse(&text);
        let _ignored = SigningKey::from_seed_text(&text);
        let _ignored = XKey::from_seed_text(&text);
        let _ignored = creds::parse(&text);
        let _ignored = WorkspaceSecret::from_text(&text);
        let _ignored = KeyId::parse(&text);
        let _ignored = inspect(&text);
    }

    #[test]
    fn a_public_key_has_one_text(kind in kinds(), bytes: [u8; 32], at: Index, to in "[A-Z2-7]") {
        let key = PublicKey::from_bytes(kind, bytes);
        let text = key.text();
        prop_assert_eq!(PublicKey::parse(&text), Ok(key));
        let changed = change(&text, at, to.chars().next().unwrap());
        prop_assert_eq!(PublicKey::parse(&changed).is_ok(), changed == text);
    }

    #[test]
    fn a_seed_has_one_text(kind in kinds(), seed: [u8; 32], at: Index, to in "[A-Z2-7]") {
        let text = SigningKey::from_seed(kind, seed.into()).unwrap().seed_text();
        let again = SigningKey::from_seed_text(&text).unwrap();
        prop_assert_eq!(&*again.seed_text(), &*text);
        let changed = change(&text, at, to.chars().next().unwrap());
        prop_assert_eq!(SigningKey::from_seed_text(&changed).is_ok(), changed == *text);
    }

    #[test]
    fn a_curve_seed_has_one_text(secret: [u8; 32], at: Index, to in "[A-Z2-7]") {
        let text = XKey::from_box_key(BoxKey::from_secret(secret.into())).seed_text();
        prop_assert_eq!(XKey::from_seed_text(&text).unwrap().seed_text(), text.clone());
        let changed = change(&text, at, to.chars().next().unwrap());
        prop_assert_eq!(XKey::from_seed_text(&changed).is_ok(), changed == *text);
    }

    #[test]
    fn no_bytes_open_by_chance(secret: [u8; 32], version in "|xkv1", bytes: Vec<u8>) {
        let key = XKey::from_box_key(BoxKey::from_secret(secret.into()));
        let sealed = [version.as_bytes(), &bytes].concat();
        prop_assert!(sealed_box::open(key.box_key(), &sealed).is_err());
        prop_assert!(key.open(&key.public(), &sealed).is_err());
    }

    #[test]
    fn a_sealed_box_gives_back_its_data(secret: [u8; 32], data: Vec<u8>) {
        let key = BoxKey::from_secret(secret.into());
        let sealed = sealed_box::seal(&SystemEntropy, key.public(), &data).unwrap();
        prop_assert_eq!(sealed_box::open(&key, &sealed).unwrap().to_vec(), data);
    }

    #[test]
    fn a_signature_fits_its_message_alone(
        seed: [u8; 32],
        message: Vec<u8>,
        at: Index,
        bit in 0_u8..8,
    ) {
        let key = SigningKey::from_seed(NkeyKind::User, seed.into()).unwrap();
        let signature = key.sign(&message);
        prop_assert_eq!(key.public().verify(&message, &signature), Ok(()));
        let mut changed = signature;
        changed[at.index(64)] ^= 1 << bit;
        prop_assert!(key.public().verify(&message, &changed).is_err());
        let longer = [message, vec![0]].concat();
        prop_assert!(key.public().verify(&longer, &signature).is_err());
    }

    #[test]
    fn user_claims_read_back_as_written(
        name in "\\PC{0,40}",
        tags in prop::collection::vec("\\PC{1,20}", 0..4),
    ) {
        let read = decode_user(&token(&name, tags.clone())).unwrap();
        prop_assert_eq!(read.name, name);
        prop_assert_eq!(read.tags, tags);
    }

    #[test]
    fn changed_credentials_are_refused_or_the_same(at: Index, to in "\\PC|\n") {
        let text = creds::render(&token("a", Vec::new()), &agent());
        let changed = change(&text, at, to.chars().next().unwrap());
        if let Ok(read) = creds::parse(&changed) {
            prop_assert_eq!(*read.key().public(), *agent().public());
        }
    }
}
