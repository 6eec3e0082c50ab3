#![doc = include_str!("../README.md")]

mod audit;
mod base64;
mod bundle;
mod certificate;
mod checkpoint;
mod day_log;
mod entry;
mod head;
mod jsonl;
mod lines;
mod log;
mod proof;
mod receipt;
#[cfg(test)]
mod tests;
mod verify;

pub use audit::{AuditError, AuditLog, AuditLook, AuditMark, AuditRecord, AuditStream};
pub use bundle::{BundleError, BundleSummary, BundleWriter};
pub use checkpoint::{Checkpoint, CheckpointError, NoteSignature};
pub use day_log::{DayLog, DayLogError};
pub use head::SessionHead;
pub use jsonl::{
    JsonlBatchError, JsonlError, JsonlItem, JsonlReader, JsonlWriter, TailReport, Torn,
};
pub use lines::LINE_BYTES_MAX;
pub use log::Log;
pub use proof::{ConsistencyProof, InclusionProof, Proof, ProofError, SessionLog};
pub use receipt::{RECEIPT_COMPLETED, RECEIPT_CONTENT_TYPE, ReceiptError, WorkReceipt};
pub use verify::{
    Completeness, Counts, Finding, FindingKind, KeptMatch, LogCompleteness, Options, ProofReport,
    ProofShown, Report, Signer, Trust, verify, verify_files, verify_proof,
};
