#![doc = include_str!("../README.md")]

mod bundle;
mod certificate;
mod checkpoint;
mod jsonl;
mod lines;
mod log;
mod receipt;
#[cfg(test)]
mod tests;
mod verify;

pub use bundle::{BundleError, BundleSummary, BundleWriter};
pub use checkpoint::{Checkpoint, CheckpointError, NoteSignature};
pub use jsonl::{JsonlError, JsonlItem, JsonlReader, JsonlWriter, TailReport, Torn};
pub use lines::LINE_BYTES_MAX;
pub use log::Log;
pub use receipt::{RECEIPT_COMPLETED, RECEIPT_CONTENT_TYPE, ReceiptError, WorkReceipt};
pub use verify::{
    Completeness, Counts, Finding, FindingKind, KeptMatch, LogCompleteness, Options, Report,
    Signer, Trust, verify, verify_files,
};
