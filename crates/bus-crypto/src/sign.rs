//! Signing keys: an Ed25519 seed with the kind of nkey it belongs to.

use std::fmt;

use ring::signature::{Ed25519KeyPair, KeyPair};
use zeroize::Zeroizing;

use crate::entropy::Entropy;
use crate::error::CryptoError;
use crate::nkey::{NkeyKind, PublicKey, decode_seed, encode_seed};

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
        let (kind, seed) = decode_seed(text)?;
        Self::from_seed(kind, seed)
    }

    /// The seed text, as [`from_seed_text`](Self::from_seed_text) reads it: a secret.
    #[must_use]
    pub fn seed_text(&self) -> Zeroizing<String> {
        encode_seed(self.public.kind(), &self.seed)
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

#[cfg(test)]
mod tests;
