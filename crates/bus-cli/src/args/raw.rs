//! Whether others' bytes are printed as they are.

use std::io::IsTerminal;

use clap::ValueEnum;

use crate::error::CliError;

/// What `--raw` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Raw {
    /// Into a pipe or a file.
    #[value(hide = true)]
    Away,
    /// To a terminal as well.
    Force,
}

impl Raw {
    /// Refuses to give a terminal what could steer it, unless that is forced.
    pub(crate) fn check(raw: Option<Self>, command: &str) -> Result<(), CliError> {
        if raw == Some(Self::Away) && std::io::stdout().is_terminal() {
            let what = "--raw would hand what others wrote to your terminal, which obeys it";
            let next = format!("{command} --raw | less, or --raw=force if you trust them all");
            return Err(CliError::usage(what).next(next));
        }
        Ok(())
    }
}
