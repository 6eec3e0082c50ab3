//! SHA-256 hashes of events, and the length-prefixed lists they are taken over.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// A SHA-256 hash: a leaf of the chain, a payload hash, or a node of a tree.
///
/// The text form is 64 lower-case hex digits and nothing else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventHash([u8; 32]);

/// Why a text is not a hash.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("hash is refused: expected 64 lower-case hex digits")]
pub struct HashError;

impl EventHash {
    /// Takes 32 bytes as they are.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The SHA-256 hash of `data`.
    #[must_use]
    pub fn of(data: &[u8]) -> Self {
        Self(Sha256::digest(data).into())
    }

    /// Reads 64 lower-case hex digits.
    ///
    /// # Errors
    /// [`HashError`] for anything else, upper case included.
    pub fn parse(text: &str) -> Result<Self, HashError> {
        if text.len() != 64 {
            return Err(HashError);
        }
        let mut bytes = [0; 32];
        match HEXLOWER.decode_mut(text.as_bytes(), &mut bytes) {
            Ok(32) => Ok(Self(bytes)),
            _ => Err(HashError),
        }
    }

    /// The 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Whether both are equal, in a time that does not depend on where they differ.
    #[must_use]
    pub fn ct_eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Display for EventHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 64];
        f.write_str(HEXLOWER.encode_mut_str(&self.0, &mut text))
    }
}

impl fmt::Debug for EventHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventHash({self})")
    }
}

impl FromStr for EventHash {
    type Err = HashError;

    fn from_str(text: &str) -> Result<Self, HashError> {
        Self::parse(text)
    }
}

impl AsRef<[u8]> for EventHash {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Both hashes, in less time than one after the other: neither waits for the other, so the
/// processor works on a block of each at once.
pub(crate) fn hash_both(one: &[u8], other: &[u8]) -> (EventHash, EventHash) {
    let (mut one_hasher, mut other_hasher) = (Sha256::new(), Sha256::new());
    let (mut one_rest, mut other_rest) = (one, other);
    while let (Some((one_block, one_tail)), Some((other_block, other_tail))) =
        (one_rest.split_first_chunk::<BLOCK_BYTES>(), other_rest.split_first_chunk::<BLOCK_BYTES>())
    {
        one_hasher.update(one_block);
        other_hasher.update(other_block);
        (one_rest, other_rest) = (one_tail, other_tail);
    }
    one_hasher.update(one_rest);
    other_hasher.update(other_rest);
    (EventHash(one_hasher.finalize().into()), EventHash(other_hasher.finalize().into()))
}

/// A list of parts to be hashed, each behind its length as four big-endian bytes.
///
/// The first part is a domain tag, so that no list of one kind is ever a list of another kind. An
/// absent part is the length `ff ff ff ff` alone, so that absent differs from empty.
///
/// The parts are gathered at the end of a buffer, to be hashed in one go; afterwards the buffer is
/// as it was before, with more room.
pub(crate) struct Parts<'a> {
    bytes: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> Parts<'a> {
    /// Begins a list with its domain tag, behind what is in `bytes`.
    pub(crate) fn new(tag: &str, bytes: &'a mut Vec<u8>) -> Self {
        bytes.reserve(GATHERED_BYTES);
        let mut parts = Self { start: bytes.len(), bytes };
        parts.add(tag.as_bytes());
        parts
    }

    /// Adds a part.
    #[inline]
    pub(crate) fn add(&mut self, part: &[u8]) -> &mut Self {
        // No part comes near this length; the cap keeps it apart from the mark of an absent one.
        let length = u32::try_from(part.len()).unwrap_or(u32::MAX).min(u32::MAX - 1);
        self.bytes.extend_from_slice(&length.to_be_bytes());
        self.bytes.extend_from_slice(part);
        self
    }

    /// Adds a part that may be absent.
    #[inline]
    pub(crate) fn add_optional(&mut self, part: Option<&[u8]>) -> &mut Self {
        if let Some(part) = part {
            return self.add(part);
        }
        self.bytes.extend_from_slice(&u32::MAX.to_be_bytes());
        self
    }

    /// The list so far, as it will be hashed.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// The hash of the whole list.
    pub(crate) fn finish(self) -> EventHash {
        EventHash::of(self.as_bytes())
    }
}

impl Drop for Parts<'_> {
    fn drop(&mut self) {
        self.bytes.truncate(self.start);
    }
}

/// More than a list of attributes has, most often.
const GATHERED_BYTES: usize = 640;

/// What SHA-256 takes in at once.
const BLOCK_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_hash_survives_its_text() {
        let hash = EventHash::of(b"");
        assert_eq!(hash.to_string(), EMPTY);
        assert_eq!(EventHash::parse(EMPTY), Ok(hash));
    }

    #[test]
    fn upper_case_and_other_lengths_are_refused() {
        assert_eq!(EventHash::parse(&EMPTY.to_uppercase()), Err(HashError));
        assert_eq!(EventHash::parse(&EMPTY[1..]), Err(HashError));
        assert_eq!(EventHash::parse(&format!("{EMPTY}00")), Err(HashError));
    }

    fn list(parts: &[Option<&[u8]>]) -> EventHash {
        let mut bytes = Vec::new();
        let mut list = Parts::new("test", &mut bytes);
        for part in parts {
            list.add_optional(*part);
        }
        list.finish()
    }

    #[test]
    fn an_absent_part_differs_from_an_empty_one() {
        assert_ne!(list(&[None]), list(&[Some(b"")]));
    }

    #[test]
    fn a_byte_moved_between_two_parts_changes_the_hash() {
        assert_ne!(list(&[Some(b"ab"), Some(b"c")]), list(&[Some(b"a"), Some(b"bc")]));
    }

    #[test]
    fn a_list_of_any_length_has_the_hash_of_its_bytes() {
        for length in [0, 1, GATHERED_BYTES, 2_000] {
            let long = vec![7; length];
            let bytes = (length as u32).to_be_bytes();
            let written = [b"\0\0\0\x04test", &bytes[..], &long, b"\0\0\0\x03end"].concat();
            assert_eq!(list(&[Some(&long), Some(b"end")]), EventHash::of(&written), "{length}");
        }
    }

    #[test]
    fn a_buffer_holds_after_a_list_what_it_held_before() {
        let mut bytes = b"before".to_vec();
        let hash = Parts::new("test", &mut bytes).finish();
        assert_eq!((hash, bytes), (list(&[]), b"before".to_vec()));
    }

    #[test]
    fn two_hashes_at_once_are_those_of_one_after_the_other() {
        let data: Vec<u8> = (0..=255).cycle().take(400).collect();
        for one in [0, 1, 63, 64, 65, 128, 400] {
            for other in [0, 1, 63, 64, 65, 128, 400] {
                let (one, other) = (&data[..one], &data[400 - other..]);
                assert_eq!(hash_both(one, other), (EventHash::of(one), EventHash::of(other)));
            }
        }
    }
}
