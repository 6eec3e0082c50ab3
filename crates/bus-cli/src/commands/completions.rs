//! `vakbus completions`: a script that teaches a shell the commands and options there are.

use clap::CommandFactory;

use crate::{
    args::{Cli, CompletionsArgs},
    error::{CliError, Exit},
    print,
};

/// Prints the script.
pub(crate) fn run(args: &CompletionsArgs) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), PROGRAM, &mut script);
    print::text(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}

/// The name under which the shell finds the command.
const PROGRAM: &str = "vakbus";
