//! What is said of an audit log that cannot be written.

use bus_evidence::AuditError;

use crate::error::{CliError, Exit};

/// The failure to write the log; nothing of it is lost, the streams have it.
pub(super) fn failed(error: &AuditError) -> CliError {
    let mut what = format!("the audit log is behind: {error}");
    let mut source = std::error::Error::source(error);
    while let Some(reason) = source {
        what.push_str(&format!(": {reason}"));
        source = reason.source();
    }
    let next = match error {
        AuditError::Held { .. } => "it goes on when that process has ended",
        _ => "make room, or mend it: it goes on by itself, and the bus holds what is missing",
    };
    CliError::new(Exit::Failed, what).next(next)
}

/// A thread of ours panicked.
pub(super) fn broken() -> CliError {
    CliError::new(Exit::Failed, "the audit log is behind: its writer broke")
}
