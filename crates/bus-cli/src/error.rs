//! How the command fails: an exit code, what happened, and what to do next.

use std::process::ExitCode;

use bus_core::{ErrorKind, Outcome};

/// The stable exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: done.
    Done,
    /// 1: failed.
    Failed,
    /// 2: the call itself is wrong; nothing was started.
    Usage,
    /// 3: partly done; some tasks were dead-lettered.
    Partly,
    /// 4: refused by policy.
    Refused,
    /// 5: the engine cannot be reached.
    Unreachable,
    /// 6: it may or may not have happened.
    Unknown,
    /// 7: no answer in time.
    Timeout,
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
        self.told("warning")
    }

    fn told(&self, weight: &str) -> String {
        match &self.next {
            Some(next) => format!("{weight}: {}\n  next: {next}", self.what),
            None => format!("{weight}: {}", self.what),
        }
    }

    /// The exit code.
    pub(crate) fn code(&self) -> Exit {
        self.code
    }
}

impl std::fmt::Display for CliError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.told("error"))
    }
}

impl From<bus_core::Error> for CliError {
    fn from(error: bus_core::Error) -> Self {
        let code = match error.kind() {
            _ if error.outcome() == Outcome::Unknown => Exit::Unknown,
            ErrorKind::Invalid => Exit::Usage,
            ErrorKind::Denied => Exit::Refused,
            ErrorKind::Unavailable | ErrorKind::Closed => Exit::Unreachable,
            ErrorKind::Timeout => Exit::Timeout,
            _ => Exit::Failed,
        };
        Self::new(code, error.to_string())
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
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Partly => 3,
            Exit::Refused => 4,
            Exit::Unreachable => 5,
            Exit::Unknown => 6,
            Exit::Timeout => 7,
        })
    }
}
