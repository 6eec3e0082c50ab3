//! Why a task was given up, of a fixed list, and where its dead letter says so.

use bus_envelope::{Draft, MessageEnvelope};
use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, Result, TaskOutcome};

/// Why a task was given up, of a fixed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GivenUpCause {
    /// It failed in every attempt that it had.
    #[default]
    Exhausted,
    /// Its handler said that no other attempt can do better.
    Hopeless,
    /// Its attempts ended without a verdict.
    Vanished,
    /// It is damaged, forged or from nobody who may send it.
    Refused,
    /// Its key was withdrawn.
    KeyWithdrawn,
    /// Its deadline was over.
    Expired,
    /// It was cancelled.
    Cancelled,
}

impl GivenUpCause {
    /// Every cause, in the order of the specification.
    pub const ALL: [Self; 7] = [
        Self::Exhausted,
        Self::Hopeless,
        Self::Vanished,
        Self::Refused,
        Self::KeyWithdrawn,
        Self::Expired,
        Self::Cancelled,
    ];

    /// The extension of a dead letter's envelope that names the cause.
    pub const ATTRIBUTE: &'static str = "givenup";

    /// Its name, as it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exhausted => "exhausted",
            Self::Hopeless => "hopeless",
            Self::Vanished => "vanished",
            Self::Refused => "refused",
            Self::KeyWithdrawn => "key-withdrawn",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }

    /// What the envelope of a dead letter says; `None` for a letter of old, which says nothing, and
    /// for a cause that this reader does not know.
    #[must_use]
    pub fn of(envelope: &MessageEnvelope) -> Option<Self> {
        envelope.extensions.get(Self::ATTRIBUTE)?.parse().ok()
    }

    /// A dead letter that names this cause.
    pub(crate) fn name_in(self, letter: Draft) -> Result<Draft> {
        Ok(letter.extension(Self::ATTRIBUTE, self.as_str())?)
    }

    pub(crate) const fn outcome(self) -> TaskOutcome {
        match self {
            Self::Exhausted => TaskOutcome::Exhausted,
            Self::Hopeless => TaskOutcome::Hopeless,
            Self::Vanished => TaskOutcome::Vanished,
            Self::Refused => TaskOutcome::Refused,
            Self::KeyWithdrawn => TaskOutcome::KeyWithdrawn,
            Self::Expired => TaskOutcome::Expired,
            Self::Cancelled => TaskOutcome::Cancelled,
        }
    }
}

impl std::fmt::Display for GivenUpCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for GivenUpCause {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|cause| cause.as_str() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            Error::new(ErrorKind::Invalid, "cause", format!("is none: expected one of {names}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_read_as_it_is_written() {
        for cause in GivenUpCause::ALL {
            assert_eq!(cause.as_str().parse::<GivenUpCause>().unwrap(), cause);
        }
    }

    #[test]
    fn a_claim_mark_writes_a_cause_under_the_same_name() {
        for cause in GivenUpCause::ALL {
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.as_str());
        }
    }

    #[test]
    fn what_is_no_cause_is_refused() {
        for text in ["", "Exhausted", "exhausted ", "keywithdrawn"] {
            assert!(text.parse::<GivenUpCause>().is_err(), "{text}");
        }
    }
}
