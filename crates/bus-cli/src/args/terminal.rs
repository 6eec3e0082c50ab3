//! What a command is given to write to.

use bus_runner::TerminalSize;
use clap::Args;

/// The terminal of a command.
#[derive(Debug, Args)]
pub(crate) struct TerminalArgs {
    /// Give the command a terminal to write to, instead of two pipes.
    #[arg(long)]
    pub(crate) pty: bool,
    /// The size of that terminal [default: that of yours, or 24x80].
    #[arg(long, value_name = "ROWSxCOLS", requires = "pty")]
    pub(crate) pty_size: Option<TerminalSize>,
}
