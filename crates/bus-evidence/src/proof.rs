//! Proofs about one log that anybody holds against its checkpoint: that an entry is in it, and that
//! it goes on from an earlier checkpoint.

mod text;

use bus_core::{Certificate, Identity};
use bus_envelope::{EventHash, MessageEnvelope, tree::MerkleTree};
use bus_subjects::{SessionId, WorkspaceId};

use crate::{
    Checkpoint, CheckpointError, certificate,
    entry::line_of,
    log::{Log, Place},
};

/// What a proof shows; its text form is a file of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// An entry is in the log that a checkpoint covers.
    Inclusion(InclusionProof),
    /// The log that a checkpoint covers begins with that of an earlier one.
    Consistency(ConsistencyProof),
}

/// Shows that an entry is in the log that a checkpoint covers.
///
/// Its text is a C2SP tlog-proof; the entry and the certificates are the extra data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InclusionProof {
    /// The entry as it stands in the log: the line of an envelope.
    pub entry: Vec<u8>,
    /// The certificates of who signed the entry and the checkpoint.
    pub certificates: Vec<String>,
    /// The place of the entry in the log, from 0.
    pub index: u64,
    /// The hashes beside the path from the entry to the root.
    pub hashes: Vec<EventHash>,
    /// The signed head of the log.
    pub checkpoint: Checkpoint,
}

/// Shows that the log that a checkpoint covers begins with that of an earlier one.
///
/// From its line `old` on its text is the request by which a C2SP tlog-witness is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsistencyProof {
    /// The certificates of who signed both checkpoints.
    pub certificates: Vec<String>,
    /// How many entries the earlier checkpoint covers.
    pub old: u64,
    /// The hashes that lead from the earlier root to the present one.
    pub hashes: Vec<EventHash>,
    /// The signed head of the log as it is now.
    pub checkpoint: Checkpoint,
}

/// The receipts of one session as they grow, for checkpoints and proofs about them.
///
/// # Examples
/// ```
/// use bus_evidence::SessionLog;
///
/// let log = SessionLog::receipts(&"acme".parse()?, &"s1".parse()?);
/// assert_eq!((log.origin(), log.size()), ("vakbus/acme/s1/receipts".to_owned(), 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct SessionLog {
    place: Place,
    log: Log,
    tree: MerkleTree,
}

/// Why there is no such proof.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProofError {
    /// The text breaks the form.
    #[error("not a proof: {0}")]
    Form(&'static str),
    /// The checkpoint in the text breaks its form, or cannot be made.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The recorder may not sign checkpoints.
    #[error("the recorder is refused: {0}")]
    Recorder(String),
    /// The envelope does not belong into the log.
    #[error("the envelope does not belong into the log: {0}")]
    Misplaced(String),
    /// The log has no entry with this index.
    #[error("there is no entry {index}: the log has {size}")]
    NoEntry {
        /// The index that was asked for, from 0.
        index: u64,
        /// How many entries there are.
        size: u64,
    },
    /// The earlier checkpoint is of another log.
    #[error("the earlier checkpoint is of {origin:?}, and the log is {own:?}")]
    OtherLog {
        /// What the checkpoint is of.
        origin: String,
        /// The log's own name.
        own: String,
    },
    /// The earlier checkpoint covers nothing, and so everything goes on from it.
    #[error("the earlier checkpoint covers no entry, so there is nothing to go on from")]
    Empty,
    /// The log has fewer entries than the earlier checkpoint covers.
    #[error("the log has {size} entries where the earlier checkpoint says {old}: its end is gone")]
    Shorter {
        /// How many entries there are.
        size: u64,
        /// How many the checkpoint covers.
        old: u64,
    },
    /// The first entries of the log are not those that the earlier checkpoint was made over.
    #[error("the first {old} entries are not those that the earlier checkpoint was made over")]
    Rewritten {
        /// How many the checkpoint covers.
        old: u64,
    },
}

impl SessionLog {
    /// The receipts of a session, before the first one.
    #[must_use]
    pub fn receipts(workspace: &WorkspaceId, session: &SessionId) -> Self {
        let place = Place { workspace: workspace.clone(), session: session.clone() };
        Self { place, log: Log::Receipts, tree: MerkleTree::new() }
    }

    /// Adds the next entry of the log and returns its index. A bundle has the same lines.
    ///
    /// # Errors
    /// [`ProofError::Misplaced`] when it is of another session or no receipt.
    pub fn append(&mut self, envelope: &MessageEnvelope) -> Result<u64, ProofError> {
        match self.log.misplaced(&self.place, envelope) {
            Some(reason) => Err(ProofError::Misplaced(reason)),
            None => Ok(self.tree.append(&line_of(envelope))),
        }
    }

    /// How many entries there are.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.tree.size()
    }

    /// The name of the log, as its checkpoints have it.
    #[must_use]
    pub fn origin(&self) -> String {
        self.place.origin(self.log.name())
    }

    /// Signs the head of the log as it is now.
    ///
    /// # Errors
    /// [`ProofError::Recorder`] when the recorder is a worker, an observer or a view.
    pub fn checkpoint(&self, recorder: &Identity) -> Result<Checkpoint, ProofError> {
        sign(&self.origin(), (self.size(), self.tree.root()), recorder)
    }

    /// Proves that `entry` is the one with this index, under a checkpoint of the log as it is now.
    /// `signer` is the certificate of who signed the entry.
    ///
    /// # Errors
    /// [`ProofError::NoEntry`] when there is none with this index, and what
    /// [`SessionLog::checkpoint`] gives.
    pub fn inclusion(
        &self,
        index: u64,
        entry: &MessageEnvelope,
        signer: &Certificate,
        recorder: &Identity,
    ) -> Result<InclusionProof, ProofError> {
        let checkpoint = self.checkpoint(recorder)?;
        let size = self.size();
        let hashes = self.tree.inclusion_proof(index, size);
        let hashes = hashes.ok_or(ProofError::NoEntry { index, size })?;
        let certificates = tokens([signer, recorder.certificate()]);
        Ok(InclusionProof { entry: line_of(entry), certificates, index, hashes, checkpoint })
    }

    /// Proves that the log goes on from the checkpoint `earlier`, which was kept elsewhere.
    /// `signers` are the certificates of who may have signed it.
    ///
    /// # Errors
    /// [`ProofError::Shorter`] and [`ProofError::Rewritten`] when it does not;
    /// [`ProofError::OtherLog`] and [`ProofError::Empty`] when nothing can be said, and what
    /// [`SessionLog::checkpoint`] gives.
    pub fn consistency<'a>(
        &self,
        earlier: &Checkpoint,
        signers: impl IntoIterator<Item = &'a Certificate>,
        recorder: &'a Identity,
    ) -> Result<ConsistencyProof, ProofError> {
        let (old, own) = (earlier.size(), self.origin());
        if earlier.origin() != own {
            return Err(ProofError::OtherLog { origin: earlier.origin().to_owned(), own });
        }
        if old == 0 {
            return Err(ProofError::Empty);
        }
        match self.tree.root_at(old) {
            Some(root) if root.as_bytes() == earlier.root() => {}
            Some(_) => return Err(ProofError::Rewritten { old }),
            None => return Err(ProofError::Shorter { size: self.size(), old }),
        }
        let checkpoint = self.checkpoint(recorder)?;
        let hashes = self.tree.consistency_proof(old, self.size());
        let hashes = hashes.ok_or(ProofError::Shorter { size: self.size(), old })?;
        let certificates = tokens(signers.into_iter().chain([recorder.certificate()]));
        Ok(ConsistencyProof { certificates, old, hashes, checkpoint })
    }
}

impl Proof {
    /// The longest text of a proof, in bytes.
    pub const BYTES_MAX: usize = 24 * 1024 * 1024;
    /// The most certificates that a proof may bring along.
    pub const CERTIFICATES_MAX: usize = 16;

    /// Reads a proof strictly: there is one text for one content.
    ///
    /// # Errors
    /// [`ProofError::Form`] and [`ProofError::Checkpoint`] with the rule that is broken.
    pub fn parse(text: &str) -> Result<Self, ProofError> {
        text::parse(text)
    }

    /// The checkpoint that the proof leads to.
    #[must_use]
    pub const fn checkpoint(&self) -> &Checkpoint {
        match self {
            Self::Inclusion(proof) => &proof.checkpoint,
            Self::Consistency(proof) => &proof.checkpoint,
        }
    }
}

impl std::fmt::Display for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Inclusion(proof) => proof.fmt(f),
            Self::Consistency(proof) => proof.fmt(f),
        }
    }
}

/// Signs the head of a log of so many entries with this root.
pub(crate) fn sign(
    origin: &str,
    (size, root): (u64, EventHash),
    recorder: &Identity,
) -> Result<Checkpoint, ProofError> {
    let certificate = recorder.certificate();
    if !certificate::may_record(certificate) {
        let detail = format!("{} is no {}", certificate.agent, certificate::RECORDERS);
        return Err(ProofError::Recorder(detail));
    }
    let name = certificate.agent.as_str();
    Ok(Checkpoint::sign(origin, size, *root.as_bytes(), name, recorder.key())?)
}

/// The tokens of these certificates, each once.
fn tokens<'a>(certificates: impl IntoIterator<Item = &'a Certificate>) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    for certificate in certificates {
        if !tokens.iter().any(|token| token == certificate.token()) {
            tokens.push(certificate.token().to_owned());
        }
    }
    tokens
}
