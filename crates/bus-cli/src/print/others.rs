//! What others wrote: as it is for programs, and for people what a terminal would show of it.

use std::io::{self, IsTerminal, Write};

use bus_runner::{Fold, FoldLimits, Line};

use super::unwritten;
use crate::error::CliError;

/// Writes a stranger's bytes to stdout.
///
/// A pipe or a file gets them as they are. A terminal gets the lines that are left of them, in
/// their colours; nothing in them reaches it that it would obey.
pub(crate) struct Others {
    fold: Option<Fold>,
    /// Whether somebody still reads.
    is_read: bool,
}

impl Others {
    /// Begins to write; with `is_forced` a terminal gets the bytes as they are, too.
    pub(crate) fn new(is_forced: bool) -> Self {
        let is_shown = !is_forced && io::stdout().is_terminal();
        Self { fold: is_shown.then(|| Fold::new(FoldLimits::text())), is_read: true }
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// When stdout takes them not, for another reason than that nobody reads it.
    pub(crate) fn print(bytes: &[u8]) -> Result<(), CliError> {
        let mut others = Self::new(false);
        others.write(bytes)?;
        others.finish()
    }

    /// Writes the next bytes.
    ///
    /// # Errors
    /// As [`print`](Self::print).
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        if !self.is_read {
            return Ok(());
        }
        let written = match &mut self.fold {
            Some(fold) => show(|mut line| fold.push(bytes, &mut line)),
            None => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(bytes).and_then(|()| stdout.flush())
            }
        };
        self.check(written)
    }

    /// Writes the lines that might still have changed; what follows is a text of its own.
    ///
    /// # Errors
    /// As [`print`](Self::print).
    pub(crate) fn part(&mut self) -> Result<(), CliError> {
        let Some(fold) = self.fold.take() else { return Ok(()) };
        self.fold = Some(Fold::new(FoldLimits::text()));
        if !self.is_read {
            return Ok(());
        }
        let written = show(|mut line| fold.finish(&mut line));
        self.check(written)
    }

    /// Writes the lines that might still have changed.
    ///
    /// # Errors
    /// As [`print`](Self::print).
    pub(crate) fn finish(mut self) -> Result<(), CliError> {
        match self.fold.take() {
            Some(fold) if self.is_read => {
                let written = show(|mut line| fold.finish(&mut line));
                self.check(written)
            }
            _ => Ok(()),
        }
    }

    fn check(&mut self, written: io::Result<()>) -> Result<(), CliError> {
        match written {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_read = false;
                Ok(())
            }
            Err(error) => Err(unwritten(&error)),
        }
    }
}

/// Writes the lines that `fold` finishes.
fn show(fold: impl FnOnce(&mut dyn FnMut(Line<'_>))) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    let mut written = Ok(());
    fold(&mut |line: Line<'_>| {
        if written.is_ok() {
            let end = if line.is_cut { "" } else { "\n" };
            written = write!(out, "{}{end}", line.styled);
        }
    });
    written.and_then(|()| out.flush())
}
