//! What a running command tells the bus beside its bytes: the payloads of docs/spec/events.md.
//!
//! Readers ignore members that they do not know, so that later writers may say more.

mod telemetry;
mod terminal;

pub use self::telemetry::{Children, TELEMETRY, TelemetryRecord};
pub use self::terminal::{
    TERMINAL_END, TERMINAL_PTY, TERMINAL_SIZE, TERMINAL_STDERR, TERMINAL_STDOUT, TerminalEnd,
    TerminalExit,
};

/// Why a payload is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// It is not the JSON object that its type asks for.
    #[error("the payload is no {event} in JSON: {reason}")]
    Payload {
        /// The event type.
        event: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A member has a value that means nothing.
    #[error("{field} of {event} has to be {expected}")]
    Field {
        /// The event type.
        event: &'static str,
        /// The member.
        field: &'static str,
        /// What was expected.
        expected: &'static str,
    },
}

impl EventError {
    /// Returns the member that was refused; `payload` when it is the whole of it.
    #[must_use]
    pub fn field(&self) -> &'static str {
        match self {
            Self::Payload { .. } => "payload",
            Self::Field { field, .. } => field,
        }
    }
}

/// Reads the JSON form of an event.
fn read<T: serde::de::DeserializeOwned>(
    event: &'static str,
    payload: &[u8],
) -> Result<T, EventError> {
    serde_json::from_slice(payload)
        .map_err(|error| EventError::Payload { event, reason: error.to_string() })
}

/// Writes the JSON form of an event, whose wire types cannot fail to be written.
fn written(wire: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(wire).unwrap_or_default()
}
