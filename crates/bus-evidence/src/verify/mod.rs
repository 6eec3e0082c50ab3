//! The offline verifier: needs no key, no bus and no network.

mod certificates;
mod chains;
mod files;
mod finding;
mod heads;
mod kept;
mod logs;
mod proof;
mod receipts;
mod report;
mod run;

pub use finding::{Finding, FindingKind};
pub use proof::{ProofReport, ProofShown, verify_proof};
pub use report::{Completeness, Counts, KeptMatch, LogCompleteness, Report, Signer, Trust};
pub use run::{Options, verify, verify_files};
