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

use crate::args::Cli;

fn main() -> ExitCode {
    let cli = Cli::parse();
    start_logging(&cli);
    match commands::run(cli) {
        Ok(code) => code.into(),
        Err(error) => {
            print::talk(&error.to_string());
            error.code().into()
        }
    }
}

/// Logs go to stderr; `-v` shows more, `-q` only errors, `VAKBUS_LOG` decides in detail.
fn start_logging(cli: &Cli) {
    use tracing_subscriber::EnvFilter;
    let level = match (cli.global.quiet, cli.global.verbose) {
        (true, _) => "error",
        (false, 0) => "warn",
        (false, 1) => "info",
        (false, 2) => "debug",
        (false, _) => "trace",
    };
    let filter = EnvFilter::try_from_env("VAKBUS_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    // A second subscriber cannot be there: this is the first thing the program does.
    let _started = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .without_time()
        .try_init();
}
