//! Public nkeys: NATS' text form of an Ed25519 public key, with its kind and a checksum.

use std::fmt;

use data_encoding::BASE32_NOPAD;
use ring::signature::{ED25519, UnparsedPublicKey};
use zeroize::Zeroizing;

use crate::error::CryptoError;

/// What an nkey stands for; the first letter of its text says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NkeyKind {
    /// `O`: signs accounts.
    Operator,
    /// `A`: signs users. A workspace's key is one.
    Account,
    /// `U`: connects and signs envelopes. An agent's key is one.
    User,
    /// `N`: a NATS server.
    Server,
    /// `C`: a cluster of servers.
    Cluster,
    /// `X`: X25519, for sealed boxes; it cannot sign.
    Curve,
}

impl NkeyKind {
    /// The first letter of a public key of this kind.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::Operator => 'O',
            Self::Account => 'A',
            Self::User => 'U',
            Self::Server => 'N',
            Self::Cluster => 'C',
            Self::Curve => 'X',
        }
    }

    /// The prefix byte: its upper five bits are the letter's place in the base32 alphabet.
    pub(crate) fn prefix(self) -> u8 {
        match self {
            Self::Operator => 14 << 3,
            Self::Account => 0,
            Self::User => 20 << 3,
            Self::Server => 13 << 3,
            Self::Cluster => 2 << 3,
            Self::Curve => 23 << 3,
        }
    }

    pub(crate) fn from_prefix(prefix: u8) -> Option<Self> {
        [Self::Operator, Self::Account, Self::User, Self::Server, Self::Cluster, Self::Curve]
            .into_iter()
            .find(|kind| kind.prefix() == prefix)
    }
}

/// A public nkey: 32 bytes and what they stand for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey {
    kind: NkeyKind,
    bytes: [u8; 32],
}

impl PublicKey {
    /// Takes 32 bytes as a key of this kind.
    #[must_use]
    pub fn from_bytes(kind: NkeyKind, bytes: [u8; 32]) -> Self {
        Self { kind, bytes }
    }

    /// Reads the text form: exactly 56 characters of base32 in upper case, a known kind, a right
    /// checksum; nothing before, between or after.
    ///
    /// # Errors
    /// [`CryptoError::BadNkey`]; a seed in place of a public key is refused with its own reason
    /// and never quoted.
    pub fn parse(text: &str) -> Result<Self, CryptoError> {
        if text.starts_with('S') {
            return Err(CryptoError::BadNkey("a seed, where a public key is needed"));
        }
        if text.len() != PUBLIC_TEXT_BYTES {
            return Err(CryptoError::BadNkey("a public key has 56 characters"));
        }
        let raw = decode::<PUBLIC_RAW_BYTES>(text)?;
        let (prefix, bytes) = raw.split_first().ok_or(CryptoError::BadNkey("empty"))?;
        let kind = NkeyKind::from_prefix(*prefix)
            .ok_or(CryptoError::BadNkey("not the prefix of a public key"))?;
        let bytes = bytes
            .first_chunk()
            .copied()
            .ok_or(CryptoError::BadNkey("a public key has 32 bytes"))?;
        Ok(Self { kind, bytes })
    }

    /// What the key stands for.
    #[must_use]
    pub fn kind(&self) -> NkeyKind {
        self.kind
    }

    /// The 32 bytes of the key.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.bytes
    }

    /// The text form, as [`parse`](Self::parse) reads it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut raw = Vec::with_capacity(PUBLIC_RAW_BYTES);
        raw.push(self.kind.prefix());
        raw.extend_from_slice(&self.bytes);
        raw.extend_from_slice(&crc16(&raw).to_le_bytes());
        BASE32_NOPAD.encode(&raw)
    }

    /// Checks an Ed25519 signature strictly: `S` in range, and no key of small order (under such a
    /// key one signature fits every message).
    ///
    /// # Errors
    /// [`CryptoError::BadSignature`]; always for a curve key, which cannot sign.
    pub fn verify(&self, message: &[u8], signature: &[u8; 64]) -> Result<(), CryptoError> {
        if self.kind == NkeyKind::Curve || self.has_small_order() {
            return Err(CryptoError::BadSignature);
        }
        UnparsedPublicKey::new(&ED25519, self.bytes)
            .verify(message, signature)
            .map_err(|_| CryptoError::BadSignature)
    }

    fn has_small_order(&self) -> bool {
        let mut y = self.bytes;
        // The top bit is the sign of x: both signs of a small y have small order.
        y[31] &= 0x7f;
        SMALL_ORDER.contains(&y)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.text())
    }
}

/// Reads a seed text: exactly 58 characters of base32 in upper case, a known kind, a right
/// checksum. No error quotes it.
pub(crate) fn decode_seed(text: &str) -> Result<(NkeyKind, Zeroizing<[u8; 32]>), CryptoError> {
    if text.len() != SEED_TEXT_BYTES {
        return Err(CryptoError::BadNkey("a seed has 58 characters"));
    }
    let raw = decode::<SEED_RAW_BYTES>(text)?;
    let (prefix, seed) =
        raw.split_first_chunk::<2>().ok_or(CryptoError::BadNkey("wrong length"))?;
    // Five bits say "seed", the next eight are the kind's prefix, the last three are free.
    let [first, second] = *prefix;
    if first & 0xf8 != SEED_PREFIX || second & 0x07 != 0 {
        return Err(CryptoError::BadNkey("not a seed"));
    }
    let kind = NkeyKind::from_prefix((first & 0x07) << 5 | second >> 3)
        .ok_or(CryptoError::BadNkey("a seed of no known kind"))?;
    let seed = seed.first_chunk().copied().map(Zeroizing::new);
    Ok((kind, seed.ok_or(CryptoError::BadNkey("wrong length"))?))
}

/// Writes a seed text, as [`decode_seed`] reads it.
pub(crate) fn encode_seed(kind: NkeyKind, seed: &[u8; 32]) -> Zeroizing<String> {
    let kind = kind.prefix();
    // Full capacity at once: growing would leave unwiped copies behind.
    let mut raw = Zeroizing::new(Vec::with_capacity(SEED_RAW_BYTES));
    raw.extend_from_slice(&[SEED_PREFIX | kind >> 5, kind << 3]);
    raw.extend_from_slice(seed);
    let checksum = crc16(&raw).to_le_bytes();
    raw.extend_from_slice(&checksum);
    Zeroizing::new(BASE32_NOPAD.encode(&raw))
}

/// Decodes base32, checks and drops the CRC-16; the payload stays in the first `N` - 2 bytes.
fn decode<const N: usize>(text: &str) -> Result<Zeroizing<Vec<u8>>, CryptoError> {
    let raw = BASE32_NOPAD
        .decode(text.as_bytes())
        .map(Zeroizing::new)
        .map_err(|_| CryptoError::BadNkey("not base32 in upper case without padding"))?;
    if raw.len() != N {
        return Err(CryptoError::BadNkey("wrong length"));
    }
    let (payload, checksum) =
        raw.split_last_chunk::<2>().ok_or(CryptoError::BadNkey("wrong length"))?;
    if crc16(payload).to_le_bytes() != *checksum {
        return Err(CryptoError::BadNkey("wrong checksum"));
    }
    Ok(Zeroizing::new(payload.to_vec()))
}

/// CRC-16/XMODEM, the checksum of nkeys.
pub(crate) fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 }
        })
    })
}

const PUBLIC_RAW_BYTES: usize = 1 + 32 + 2;
const PUBLIC_TEXT_BYTES: usize = 56;
pub(crate) const SEED_PREFIX: u8 = 18 << 3;
const SEED_RAW_BYTES: usize = 2 + 32 + 2;
const SEED_TEXT_BYTES: usize = 58;

/// The y coordinates (sign bit cleared) of all points whose order divides 8, canonical or not.
const SMALL_ORDER: [[u8; 32]; 7] = {
    let mut one = [0; 32];
    one[0] = 1;
    let mut below_p = [0xff; 32];
    below_p[31] = 0x7f;
    let (mut minus_one, mut p, mut p_plus_one) = (below_p, below_p, below_p);
    minus_one[0] = 0xec;
    p[0] = 0xed;
    p_plus_one[0] = 0xee;
    [[0; 32], one, ORDER_8_FIRST, ORDER_8_SECOND, minus_one, p, p_plus_one]
};

const ORDER_8_FIRST: [u8; 32] = [
    0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0,
    0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
];

const ORDER_8_SECOND: [u8; 32] = [
    0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f,
    0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
];
