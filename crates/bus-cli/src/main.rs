//! The `vakbus` command: the one place that picks an engine and reads what the user configured.

mod args;
mod audit;
mod commands;
mod config;
mod engine;
mod error;
mod gateway;
mod home;
mod http;
mod operator;
mod print;
mod recording;
mod secrets;
mod swarm;
mod telemetry;
mod terminal;
mod top;
mod workspace;

use std::{env::VarError, path::Path, process::ExitCode};

use clap::{ArgMatches, CommandFactory, FromArgMatches};

use crate::{
    args::{Cli, Color, Global},
    config::Settings,
    error::CliError,
};

#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Help and wrong calls are told before the options are known.
    print::set_color(Color::asked(std::env::args_os()).into());
    let parsed = Cli::command().try_get_matches().and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches).map_err(|e| e.format(&mut Cli::command()))?;
        Ok((cli, matches))
    });
    let (mut cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(said) => return print::instead_of_a_run(&said),
    };
    print::set_color(cli.global.color.into());
    print::set_quiet(cli.global.quiet);
    let settled = settle(&mut cli, &matches).and_then(|()| start_logging(&cli.global));
    let ended = settled.and_then(|()| start_telemetry(&cli)).and_then(|()| commands::run(cli));
    telemetry::finish();
    match ended {
        Ok(code) => code.into(),
        Err(error) => {
            print::talk(&error.to_string());
            error.code().into()
        }
    }
}

/// Reads all settings and puts what the options left open to what they say.
fn settle(cli: &mut Cli, matches: &ArgMatches) -> Result<(), CliError> {
    let global = &mut cli.global;
    global.flags = args::flags(matches, global)?;
    let settings = Settings::find(global.settings_file.as_deref(), global.flags.clone())?;
    global.config = match settings.load() {
        Ok(loaded) => {
            if cli.command.needs_settings() && !global.quiet {
                loaded.warnings.iter().for_each(|warning| print::talk(&warning.as_warning()));
            }
            loaded.config
        }
        // What repairs settings, and what needs none, works whatever they say.
        Err(_) if !cli.command.needs_settings() => settings.without_files(),
        Err(error) => return Err(error),
    };
    if let Some(workspace) = global.config.workspace() {
        global.workspace = workspace.clone();
    }
    global.data_dir = global.config.data_dir().map(Path::to_owned);
    global.color = global.config.color();
    print::set_color(global.color.into());
    Ok(())
}

/// Spans are exported where the settings say so, by whatever acts by settings.
fn start_telemetry(cli: &Cli) -> Result<(), CliError> {
    match cli.command.needs_settings() {
        true => telemetry::start(&cli.global.config),
        false => Ok(()),
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
    let wanted = match std::env::var(LOG_VARIABLE) {
        Err(VarError::NotUnicode(_)) => {
            return Err(CliError::usage(format!("{LOG_VARIABLE}: expected UTF-8"))
                .next(format!("{LOG_VARIABLE}=debug")));
        }
        wanted => wanted.ok().filter(|wanted| !wanted.is_empty()),
    };
    let filter = EnvFilter::try_new(wanted.as_deref().unwrap_or(level)).map_err(|error| {
        CliError::usage(format!("{LOG_VARIABLE}: {error}")).next(format!("{LOG_VARIABLE}=debug"))
    })?;
    // A second subscriber cannot be there: this is the first thing the program does.
    let _started = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // The writer drops the colours where nobody wants them.
        .with_ansi(true)
        .with_writer(anstream::stderr)
        .without_time()
        .try_init();
    Ok(())
}

const LOG_VARIABLE: &str = "VAKBUS_LOG";
