//! Alerts: what somebody should look at now, heard live by whoever listens.

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, GivenUpCause, Opened, Result};

/// An alert. It refers to things and holds none of their words, so it may go where they may not.
///
/// Alerts are live: nobody hears one later. The durable word is the dead letter itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Alert {
    /// A task was given up, and its dead letter is stored.
    DeadLetter(LetterAlert),
    /// A task was given up, and its dead letter could not be stored: the task is kept and comes
    /// again. Said at each try.
    DeadLetterFailed(LetterFailedAlert),
}

/// What an alert says of a dead letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LetterAlert {
    /// The letter's position; absent when it had been stored by an earlier try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub letter: Option<u64>,
    /// The id of the task, or of its frame when it could not be read.
    pub task: String,
    /// Why it was given up.
    pub kind: GivenUpCause,
    /// How many attempts were made.
    pub attempts: u32,
    /// The role whose queue it was in.
    pub queue: String,
}

/// What an alert says of a dead letter that could not be stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LetterFailedAlert {
    /// The id of the task, or of its frame when it could not be read.
    pub task: String,
    /// Why it was given up.
    pub kind: GivenUpCause,
    /// The kind of the error, as [`ErrorKind::as_str`] names it.
    pub error_kind: String,
    /// The role whose queue it is in.
    pub queue: String,
}

impl Alert {
    /// The CloudEvents type of [`Alert::DeadLetter`].
    pub const DEAD_LETTER: &'static str = "vak.alert.dead-letter";

    /// The CloudEvents type of [`Alert::DeadLetterFailed`].
    pub const DEAD_LETTER_FAILED: &'static str = "vak.alert.dead-letter-failed";

    /// The CloudEvents type it is sent under.
    #[must_use]
    pub const fn event_type(&self) -> &'static str {
        match self {
            Self::DeadLetter(_) => Self::DEAD_LETTER,
            Self::DeadLetterFailed(_) => Self::DEAD_LETTER_FAILED,
        }
    }

    /// Its payload, JSON without white space and in the order of the fields.
    ///
    /// # Errors
    /// `Invalid` when it cannot be written; it cannot happen.
    pub fn to_json(&self) -> Result<Vec<u8>> {
        let written = match self {
            Self::DeadLetter(alert) => serde_json::to_vec(alert),
            Self::DeadLetterFailed(alert) => serde_json::to_vec(alert),
        };
        written.map_err(|error| {
            Error::new(ErrorKind::Invalid, "alert", "cannot be written as JSON").because(error)
        })
    }

    /// Reads the payload of an alert of the type `event_type`; `None` when that is none of ours.
    ///
    /// # Errors
    /// `Corrupt` when it is not what its type says.
    pub fn from_json(event_type: &str, json: &[u8]) -> Result<Option<Self>> {
        let read = match event_type {
            Self::DEAD_LETTER => serde_json::from_slice(json).map(Self::DeadLetter),
            Self::DEAD_LETTER_FAILED => serde_json::from_slice(json).map(Self::DeadLetterFailed),
            _ => return Ok(None),
        };
        read.map(Some).map_err(|error| {
            Error::new(ErrorKind::Corrupt, "alert", "is not an alert's JSON").because(error)
        })
    }

    /// The alert that a message is; `None` when it is none of ours.
    ///
    /// # Errors
    /// As [`Alert::from_json`].
    pub fn of(opened: &Opened) -> Result<Option<Self>> {
        Self::from_json(&opened.envelope.event_type, &opened.payload)
    }
}
