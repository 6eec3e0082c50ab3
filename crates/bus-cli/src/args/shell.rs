//! What the commands take that serve the shell: completions and manual pages.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use clap_complete::Shell;

/// Print a completion script.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_HELP)]
pub(crate) struct CompletionsArgs {
    /// The shell that reads it.
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// Print a manual page, or write all of them.
#[derive(Debug, Args)]
#[command(after_help = MAN_HELP)]
pub(crate) struct ManArgs {
    /// Write one page for each command there, and print their paths.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: Option<PathBuf>,
    /// The command whose page is printed, such as `workspace new` [default: vakbus itself].
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    pub(crate) command: Vec<String>,
}

const COMPLETIONS_HELP: &str = "\
Examples:
  vakbus completions bash >~/.local/share/bash-completion/completions/vakbus
  vakbus completions zsh >~/.local/share/zsh/site-functions/_vakbus
  vakbus completions fish >~/.config/fish/completions/vakbus.fish";

const MAN_HELP: &str = "\
Examples:
  vakbus man swarm | man -l -
  vakbus man --out ~/.local/share/man/man1";

#[cfg(test)]
mod tests;
