//! How the command fails: an exit code, what happened, and what to do next.

use std::process::ExitCode;

use bus_core::{ErrorKind, Outcome};

use crate::print;

/// The stable exit codes; [`Exit::row`] has their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done,
    /// Failed.
    Failed,
    /// The call itself is wrong; nothing was started.
    Usage,
    /// Partly done; some tasks were dead-lettered.
    Partly,
    /// Refused by policy.
    Refused,
    /// The engine cannot be reached.
    Unreachable,
    /// It may or may not have happened.
    Unknown,
    /// No answer in time.
    Timeout,
}

/// What scripts and people know of an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// What the shell sees. Never changes.
    pub(crate) number: u8,
    /// What to do next where the failure itself says nothing better.
    pub(crate) next: &'static str,
}

impl Exit {
    /// Its line of the one table of exit codes.
    pub(crate) const fn row(self) -> Row {
        let (number, next) = match self {
            Self::Done => (0, "nothing is left to do"),
            Self::Failed => (1, "run it again with -vv to see what led to this"),
            Self::Usage => (2, "see --help of the command"),
            Self::Partly => (3, "read the reason of each dead letter"),
            Self::Refused => (4, "vakbus acl explain --role ROLE says which rule decides"),
            Self::Unreachable => (5, "see that the engine runs and that you may reach it"),
            Self::Unknown => (6, "look whether it happened before you try it again"),
            Self::Timeout => (7, "the answer may still come: look again, or wait longer"),
        };
        Row { number, next }
    }

    /// The one for a failure of this kind that changed nothing.
    pub(crate) const fn of(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Invalid => Self::Usage,
            ErrorKind::Denied => Self::Refused,
            ErrorKind::Unavailable | ErrorKind::Closed => Self::Unreachable,
            ErrorKind::Timeout => Self::Timeout,
            _ => Self::Failed,
        }
    }

    /// The one for this failure.
    pub(crate) fn of_error(error: &bus_core::Error) -> Self {
        match error.outcome() {
            Outcome::Unknown => Self::Unknown,
            Outcome::NotDone => Self::of(error.kind()),
        }
    }
}

/// A failure to tell the user.
#[derive(Debug)]
pub(crate) struct CliError {
    code: Exit,
    what: String,
    next: Option<String>,
}

impl CliError {
    /// A failure with exit code `code`.
    pub(crate) fn new(code: Exit, what: impl Into<String>) -> Self {
        Self { code, what: what.into(), next: None }
    }

    /// A wrong call.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(Exit::Usage, what)
    }

    /// Says what to do next.
    pub(crate) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// The same as a warning: something was left out, and the command goes on.
    pub(crate) fn as_warning(&self) -> String {
        match &self.next {
            Some(next) => told("warning", &self.what, next),
            None => format!("warning: {}", print::harmless(&self.what)),
        }
    }

    /// What happened, without what to do next.
    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    /// What to do next, where it says so itself.
    pub(crate) fn next_step(&self) -> Option<&str> {
        self.next.as_deref()
    }

    /// The exit code.
    pub(crate) fn code(&self) -> Exit {
        self.code
    }
}

impl std::fmt::Display for CliError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let next = self.next.as_deref().unwrap_or(self.code.row().next);
        f.write_str(&told("error", &self.what, next))
    }
}

fn told(weight: &str, what: &str, next: &str) -> String {
    // A stranger's words may be part of both: file names, what a command wrote.
    format!("{weight}: {}\n  next: {}", print::harmless(what), print::harmless(next))
}

impl From<bus_core::Error> for CliError {
    fn from(error: bus_core::Error) -> Self {
        Self::new(Exit::of_error(&error), error.to_string())
    }
}

impl From<bus_subjects::SubjectError> for CliError {
    fn from(error: bus_subjects::SubjectError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<bus_crypto::CryptoError> for CliError {
    fn from(error: bus_crypto::CryptoError) -> Self {
        Self::new(Exit::Failed, error.to_string())
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.row().number)
    }
}

#[cfg(test)]
mod tests;
