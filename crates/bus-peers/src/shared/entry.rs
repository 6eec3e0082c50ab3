//! What stands in the shared bucket, and what buses say to each other.

use std::collections::BTreeSet;

use bus_core::Outcome;
use bus_subjects::BucketKey;
use bytes::Bytes;
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{BusEnvelope, BusError, InstanceMeta, SecretHash};

/// A registration, as the bucket has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) meta: InstanceMeta,
    /// SHA-256 of the secret in hex.
    secret_sha256: String,
    /// The buses at which somebody listens for it, by their agents.
    pub(crate) holders: BTreeSet<String>,
}

/// A message that one bus hands to another.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Handed {
    pub(crate) instance_id: String,
    pub(crate) envelope: BusEnvelope,
}

/// What the other one made of it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) accepted: bool,
    #[serde(default)]
    pub(crate) losses_unrecorded: bool,
}

impl Entry {
    pub(crate) fn new(meta: InstanceMeta, secret: SecretHash) -> Self {
        let secret_sha256 = HEXLOWER.encode(secret.as_bytes());
        Self { meta, secret_sha256, holders: BTreeSet::new() }
    }

    /// None when it is damaged: then the instance is not registered.
    pub(crate) fn parse(value: &[u8]) -> Option<Self> {
        serde_json::from_slice(value).ok()
    }

    pub(crate) fn secret(&self) -> Option<SecretHash> {
        let bytes = HEXLOWER.decode(self.secret_sha256.as_bytes()).ok()?;
        Some(SecretHash::from_bytes(bytes.try_into().ok()?))
    }

    pub(crate) fn json(&self) -> Result<Bytes, BusError> {
        json(self)
    }
}

/// The key of an instance: its id may hold what a key may not.
pub(crate) fn key(instance_id: &str) -> Result<BucketKey, BusError> {
    parsed(&format!("instance.{}", HEXLOWER.encode(&Sha256::digest(instance_id.as_bytes()))))
}

/// The key of the number of the newest registration.
pub(crate) fn counter() -> Result<BucketKey, BusError> {
    parsed("seq")
}

pub(crate) fn number(value: &[u8]) -> Result<u64, BusError> {
    let text = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    text.ok_or_else(|| BusError::Unavailable {
        reason: "the counter of the shared registry is damaged: expected a number".into(),
        outcome: Outcome::NotDone,
    })
}

pub(crate) fn json(value: &impl Serialize) -> Result<Bytes, BusError> {
    crate::record::json(value)
}

fn parsed(text: &str) -> Result<BucketKey, BusError> {
    BucketKey::parse(text).map_err(|error| BusError::Unavailable {
        reason: format!("no key of the shared registry: {error}"),
        outcome: Outcome::NotDone,
    })
}
