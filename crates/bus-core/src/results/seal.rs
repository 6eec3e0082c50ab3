//! The seal around a result and around each piece of a large output.

use bus_crypto::{KeyId, seal::NONCE_BYTES};
use bus_subjects::BucketKey;
use bytes::Bytes;

use super::wire::corrupt;
use crate::{Endpoint, Result};

/// What is bound beside the data: the workspace, the kind of thing, its key and its number.
pub(super) struct Place<'a> {
    kind: &'static str,
    key: &'a BucketKey,
    index: u64,
}

impl<'a> Place<'a> {
    /// A result.
    pub(super) fn entry(key: &'a BucketKey) -> Self {
        Self { kind: "entry", key, index: 0 }
    }

    /// A piece of an output.
    pub(super) fn piece(key: &'a BucketKey, index: u64) -> Self {
        Self { kind: "piece", key, index }
    }

    fn aad(&self, endpoint: &Endpoint) -> Vec<u8> {
        let parts =
            ["vak-bus/result-seal/v1", self.kind, endpoint.workspace().as_str(), self.key.as_str()];
        let mut aad = Vec::new();
        for part in parts {
            // Names have less than 4 GiB.
            aad.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes());
            aad.extend_from_slice(part.as_bytes());
        }
        aad.extend_from_slice(&self.index.to_be_bytes());
        aad
    }
}

/// Version, key id behind its length, nonce, sealed data.
pub(super) fn seal(endpoint: &Endpoint, place: &Place<'_>, mut data: Vec<u8>) -> Result<Vec<u8>> {
    let key = endpoint.seal_key();
    let nonce = key.seal_in_place(endpoint.entropy(), &place.aad(endpoint), &mut data)?;
    let id = key.key_id();
    let mut sealed = Vec::with_capacity(overhead(id) + data.len());
    sealed.push(VERSION);
    // A key id has at most 255 bytes: it is a workspace, a name and a UUID.
    sealed.push(u8::try_from(id.len()).unwrap_or(u8::MAX));
    sealed.extend_from_slice(id.as_bytes());
    sealed.extend_from_slice(&nonce);
    sealed.append(&mut data);
    Ok(sealed)
}

/// What [`seal`] was given for the same place.
pub(super) fn open(endpoint: &Endpoint, place: &Place<'_>, sealed: &Bytes) -> Result<Vec<u8>> {
    let short = || corrupt("a sealed result is cut off");
    let (head, rest) = sealed.split_at_checked(2).ok_or_else(short)?;
    let &[version, id_bytes] = head else { return Err(short()) };
    if version != VERSION {
        return Err(corrupt("a sealed result has an unknown version"));
    }
    let (id, rest) = rest.split_at_checked(usize::from(id_bytes)).ok_or_else(short)?;
    let (nonce, data) = rest.split_at_checked(NONCE_BYTES).ok_or_else(short)?;
    let id = std::str::from_utf8(id).map_err(|_| corrupt("a key id is no text"))?;
    // A process may hold the secrets of several workspaces: each speaks for its own only.
    if KeyId::parse(id)?.workspace() != endpoint.workspace().as_str() {
        return Err(corrupt("a result is sealed with a key of another workspace"));
    }
    let nonce: &[u8; NONCE_BYTES] = nonce.try_into().map_err(|_| short())?;
    let mut data = data.to_vec();
    let key = endpoint.keyring().opening_key(id)?;
    key.open_in_place(nonce, &place.aad(endpoint), &mut data)?;
    Ok(data)
}

/// How many bytes a seal with the key `id` adds.
fn overhead(id: &str) -> usize {
    2 + id.len() + NONCE_BYTES + bus_crypto::seal::TAG_BYTES
}

const VERSION: u8 = 1;
