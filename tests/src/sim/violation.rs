//! A broken promise.

use std::fmt;

/// Which rule was broken, and how it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule in a few words.
    pub rule: &'static str,
    /// What happened.
    pub what: String,
}

impl Violation {
    /// Says that `rule` was broken.
    pub(super) fn new(rule: &'static str, what: impl Into<String>) -> Self {
        Self { rule, what: what.into() }
    }

    /// `Ok` when the rule holds.
    pub(super) fn unless(
        holds: bool,
        rule: &'static str,
        what: impl FnOnce() -> String,
    ) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(Self::new(rule, what())) }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

impl From<bus_core::Error> for Violation {
    fn from(error: bus_core::Error) -> Self {
        Self::new("what agents ask for is valid", error.to_string())
    }
}

impl From<bus_subjects::SubjectError> for Violation {
    fn from(error: bus_subjects::SubjectError) -> Self {
        Self::new("what agents ask for is valid", error.to_string())
    }
}

impl From<bus_envelope::EnvelopeError> for Violation {
    fn from(error: bus_envelope::EnvelopeError) -> Self {
        Self::new("what agents ask for is valid", error.to_string())
    }
}
