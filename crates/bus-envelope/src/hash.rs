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

/// A hash over a list of parts, each behind its length as four big-endian bytes.
///
/// The first part is a domain tag, so that no list of one kind is ever a list of another kind. An
/// absent part is the length `ff ff ff ff` alone, so that absent differs from empty.
///
/// Parts are gathered before they are hashed: most lists fit, and are hashed in one go.
pub(crate) struct Parts {
    hasher: Sha256,
    gathered: [u8; GATHERED_BYTES],
    filled: usize,
}

impl Parts {
    /// Begins a list with its domain tag.
    pub(crate) fn new(tag: &str) -> Self {
        let mut parts = Self { hasher: Sha256::new(), gathered: [0; GATHERED_BYTES], filled: 0 };
        parts.add(tag.as_bytes());
        parts
    }

    /// Adds a part.
    pub(crate) fn add(&mut self, part: &[u8]) -> &mut Self {
        // No part comes near this length; the cap keeps it apart from the mark of an absent one.
        let bytes = u32::try_from(part.len()).unwrap_or(u32::MAX).min(u32::MAX - 1).to_be_bytes();
        let end = self.filled + bytes.len() + part.len();
        let place = self.gathered.get_mut(self.filled..end);
        if let Some((length, place)) = place.and_then(|place| place.split_first_chunk_mut()) {
            *length = bytes;
            place.copy_from_slice(part);
            self.filled = end;
        } else {
            self.flush();
            self.hasher.update(bytes);
            self.hasher.update(part);
        }
        self
    }

    /// Adds a part that may be absent.
    pub(crate) fn add_optional(&mut self, part: Option<&[u8]>) -> &mut Self {
        match part {
            Some(part) => self.add(part),
            None => {
                let mark = u32::MAX.to_be_bytes();
                let end = self.filled + mark.len();
                match self.gathered.get_mut(self.filled..end) {
                    Some(place) => {
                        place.copy_from_slice(&mark);
                        self.filled = end;
                    }
                    None => {
                        self.flush();
                        self.hasher.update(mark);
                    }
                }
                self
            }
        }
    }

    /// The hash of the whole list.
    pub(crate) fn finish(mut self) -> EventHash {
        self.flush();
        EventHash(self.hasher.finalize().into())
    }

    fn flush(&mut self) {
        self.hasher.update(self.gathered.get(..self.filled).unwrap_or_default());
        self.filled = 0;
    }
}

/// More than a list of attributes has, most often.
const GATHERED_BYTES: usize = 640;

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

    #[test]
    fn an_absent_part_differs_from_an_empty_one() {
        let hash = |part: Option<&[u8]>| {
            let mut parts = Parts::new("test");
            parts.add_optional(part);
            parts.finish()
        };
        assert_ne!(hash(None), hash(Some(b"")));
    }

    #[test]
    fn a_byte_moved_between_two_parts_changes_the_hash() {
        let hash = |a: &[u8], b: &[u8]| {
            let mut parts = Parts::new("test");
            parts.add(a).add(b);
            parts.finish()
        };
        assert_ne!(hash(b"ab", b"c"), hash(b"a", b"bc"));
    }

    #[test]
    fn a_list_longer_than_what_is_gathered_has_the_hash_of_its_bytes() {
        for length in [0, 1, GATHERED_BYTES - 13, GATHERED_BYTES - 12, GATHERED_BYTES, 2_000] {
            let long = vec![7; length];
            let mut parts = Parts::new("test");
            parts.add(&long).add(b"end");
            let bytes = (length as u32).to_be_bytes();
            let list = [b"\0\0\0\x04test", &bytes[..], &long, b"\0\0\0\x03end"].concat();
            assert_eq!(parts.finish(), EventHash::of(&list), "{length}");
        }
    }
}
