//! Authenticated encryption in place: one fresh random nonce per seal, every seal counted.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ring::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use zeroize::Zeroize;

use crate::entropy::Entropy;
use crate::error::CryptoError;

/// The name of AES-256-GCM in envelopes.
pub const AES_256_GCM: &str = "AES-256-GCM";

/// The name of ChaCha20-Poly1305 in envelopes.
pub const CHACHA20_POLY1305: &str = "ChaCha20-Poly1305";

/// The length of every nonce.
pub const NONCE_BYTES: usize = 12;

/// The length of the authentication tag that a seal appends.
pub const TAG_BYTES: usize = 16;

/// How many messages one key may seal: random 96-bit nonces are safe below 2^32 of them.
pub const SEALS_MAX: u64 = (1 << 32) - 1;

/// A cipher that seals and opens in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// AES-256-GCM: workspace payloads.
    Aes256Gcm,
    /// ChaCha20-Poly1305 (RFC 8439): rooms.
    ChaCha20Poly1305,
}

impl Algorithm {
    /// Finds the algorithm with exactly this name.
    ///
    /// # Errors
    /// [`CryptoError::UnknownAlgorithm`] for any other text.
    pub fn parse(name: &str) -> Result<Self, CryptoError> {
        match name {
            AES_256_GCM => Ok(Self::Aes256Gcm),
            CHACHA20_POLY1305 => Ok(Self::ChaCha20Poly1305),
            _ => Err(CryptoError::UnknownAlgorithm),
        }
    }

    /// The name that envelopes carry.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Aes256Gcm => AES_256_GCM,
            Self::ChaCha20Poly1305 => CHACHA20_POLY1305,
        }
    }

    fn bind(self, key: &[u8; 32]) -> Result<LessSafeKey, CryptoError> {
        let algorithm = match self {
            Self::Aes256Gcm => &aead::AES_256_GCM,
            Self::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
        };
        UnboundKey::new(algorithm, key)
            .map(LessSafeKey::new)
            .map_err(|_| CryptoError::UnknownAlgorithm)
    }
}

/// A key that seals, and counts its seals.
///
/// Share one `Arc` of it per key id: a second copy would count on its own. Nobody can hand it a
/// nonce, so no nonce can be used twice by mistake.
pub struct SealKey {
    key_id: Box<str>,
    algorithm: Algorithm,
    key: LessSafeKey,
    seals: AtomicU64,
    seals_max: u64,
    withdrawn: AtomicBool,
}

impl SealKey {
    /// Makes a key that may seal [`SEALS_MAX`] messages.
    ///
    /// # Errors
    /// None in practice: every 32 bytes are a key.
    pub fn new(algorithm: Algorithm, key_id: &str, key: &[u8; 32]) -> Result<Self, CryptoError> {
        Ok(Self {
            key_id: key_id.into(),
            algorithm,
            key: algorithm.bind(key)?,
            seals: AtomicU64::new(0),
            seals_max: SEALS_MAX,
            withdrawn: AtomicBool::new(false),
        })
    }

    /// Lowers the number of messages that this key may seal; [`SEALS_MAX`] stays the ceiling.
    #[must_use]
    pub fn with_limit(mut self, seals_max: u64) -> Self {
        self.seals_max = seals_max.min(SEALS_MAX);
        self
    }

    /// The id under which receivers find the opening key.
    #[must_use]
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// The cipher of this key.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// How many messages this key has sealed.
    #[must_use]
    pub fn seals(&self) -> u64 {
        self.seals.load(Ordering::Relaxed)
    }

    /// Encrypts `data` in place, appends the 16-byte tag and returns the nonce that was drawn.
    ///
    /// `aad` is bound but not encrypted: opening needs exactly the same bytes.
    ///
    /// # Errors
    /// [`CryptoError::Entropy`] when no nonce could be drawn, [`CryptoError::KeyExhausted`] when
    /// the key has sealed its last message, [`CryptoError::WithdrawnKey`] after a withdrawal,
    /// [`CryptoError::DataTooLong`] beyond the cipher's limit. In every case `data` is unchanged.
    pub fn seal_in_place(
        &self,
        entropy: &dyn Entropy,
        aad: &[u8],
        data: &mut Vec<u8>,
    ) -> Result<[u8; NONCE_BYTES], CryptoError> {
        self.check_not_withdrawn()?;
        self.seal_fresh(FreshNonce::draw(entropy, &mut [])?, aad, data)
    }

    /// Seals as [`seal_in_place`](Self::seal_in_place) does, under a nonce that was drawn together
    /// with what else the message needed.
    ///
    /// # Errors
    /// As [`seal_in_place`](Self::seal_in_place), but for [`CryptoError::Entropy`].
    pub fn seal_fresh(
        &self,
        nonce: FreshNonce,
        aad: &[u8],
        data: &mut Vec<u8>,
    ) -> Result<[u8; NONCE_BYTES], CryptoError> {
        self.check_not_withdrawn()?;
        self.count()?;
        let FreshNonce(nonce) = nonce;
        self.seal_with_nonce(nonce, aad, data)?;
        Ok(nonce)
    }

    /// Seals as [`seal_fresh`](Self::seal_fresh) does, for data that lies among other data: gives
    /// the tag, which belongs behind it, instead of appending it.
    ///
    /// # Errors
    /// As [`seal_fresh`](Self::seal_fresh).
    pub fn seal_detached(
        &self,
        nonce: FreshNonce,
        aad: &[u8],
        data: &mut [u8],
    ) -> Result<[u8; TAG_BYTES], CryptoError> {
        self.check_not_withdrawn()?;
        self.count()?;
        let FreshNonce(nonce) = nonce;
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(aad), data)
            .map_err(|_| CryptoError::DataTooLong)?;
        tag.as_ref().try_into().map_err(|_| CryptoError::DataTooLong)
    }

    fn check_not_withdrawn(&self) -> Result<(), CryptoError> {
        if self.withdrawn.load(Ordering::Acquire) {
            return Err(CryptoError::WithdrawnKey { key_id: self.key_id.to_string() });
        }
        Ok(())
    }

    pub(crate) fn withdraw(&self) {
        self.withdrawn.store(true, Ordering::Release);
    }

    /// Not public: a nonce from outside is how nonces get reused. Known-answer tests need it.
    pub(crate) fn seal_with_nonce(
        &self,
        nonce: [u8; NONCE_BYTES],
        aad: &[u8],
        data: &mut Vec<u8>,
    ) -> Result<(), CryptoError> {
        // Room for the tag first, so that a full vector is not copied after it holds ciphertext.
        data.reserve(TAG_BYTES);
        self.key
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(aad), data)
            .map_err(|_| CryptoError::DataTooLong)
    }

    /// Takes one seal from the budget, or refuses without going past it.
    fn count(&self) -> Result<(), CryptoError> {
        self.seals
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |seals| {
                (seals < self.seals_max).then_some(seals + 1)
            })
            .map(|_| ())
            .map_err(|_| CryptoError::KeyExhausted { key_id: self.key_id.to_string() })
    }
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealKey")
            .field("key_id", &self.key_id)
            .field("algorithm", &self.algorithm)
            .field("seals", &self.seals())
            .finish_non_exhaustive()
    }
}

/// A nonce that was drawn and has sealed nothing yet; sealing uses it up.
///
/// It comes from an [`Entropy`] and from nowhere else, and cannot be copied. Draw it for the
/// message at hand: one that waits is no longer fresh in a copy of a running machine.
#[must_use = "a nonce that is drawn is for one seal"]
pub struct FreshNonce([u8; NONCE_BYTES]);

impl FreshNonce {
    /// Draws a nonce, and fills `beside` with independent random bytes. Up to 52 bytes come in the
    /// same call to the source, which takes as long as a nonce alone.
    ///
    /// # Errors
    /// [`CryptoError::Entropy`] when the source fails; the content of `beside` must not be used.
    pub fn draw(entropy: &dyn Entropy, beside: &mut [u8]) -> Result<Self, CryptoError> {
        let mut drawn = [0; DRAWN_BYTES];
        let Some(together) = drawn.get_mut(..NONCE_BYTES + beside.len()) else {
            entropy.fill(beside)?;
            return Self::draw(entropy, &mut []);
        };
        entropy.fill(together)?;
        let (nonce, rest) =
            together.split_first_chunk::<NONCE_BYTES>().ok_or(CryptoError::Entropy)?;
        beside.copy_from_slice(rest);
        Ok(Self(*nonce))
    }

    /// The nonce, to be written down for the receivers; it cannot be sealed with again.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; NONCE_BYTES] {
        &self.0
    }
}

impl fmt::Debug for FreshNonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FreshNonce")
    }
}

/// A nonce and what else one envelope needs.
const DRAWN_BYTES: usize = 64;

/// A key that opens what the [`SealKey`] of the same id sealed.
pub struct OpenKey {
    key_id: Box<str>,
    algorithm: Algorithm,
    key: LessSafeKey,
}

impl OpenKey {
    /// Makes an opening key.
    ///
    /// # Errors
    /// None in practice: every 32 bytes are a key.
    pub fn new(algorithm: Algorithm, key_id: &str, key: &[u8; 32]) -> Result<Self, CryptoError> {
        Ok(Self { key_id: key_id.into(), algorithm, key: algorithm.bind(key)? })
    }

    /// The id of this key.
    #[must_use]
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// The cipher of this key.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Checks the tag over `data` and `aad`, then leaves the plaintext in `data`.
    ///
    /// # Errors
    /// [`CryptoError::DecryptionFailed`] when any bit of data, tag, nonce, `aad` or key differs
    /// from what was sealed, or the data is shorter than a tag. `data` is wiped and empty then: no
    /// part of a plaintext that was not authenticated reaches the caller.
    pub fn open_in_place(
        &self,
        nonce: &[u8; NONCE_BYTES],
        aad: &[u8],
        data: &mut Vec<u8>,
    ) -> Result<(), CryptoError> {
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened =
            self.key.open_in_place(nonce, Aad::from(aad), data).map(|plaintext| plaintext.len());
        match opened {
            Ok(length) => {
                data.truncate(length);
                Ok(())
            }
            Err(_) => {
                data.zeroize();
                Err(CryptoError::DecryptionFailed)
            }
        }
    }
}

impl fmt::Debug for OpenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenKey")
            .field("key_id", &self.key_id)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod vectors;
