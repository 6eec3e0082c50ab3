#![doc = include_str!("../README.md")]

pub mod creds;
pub mod entropy;
pub mod error;
pub mod jwt;
pub mod kdf;
pub mod key_id;
pub mod keyring;
pub mod nkey;
pub mod seal;
pub mod sealed_box;
pub mod secret;
pub mod sign;
pub mod xkey;

mod cache;

#[cfg(test)]
mod crypto;

pub use creds::Credentials;
pub use entropy::{Entropy, SystemEntropy};
pub use error::CryptoError;
pub use kdf::{derive_key, hkdf_sha256};
pub use key_id::KeyId;
pub use keyring::Keyring;
pub use nkey::{NkeyKind, PublicKey};
pub use seal::{AES_256_GCM, Algorithm, CHACHA20_POLY1305, FreshNonce, OpenKey, SealKey};
pub use sealed_box::{BoxKey, BoxPublicKey};
pub use secret::WorkspaceSecret;
pub use sign::SigningKey;
pub use xkey::XKey;
/// The wrapper that secrets are handed out in: wiped on drop.
pub use zeroize::Zeroizing;
