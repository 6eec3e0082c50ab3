//! Why something is refused: one cause, one code, for good.

use bus_core::EndKind;

/// Why a command on an approval is refused. The approval stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no such approval.
    #[error("there is no such approval")]
    Unknown,
    /// The name stands for more than one approval.
    #[error("the name stands for more than one approval")]
    Ambiguous,
    /// Another request took its place.
    #[error("another request took its place")]
    Superseded,
    /// It was taken back.
    #[error("it was withdrawn")]
    Withdrawn,
    /// Its one use was taken.
    #[error("its one use was taken before")]
    Consumed,
    /// Its time is over.
    #[error("its time is over")]
    Expired,
    /// No verdict on it has come.
    #[error("no verdict on it has come")]
    Open,
    /// Its verdict does not say what it is for.
    #[error("its verdict does not say what it is for")]
    Unbound,
    /// Somebody else asked for it.
    #[error("another agent asked for it")]
    AskerMismatch,
    /// It was asked for in another session.
    #[error("it was asked for in another session")]
    SessionMismatch,
    /// It was asked for in another run.
    #[error("it was asked for in another run")]
    RunMismatch,
    /// It allows another action.
    #[error("it is for another action")]
    ActionMismatch,
    /// It is for another target.
    #[error("it is for another target")]
    TargetMismatch,
    /// The answer does not allow it.
    #[error("the answer does not allow it")]
    ChoiceRefused,
    /// The agent may not answer it.
    #[error("only an operator who is no worker and did not ask may answer it")]
    NotResolver,
    /// That answer was not offered.
    #[error("that answer was not offered")]
    OptionMissing,
    /// It is answered already.
    #[error("it was answered before")]
    AlreadyResolved,
}

impl Refusal {
    /// The code of the cause, as `--json` and the specification have it; it never changes.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Unknown => "decision-unknown",
            Self::Ambiguous => "decision-ambiguous",
            Self::Superseded => "decision-superseded",
            Self::Withdrawn => "decision-withdrawn",
            Self::Consumed => "decision-consumed",
            Self::Expired => "decision-expired",
            Self::Open => "decision-open",
            Self::Unbound => "decision-unbound",
            Self::AskerMismatch => "asker-mismatch",
            Self::SessionMismatch => "session-mismatch",
            Self::RunMismatch => "run-mismatch",
            Self::ActionMismatch => "action-mismatch",
            Self::TargetMismatch => "target-mismatch",
            Self::ChoiceRefused => "choice-refused",
            Self::NotResolver => "not-resolver",
            Self::OptionMissing => "option-missing",
            Self::AlreadyResolved => "already-resolved",
        }
    }

    /// What an end of this kind leads to.
    pub(crate) const fn of(kind: EndKind) -> Self {
        match kind {
            EndKind::Consumed => Self::Consumed,
            EndKind::Withdrawn => Self::Withdrawn,
            EndKind::Superseded => Self::Superseded,
        }
    }

    /// Whether the verdict it is about can never be used any more, by whatever ask.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(
            self,
            Self::Superseded
                | Self::Withdrawn
                | Self::Consumed
                | Self::Expired
                | Self::Unbound
                | Self::ChoiceRefused
        )
    }
}
