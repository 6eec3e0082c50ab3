//! A source of randomness that can run dry.

use std::sync::atomic::{AtomicBool, Ordering};

use bus_crypto::{CryptoError, Entropy, SystemEntropy};

/// The system's generator until it is told to fail.
#[derive(Debug, Default)]
pub struct Tap {
    is_shut: AtomicBool,
}

impl Tap {
    /// Makes every later draw fail, or work again.
    pub fn shut(&self, is_shut: bool) {
        self.is_shut.store(is_shut, Ordering::Relaxed);
    }
}

impl Entropy for Tap {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), CryptoError> {
        if self.is_shut.load(Ordering::Relaxed) {
            return Err(CryptoError::Entropy);
        }
        SystemEntropy::new().fill(bytes)
    }
}
