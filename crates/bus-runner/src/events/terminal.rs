//! The output of a command: which types its chunks have, how large its terminal is, how it ended.

use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

use super::{EventError, read, written};
use crate::process::{ExitKind, RunReport};
use crate::terminal::TerminalSize;

/// How a command ended, and how much it had written: nothing of this attempt comes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalEnd {
    /// How it ended.
    pub exit: TerminalExit,
    /// Bytes of stdout, or of the terminal.
    pub stdout_bytes: u64,
    /// Bytes of stderr; 0 with a terminal.
    pub stderr_bytes: u64,
    /// How many of these bytes were not published, because the bus was away or too slow.
    pub shown_lost_bytes: u64,
}

impl TerminalEnd {
    /// Says how a run ended of whose output so many bytes were not published.
    #[must_use]
    pub fn new(report: &RunReport, shown_lost_bytes: u64) -> Self {
        Self {
            exit: TerminalExit::from(&report.exit),
            stdout_bytes: report.stdout_bytes,
            stderr_bytes: report.stderr_bytes,
            shown_lost_bytes,
        }
    }

    /// Writes the payload.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let (exit, code) = match self.exit {
            TerminalExit::Code(code) => (WireExit::Code, Some(code)),
            TerminalExit::Signal(signal) => (WireExit::Signal, Some(signal)),
            TerminalExit::Timeout => (WireExit::Timeout, None),
            TerminalExit::Killed => (WireExit::Killed, None),
            TerminalExit::NotStarted => (WireExit::NotStarted, None),
        };
        written(&WireEnd {
            exit,
            code,
            stdout_bytes: self.stdout_bytes,
            stderr_bytes: self.stderr_bytes,
            shown_lost_bytes: self.shown_lost_bytes,
        })
    }

    /// Reads the payload.
    ///
    /// # Errors
    /// [`EventError`] when it is no such object, or when a code is missing or out of place.
    pub fn parse(payload: &[u8]) -> Result<Self, EventError> {
        let wire: WireEnd = read(TERMINAL_END, payload)?;
        let field = |expected| EventError::Field { event: TERMINAL_END, field: "code", expected };
        let exit = match (wire.exit, wire.code) {
            (WireExit::Code, Some(code)) => TerminalExit::Code(code),
            (WireExit::Signal, Some(signal)) => TerminalExit::Signal(signal),
            (WireExit::Code | WireExit::Signal, None) => return Err(field("there")),
            (_, Some(_)) => return Err(field("left out")),
            (WireExit::Timeout, None) => TerminalExit::Timeout,
            (WireExit::Killed, None) => TerminalExit::Killed,
            (WireExit::NotStarted, None) => TerminalExit::NotStarted,
        };
        Ok(Self {
            exit,
            stdout_bytes: wire.stdout_bytes,
            stderr_bytes: wire.stderr_bytes,
            shown_lost_bytes: wire.shown_lost_bytes,
        })
    }
}

/// How a command ended, without the words for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalExit {
    /// By itself, with this code.
    Code(u8),
    /// By a signal of somebody else; 0 when it is not known.
    Signal(u8),
    /// Its time limit was over.
    Timeout,
    /// It was stopped.
    Killed,
    /// It never ran.
    NotStarted,
}

impl From<&ExitKind> for TerminalExit {
    fn from(exit: &ExitKind) -> Self {
        match exit {
            // The system has no other codes and signals.
            ExitKind::Exited { code } => Self::Code(u8::try_from(*code).unwrap_or(u8::MAX)),
            ExitKind::Signaled { signal } => Self::Signal(u8::try_from(*signal).unwrap_or(0)),
            ExitKind::TimedOut => Self::Timeout,
            ExitKind::Killed => Self::Killed,
            ExitKind::NotStarted { .. } => Self::NotStarted,
        }
    }
}

impl TerminalSize {
    /// Writes the payload of a [`TERMINAL_SIZE`] event.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        written(&WireSize { rows: self.rows, columns: self.columns })
    }

    /// Reads the payload of a [`TERMINAL_SIZE`] event.
    ///
    /// # Errors
    /// [`EventError`] when it is no such object, or a number is not one of 1 to 65,535.
    pub fn parse_json(payload: &[u8]) -> Result<Self, EventError> {
        let wire: WireSize = read(TERMINAL_SIZE, payload)?;
        Ok(Self { rows: wire.rows, columns: wire.columns })
    }
}

/// The event type of a chunk of stdout.
pub const TERMINAL_STDOUT: &str = "vak.terminal.stdout";

/// The event type of a chunk of stderr.
pub const TERMINAL_STDERR: &str = "vak.terminal.stderr";

/// The event type of a chunk of a terminal's output.
pub const TERMINAL_PTY: &str = "vak.terminal.pty";

/// The event type of a terminal's size.
pub const TERMINAL_SIZE: &str = "vak.terminal.size";

/// The event type of the end of a command's output.
pub const TERMINAL_END: &str = "vak.terminal.end";

#[derive(Serialize, Deserialize)]
struct WireEnd {
    exit: WireExit,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<u8>,
    stdout_bytes: u64,
    stderr_bytes: u64,
    shown_lost_bytes: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WireExit {
    Code,
    Signal,
    Timeout,
    Killed,
    NotStarted,
}

#[derive(Serialize, Deserialize)]
struct WireSize {
    rows: NonZeroU16,
    columns: NonZeroU16,
}
