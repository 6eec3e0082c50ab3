//! The work receipt: what a worker states about one finished task (S0.28, S0.41).

use bus_envelope::{EventHash, Timestamp};
use bus_subjects::{AgentId, RoleName, Shown};
use serde::{Deserialize, Serialize};

/// What a worker states about one finished task; the envelope around it is signed.
///
/// Its JSON form is the payload of events of the type [`RECEIPT_COMPLETED`]: unknown members are
/// refused and all members are needed.
///
/// # Examples
/// ```
/// use bus_evidence::WorkReceipt;
///
/// let json = br#"{"task_id":"t-1","role":"coder","worker":"w-1","attempt":1,"exit_code":0,
///     "output_hash":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
///     "stdout_bytes":0,"stderr_bytes":0,
///     "started":"2026-01-01T00:00:00.000000000Z","finished":"2026-01-01T00:00:01.500000000Z"}"#;
/// let receipt = WorkReceipt::parse(json)?;
/// assert_eq!(receipt.worker.as_str(), "w-1");
/// assert_eq!(WorkReceipt::parse(&receipt.to_json())?, receipt);
/// # Ok::<(), bus_evidence::ReceiptError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "WireReceipt", into = "WireReceipt")]
pub struct WorkReceipt {
    /// The id of the task's envelope.
    pub task_id: String,
    /// The work queue it came from.
    pub role: RoleName,
    /// The agent that did the work.
    pub worker: AgentId,
    /// Which try this was, from 1.
    pub attempt: u32,
    /// The exit code of the command; 0 for success.
    pub exit_code: i32,
    /// The hash of all output, as the worker's runner defines it.
    pub output_hash: EventHash,
    /// How many bytes went to standard output.
    pub stdout_bytes: u64,
    /// How many bytes went to standard error.
    pub stderr_bytes: u64,
    /// When this try began.
    pub started: Timestamp,
    /// When it ended; not before `started`.
    pub finished: Timestamp,
}

/// The event type of a receipt.
pub const RECEIPT_COMPLETED: &str = "vak.receipt.completed";

/// The media type of a receipt's payload.
pub const RECEIPT_CONTENT_TYPE: &str = "application/json";

/// Why bytes are no work receipt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a work receipt: {0}")]
pub struct ReceiptError(String);

impl WorkReceipt {
    /// Reads the JSON form.
    ///
    /// # Errors
    /// [`ReceiptError`] with the member and the reason.
    pub fn parse(json: &[u8]) -> Result<Self, ReceiptError> {
        serde_json::from_slice(json)
            .map_err(|error| ReceiptError(Shown(&error.to_string()).to_string()))
    }

    /// The JSON form, without white space.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        // Texts and numbers only: there is nothing that JSON cannot hold.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireReceipt {
    task_id: String,
    role: String,
    worker: String,
    attempt: u32,
    exit_code: i32,
    output_hash: String,
    stdout_bytes: u64,
    stderr_bytes: u64,
    started: String,
    finished: String,
}

impl TryFrom<WireReceipt> for WorkReceipt {
    type Error = ReceiptError;

    fn try_from(wire: WireReceipt) -> Result<Self, ReceiptError> {
        if wire.task_id.is_empty() || wire.task_id.len() > TASK_ID_BYTES_MAX {
            return Err(ReceiptError(format!("task_id: expected 1 to {TASK_ID_BYTES_MAX} bytes")));
        }
        if wire.attempt == 0 {
            return Err(ReceiptError("attempt: expected 1 or more".into()));
        }
        let receipt = Self {
            task_id: wire.task_id,
            role: RoleName::parse(&wire.role).map_err(named("role"))?,
            worker: AgentId::parse(&wire.worker).map_err(named("worker"))?,
            attempt: wire.attempt,
            exit_code: wire.exit_code,
            output_hash: wire.output_hash.parse().map_err(named("output_hash"))?,
            stdout_bytes: wire.stdout_bytes,
            stderr_bytes: wire.stderr_bytes,
            started: Timestamp::parse(&wire.started).map_err(named("started"))?,
            finished: Timestamp::parse(&wire.finished).map_err(named("finished"))?,
        };
        if receipt.finished < receipt.started {
            return Err(ReceiptError("finished: expected a time not before started".into()));
        }
        Ok(receipt)
    }
}

impl From<WorkReceipt> for WireReceipt {
    fn from(receipt: WorkReceipt) -> Self {
        Self {
            task_id: receipt.task_id,
            role: receipt.role.to_string(),
            worker: receipt.worker.to_string(),
            attempt: receipt.attempt,
            exit_code: receipt.exit_code,
            output_hash: receipt.output_hash.to_string(),
            stdout_bytes: receipt.stdout_bytes,
            stderr_bytes: receipt.stderr_bytes,
            started: receipt.started.to_string(),
            finished: receipt.finished.to_string(),
        }
    }
}

fn named<E: std::fmt::Display>(member: &'static str) -> impl FnOnce(E) -> ReceiptError {
    move |error| ReceiptError(format!("{member}: {error}"))
}

/// The longest id of an envelope.
const TASK_ID_BYTES_MAX: usize = 128;

#[cfg(test)]
mod tests;
