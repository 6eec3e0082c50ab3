//! The `vakbus` command: the one place that picks an engine and reads what the user configured.

mod args;
mod commands;
mod error;
mod home;
mod print;
mod swarm;
mod workspace;

use std::process::ExitCode;

use clap::Parser;

use crate::{
    args::{Cli, Global},
    error::CliError,
};

fn main() -> ExitCode {
    let cli = Cli::parse();
    print::set_color(cli.global.color.into());
    match start_logging(&cli.global).and_then(|()| commands::run(cli)) {
        Ok(code) => code.into(),
        Err(error) => {
            print::talk(&error.to_string());
            error.code().into()
        }
    }
}

/// Logs go to stderr; `-v` shows more, `-q` only errors, `VAKBUS_LOG` decides in detail.
fn start_logging(global: &Global) -> Result<(), CliError> {
    use tracing_subscriber::EnvFilter;
    let level = match (global.quiet, global.verbose) {
        (true, _) => "error",
        (false, 0) => "warn",
        (false, 1) => "info",
        (false, 2) => "debug",
        (false, _) => "trace",
    };
    let wanted = std::env::var(LOG_VARIABLE).ok().filter(|wanted| !wanted.is_empty());
    let filter = EnvFilter::try_new(wanted.as_deref().unwrap_or(level)).map_err(|error| {
        CliError::usage(format!("{LOG_VARIABLE}: {error}")).next(format!("{LOG_VARIABLE}=debug"))
    })?;
    // A second subscriber cannot be there: this is the first thing the program does.
    let _started = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // It drops the colours where stderr is no terminal.
        .with_writer(anstream::stderr)
        .without_time()
        .try_init();
    Ok(())
}

const LOG_VARIABLE: &str = "VAKBUS_LOG";
