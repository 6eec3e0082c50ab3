//! What a tool answers: an object, or a typed refusal that says whether anything happened.

use bus_authority::NotUsed;
use bus_core::{Error, Outcome};
use rmcp::model::CallToolResult;
use serde_json::{Value, json};

use crate::data::clean;

/// An answer of a tool.
pub(crate) type Answer = Result<Value, Refused>;

/// Why a tool did not do what it was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    /// A stable word.
    pub kind: &'static str,
    pub outcome: Outcome,
    /// Fit to be shown.
    pub reason: String,
    /// What to do about it, where that is known.
    pub next: Option<&'static str>,
}

impl Refused {
    /// Nothing happened, because of `reason`.
    pub(crate) fn new(kind: &'static str, reason: impl Into<String>) -> Self {
        let reason = clean(reason.into().as_bytes());
        Self { kind, outcome: Outcome::NotDone, reason, next: None }
    }

    /// The argument `field` is not what it has to be.
    pub(crate) fn argument(field: &str, reason: impl std::fmt::Display) -> Self {
        Self::new("invalid", format!("{field}: {reason}"))
    }

    /// With what to do about it.
    pub(crate) const fn next(mut self, next: &'static str) -> Self {
        self.next = Some(next);
        self
    }

    /// It may have happened all the same.
    pub(crate) const fn unknown(mut self) -> Self {
        self.outcome = Outcome::Unknown;
        self
    }

    pub(crate) fn to_json(&self) -> Value {
        let outcome = match self.outcome {
            Outcome::NotDone => "not-done",
            Outcome::Unknown => "unknown",
        };
        json!({ "error": {
            "kind": self.kind,
            "outcome": outcome,
            "reason": self.reason,
            "next": self.next,
        }})
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        let next = match error.outcome() {
            Outcome::Unknown => Some("look whether it happened before you try it again"),
            Outcome::NotDone => None,
        };
        let (kind, outcome) = (error.kind().as_str(), error.outcome());
        Self { kind, outcome, reason: clean(error.to_string().as_bytes()), next }
    }
}

impl From<NotUsed> for Refused {
    fn from(refused: NotUsed) -> Self {
        match refused {
            NotUsed::Failed(error) => Self::from(error),
            other => Self::new(other.code(), other.to_string()),
        }
    }
}

/// What goes to the client.
pub(crate) fn result(answer: Answer) -> CallToolResult {
    match answer {
        Ok(value) => CallToolResult::structured(value),
        Err(refused) => CallToolResult::structured_error(refused.to_json()),
    }
}
