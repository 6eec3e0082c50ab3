//! Rules of the key ring: one counter per key, rotation, withdrawal, bounds.

use std::sync::Arc;

use super::Keyring;
use crate::{CryptoError, SystemEntropy, WorkspaceSecret, derive_key};

fn secret(letter: char) -> WorkspaceSecret {
    WorkspaceSecret::from_text(&letter.to_string().repeat(32)).unwrap()
}

fn keyring() -> Keyring {
    let keyring = Keyring::new();
    keyring.add_secret("w", "k1", secret('a')).unwrap();
    keyring
}

fn unknown<T>(key_id: &str) -> Result<T, CryptoError> {
    Err(CryptoError::UnknownKey { key_id: key_id.to_owned() })
}

fn withdrawn<T>(key_id: &str) -> Result<T, CryptoError> {
    Err(CryptoError::WithdrawnKey { key_id: key_id.to_owned() })
}

fn seal(keyring: &Keyring, incarnation: &str) -> (String, [u8; 12], Vec<u8>) {
    let key = keyring.sealing_key("w", incarnation).unwrap();
    let mut data = b"plain".to_vec();
    let nonce = key.seal_in_place(&SystemEntropy, b"aad", &mut data).unwrap();
    (key.key_id().to_owned(), nonce, data)
}

#[test]
fn every_call_gives_the_very_same_sealing_key() {
    let keyring = keyring();
    let first = keyring.sealing_key("w", "life").unwrap();
    let second = keyring.sealing_key("w", "life").unwrap();
    assert!(Arc::ptr_eq(&first, &second));
}

#[test]
fn threads_that_ask_at_once_get_the_same_sealing_key() {
    let keyring = keyring();
    let keys: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..8).map(|_| scope.spawn(|| keyring.sealing_key("w", "life").unwrap())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(keys.iter().all(|key| Arc::ptr_eq(key, &keys[0])));
}

#[test]
fn seals_are_counted_across_all_users_of_a_key() {
    let keyring = keyring().with_seal_limit(3);
    for _ in 0..3 {
        seal(&keyring, "life");
    }
    let refused = keyring.sealing_key("w", "life").unwrap().seal_in_place(
        &SystemEntropy,
        b"",
        &mut Vec::new(),
    );
    assert_eq!(refused, Err(CryptoError::KeyExhausted { key_id: "w.k1.life".to_owned() }));
}

#[test]
fn another_incarnation_seals_under_another_key() {
    let keyring = keyring();
    let (first, nonce, mut data) = seal(&keyring, "life-1");
    let second = keyring.sealing_key("w", "life-2").unwrap();
    assert_ne!(first, second.key_id());

    let other = keyring.opening_key("w.k1.life-2").unwrap();
    let opened = other.open_in_place(&nonce, b"aad", &mut data);

    assert_eq!(opened, Err(CryptoError::DecryptionFailed));
}

#[test]
fn equal_secrets_in_two_workspaces_give_different_keys() {
    let secret = [7; 32];
    assert_ne!(
        derive_key(&secret, "w1.k.life").unwrap(),
        derive_key(&secret, "w2.k.life").unwrap()
    );
}

#[test]
fn a_receiver_with_the_same_secret_opens() {
    let (key_id, nonce, mut data) = seal(&keyring(), "life");
    let receiver = keyring();
    receiver.opening_key(&key_id).unwrap().open_in_place(&nonce, b"aad", &mut data).unwrap();
    assert_eq!(data, b"plain");
}

#[test]
fn an_unknown_key_is_not_a_failed_decryption() {
    let keyring = keyring();
    assert_eq!(keyring.opening_key("w.k2.life").map(|_| ()), unknown("w.k2.life"));
    assert_eq!(keyring.opening_key("v.k1.life").map(|_| ()), unknown("v.k1.life"));
    assert_eq!(keyring.sealing_key("v", "life").map(|_| ()), unknown("v"));
}

#[test]
fn a_malformed_key_id_is_refused_as_such() {
    for key_id in ["", "w", "w.k1", "w.k1.", "w..life", "w.k1.life.x", "w.k1.li fe", "w.k1.é"] {
        let opened = keyring().opening_key(key_id).map(|_| ());
        assert_eq!(opened, Err(CryptoError::BadKeyId), "{key_id:?}");
    }
}

#[test]
fn after_a_rotation_the_new_name_seals_and_the_old_one_still_opens() {
    let keyring = keyring();
    let (old, nonce, mut data) = seal(&keyring, "life");
    keyring.add_secret("w", "k2", secret('b')).unwrap();
    assert_eq!(keyring.current("w").as_deref(), Some("k1"));

    keyring.set_current("w", "k2").unwrap();

    assert_eq!(keyring.sealing_key("w", "life").unwrap().key_id(), "w.k2.life");
    keyring.opening_key(&old).unwrap().open_in_place(&nonce, b"aad", &mut data).unwrap();
    assert_eq!(data, b"plain");
}

#[test]
fn only_a_name_that_was_added_can_become_current() {
    assert_eq!(keyring().set_current("w", "k9"), unknown("w.k9"));
}

#[test]
fn a_name_stands_for_one_secret() {
    let keyring = keyring();
    assert_eq!(keyring.add_secret("w", "k1", secret('a')), Ok(()));
    let taken = CryptoError::NameTaken { prefix: "w.k1".to_owned() };
    assert_eq!(keyring.add_secret("w", "k1", secret('b')), Err(taken));
}

#[test]
fn a_withdrawn_name_neither_opens_nor_seals_nor_comes_back() {
    let keyring = keyring();
    let held = keyring.sealing_key("w", "life").unwrap();
    keyring.opening_key("w.k1.life").unwrap();

    keyring.withdraw("w.k1").unwrap();

    assert_eq!(keyring.opening_key("w.k1.life").map(|_| ()), withdrawn("w.k1.life"));
    assert_eq!(keyring.sealing_key("w", "life").map(|_| ()), withdrawn("w.k1.life"));
    let sealed = held.seal_in_place(&SystemEntropy, b"", &mut Vec::new()).map(|_| ());
    assert_eq!(sealed, withdrawn("w.k1.life"));
    assert_eq!(keyring.add_secret("w", "k1", secret('a')), withdrawn("w.k1"));
    assert_eq!(keyring.set_current("w", "k1"), withdrawn("w.k1"));
}

#[test]
fn a_withdrawal_takes_whole_parts_only() {
    let keyring = keyring();
    keyring.add_secret("w", "k10", secret('b')).unwrap();
    keyring.withdraw("w.k1").unwrap();
    keyring.opening_key("w.k10.life").unwrap();
}

#[test]
fn one_incarnation_can_be_withdrawn_alone() {
    let keyring = keyring();
    keyring.withdraw("w.k1.life-1").unwrap();
    assert_eq!(keyring.opening_key("w.k1.life-1").map(|_| ()), withdrawn("w.k1.life-1"));
    keyring.opening_key("w.k1.life-2").unwrap();
}

#[test]
fn a_malformed_withdrawal_is_refused() {
    for prefix in ["", ".", "w.", "w.k1.life.x", "w k"] {
        assert_eq!(keyring().withdraw(prefix), Err(CryptoError::BadKeyId), "{prefix:?}");
    }
}

#[test]
fn key_ids_of_strangers_do_not_fill_the_memory() {
    let keyring = Keyring::with_cache(8);
    keyring.add_secret("w", "k1", secret('a')).unwrap();
    for n in 0..100 {
        keyring.opening_key(&format!("w.k1.life-{n}")).unwrap();
    }
    assert_eq!(keyring.read().opening.len(), 8);
}

#[test]
fn a_key_that_left_the_cache_still_opens() {
    let keyring = Keyring::with_cache(1);
    keyring.add_secret("w", "k1", secret('a')).unwrap();
    let (key_id, nonce, mut data) = seal(&keyring, "life");
    keyring.opening_key(&key_id).unwrap();
    keyring.opening_key("w.k1.other").unwrap();
    keyring.opening_key(&key_id).unwrap().open_in_place(&nonce, b"aad", &mut data).unwrap();
    assert_eq!(data, b"plain");
}

#[test]
fn names_that_cannot_be_part_of_a_key_id_are_refused() {
    let keyring = Keyring::new();
    for (workspace, name) in [("", "k"), ("w", ""), ("w.x", "k"), ("w", "k.1"), ("w", "k:1")] {
        let added = keyring.add_secret(workspace, name, secret('a'));
        assert_eq!(added, Err(CryptoError::BadKeyId), "{workspace:?} {name:?}");
    }
    let long = "x".repeat(65);
    assert_eq!(keyring.add_secret(&long, "k", secret('a')), Err(CryptoError::BadKeyId));
}
