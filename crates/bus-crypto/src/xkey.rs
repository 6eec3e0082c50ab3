//! NATS' curve keys (xkeys): the text forms `SX…` and `X…`, and the boxes that a server and an auth
//! callout service send each other.
//!
//! A box is `xkv1`, a nonce of 24 bytes, and libsodium's `crypto_box` between two keys: both sides
//! can make it, so it vouches for the sender to the recipient and to nobody else.

use std::fmt;

use crypto_box::SalsaBox;
use crypto_box::aead::Aead;
use zeroize::Zeroizing;

use crate::entropy::Entropy;
use crate::error::CryptoError;
use crate::nkey::{NkeyKind, PublicKey, decode_seed, encode_seed};
use crate::sealed_box::{BoxKey, BoxPublicKey};

/// A curve nkey that seals and opens. It has no `Clone`, prints only its public key, and wipes its
/// secret.
///
/// ```
/// use bus_crypto::{SystemEntropy, XKey};
///
/// let entropy = SystemEntropy::new();
/// let (server, service) = (XKey::generate(&entropy)?, XKey::generate(&entropy)?);
/// let sealed = server.seal(&entropy, &service.public(), b"may alice come in?")?;
/// assert_eq!(service.open(&server.public(), &sealed)?.as_slice(), b"may alice come in?");
/// # Ok::<(), bus_crypto::CryptoError>(())
/// ```
pub struct XKey {
    key: BoxKey,
}

impl XKey {
    /// Draws a new key.
    ///
    /// # Errors
    /// [`CryptoError::Entropy`] when the source fails.
    pub fn generate(entropy: &dyn Entropy) -> Result<Self, CryptoError> {
        BoxKey::generate(entropy).map(Self::from_box_key)
    }

    /// Gives an X25519 key the text forms of NATS.
    #[must_use]
    pub fn from_box_key(key: BoxKey) -> Self {
        Self { key }
    }

    /// Reads a seed text `SX…`, as strictly as
    /// [`SigningKey::from_seed_text`](crate::SigningKey::from_seed_text).
    ///
    /// # Errors
    /// [`CryptoError::BadNkey`], also for the seed of a key that signs; the text is never quoted.
    pub fn from_seed_text(text: &str) -> Result<Self, CryptoError> {
        match decode_seed(text)? {
            (NkeyKind::Curve, seed) => Ok(Self::from_box_key(BoxKey::from_secret(seed))),
            _ => Err(CryptoError::BadNkey("the seed of a key that signs")),
        }
    }

    /// The seed text, as [`from_seed_text`](Self::from_seed_text) reads it: a secret.
    #[must_use]
    pub fn seed_text(&self) -> Zeroizing<String> {
        encode_seed(NkeyKind::Curve, self.key.secret())
    }

    /// The public half, `X…`.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.key.public().nkey()
    }

    /// The same key without NATS' text forms, to open sealed boxes with.
    #[must_use]
    pub fn box_key(&self) -> &BoxKey {
        &self.key
    }

    /// Seals `data` from this key to `recipient`: 44 bytes more than the data.
    ///
    /// # Errors
    /// [`CryptoError::BadNkey`] when the recipient is no curve key,
    /// [`CryptoError::ZeroSharedSecret`] when it has a small order, [`CryptoError::Entropy`] when
    /// the source fails; nothing is sealed then.
    pub fn seal(
        &self,
        entropy: &dyn Entropy,
        recipient: &PublicKey,
        data: &[u8],
    ) -> Result<Vec<u8>, CryptoError> {
        let shared = self.shared_with(recipient)?;
        let mut nonce = [0; NONCE_BYTES];
        entropy.fill(&mut nonce)?;
        let boxed = shared.encrypt(&nonce.into(), data).map_err(|_| CryptoError::DataTooLong)?;
        Ok([VERSION, nonce.as_slice(), &boxed].concat())
    }

    /// Opens what `sender` sealed to this key.
    ///
    /// # Errors
    /// [`CryptoError::BadNkey`] when the sender is no curve key,
    /// [`CryptoError::ZeroSharedSecret`] when it has a small order,
    /// [`CryptoError::DecryptionFailed`] for everything that is not a box between the two.
    pub fn open(
        &self,
        sender: &PublicKey,
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, CryptoError> {
        let shared = self.shared_with(sender)?;
        let (nonce, boxed) = sealed
            .strip_prefix(VERSION)
            .and_then(|rest| rest.split_first_chunk::<NONCE_BYTES>())
            .ok_or(CryptoError::DecryptionFailed)?;
        let opened = shared.decrypt(nonce.into(), boxed);
        opened.map(Zeroizing::new).map_err(|_| CryptoError::DecryptionFailed)
    }

    fn shared_with(&self, other: &PublicKey) -> Result<SalsaBox, CryptoError> {
        let other = BoxPublicKey::from_nkey(other)?;
        Ok(SalsaBox::new(&other.foreign(), &self.key.foreign()))
    }
}

impl fmt::Debug for XKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "XKey({})", self.public())
    }
}

const VERSION: &[u8] = b"xkv1";
const NONCE_BYTES: usize = 24;
