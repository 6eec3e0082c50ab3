//! The one JSONL writer of audit logs and bundles, and its reader.

mod error;
mod reader;
#[cfg(test)]
mod tests;
mod torn;
mod writer;

pub use error::{JsonlBatchError, JsonlError};
pub use reader::{JsonlItem, JsonlReader};
pub use torn::{TailReport, Torn};
pub use writer::JsonlWriter;
