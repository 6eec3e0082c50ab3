//! The secret that a workspace shares, and the texts it is written in.

use std::ffi::OsStr;
use std::fmt;

use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::entropy::Entropy;
use crate::error::CryptoError;

/// A workspace's shared secret: at least 32 bytes, wiped on drop, never printed.
///
/// Keys are derived from it; it never encrypts anything itself. It has no `Clone`: share it behind
/// an `Arc` where two owners need it.
pub struct WorkspaceSecret {
    bytes: Zeroizing<Vec<u8>>,
}

impl WorkspaceSecret {
    /// The fewest bytes a secret may have.
    pub const BYTES_MIN: usize = 32;

    /// Takes over raw bytes; they are wiped when too short.
    ///
    /// # Errors
    /// [`CryptoError::SecretTooShort`] under 32 bytes.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, CryptoError> {
        let bytes = Zeroizing::new(bytes);
        if bytes.len() < Self::BYTES_MIN {
            return Err(CryptoError::SecretTooShort {
                bytes: bytes.len(),
                bytes_min: Self::BYTES_MIN,
            });
        }
        Ok(Self { bytes })
    }

    /// Reads a secret as people write it: `base64:…` (with padding), `hex:…`, or else the bytes of
    /// the text itself. One final line feed is dropped, so `echo … > file` works.
    ///
    /// # Errors
    /// [`CryptoError::BadSecretText`] when what follows a prefix is not in that encoding,
    /// [`CryptoError::SecretTooShort`] under 32 bytes. Neither quotes the text.
    pub fn from_text(text: &str) -> Result<Self, CryptoError> {
        let text = text.strip_suffix('\n').unwrap_or(text);
        if let Some(encoded) = text.strip_prefix("base64:") {
            let bytes = BASE64
                .decode(encoded.as_bytes())
                .map_err(|_| CryptoError::BadSecretText("not base64 after base64:"))?;
            return Self::from_bytes(bytes);
        }
        if let Some(encoded) = text.strip_prefix("hex:") {
            let bytes = HEXLOWER_PERMISSIVE
                .decode(encoded.as_bytes())
                .map_err(|_| CryptoError::BadSecretText("not hex after hex:"))?;
            return Self::from_bytes(bytes);
        }
        Self::from_bytes(text.as_bytes().to_vec())
    }

    /// Reads the value of an environment variable as [`from_text`](Self::from_text) does.
    ///
    /// # Errors
    /// As [`from_text`](Self::from_text), and [`CryptoError::BadSecretText`] when the value is not
    /// UTF-8 (write such a secret as `hex:`).
    pub fn from_env_text(value: impl AsRef<OsStr>) -> Result<Self, CryptoError> {
        let text = value.as_ref().to_str().ok_or(CryptoError::BadSecretText("not UTF-8"))?;
        Self::from_text(text)
    }

    /// Draws a new secret of 32 bytes.
    ///
    /// # Errors
    /// [`CryptoError::Entropy`] when the source fails.
    pub fn generate(entropy: &dyn Entropy) -> Result<Self, CryptoError> {
        let mut bytes = Zeroizing::new(vec![0; Self::BYTES_MIN]);
        entropy.fill(&mut bytes)?;
        Ok(Self { bytes })
    }

    /// Writes the secret as `base64:…` for a file that only its owner can read.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        // The capacity is exact: a growing string would leave unwiped copies behind.
        let length = BASE64_PREFIX.len() + BASE64.encode_len(self.bytes.len());
        let mut text = Zeroizing::new(String::with_capacity(length));
        text.push_str(BASE64_PREFIX);
        BASE64.encode_append(&self.bytes, &mut text);
        text
    }

    /// Tells in constant time whether two secrets are equal (their lengths are not hidden).
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.bytes.ct_eq(&other.bytes).into()
    }

    pub(crate) fn expose(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for WorkspaceSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WorkspaceSecret(..)")
    }
}

const BASE64_PREFIX: &str = "base64:";

#[cfg(test)]
mod tests;
