//! Rules and laws of sealing and opening.

use std::collections::HashSet;

use proptest::prelude::*;

use super::{Algorithm, FreshNonce, OpenKey, SEALS_MAX, SealKey};
use crate::{CryptoError, Entropy, SystemEntropy};

struct BrokenEntropy;

impl Entropy for BrokenEntropy {
    fn fill(&self, _: &mut [u8]) -> Result<(), CryptoError> {
        Err(CryptoError::Entropy)
    }
}

const BOTH: [Algorithm; 2] = [Algorithm::Aes256Gcm, Algorithm::ChaCha20Poly1305];

fn seal_key(algorithm: Algorithm) -> SealKey {
    SealKey::new(algorithm, "w.k1.life", &[7; 32]).unwrap()
}

fn open_key(algorithm: Algorithm) -> OpenKey {
    OpenKey::new(algorithm, "w.k1.life", &[7; 32]).unwrap()
}

#[test]
fn a_key_refuses_before_its_limit_is_passed() {
    let key = seal_key(Algorithm::Aes256Gcm).with_limit(10);
    for _ in 0..10 {
        key.seal_in_place(&SystemEntropy, b"", &mut vec![1]).unwrap();
    }

    let mut data = b"one too many".to_vec();
    let refused = key.seal_in_place(&SystemEntropy, b"", &mut data);

    assert_eq!(refused, Err(CryptoError::KeyExhausted { key_id: "w.k1.life".to_owned() }));
    assert_eq!(data, b"one too many");
    assert_eq!(key.seals(), 10);
}

#[test]
fn a_limit_cannot_be_raised_above_two_to_the_32() {
    let key = seal_key(Algorithm::Aes256Gcm).with_limit(u64::MAX);
    assert_eq!(key.seals_max, SEALS_MAX);
    assert_eq!(SEALS_MAX, u64::from(u32::MAX));
}

#[test]
fn threads_share_one_exact_count() {
    let key = seal_key(Algorithm::Aes256Gcm).with_limit(1000);
    let sealed: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    (0..400)
                        .filter(|_| key.seal_in_place(&SystemEntropy, b"", &mut vec![1]).is_ok())
                        .count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(sealed, 1000);
}

#[test]
fn a_broken_source_of_randomness_seals_nothing() {
    let key = seal_key(Algorithm::Aes256Gcm);
    let mut data = b"plain".to_vec();

    let refused = key.seal_in_place(&BrokenEntropy, b"", &mut data);

    assert_eq!(refused, Err(CryptoError::Entropy));
    assert_eq!(data, b"plain");
    assert_eq!(key.seals(), 0);
}

#[test]
fn sealing_the_same_twice_never_repeats_a_nonce() {
    let key = seal_key(Algorithm::Aes256Gcm);
    let nonces: HashSet<_> = (0..1 << 20)
        .map(|_| key.seal_in_place(&SystemEntropy, b"aad", &mut b"same".to_vec()).unwrap())
        .collect();
    assert_eq!(nonces.len(), 1 << 20);
}

/// Counts how often it is asked, and gives other bytes each time.
#[derive(Default)]
struct CountedEntropy(std::sync::atomic::AtomicU8);

impl Entropy for CountedEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), CryptoError> {
        let call = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = call.wrapping_mul(101).wrapping_add(at as u8);
        }
        Ok(())
    }
}

#[test]
fn a_nonce_and_what_stands_beside_it_come_in_one_draw() {
    let (entropy, mut beside) = (CountedEntropy::default(), [0; 52]);
    let nonce = FreshNonce::draw(&entropy, &mut beside).unwrap();
    let drawn = [&nonce.0[..], &beside].concat();
    assert_eq!(entropy.0.into_inner(), 1);
    assert_eq!(drawn.iter().collect::<HashSet<_>>().len(), 64);
}

#[test]
fn more_than_one_draw_holds_is_drawn_beside_a_nonce_of_its_own() {
    let (entropy, mut beside) = (CountedEntropy::default(), [0; 53]);
    let nonce = FreshNonce::draw(&entropy, &mut beside).unwrap();
    assert_eq!(entropy.0.into_inner(), 2);
    assert_ne!(nonce.0, beside[..12]);
}

#[test]
fn a_broken_source_of_randomness_gives_no_fresh_nonce() {
    let refused = FreshNonce::draw(&BrokenEntropy, &mut [0; 8]);
    assert_eq!(refused.map(|_| ()), Err(CryptoError::Entropy));
}

#[test]
fn a_fresh_nonce_seals_under_itself() {
    let (algorithm, mut data) = (Algorithm::Aes256Gcm, b"text".to_vec());
    let fresh = FreshNonce::draw(&SystemEntropy, &mut []).unwrap();
    let drawn = *fresh.as_bytes();
    let nonce = seal_key(algorithm).seal_fresh(fresh, b"aad", &mut data).unwrap();
    assert_eq!(nonce, drawn);
    open_key(algorithm).open_in_place(&nonce, b"aad", &mut data).unwrap();
    assert_eq!(data, b"text");
}

#[test]
fn a_tag_given_apart_opens_behind_its_data() {
    for algorithm in BOTH {
        let nonce = FreshNonce::draw(&SystemEntropy, &mut []).unwrap();
        let (told, mut data) = (*nonce.as_bytes(), b"two apples".to_vec());
        let tag = seal_key(algorithm).seal_detached(nonce, b"order 7", &mut data).unwrap();
        data.extend_from_slice(&tag);
        open_key(algorithm).open_in_place(&told, b"order 7", &mut data).unwrap();
        assert_eq!(data, b"two apples");
    }
}

#[test]
fn a_seal_with_its_tag_apart_counts_too() {
    let key = seal_key(Algorithm::Aes256Gcm).with_limit(1);
    let fresh = || FreshNonce::draw(&SystemEntropy, &mut []).unwrap();
    key.seal_detached(fresh(), b"", &mut [1]).unwrap();
    let mut data = *b"one too many";
    let refused = key.seal_detached(fresh(), b"", &mut data);
    assert_eq!(refused, Err(CryptoError::KeyExhausted { key_id: "w.k1.life".to_owned() }));
    assert_eq!(&data, b"one too many");
}

#[test]
fn a_withdrawn_key_seals_nothing() {
    let key = seal_key(Algorithm::Aes256Gcm);
    key.withdraw();
    let mut data = b"plain".to_vec();

    let refused = key.seal_in_place(&SystemEntropy, b"", &mut data);

    assert_eq!(refused, Err(CryptoError::WithdrawnKey { key_id: "w.k1.life".to_owned() }));
    assert_eq!(data, b"plain");
}

#[test]
fn what_is_shorter_than_a_tag_does_not_open() {
    for length in 0..16 {
        let mut data = vec![0; length];
        let opened = open_key(Algorithm::Aes256Gcm).open_in_place(&[0; 12], b"", &mut data);
        assert_eq!(opened, Err(CryptoError::DecryptionFailed), "{length} bytes");
        assert!(data.is_empty());
    }
}

#[test]
fn one_algorithm_does_not_open_the_other() {
    for (sealing, opening) in [(BOTH[0], BOTH[1]), (BOTH[1], BOTH[0])] {
        let mut data = b"plain".to_vec();
        let nonce = seal_key(sealing).seal_in_place(&SystemEntropy, b"", &mut data).unwrap();
        let opened = open_key(opening).open_in_place(&nonce, b"", &mut data);
        assert_eq!(opened, Err(CryptoError::DecryptionFailed));
    }
}

#[test]
fn an_algorithm_is_found_by_its_exact_name_only() {
    for algorithm in BOTH {
        assert_eq!(Algorithm::parse(algorithm.name()), Ok(algorithm));
    }
    for name in ["", "aes-256-gcm", "AES-256-GCM ", "A256GCM", "none"] {
        assert_eq!(Algorithm::parse(name), Err(CryptoError::UnknownAlgorithm), "{name}");
    }
}

fn algorithms() -> impl Strategy<Value = Algorithm> {
    prop_oneof![Just(BOTH[0]), Just(BOTH[1])]
}

/// Which of the five inputs of an opening gets one bit flipped.
#[derive(Debug, Clone, Copy)]
enum Target {
    Data,
    Aad,
    Nonce,
    Key,
}

fn flip(bytes: &mut [u8], at: prop::sample::Index, bit: u8) {
    let at = at.index(bytes.len());
    bytes[at] ^= 1 << bit;
}

proptest! {
    #[test]
    fn what_is_sealed_opens_to_the_same_bytes(
        algorithm in algorithms(),
        key: [u8; 32],
        aad: Vec<u8>,
        plaintext: Vec<u8>,
    ) {
        let mut data = plaintext.clone();
        let nonce = SealKey::new(algorithm, "k", &key).unwrap()
            .seal_in_place(&SystemEntropy, &aad, &mut data).unwrap();
        prop_assert_eq!(data.len(), plaintext.len() + 16);

        OpenKey::new(algorithm, "k", &key).unwrap()
            .open_in_place(&nonce, &aad, &mut data).unwrap();

        prop_assert_eq!(data, plaintext);
    }

    #[test]
    fn any_flipped_bit_fails_and_leaves_nothing(
        algorithm in algorithms(),
        mut key: [u8; 32],
        mut aad in prop::collection::vec(any::<u8>(), 1..64),
        plaintext: Vec<u8>,
        target in prop_oneof![
            Just(Target::Data), Just(Target::Aad), Just(Target::Nonce), Just(Target::Key),
        ],
        at: prop::sample::Index,
        bit in 0_u8..8,
    ) {
        let mut data = plaintext;
        let mut nonce = SealKey::new(algorithm, "k", &key).unwrap()
            .seal_in_place(&SystemEntropy, &aad, &mut data).unwrap();
        match target {
            Target::Data => flip(&mut data, at, bit),
            Target::Aad => flip(&mut aad, at, bit),
            Target::Nonce => flip(&mut nonce, at, bit),
            Target::Key => flip(&mut key, at, bit),
        }

        let opened = OpenKey::new(algorithm, "k", &key).unwrap()
            .open_in_place(&nonce, &aad, &mut data);

        prop_assert_eq!(opened, Err(CryptoError::DecryptionFailed));
        prop_assert!(data.is_empty());
    }
}
