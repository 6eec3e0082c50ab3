//! X25519 keys, and the anonymous sealed boxes that libsodium makes with them.
//!
//! A sealed box hides what it carries from all but one key, and says nothing about who made it:
//! whoever knows the public key can. Believe what comes out only when it is signed as well (C22).

use std::fmt;
use std::num::NonZeroU32;

use crypto_box::aead::rand_core::{self, CryptoRng, RngCore, impls};
use crypto_box::{KEY_SIZE, PublicKey as ForeignPublic, SecretKey};
use curve25519_dalek::MontgomeryPoint;
use data_encoding::HEXLOWER;
use zeroize::Zeroizing;

use crate::entropy::Entropy;
use crate::error::CryptoError;
use crate::nkey::{NkeyKind, PublicKey};

/// An X25519 secret key with its public half. It has no `Clone`, prints only its public key, and
/// wipes its secret.
///
/// ```
/// use bus_crypto::{BoxKey, SystemEntropy, sealed_box};
///
/// let entropy = SystemEntropy::new();
/// let bob = BoxKey::generate(&entropy)?;
/// let sealed = sealed_box::seal(&entropy, bob.public(), b"the key of room 7")?;
/// assert_eq!(sealed_box::open(&bob, &sealed)?.as_slice(), b"the key of room 7");
/// # Ok::<(), bus_crypto::CryptoError>(())
/// ```
pub struct BoxKey {
    secret: Zeroizing<[u8; KEY_SIZE]>,
    public: BoxPublicKey,
}

/// An X25519 public key: 32 bytes that are no point of small order.
///
/// Two keys are equal when their bytes are; X25519 ignores the topmost bit, a box does not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BoxPublicKey {
    bytes: [u8; KEY_SIZE],
}

impl BoxKey {
    /// Draws a new key.
    ///
    /// # Errors
    /// [`CryptoError::Entropy`] when the source fails.
    pub fn generate(entropy: &dyn Entropy) -> Result<Self, CryptoError> {
        let mut secret = Zeroizing::new([0; KEY_SIZE]);
        entropy.fill(&mut secret[..])?;
        Ok(Self::from_secret(secret))
    }

    /// Takes over a raw secret; every 32 bytes are one.
    #[must_use]
    pub fn from_secret(secret: Zeroizing<[u8; KEY_SIZE]>) -> Self {
        let bytes = MontgomeryPoint::mul_base_clamped(*secret).to_bytes();
        Self { secret, public: BoxPublicKey { bytes } }
    }

    /// The public half.
    #[must_use]
    pub fn public(&self) -> &BoxPublicKey {
        &self.public
    }

    /// The secret that the two keys share: X25519 as it comes, never all zeros. Derive keys from
    /// it; it is not one.
    #[must_use]
    pub fn agree(&self, other: &BoxPublicKey) -> Zeroizing<[u8; KEY_SIZE]> {
        Zeroizing::new(MontgomeryPoint(other.bytes).mul_clamped(*self.secret).to_bytes())
    }

    pub(crate) fn secret(&self) -> &[u8; KEY_SIZE] {
        &self.secret
    }

    /// The key as the box library takes it.
    pub(crate) fn foreign(&self) -> SecretKey {
        SecretKey::from_bytes(*self.secret)
    }
}

impl BoxPublicKey {
    /// Takes 32 bytes as a key.
    ///
    /// # Errors
    /// [`CryptoError::ZeroSharedSecret`] for a point of small order: the secret agreed with it
    /// would be all zeros, whoever agrees.
    pub fn from_bytes(bytes: [u8; KEY_SIZE]) -> Result<Self, CryptoError> {
        // Clamped secrets are multiples of 8: what one of them takes to zero, every one does.
        if MontgomeryPoint(bytes).mul_clamped([0; KEY_SIZE]).to_bytes() == [0; KEY_SIZE] {
            return Err(CryptoError::ZeroSharedSecret);
        }
        Ok(Self { bytes })
    }

    /// Takes a curve nkey (`X…`).
    ///
    /// # Errors
    /// [`CryptoError::BadNkey`] for an nkey of another kind, [`CryptoError::ZeroSharedSecret`] for
    /// one of small order.
    pub fn from_nkey(nkey: &PublicKey) -> Result<Self, CryptoError> {
        if nkey.kind() != NkeyKind::Curve {
            return Err(CryptoError::BadNkey("only a curve key takes part in a box"));
        }
        Self::from_bytes(*nkey.as_bytes())
    }

    /// The key as a curve nkey.
    #[must_use]
    pub fn nkey(&self) -> PublicKey {
        PublicKey::from_bytes(NkeyKind::Curve, self.bytes)
    }

    /// The 32 bytes of the key.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; KEY_SIZE] {
        &self.bytes
    }

    /// The key as the box library takes it.
    pub(crate) fn foreign(&self) -> ForeignPublic {
        ForeignPublic::from_bytes(self.bytes)
    }
}

/// Seals `data` for `recipient` alone, as libsodium's `crypto_box_seal` does: a fresh key that is
/// forgotten at once, then the box, 48 bytes more than the data.
///
/// # Errors
/// [`CryptoError::Entropy`] when the source fails; nothing is sealed then.
pub fn seal(
    entropy: &dyn Entropy,
    recipient: &BoxPublicKey,
    data: &[u8],
) -> Result<Vec<u8>, CryptoError> {
    let mut draws = Draws { entropy, failed: None };
    let sealed = recipient.foreign().seal(&mut draws, data);
    match draws.failed {
        // The box was made under a key that is not random, and is thrown away.
        Some(error) => Err(error),
        None => sealed.map_err(|_| CryptoError::DataTooLong),
    }
}

/// Opens what [`seal`] or libsodium sealed for this key.
///
/// # Errors
/// [`CryptoError::ZeroSharedSecret`] when the sender's key has a small order (everybody could make
/// and read such a box), [`CryptoError::DecryptionFailed`] for everything else that is not a box
/// for this key.
pub fn open(key: &BoxKey, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, CryptoError> {
    let (sender, _) =
        sealed.split_first_chunk::<KEY_SIZE>().ok_or(CryptoError::DecryptionFailed)?;
    BoxPublicKey::from_bytes(*sender)?;
    let opened = key.foreign().unseal(sealed);
    opened.map(Zeroizing::new).map_err(|_| CryptoError::DecryptionFailed)
}

impl fmt::Debug for BoxKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BoxKey({})", HEXLOWER.encode(&self.public.bytes))
    }
}

impl fmt::Debug for BoxPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BoxPublicKey({})", HEXLOWER.encode(&self.bytes))
    }
}

/// Our source of randomness as the box library asks for one. Its questions cannot be refused, so
/// the failure is kept and looked at afterwards.
struct Draws<'a> {
    entropy: &'a dyn Entropy,
    failed: Option<CryptoError>,
}

impl RngCore for Draws<'_> {
    fn next_u32(&mut self) -> u32 {
        impls::next_u32_via_fill(self)
    }

    fn next_u64(&mut self) -> u64 {
        impls::next_u64_via_fill(self)
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        if let Err(error) = self.entropy.fill(bytes) {
            self.failed = Some(error);
        }
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), rand_core::Error> {
        self.fill_bytes(bytes);
        if self.failed.is_some() { Err(NonZeroU32::MIN.into()) } else { Ok(()) }
    }
}

impl CryptoRng for Draws<'_> {}

#[cfg(test)]
mod tests;
