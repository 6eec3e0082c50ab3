//! An error as it travels: its kind, whether it happened, and its words.

use bus_core::{Error, ErrorKind, Outcome};
use serde::{Deserialize, Serialize};

/// What the server answers when it does not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fault {
    /// The place of its kind in [`KINDS`].
    kind: u8,
    /// Whether it may have happened all the same.
    unknown: bool,
    subject: Option<String>,
    detail: String,
}

impl Fault {
    /// Whether trying again later is of no use: it is a refusal by policy.
    pub(crate) fn is_final(&self) -> bool {
        KINDS.get(usize::from(self.kind)) == Some(&ErrorKind::Denied)
    }

    /// The error for the operation `op` of the caller.
    pub(crate) fn into_error(self, op: &'static str) -> Error {
        let kind = KINDS.get(usize::from(self.kind)).copied().unwrap_or(ErrorKind::Unavailable);
        let mut error = Error::new(kind, op, self.detail);
        if let Some(subject) = self.subject {
            error = error.at(subject);
        }
        if self.unknown { error.unknown() } else { error }
    }
}

impl From<&Error> for Fault {
    fn from(error: &Error) -> Self {
        let kind = KINDS.iter().position(|kind| *kind == error.kind()).unwrap_or(UNAVAILABLE);
        Self {
            // There are fifteen of them.
            kind: kind as u8,
            unknown: error.outcome() == Outcome::Unknown,
            subject: error.subject().map(str::to_owned),
            detail: error.detail().to_owned(),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

/// The kinds by their number on the wire; new ones are added at the end.
const KINDS: [ErrorKind; 15] = [
    ErrorKind::Invalid,
    ErrorKind::Denied,
    ErrorKind::NotFound,
    ErrorKind::NoRecipient,
    ErrorKind::Conflict,
    ErrorKind::Full,
    ErrorKind::TooLarge,
    ErrorKind::Exhausted,
    ErrorKind::LeaseLost,
    ErrorKind::UnknownKey,
    ErrorKind::Timeout,
    ErrorKind::Unavailable,
    ErrorKind::Closed,
    ErrorKind::Corrupt,
    ErrorKind::Unsupported,
];

/// The place of `Unavailable`.
const UNAVAILABLE: usize = 11;
