//! The handshake: the server's challenge, the client's signed answer, and the welcome.
//!
//! The first two have one fixed beginning in all versions, so that programs of different versions
//! can tell each other so.

use bus_core::{Durability, Error, ErrorKind, Result, packed::Unpacker};
use bus_subjects::AclPolicy;
use serde::{Deserialize, Serialize};

use super::{Fault, packet::corrupt};

/// What the server says first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// What it speaks.
    pub(crate) versions: Versions,
    /// Which life of which server this is.
    pub(crate) server: [u8; SERVER_ID_BYTES],
    /// What the client signs; new for each connection.
    pub(crate) nonce: [u8; 32],
}

/// The versions that a program speaks, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Versions {
    pub(crate) first: u16,
    pub(crate) last: u16,
}

/// What the client answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    /// What the client speaks.
    pub(crate) versions: Versions,
    /// The client's signature over the challenge and its versions.
    pub(crate) signature: [u8; 64],
    /// Its certificate.
    pub(crate) token: String,
}

/// The end of the handshake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Welcome {
    /// The client is in.
    In(Welcomed),
    /// It is not.
    Refused(Fault),
}

/// What a client learns when it is let in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Welcomed {
    /// The version that both speak from now on.
    pub(crate) version: u16,
    /// What an acknowledged append survives, 0 to 2.
    durability: u8,
    /// How many calls may be open at one time.
    pub(crate) calls_max: u32,
    /// What the client may do, so that it knows at once what would be refused.
    pub(crate) policy: AclPolicy,
}

impl Challenge {
    /// The bytes of the challenge.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        self.versions.encode(&mut out);
        out.extend_from_slice(&self.server);
        out.extend_from_slice(&self.nonce);
        out
    }

    /// Reads a challenge; what follows it belongs to a later version.
    ///
    /// # Errors
    /// `Corrupt` when it is none.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Unpacker::new(bytes);
        if reader.take(MAGIC.len())? != MAGIC {
            return Err(corrupt("the other side is no vakbus server"));
        }
        let versions = Versions::decode(&mut reader)?;
        Ok(Self { versions, server: reader.array()?, nonce: reader.array()? })
    }

    /// What the client of `versions` signs.
    pub(crate) fn to_sign(&self, versions: Versions) -> Vec<u8> {
        let mut out = SIGNED_AS.to_vec();
        out.extend_from_slice(&self.nonce);
        out.extend_from_slice(&self.server);
        self.versions.encode(&mut out);
        versions.encode(&mut out);
        out
    }
}

impl Versions {
    /// What this program speaks.
    pub(crate) const OURS: Self = Self { first: super::VERSION, last: super::VERSION };

    /// The newest version that both speak.
    ///
    /// # Errors
    /// `Unsupported` with both ranges.
    pub(crate) fn common(self, other: Self, op: &'static str) -> Result<u16> {
        let newest = self.last.min(other.last);
        if newest >= self.first.max(other.first) {
            return Ok(newest);
        }
        let why = format!("no common version: this side speaks {self}, the other side {other}");
        Err(Error::new(ErrorKind::Unsupported, op, why))
    }

    fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.first.to_le_bytes());
        out.extend_from_slice(&self.last.to_le_bytes());
    }

    fn decode(reader: &mut Unpacker<'_>) -> Result<Self> {
        let (first, last) = (reader.u16()?, reader.u16()?);
        if first > last {
            return Err(corrupt("the other side speaks no version"));
        }
        Ok(Self { first, last })
    }
}

impl std::fmt::Display for Versions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} to {}", self.first, self.last)
    }
}

impl Response {
    /// The bytes of the answer.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        self.versions.encode(&mut out);
        out.extend_from_slice(&self.signature);
        out.extend_from_slice(self.token.as_bytes());
        out
    }

    /// The versions of the client, which stand at the same place in every version.
    ///
    /// # Errors
    /// `Corrupt` when it is no answer.
    pub(crate) fn versions(bytes: &[u8]) -> Result<Versions> {
        let mut reader = Unpacker::new(bytes);
        if reader.take(MAGIC.len())? != MAGIC {
            return Err(corrupt("the other side is no vakbus client"));
        }
        Versions::decode(&mut reader)
    }

    /// Reads an answer of this version.
    ///
    /// # Errors
    /// `Corrupt` when it is none.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let versions = Self::versions(bytes)?;
        let mut reader = Unpacker::new(bytes);
        let _known = reader.take(MAGIC.len() + 4)?;
        let signature = reader.array()?;
        let token = std::str::from_utf8(reader.take(reader.left())?)
            .map_err(|_| corrupt("the certificate is not UTF-8"))?;
        Ok(Self { versions, signature, token: token.to_owned() })
    }
}

impl Welcomed {
    pub(crate) fn new(
        version: u16,
        durability: Durability,
        calls_max: u32,
        policy: AclPolicy,
    ) -> Self {
        let durability = match durability {
            Durability::Memory => 0,
            Durability::Written => 1,
            Durability::Synced => 2,
        };
        Self { version, durability, calls_max, policy }
    }

    /// What an acknowledged append survives.
    ///
    /// # Errors
    /// `Corrupt` when it is no durability.
    pub(crate) fn durability(&self) -> Result<Durability> {
        super::convert::durability(self.durability)
    }
}

/// How long the id of a server's life is, in bytes.
pub(crate) const SERVER_ID_BYTES: usize = 16;

const MAGIC: &[u8] = b"vakbus-link\n";
const SIGNED_AS: &[u8] = b"vak-bus/link/hello/v1\n";
