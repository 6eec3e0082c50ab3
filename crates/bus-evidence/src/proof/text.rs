//! The text of proofs: C2SP tlog-proof, and beside it the form of consistency.

use std::fmt::{self, Display, Formatter, Write as _};

use bus_envelope::EventHash;
use data_encoding::BASE64;

use crate::{
    Checkpoint, ConsistencyProof, InclusionProof, LINE_BYTES_MAX, Proof, ProofError, base64,
    certificate,
};

/// Reads a proof strictly.
pub(super) fn parse(text: &str) -> Result<Proof, ProofError> {
    if text.len() > Proof::BYTES_MAX {
        return Err(ProofError::Form("it is too long"));
    }
    let (head, checkpoint) =
        text.split_once("\n\n").ok_or(ProofError::Form("it has no checkpoint"))?;
    let mut lines = head.split('\n');
    let mut line = || lines.next().ok_or(ProofError::Form("it has too few lines"));
    let kind = line()?;
    if kind != INCLUSION && kind != CONSISTENCY {
        return Err(ProofError::Form("the first line names no known form"));
    }
    let extra = line()?.strip_prefix(EXTRA);
    let extra = extra.ok_or(ProofError::Form("the second line is no extra data"))?;
    let extra =
        base64::decode(extra).ok_or(ProofError::Form("the extra data is not canonical base64"))?;
    let number = line()?;
    let mut hashes = Vec::new();
    for line in lines {
        if hashes.len() == HASHES_MAX {
            return Err(ProofError::Form("it has too many hashes"));
        }
        hashes.push(hash(line)?);
    }
    // Its form is looked at last, as it stands last.
    let checkpoint = || Checkpoint::parse(checkpoint);
    if kind == INCLUSION {
        let index = decimal(number, INDEX)?;
        let (entry, certificates) = split(&extra)?;
        let (entry, certificates) = (entry.to_vec(), tokens(certificates)?);
        let checkpoint = checkpoint()?;
        return Ok(Proof::Inclusion(InclusionProof {
            entry,
            certificates,
            index,
            hashes,
            checkpoint,
        }));
    }
    let old = decimal(number, OLD)?;
    let (certificates, checkpoint) = (tokens(&extra)?, checkpoint()?);
    Ok(Proof::Consistency(ConsistencyProof { certificates, old, hashes, checkpoint }))
}

impl Display for InclusionProof {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut extra = self.entry.clone();
        extra.push(b'\n');
        extra.extend(lines_of(&self.certificates));
        let Self { index, hashes, checkpoint, .. } = self;
        write(f, INCLUSION, &extra, (INDEX, *index), hashes, checkpoint)
    }
}

impl Display for ConsistencyProof {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let extra = lines_of(&self.certificates);
        write(f, CONSISTENCY, &extra, (OLD, self.old), &self.hashes, &self.checkpoint)
    }
}

fn write(
    f: &mut Formatter<'_>,
    kind: &str,
    extra: &[u8],
    (name, number): (&str, u64),
    hashes: &[EventHash],
    checkpoint: &Checkpoint,
) -> fmt::Result {
    write!(f, "{kind}\n{EXTRA}{}\n{name}{number}\n", BASE64.encode(extra))?;
    for hash in hashes {
        writeln!(f, "{}", BASE64.encode(hash.as_bytes()))?;
    }
    f.write_char('\n')?;
    f.write_str(checkpoint.text())
}

/// The first line of the extra data, which is the entry, and the lines after it.
fn split(extra: &[u8]) -> Result<(&[u8], &[u8]), ProofError> {
    let end = extra.iter().position(|byte| *byte == b'\n');
    let end = end.ok_or(ProofError::Form("the extra data is no entry with its line feed"))?;
    if end > LINE_BYTES_MAX {
        return Err(ProofError::Form("the entry is too long"));
    }
    let (entry, rest) = extra.split_at(end);
    Ok((entry, rest.get(1..).unwrap_or_default()))
}

/// The certificates in lines of the form that a bundle has.
fn tokens(lines: &[u8]) -> Result<Vec<String>, ProofError> {
    const LINE: ProofError = ProofError::Form("the extra data holds a line that is no certificate");
    let mut tokens = Vec::new();
    let mut rest = lines;
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == b'\n').ok_or(LINE)?;
        let (line, after) = rest.split_at(end);
        rest = after.get(1..).unwrap_or_default();
        let token = certificate::decode(line).map_err(|_| LINE)?;
        if certificate::encode(&token) != line {
            return Err(LINE);
        }
        if tokens.len() == Proof::CERTIFICATES_MAX {
            return Err(ProofError::Form("it has too many certificates"));
        }
        tokens.push(token);
    }
    Ok(tokens)
}

/// The lines of certificates, as a bundle has them.
fn lines_of(tokens: &[String]) -> Vec<u8> {
    let mut lines = Vec::new();
    for token in tokens {
        lines.extend(certificate::encode(token));
        lines.push(b'\n');
    }
    lines
}

fn hash(line: &str) -> Result<EventHash, ProofError> {
    let bytes = base64::decode(line);
    let bytes = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    bytes.map(EventHash::from_bytes).ok_or(ProofError::Form("a line is not the base64 of a hash"))
}

fn decimal(line: &str, name: &str) -> Result<u64, ProofError> {
    const NUMBER: ProofError = ProofError::Form("the third line is not its number");
    let text = line.strip_prefix(name).ok_or(NUMBER)?;
    let number: u64 = text.parse().map_err(|_| NUMBER)?;
    if number.to_string() == text { Ok(number) } else { Err(NUMBER) }
}

const INCLUSION: &str = "c2sp.org/tlog-proof@v1";
const CONSISTENCY: &str = "vakbus/consistency@v1";
const EXTRA: &str = "extra ";
const INDEX: &str = "index ";
const OLD: &str = "old ";

/// No tree of 2^64 entries needs more.
const HASHES_MAX: usize = 64;
