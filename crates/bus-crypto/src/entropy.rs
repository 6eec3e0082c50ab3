//! The only door to randomness.

use ring::rand::{SecureRandom, SystemRandom};

use crate::error::CryptoError;

/// A source of bytes that nobody can predict.
///
/// Keys, seeds and nonces are drawn through it, so that a simulation can supply its own source and
/// a failing source can be shown to stop everything that needs it.
pub trait Entropy: Send + Sync {
    /// Fills `bytes` completely with fresh random bytes.
    ///
    /// # Errors
    /// [`CryptoError::Entropy`] when the source fails; the content of `bytes` must not be used.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), CryptoError>;
}

/// The operating system's random number generator.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEntropy;

impl SystemEntropy {
    /// Stands for the operating system's generator.
    #[must_use]
    pub fn new() -> Self {
        Self
    }
}

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), CryptoError> {
        SystemRandom::new().fill(bytes).map_err(|_| CryptoError::Entropy)
    }
}
