//! Which command runs.

mod acl;
mod agent;
mod verify;
mod workspace;

use crate::{
    args::{Cli, Command},
    error::{CliError, Exit},
    swarm,
};

/// Runs what the command line asks for.
pub(crate) fn run(cli: Cli) -> Result<Exit, CliError> {
    let Cli { command, global } = cli;
    match command {
        Command::Swarm(args) => swarm::run(args, &global),
        Command::Verify(args) => verify::run(&args, &global),
        Command::Workspace(command) => workspace::run(&command, &global),
        Command::Agent(command) => agent::run(command, &global),
        Command::Acl(command) => acl::run(&command, &global),
    }
}
