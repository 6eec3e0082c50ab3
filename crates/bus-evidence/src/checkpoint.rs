//! Signed checkpoints of a log: the C2SP tlog-checkpoint text, an Ed25519 signed note.
//!
//! The text says how many entries a log has and what their Merkle root is. Whoever keeps one can
//! prove later that the log was cut or rewritten.

use bus_crypto::{PublicKey, SigningKey};
use data_encoding::BASE64;
use sha2::{Digest, Sha256};

use crate::base64;

/// The signed head of a log: its origin, the number of its entries and their RFC 6962 root.
///
/// # Examples
/// ```
/// use bus_crypto::{NkeyKind, SigningKey, SystemEntropy};
/// use bus_evidence::Checkpoint;
///
/// let key = SigningKey::generate(NkeyKind::User, &SystemEntropy::new())?;
/// let signed = Checkpoint::sign("vakbus/w1/s1/receipts", 3, [7; 32], "recorder", &key)?;
/// let read = Checkpoint::parse(signed.text())?;
/// assert_eq!((read.size(), read.root()), (3, &[7; 32]));
/// read.verify(key.public())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    origin: String,
    size: u64,
    root: [u8; 32],
    text: String,
    body_bytes: usize,
    signatures: Vec<NoteSignature>,
}

/// One signature line of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteSignature {
    name: String,
    key_id: [u8; 4],
    bytes: Vec<u8>,
}

/// Why a text is not a checkpoint, or not one signed by a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The text breaks the form.
    #[error("checkpoint is not in canonical form: {0}")]
    Form(&'static str),
    /// No signature line is of this key.
    #[error("no signature of this checkpoint is made with the key {key}")]
    NotSigned {
        /// The public key that was looked for.
        key: String,
    },
    /// A signature line names this key but does not verify.
    #[error("the signature of {name} does not fit the checkpoint")]
    BadSignature {
        /// The name on the signature line.
        name: String,
    },
}

impl Checkpoint {
    /// The most signature lines a checkpoint may have.
    pub const SIGNATURES_MAX: usize = 16;
    /// The longest checkpoint, in bytes; cosignatures of the largest known kind fit.
    pub const BYTES_MAX: usize = 256 * 1024;

    /// Signs the head of a log: `size` entries with the Merkle root `root`.
    ///
    /// The signature line carries `name`; a verifier finds the key by it.
    ///
    /// # Errors
    /// [`CheckpointError::Form`] when `origin` is empty or holds a control character, or `name` is
    /// empty or holds white space, `+` or a control character.
    pub fn sign(
        origin: &str,
        size: u64,
        root: [u8; 32],
        name: &str,
        key: &SigningKey,
    ) -> Result<Self, CheckpointError> {
        check_origin(origin)?;
        check_name(name)?;
        let body = format!("{origin}\n{size}\n{}\n", BASE64.encode(&root));
        let key_id = key_id(name, key.public());
        let signature = NoteSignature {
            name: name.to_owned(),
            key_id,
            bytes: key.sign(body.as_bytes()).to_vec(),
        };
        let blob = [key_id.as_slice(), &signature.bytes].concat();
        let text = format!("{body}\n{DASH}{name} {}\n", BASE64.encode(&blob));
        Ok(Self {
            origin: origin.to_owned(),
            size,
            root,
            text,
            body_bytes: body.len(),
            signatures: vec![signature],
        })
    }

    /// Reads a checkpoint strictly: there is one text for one content.
    ///
    /// Extension lines are refused. Signatures of other kinds (cosignatures of witnesses) are read
    /// and kept, but only Ed25519 ones can be verified here.
    ///
    /// # Errors
    /// [`CheckpointError::Form`] with the rule that is broken.
    pub fn parse(text: &str) -> Result<Self, CheckpointError> {
        if text.len() > Self::BYTES_MAX {
            return Err(CheckpointError::Form("it is too long"));
        }
        let mut lines = text.split('\n');
        let mut line = || lines.next().ok_or(CheckpointError::Form("it has too few lines"));
        let (origin, size, root, blank) = (line()?, line()?, line()?, line()?);
        check_origin(origin)?;
        let size = parse_size(size)?;
        let root = base64::decode(root)
            .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok())
            .ok_or(CheckpointError::Form("the third line is not the base64 of a root hash"))?;
        if !blank.is_empty() {
            return Err(CheckpointError::Form("extension lines are not allowed"));
        }
        let mut signatures = Vec::new();
        loop {
            let line = line()?;
            if line.is_empty() {
                break;
            }
            if signatures.len() == Self::SIGNATURES_MAX {
                return Err(CheckpointError::Form("it has too many signatures"));
            }
            signatures.push(NoteSignature::parse(line)?);
        }
        if signatures.is_empty() || lines.next().is_some() {
            return Err(CheckpointError::Form("expected signature lines, each ended, and no more"));
        }
        let body_bytes = text.find("\n\n").map_or(text.len(), |at| at + 1);
        let (origin, text) = (origin.to_owned(), text.to_owned());
        Ok(Self { origin, size, root, text, body_bytes, signatures })
    }

    /// Checks that the checkpoint is signed with `key`.
    ///
    /// Signatures of other keys are passed over, as the note specification demands.
    ///
    /// # Errors
    /// [`CheckpointError::NotSigned`] when no line is of this key, and
    /// [`CheckpointError::BadSignature`] when one is and does not verify.
    pub fn verify(&self, key: &PublicKey) -> Result<(), CheckpointError> {
        let body = self.text.as_bytes().get(..self.body_bytes).unwrap_or_default();
        let mut found = false;
        for signature in &self.signatures {
            if signature.key_id != key_id(&signature.name, key) {
                continue;
            }
            let Some(bytes) = signature.ed25519() else { continue };
            key.verify(body, bytes)
                .map_err(|_| CheckpointError::BadSignature { name: signature.name.clone() })?;
            found = true;
        }
        if found { Ok(()) } else { Err(CheckpointError::NotSigned { key: key.to_string() }) }
    }

    /// The name of the log.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The number of entries of the log.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The RFC 6962 root of those entries.
    #[must_use]
    pub const fn root(&self) -> &[u8; 32] {
        &self.root
    }

    /// The signed note, as it is written to a file.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The signature lines, one at least.
    #[must_use]
    pub fn signatures(&self) -> &[NoteSignature] {
        &self.signatures
    }
}

impl std::fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl NoteSignature {
    /// The name of the key.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The short hash that tells keys of one name apart.
    #[must_use]
    pub const fn key_id(&self) -> [u8; 4] {
        self.key_id
    }

    fn parse(line: &str) -> Result<Self, CheckpointError> {
        let line = line
            .strip_prefix(DASH)
            .ok_or(CheckpointError::Form("a signature line does not begin with a dash"))?;
        let (name, blob) = line
            .split_once(' ')
            .ok_or(CheckpointError::Form("a signature line lacks its signature"))?;
        check_name(name)?;
        let blob = base64::decode(blob)
            .ok_or(CheckpointError::Form("a signature is not canonical base64"))?;
        match blob.split_first_chunk::<4>() {
            Some((key_id, bytes)) if !bytes.is_empty() => {
                Ok(Self { name: name.to_owned(), key_id: *key_id, bytes: bytes.to_vec() })
            }
            _ => Err(CheckpointError::Form("a signature is too short")),
        }
    }

    fn ed25519(&self) -> Option<&[u8; 64]> {
        self.bytes.as_slice().try_into().ok()
    }
}

/// The key id of the signed-note specification for an Ed25519 key.
pub(crate) fn key_id(name: &str, key: &PublicKey) -> [u8; 4] {
    key_id_of(name, key.as_bytes())
}

fn key_id_of(name: &str, key: &[u8; 32]) -> [u8; 4] {
    let mut hash = Sha256::new();
    hash.update(name.as_bytes());
    hash.update([b'\n', ED25519]);
    hash.update(key);
    let digest: [u8; 32] = hash.finalize().into();
    let [a, b, c, d, ..] = digest;
    [a, b, c, d]
}

fn check_origin(origin: &str) -> Result<(), CheckpointError> {
    if origin.is_empty() || origin.chars().any(char::is_control) {
        return Err(CheckpointError::Form("the origin is empty or holds a control character"));
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), CheckpointError> {
    let bad = |c: char| c.is_whitespace() || c.is_control() || c == '+';
    if name.is_empty() || name.chars().any(bad) {
        return Err(CheckpointError::Form("a key name is empty or holds white space or '+'"));
    }
    Ok(())
}

fn parse_size(text: &str) -> Result<u64, CheckpointError> {
    let size: u64 =
        text.parse().map_err(|_| CheckpointError::Form("the second line is not a tree size"))?;
    if size.to_string() != text {
        return Err(CheckpointError::Form("the tree size is not in its shortest form"));
    }
    Ok(size)
}

/// An em dash and a space, which begin a signature line.
const DASH: &str = "\u{2014} ";
/// The signature type of the signed-note specification.
const ED25519: u8 = 0x01;

#[cfg(test)]
mod tests;
