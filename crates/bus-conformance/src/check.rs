//! How a case says what it expected and what it got.

use std::{fmt::Debug, panic::Location};

use bus_core::{Error, ErrorKind, Outcome};
use bus_subjects::SubjectError;

/// What a case ends with.
pub(crate) type CaseResult<T = ()> = Result<T, Failure>;

/// Why a case failed, in words for whoever writes the engine.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }

    /// Names the place in the case, which says more than the words alone.
    #[track_caller]
    fn here(reason: &str) -> Self {
        let place = Location::caller();
        Self(format!("{reason} ({}:{})", place.file(), place.line()))
    }

    pub(crate) fn into_reason(self) -> String {
        self.0
    }
}

impl From<Error> for Failure {
    #[track_caller]
    fn from(error: Error) -> Self {
        Self::here(&format!("unexpected error of kind {}: {error}", error.kind().as_str()))
    }
}

impl From<SubjectError> for Failure {
    #[track_caller]
    fn from(error: SubjectError) -> Self {
        Self::here(&format!("the case builds a bad name: {error}"))
    }
}

/// Fails unless `got` equals `expected`.
#[track_caller]
pub(crate) fn equal<T, U>(what: &str, got: T, expected: U) -> CaseResult
where
    T: PartialEq<U> + Debug,
    U: Debug,
{
    if got == expected {
        return Ok(());
    }
    Err(Failure::here(&format!("{what}: expected {expected:?}, got {got:?}")))
}

/// Fails with `what` unless `condition` holds.
#[track_caller]
pub(crate) fn holds(condition: bool, what: impl FnOnce() -> String) -> CaseResult {
    if condition { Ok(()) } else { Err(Failure::here(&what())) }
}

/// Fails unless `result` is an error of `kind` that certainly had no effect.
#[track_caller]
pub(crate) fn refused<T>(what: &str, result: bus_core::Result<T>, kind: ErrorKind) -> CaseResult {
    failed(what, result, kind, Outcome::NotDone)
}

/// Fails unless `result` is an error of `kind` with the outcome `outcome`.
#[track_caller]
pub(crate) fn failed<T>(
    what: &str,
    result: bus_core::Result<T>,
    kind: ErrorKind,
    outcome: Outcome,
) -> CaseResult {
    let expected = kind.as_str();
    match result {
        Ok(_) => Err(Failure::here(&format!("{what}: expected {expected}, but it was accepted"))),
        Err(error) if error.kind() != kind => {
            let got = error.kind().as_str();
            Err(Failure::here(&format!("{what}: expected {expected}, got {got}: {error}")))
        }
        Err(error) => equal(&format!("{what}: outcome of {expected}"), error.outcome(), outcome),
    }
}
