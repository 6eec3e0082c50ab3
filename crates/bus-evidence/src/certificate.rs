//! The line form of a certificate in a bundle, and who may vouch for a whole bundle.

use bus_core::Certificate;
use bus_envelope::Timestamp;
use bus_subjects::Role;
use serde::{Deserialize, Serialize};

/// Writes a certificate as a line of `certificates.jsonl`.
pub(crate) fn encode(token: &str) -> Vec<u8> {
    // One text: there is nothing that JSON cannot hold.
    serde_json::to_vec(&Line { token: token.into() }).unwrap_or_default()
}

/// Reads the token of a line of `certificates.jsonl`; `Err` says why it is none.
pub(crate) fn decode(line: &[u8]) -> Result<String, String> {
    let read: Line = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    Ok(read.token)
}

/// Whether the agent may sign the checkpoints of a bundle.
///
/// A worker may not: it could vouch for a bundle in which its own receipts are missing.
pub(crate) fn may_record(certificate: &Certificate) -> bool {
    certificate.roles.iter().any(|role| {
        matches!(role, Role::Orchestrator | Role::Operator | Role::Auditor | Role::Keeper)
    })
}

/// Says that a recorder's certificate had ended when the newest envelope was made.
pub(crate) fn had_ended(certificate: &Certificate, newest: Timestamp) -> String {
    let agent = &certificate.agent;
    format!("the certificate of {agent} had ended at the newest envelope's time, {newest}")
}

/// The roles that may sign checkpoints, for messages.
pub(crate) const RECORDERS: &str = "orchestrator, operator, auditor or keeper";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    token: String,
}
