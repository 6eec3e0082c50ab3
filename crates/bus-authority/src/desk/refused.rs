//! Why an approval was not used, as its asker is told.

use bus_core::{Error, NotRecorded, Outcome};

use crate::{Refusal, Verdict};

/// Why a call on an approval did not do what it was asked for, or may not have.
#[derive(Debug, thiserror::Error)]
pub enum NotUsed {
    /// It is refused, and nothing was stored.
    #[error("{}: {_0}", .0.code())]
    Refused(Refusal),
    /// It was answered, and the answer does not allow it. Nothing was stored.
    #[error("{}: it was answered with {:?} by {}", Refusal::ChoiceRefused.code(), .0.choice, .0.by)]
    Declined(Box<Verdict>),
    /// It could not be decided or not be stored.
    #[error("{}: {_0}", code_of(.0))]
    Failed(#[source] Error),
}

impl NotUsed {
    /// The code of the cause; it never changes.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.code(),
            Self::Declined(_) => Refusal::ChoiceRefused.code(),
            Self::Failed(error) => code_of(error),
        }
    }

    /// The refusal, when it is one.
    #[must_use]
    pub const fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused(refusal) => Some(*refusal),
            Self::Declined(_) => Some(Refusal::ChoiceRefused),
            Self::Failed(_) => None,
        }
    }
}

fn code_of(error: &Error) -> &'static str {
    match error.outcome() {
        Outcome::Unknown => "outcome-unknown",
        Outcome::NotDone => "storage-unavailable",
    }
}

impl From<Error> for NotUsed {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Refusal> for NotUsed {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<NotRecorded<Self>> for NotUsed {
    fn from(error: NotRecorded<Self>) -> Self {
        match error {
            NotRecorded::Refused(refused) => refused,
            NotRecorded::Failed(error) => Self::Failed(error),
        }
    }
}
