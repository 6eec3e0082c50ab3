//! Signing keys: an Ed25519 seed with the kind of nkey it belongs to.

use std::fmt;

use data_encoding::BASE32_NOPAD;
use ring::signature::{Ed25519KeyPair, KeyPair};
use zeroize::Zeroizing;

use crate::entropy::Entropy;
use crate::error::CryptoError;
use crate::nkey::{NkeyKind, PublicKey, crc16, decode};

/// A private nkey that signs. It has no `Clone`, prints only its public key, and wipes its seed.
///
/// The cipher library keeps its own expanded form of the key, which it does not wipe.
///
/// ```
/// use bus_crypto::{NkeyKind, SigningKey, SystemEntropy};
///
/// let key = SigningKey::generate(NkeyKind::User, &SystemEntropy::new())?;
/// let signature = key.sign(b"hello");
/// key.public().verify(b"hello", &signature)?;
/// assert!(key.public().verify(b"hullo", &signature).is_err());
/// # Ok::<(), bus_crypto::CryptoError>(())
/// ```
pub struct SigningKey {
    seed: Zeroizing<[u8; 32]>,
    pair: Ed25519KeyPair,
    public: PublicKey,
}

impl SigningKey {
    /// Draws a new key.
    ///
    /// # Errors
    /// [`CryptoError::Entropy`] when the source fails, [`CryptoError::BadNkey`] for a curve key.
    pub fn generate(kind: NkeyKind, entropy: &dyn Entropy) -> Result<Self, CryptoError> {
        let mut seed = Zeroizing::new([0; 32]);
        entropy.fill(&mut seed[..])?;
        Self::from_seed(kind, seed)
    }

    /// Takes over a raw seed.
    ///
    /// # Errors
    /// [`CryptoError::BadNkey`] for a curve key, which cannot sign.
    pub fn from_seed(kind: NkeyKind, seed: Zeroizing<[u8; 32]>) -> Result<Self, CryptoError> {
        if kind == NkeyKind::Curve {
            return Err(CryptoError::BadNkey("a curve key cannot sign"));
        }
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed[..])
            .map_err(|_| CryptoError::BadNkey("not an Ed25519 seed"))?;
        let bytes = pair
            .public_key()
            .as_ref()
            .try_into()
            .map_err(|_| CryptoError::BadNkey("a public key has 32 bytes"))?;
        Ok(Self { seed, pair, public: PublicKey::from_bytes(kind, bytes) })
    }

    /// Reads a seed text such as `SU…` or `SA…`: exactly 58 characters of base32 in upper case,
    /// a known kind, a right checksum.
    ///
    /// # Errors
    /// [`CryptoError::BadNkey`]; the text is never quoted.
    pub fn from_seed_text(text: &str) -> Result<Self, CryptoError> {
        if text.len() != SEED_TEXT_BYTES {
            return Err(CryptoError::BadNkey("a seed has 58 characters"));
        }
        let raw = decode::<SEED_RAW_BYTES>(text)?;
        let (prefix, seed) =
            raw.split_first_chunk::<2>().ok_or(CryptoError::BadNkey("wrong length"))?;
        // Five bits say "seed", the next eight are the kind's prefix, the last three are free.
        let [first, second] = *prefix;
        if first & 0xf8 != SEED_PREFIX || second & 0x07 != 0 {
            return Err(CryptoError::BadNkey("not a seed"));
        }
        let kind = NkeyKind::from_prefix((first & 0x07) << 5 | second >> 3)
            .ok_or(CryptoError::BadNkey("a seed of no known kind"))?;
        let seed = seed.first_chunk().copied().map(Zeroizing::new);
        Self::from_seed(kind, seed.ok_or(CryptoError::BadNkey("wrong length"))?)
    }

    /// The seed text, as [`from_seed_text`](Self::from_seed_text) reads it: a secret.
    #[must_use]
    pub fn seed_text(&self) -> Zeroizing<String> {
        let kind = self.public.kind().prefix();
        // Full capacity at once: growing would leave unwiped copies behind.
        let mut raw = Zeroizing::new(Vec::with_capacity(SEED_RAW_BYTES));
        raw.extend_from_slice(&[SEED_PREFIX | kind >> 5, kind << 3]);
        raw.extend_from_slice(&self.seed[..]);
        let checksum = crc16(&raw).to_le_bytes();
        raw.extend_from_slice(&checksum);
        Zeroizing::new(BASE32_NOPAD.encode(&raw))
    }

    /// The public half.
    #[must_use]
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs `message` with Ed25519; the same key and message always give the same signature.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        let mut bytes = [0; 64];
        let signature = self.pair.sign(message);
        for (byte, signed) in bytes.iter_mut().zip(signature.as_ref()) {
            *byte = *signed;
        }
        bytes
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public)
    }
}

const SEED_PREFIX: u8 = 18 << 3;
const SEED_RAW_BYTES: usize = 2 + 32 + 2;
const SEED_TEXT_BYTES: usize = 58;

#[cfg(test)]
mod tests;
