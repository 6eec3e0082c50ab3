//! The secret by which an instance shows that it is itself.

use std::fmt;

use bus_crypto::{CryptoError, Entropy};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// What an instance was given when it was registered, once: its sender's proof from then on.
///
/// Wiped on drop and never shown. It has no `Clone`.
pub struct InstanceSecret {
    text: Zeroizing<String>,
}

/// What the registry keeps of a secret: its SHA-256.
#[derive(Clone, Copy)]
pub struct SecretHash([u8; 32]);

impl InstanceSecret {
    /// Takes over the text that a caller presents, whatever it is: whether it is the right one,
    /// the registry tells.
    #[must_use]
    pub fn from_text(text: String) -> Self {
        Self { text: Zeroizing::new(text) }
    }

    /// Draws a new one of 32 bytes.
    ///
    /// # Errors
    /// [`CryptoError::Entropy`] when there is no randomness.
    pub fn generate(entropy: &dyn Entropy) -> Result<Self, CryptoError> {
        let mut bytes = Zeroizing::new([0; BYTES]);
        entropy.fill(bytes.as_mut_slice())?;
        // The capacity is exact: a growing string would leave unwiped copies behind.
        let mut text = Zeroizing::new(String::with_capacity(HEXLOWER.encode_len(BYTES)));
        HEXLOWER.encode_append(bytes.as_slice(), &mut text);
        Ok(Self { text })
    }

    /// The text, for the one answer that hands it out and for the header that presents it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// What is kept of it.
    #[must_use]
    pub fn hash(&self) -> SecretHash {
        SecretHash(Sha256::digest(self.text.as_bytes()).into())
    }
}

impl SecretHash {
    /// The hash of 32 bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes, for the registry that several buses share.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Tells in constant time whether two are the same.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for InstanceSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InstanceSecret(..)")
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash(..)")
    }
}

const BYTES: usize = 32;
