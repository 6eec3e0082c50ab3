//! The first thing that is wrong with a bundle.

use bus_core::SignerError;
use serde::Serialize;

/// The first thing that is wrong with a bundle: where, what, and the details.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{file}{}: {kind}: {detail}", .entry.map(|n| format!(" line {n}")).unwrap_or_default())]
pub struct Finding {
    /// The name of the file within the bundle; `kept checkpoint N` for one given from outside.
    pub file: String,
    /// The number of the line, from 1, where it is a line.
    pub entry: Option<u64>,
    /// What is wrong.
    pub kind: FindingKind,
    /// The details, in words.
    pub detail: String,
}

impl Finding {
    pub(super) fn new(file: &str, kind: FindingKind, detail: impl Into<String>) -> Self {
        Self { file: file.to_owned(), entry: None, kind, detail: detail.into() }
    }

    pub(super) fn at(mut self, line: u64) -> Self {
        self.entry = Some(line);
        self
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        /// What can be wrong with a bundle.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[non_exhaustive]
        pub enum FindingKind {
            $($(#[$doc])* #[serde(rename = $code)] $name,)*
        }

        impl FindingKind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The stable code of the kind, as `--json` shows it.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self {
                    $(Self::$name => $code,)*
                }
            }
        }

        impl std::fmt::Display for FindingKind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    $(Self::$name => $text,)*
                })
            }
        }
    };
}

kinds! {
    /// A file or the directory could not be read.
    UnreadableFile = "unreadable-file", "unreadable file";
    /// A log's file is missing.
    MissingFile = "missing-file", "missing file";
    /// A checkpoint is missing: the bundle was not written to its end.
    Incomplete = "incomplete", "incomplete bundle";
    /// The log of the tasks was asked for and is not there.
    TasksNotShown = "tasks-not-shown", "bundle without its tasks";
    /// The directory holds something that is no part of a bundle.
    UnexpectedFile = "unexpected-file", "unexpected file";
    /// A checkpoint is not in its one canonical form.
    CheckpointForm = "checkpoint-form", "unreadable checkpoint";
    /// A checkpoint names another log, workspace or session than the others.
    CheckpointOrigin = "checkpoint-origin", "checkpoint of another log";
    /// A checkpoint's signer has no certificate in the bundle.
    CheckpointSigner = "checkpoint-signer", "checkpoint by an unknown signer";
    /// A checkpoint's signer has no role that may sign checkpoints.
    CheckpointRole = "checkpoint-role", "checkpoint by an agent that may not sign it";
    /// A checkpoint's signer had no valid certificate at the time of the newest envelope covered.
    CheckpointExpired = "checkpoint-expired", "checkpoint by a certificate that had ended";
    /// A checkpoint's signature does not fit it.
    CheckpointSignature = "checkpoint-signature", "bad signature of the checkpoint";
    /// A line is no entry of its log.
    UnreadableLine = "unreadable-line", "unreadable line";
    /// A line says the right thing in another than the one canonical form.
    NotCanonical = "not-canonical", "line not in canonical form";
    /// A line has no line feed.
    Unterminated = "unterminated", "line without its line feed";
    /// A certificate is damaged, of another workspace, or contradicts another one.
    CertificateInvalid = "certificate-invalid", "invalid certificate";
    /// A certificate is not issued by the trusted account.
    CertificateUntrusted = "certificate-untrusted", "certificate by another account";
    /// An envelope does not belong into this log.
    WrongPlace = "wrong-place", "entry of another log";
    /// An envelope carries no signature.
    Unsigned = "unsigned", "unsigned entry";
    /// An envelope's signer has no certificate in the bundle.
    UnknownSigner = "unknown-signer", "unknown signer";
    /// An envelope's or a checkpoint's signer had its key revoked.
    Revoked = "revoked", "signed with a revoked key";
    /// An envelope's signature does not fit it.
    BadSignature = "bad-signature", "bad signature";
    /// An envelope is signed by another agent than the one it names.
    WrongAgent = "wrong-agent", "signed by another agent";
    /// An envelope is signed by an agent of another workspace.
    WrongWorkspace = "wrong-workspace", "signed by an agent of another workspace";
    /// An envelope names another source than its agent.
    WrongSource = "wrong-source", "source of another agent";
    /// An envelope was made outside the validity of its signer's certificate.
    Expired = "expired", "certificate not valid at that time";
    /// An envelope's signer has no role that may publish to its subject.
    NotPermitted = "not-permitted", "signer not permitted";
    /// Envelopes are missing before this one in its chain.
    ChainGap = "chain-gap", "gap in the chain";
    /// Two envelopes name the same predecessor.
    ChainFork = "chain-fork", "fork of the chain";
    /// An envelope stands here twice.
    ChainDuplicate = "chain-duplicate", "repeated entry";
    /// An envelope stands before its predecessor.
    ChainReordered = "chain-reordered", "entries in another order";
    /// An envelope does not name the envelope before it as its predecessor.
    ChainBroken = "chain-broken", "broken link of the chain";
    /// The log has fewer entries than its checkpoint says.
    Truncated = "truncated", "truncated log";
    /// The log has more entries than its checkpoint says.
    ExtraEntries = "extra-entries", "entries after the checkpoint";
    /// The log's entries are not those that the checkpoint was made over.
    Altered = "altered", "altered log";
    /// A receipt's payload is no work receipt.
    ReceiptForm = "receipt-form", "unreadable receipt";
    /// A receipt speaks of another task or agent than its envelope.
    ReceiptMismatch = "receipt-mismatch", "receipt that contradicts its envelope";
    /// A receipt's task is not in the bundle.
    ReceiptWithoutTask = "receipt-without-task", "receipt without its task";
    /// A task has a second receipt.
    ReceiptTwice = "receipt-twice", "second receipt for one task";
    /// A kept checkpoint is of no log of this bundle.
    KeptForeign = "kept-foreign", "kept checkpoint of another bundle";
    /// The log has fewer entries than a kept checkpoint: its tail was cut off.
    CutTail = "cut-tail", "log shorter than the kept checkpoint";
    /// The log's first entries are not those that a kept checkpoint was made over.
    Rewritten = "rewritten", "log differs from the kept checkpoint";
    /// A proof is not in its one canonical form.
    ProofForm = "proof-form", "unreadable proof";
    /// The hashes of a proof do not lead to the root of its checkpoint.
    ProofMismatch = "proof-mismatch", "proof that does not fit";
    /// A proof goes on from a kept checkpoint, and none was given.
    KeptMissing = "kept-missing", "no kept checkpoint to go on from";
}

impl From<SignerError> for FindingKind {
    fn from(error: SignerError) -> Self {
        match error {
            SignerError::Unsigned => Self::Unsigned,
            SignerError::UnknownSigner | SignerError::NotLookedUp => Self::UnknownSigner,
            SignerError::Revoked => Self::Revoked,
            SignerError::WrongAgent => Self::WrongAgent,
            SignerError::WrongWorkspace => Self::WrongWorkspace,
            SignerError::WrongSource => Self::WrongSource,
            SignerError::Expired => Self::Expired,
            SignerError::NotPermitted => Self::NotPermitted,
            _ => Self::BadSignature,
        }
    }
}
