//! Rules of seed texts that no vector holds.

use data_encoding::BASE32_NOPAD;

use super::SigningKey;
use crate::CryptoError;
use crate::nkey::{NkeyKind, SEED_PREFIX, crc16};

fn seed_text(first: u8, second: u8) -> String {
    let mut raw = vec![first, second];
    raw.extend([7; 32]);
    raw.extend(crc16(&raw).to_le_bytes());
    BASE32_NOPAD.encode(&raw)
}

#[test]
fn bits_that_mean_nothing_must_be_zero() {
    let user = NkeyKind::User.prefix();
    let (first, second) = (SEED_PREFIX | user >> 5, user << 3);
    assert!(SigningKey::from_seed_text(&seed_text(first, second)).is_ok());
    for bits in 1..8 {
        let refused = SigningKey::from_seed_text(&seed_text(first, second | bits)).err();
        assert_eq!(refused, Some(CryptoError::BadNkey("not a seed")), "{bits}");
    }
}

#[test]
fn a_seed_of_no_known_kind_is_refused() {
    let refused = SigningKey::from_seed_text(&seed_text(SEED_PREFIX, 1 << 3)).err();
    assert_eq!(refused, Some(CryptoError::BadNkey("a seed of no known kind")));
}
