//! Rules of X25519 keys and sealed boxes that no vector file states.

use zeroize::Zeroizing;

use super::{BoxKey, BoxPublicKey, open, seal};
use crate::{CryptoError, Entropy, NkeyKind, PublicKey, SigningKey, SystemEntropy};

struct Broken;

impl Entropy for Broken {
    fn fill(&self, _bytes: &mut [u8]) -> Result<(), CryptoError> {
        Err(CryptoError::Entropy)
    }
}

fn key() -> BoxKey {
    BoxKey::generate(&SystemEntropy).unwrap()
}

#[test]
fn both_sides_agree_on_one_secret() {
    let (alice, bob) = (key(), key());
    assert_eq!(alice.agree(bob.public()), bob.agree(alice.public()));
    assert_ne!(alice.agree(bob.public()), alice.agree(alice.public()));
}

#[test]
fn a_box_is_48_bytes_longer_than_its_data() {
    let sealed = seal(&SystemEntropy, key().public(), b"four").unwrap();
    assert_eq!(sealed.len(), 52);
}

#[test]
fn the_same_data_never_seals_to_the_same_box() {
    let bob = key();
    let boxes = [0, 1].map(|_| seal(&SystemEntropy, bob.public(), b"data").unwrap());
    assert_ne!(boxes[0][..32], boxes[1][..32]);
}

#[test]
fn nothing_is_sealed_when_the_source_of_randomness_fails() {
    assert_eq!(seal(&Broken, key().public(), b"data"), Err(CryptoError::Entropy));
    assert_eq!(BoxKey::generate(&Broken).err(), Some(CryptoError::Entropy));
}

#[test]
fn a_box_opens_for_its_recipient_alone() {
    let sealed = seal(&SystemEntropy, key().public(), b"data").unwrap();
    assert_eq!(open(&key(), &sealed), Err(CryptoError::DecryptionFailed));
}

#[test]
fn every_changed_bit_is_noticed() {
    let bob = key();
    let sealed = seal(&SystemEntropy, bob.public(), b"data").unwrap();
    for at in 0..8 * sealed.len() {
        let mut changed = sealed.clone();
        changed[at / 8] ^= 1 << (at % 8);
        assert!(open(&bob, &changed).is_err(), "bit {at}");
    }
}

#[test]
fn the_curve_nkey_names_the_same_key() {
    let bob = key();
    let nkey = PublicKey::parse(&bob.public().nkey().text()).unwrap();
    assert_eq!(BoxPublicKey::from_nkey(&nkey), Ok(*bob.public()));
}

#[test]
fn a_key_that_signs_takes_part_in_no_box() {
    let signer = SigningKey::generate(NkeyKind::User, &SystemEntropy).unwrap();
    let refused = CryptoError::BadNkey("only a curve key takes part in a box");
    assert_eq!(BoxPublicKey::from_nkey(signer.public()), Err(refused));
}

#[test]
fn the_topmost_bit_of_a_key_of_small_order_hides_nothing() {
    for low in [0_u8, 1] {
        let mut bytes = [0; 32];
        bytes[0] = low;
        bytes[31] = 0x80;
        assert_eq!(BoxPublicKey::from_bytes(bytes), Err(CryptoError::ZeroSharedSecret));
    }
}

#[test]
fn the_debug_form_shows_the_public_key_alone() {
    let bob = BoxKey::from_secret(Zeroizing::new([7; 32]));
    let public = data_encoding::HEXLOWER.encode(bob.public().as_bytes());
    assert_eq!(format!("{bob:?}"), format!("BoxKey({public})"));
}
