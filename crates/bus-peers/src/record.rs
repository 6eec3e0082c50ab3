//! What stands in the lines of the journal.

use bus_core::Outcome;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{BusEnvelope, BusError};

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalRecord {
    /// A message and what became of it.
    Envelope {
        /// The message.
        envelope: BusEnvelope,
        /// Whether messages of its receiver were displaced before, of which no record could be
        /// written.
        losses_unrecorded: bool,
    },
    /// A message that a subscriber did not read before newer ones took its place.
    InboxMiss(InboxMiss),
}

/// A message that gave way in an inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InboxMiss {
    /// Always `inbox_miss`; an envelope has no such member.
    pub record: MissTag,
    /// When it gave way.
    pub ts: String,
    /// Whose inbox it was.
    pub instance_id: String,
    /// Which subscription of the instance.
    pub subscription_id: String,
    /// The message.
    pub message_id: String,
    /// When the bus had taken it.
    pub message_ts: String,
    /// How many the subscription has missed by now.
    pub missed_total: u64,
}

/// The name of the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MissTag {
    /// A message that gave way.
    #[serde(rename = "inbox_miss")]
    InboxMiss,
}

impl JournalRecord {
    /// Reads a line.
    ///
    /// # Errors
    /// When it is neither.
    pub fn parse(line: &[u8]) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Shape {
            record: Option<serde::de::IgnoredAny>,
            #[serde(default)]
            losses_unrecorded: bool,
        }
        let shape: Shape = serde_json::from_slice(line)?;
        if shape.record.is_some() {
            return serde_json::from_slice(line).map(Self::InboxMiss);
        }
        let losses_unrecorded = shape.losses_unrecorded;
        serde_json::from_slice(line).map(|envelope| Self::Envelope { envelope, losses_unrecorded })
    }
}

pub(crate) fn json(value: &impl Serialize) -> Result<Bytes, BusError> {
    let text = serde_json::to_vec(value).map_err(|error| BusError::Unavailable {
        reason: format!("a record could not be written as JSON: {error}"),
        outcome: Outcome::NotDone,
    })?;
    Ok(text.into())
}

/// The line of an envelope before which losses could not be recorded.
pub(crate) fn with_losses(envelope: &Bytes) -> Bytes {
    let members = envelope.strip_suffix(b"}").unwrap_or(envelope);
    let mut line = Vec::with_capacity(members.len() + LOSSES.len());
    line.extend_from_slice(members);
    line.extend_from_slice(LOSSES);
    line.into()
}

const LOSSES: &[u8] = b",\"losses_unrecorded\":true}";
