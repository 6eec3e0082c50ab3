//! What the commands about settings take, and which settings the options of every command make.

use std::path::{Path, PathBuf};

use clap::{ArgMatches, Subcommand, ValueHint, parser::ValueSource};

use super::Global;
use crate::{
    config::{Key, Layer, Origin, Value},
    error::CliError,
};

/// Settings.
#[derive(Debug, Subcommand)]
#[command(after_help = settings_help())]
pub(crate) enum ConfigCommand {
    /// Show all settings as they count here, and which secrets are there (never what they are).
    Show {
        /// Say where each value comes from.
        #[arg(long)]
        origin: bool,
    },
    /// Set a setting in your own file, or in the project's.
    Set {
        /// The setting's name, such as `worker.max_retries`.
        #[arg(value_name = "KEY")]
        key: String,
        /// Its new value.
        #[arg(value_name = "VALUE", allow_hyphen_values = true)]
        value: String,
        /// In the nearest vakbus.toml of the project; in a new one here when there is none.
        #[arg(long)]
        project: bool,
    },
    /// Take a setting out of your own file, or out of the project's.
    Unset {
        /// The setting's name.
        #[arg(value_name = "KEY")]
        key: String,
        /// In the nearest vakbus.toml of the project.
        #[arg(long)]
        project: bool,
    },
    /// Trust a project's file as it is now, so that all of its settings count.
    Trust {
        /// The file or its directory [default: the nearest of the project].
        #[arg(value_name = "PATH", value_hint = ValueHint::FilePath)]
        path: Option<PathBuf>,
        /// Trust it no longer.
        #[arg(long)]
        revoke: bool,
    },
    /// Say where settings, secrets and data are looked for.
    Path,
}

/// The settings that the options of every command make.
///
/// # Errors
/// An option that does not hold what its setting takes.
pub(crate) fn flags(matches: &ArgMatches, global: &Global) -> Result<Layer, CliError> {
    let is_given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let mut layer = Layer::default();
    if is_given("workspace") {
        let value = Value::Workspace(global.workspace.clone());
        layer.insert(Key::Workspace, value, Origin::Flag("--workspace"));
    }
    if let Some(dir) = &global.data_dir {
        layer.insert(Key::DataDir, Value::Path(dir.clone()), Origin::Flag("--data-dir"));
    }
    if let Some(file) = &global.creds {
        layer.insert(Key::NatsCreds, Value::Path(file.clone()), Origin::Flag("--creds"));
    }
    if is_given("color") {
        layer.insert(Key::Color, Value::Color(global.color), Origin::Flag("--color"));
    }
    if let Some(url) = &global.nats_url {
        let value = Key::NatsUrl
            .kind()
            .read(url, Path::new(""))
            .map_err(|expected| CliError::usage(format!("--nats-url: {expected}")))?;
        layer.insert(Key::NatsUrl, value, Origin::Flag("--nats-url"));
    }
    Ok(layer)
}

/// All settings with their defaults, variables and meaning.
fn settings_help() -> String {
    let mut text = String::from(SETTINGS_HELP);
    for key in Key::ALL {
        let default = key.default_text().map(|d| format!(" [default: {d}]")).unwrap_or_default();
        let mark = if key.is_privileged() { "*" } else { " " };
        let (name, about, variable) = (key.name(), key.about(), key.variables().join(", "));
        text.push_str(&format!("\n {mark}{name}{default}\n    {about}; {variable}"));
    }
    text
}

const SETTINGS_HELP: &str = "\
A later layer wins: built-in defaults, your own file, the project's vakbus.toml (the nearest from
the current directory upwards, below your home directory), the environment, options.

Examples:
  vakbus config set worker.max_retries 5
  vakbus config show --origin

Settings (in a project's file those with * count only when you trust it):";
