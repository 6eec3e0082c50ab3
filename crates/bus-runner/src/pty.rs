//! A pseudo terminal: our end, and its other end, kept open for as long as the command runs.
//!
//! Linux ends a terminal's output with an error (`EIO`) as soon as nobody holds the other end open,
//! also when somebody opens it again a moment later. So the other end stays open here until the
//! command has ended: only from then on is that error the end of the output.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

use crate::reading::{read, readable};
use crate::terminal::TerminalSize;

/// Our end of a terminal.
pub(crate) struct Pty {
    master: AsyncFd<OwnedFd>,
    slave: Option<OwnedFd>,
}

impl Pty {
    /// Opens a terminal of this size, and returns its other end for a command beside it.
    ///
    /// # Errors
    /// When the system has no terminal or descriptor left; see [`is_used_up`].
    pub(crate) fn open(size: TerminalSize) -> io::Result<(Self, pty_process::Pts)> {
        let (pty, pts) = {
            // Its descriptor is closed on exec only from the second system call on.
            let _no_start = STARTS.write().unwrap_or_else(PoisonError::into_inner);
            pty_process::open().map_err(into_io)?
        };
        pty.resize(pty_process::Size::new(size.rows.get(), size.columns.get())).map_err(into_io)?;
        let slave = rustix::io::fcntl_dupfd_cloexec(&pts, 0)?;
        let master = readable(OwnedFd::from(pty))?;
        Ok((Self { master, slave: Some(slave) }, pts))
    }

    /// Waits for output; nothing at its end. Cancel safe.
    ///
    /// # Errors
    /// When somebody else took the terminal away from the command.
    pub(crate) async fn read(&self) -> io::Result<Vec<u8>> {
        match read(&self.master).await {
            Err(error) if is_end(&error) && self.slave.is_none() => Ok(Vec::new()),
            read => read,
        }
    }

    /// Changes the size; the foreground group hears `SIGWINCH`.
    pub(crate) fn resize(&self, size: TerminalSize) {
        let size = rustix::termios::Winsize {
            ws_row: size.rows.get(),
            ws_col: size.columns.get(),
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // A terminal that was taken away has no size; its reader hears of it.
        let _ignored = rustix::termios::tcsetwinsize(&self.master, size);
    }

    /// Lets go of the other end: the output ends when the command's own processes have done so.
    pub(crate) fn hang_up(&mut self) {
        self.slave = None;
    }
}

impl fmt::Debug for Pty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pty").field("is_held", &self.slave.is_some()).finish_non_exhaustive()
    }
}

/// Held while a command is started: no terminal is being opened that it could inherit.
pub(crate) fn no_terminal_opens() -> RwLockReadGuard<'static, ()> {
    STARTS.read().unwrap_or_else(PoisonError::into_inner)
}

/// Tells whether terminals or descriptors are used up for now: another time there may be one.
pub(crate) fn is_used_up(error: &io::Error) -> bool {
    let used_up = [Errno::NOSPC, Errno::IO, Errno::AGAIN, Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| used_up.contains(&errno))
}

/// The error of the crate as the system's own.
pub(crate) fn into_io(error: pty_process::Error) -> io::Error {
    match error {
        pty_process::Error::Io(error) => error,
        pty_process::Error::Rustix(errno) => errno.into(),
        other => io::Error::other(other.to_string()),
    }
}

fn is_end(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::IO)
}

/// Read by every start of a command, written by every opening of a terminal.
static STARTS: RwLock<()> = RwLock::new(());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_terminal_left_is_passing_and_no_terminals_at_all_is_not() {
        let is_passing = |errno: Errno| is_used_up(&errno.into());
        for errno in [Errno::NOSPC, Errno::IO, Errno::MFILE, Errno::NFILE] {
            assert!(is_passing(errno), "{errno:?}");
        }
        for errno in [Errno::NOENT, Errno::ACCESS, Errno::PERM] {
            assert!(!is_passing(errno), "{errno:?}");
        }
    }
}
