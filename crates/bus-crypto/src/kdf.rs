//! Key derivation: HKDF-SHA256 with the salt and info that the profile fixes (S0.46 to S0.48).

use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use zeroize::Zeroizing;

use crate::error::CryptoError;

/// The HKDF salt of every payload key.
pub const HKDF_SALT: &[u8] = b"vak-bus-hkdf-salt-v1";

/// The HKDF info of a payload key, before its key id.
pub const HKDF_INFO_PREFIX: &[u8] = b"vak-bus-aes-256-gcm-";

/// The most bytes that one derivation gives: 255 blocks of SHA-256.
pub const HKDF_BYTES_MAX: usize = 255 * 32;

/// Derives the 256-bit key that `key_id` names from a workspace secret.
///
/// The same secret and key id give the same key everywhere; another key id gives an unrelated key.
///
/// # Errors
/// None in practice: 32 bytes are far below the limit of HKDF. The result is there because the
/// cipher library reports rather than panics.
pub fn derive_key(secret: &[u8], key_id: &str) -> Result<Zeroizing<[u8; 32]>, CryptoError> {
    let mut key = Zeroizing::new([0; 32]);
    hkdf_sha256(secret, HKDF_SALT, &[HKDF_INFO_PREFIX, key_id.as_bytes()], &mut key[..])?;
    Ok(key)
}

/// Fills `out` by HKDF-SHA256 (RFC 5869); `info` is the concatenation of its parts.
///
/// # Errors
/// [`CryptoError::DerivationTooLong`] above [`HKDF_BYTES_MAX`]; `out` is untouched then.
pub fn hkdf_sha256(
    secret: &[u8],
    salt: &[u8],
    info: &[&[u8]],
    out: &mut [u8],
) -> Result<(), CryptoError> {
    let too_long = CryptoError::DerivationTooLong { bytes_max: HKDF_BYTES_MAX };
    Salt::new(HKDF_SHA256, salt)
        .extract(secret)
        .expand(info, OutputLength(out.len()))
        .and_then(|material| material.fill(out))
        .map_err(|_| too_long)
}

struct OutputLength(usize);

impl KeyType for OutputLength {
    fn len(&self) -> usize {
        self.0
    }
}
