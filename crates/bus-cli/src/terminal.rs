//! The terminals of commands, which follow the size of the user's own.

use std::io::{IsTerminal, stderr};
use std::num::NonZeroU16;

use bus_runner::{Terminal, TerminalSize};
use rustix::termios::tcgetwinsize;
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinSet,
};

use crate::args::TerminalArgs;

/// The terminal that every command of this process gets one of.
#[derive(Debug)]
pub(crate) struct CommandTerminal {
    terminal: Terminal,
    is_fixed: bool,
}

impl CommandTerminal {
    /// The terminal that the command line asks for; none without `--pty`.
    pub(crate) fn wanted(args: &TerminalArgs) -> Option<Self> {
        let size = args.pty_size.or_else(users_size).unwrap_or_default();
        let is_fixed = args.pty_size.is_some();
        args.pty.then(|| Self { terminal: Terminal::new(size), is_fixed })
    }

    /// What commands are given.
    pub(crate) fn terminal(&self) -> Terminal {
        self.terminal.clone()
    }

    /// Follows the size of the user's terminal until what is returned is dropped, unless the
    /// command line gave a size. Needs a runtime.
    pub(crate) fn follow(&self) -> JoinSet<()> {
        let mut following = JoinSet::new();
        // Without that signal the size of the beginning stays.
        if !self.is_fixed
            && let Ok(mut changes) = signal(SignalKind::window_change())
        {
            let terminal = self.terminal();
            following.spawn(async move {
                while changes.recv().await.is_some() {
                    if let Some(size) = users_size() {
                        terminal.resize(size);
                    }
                }
            });
        }
        following
    }
}

/// The size of the terminal that stderr is, as far as it tells one.
fn users_size() -> Option<TerminalSize> {
    let size = stderr().is_terminal().then(|| tcgetwinsize(stderr()).ok()).flatten()?;
    let (rows, columns) = (NonZeroU16::new(size.ws_row)?, NonZeroU16::new(size.ws_col)?);
    Some(TerminalSize { rows, columns })
}
