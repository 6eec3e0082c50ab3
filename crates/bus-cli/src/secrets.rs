//! The secrets of the bus: from the environment or one private file, and never handed on.

use std::{
    fs, io,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use bus_crypto::WorkspaceSecret;
use bus_runner::{
    BUS_NATS_JWT_VAR, BUS_NATS_NKEY_SEED_VAR, CommandSpec, OTEL_HEADERS_VAR,
    OTEL_TRACES_HEADERS_VAR, WORKSPACE_SECRET_VAR,
};
use zeroize::Zeroizing;

use crate::{
    config::Config,
    error::{CliError, Exit},
    home::{Home, read_private},
};

/// Where the secrets of this process come from. Holds none of them.
#[derive(Debug, Clone)]
pub(crate) struct Secrets {
    /// The variable of the workspace's secret.
    variable: String,
    /// Whether the settings name that variable; then it has to be set.
    is_variable_named: bool,
    file: PathBuf,
    /// Whether the settings name that file; then it has to be there.
    is_file_named: bool,
}

/// A secret, wiped when this is dropped. It has no `Debug`.
pub(crate) struct Found {
    /// The text, as it was written there.
    pub(crate) text: Zeroizing<String>,
    /// Where it was found.
    pub(crate) source: Source,
}

/// Where a secret was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// In the environment.
    Environment,
    /// In the secrets file.
    File,
}

impl Secrets {
    /// The secrets that `config` tells of, in a data home.
    pub(crate) fn new(config: &Config, home: &Home) -> Self {
        let named = config.workspace_secret_env();
        Self {
            variable: named.unwrap_or(WORKSPACE_SECRET_VAR).to_owned(),
            is_variable_named: named.is_some(),
            file: match config.secrets_file() {
                Some(file) => file.to_owned(),
                None => home.path().join("secrets.env"),
            },
            is_file_named: config.secrets_file().is_some(),
        }
    }

    /// The names of all secrets.
    pub(crate) fn names(&self) -> [&str; 5] {
        [
            BUS_NATS_JWT_VAR,
            BUS_NATS_NKEY_SEED_VAR,
            OTEL_TRACES_HEADERS_VAR,
            OTEL_HEADERS_VAR,
            &self.variable,
        ]
    }

    /// The secrets file.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Reads one secret: from the environment, else from the secrets file. This is the only way to
    /// any of them (S0.63).
    ///
    /// # Errors
    /// When the value is no text, or the file is not private, is in a repository, or is wrong.
    pub(crate) fn bus_secret(&self, name: &str) -> Result<Option<Found>, CliError> {
        if let Some(value) = std::env::var_os(name) {
            let text = String::from_utf8(value.into_vec()).map_err(|error| {
                let _wiped = Zeroizing::new(error.into_bytes());
                CliError::usage(format!("{name}: expected UTF-8; write such a secret as hex:…"))
            })?;
            return Ok(Some(Found { text: text.into(), source: Source::Environment }));
        }
        let text = self.text()?;
        let found = text.as_ref().map(|text| self.line_of(text, name)).transpose()?.flatten();
        Ok(found.map(|value| Found { text: value, source: Source::File }))
    }

    /// The workspace's secret, when it does not come from the data home.
    ///
    /// # Errors
    /// As [`Self::bus_secret`]; when it is too short or does not decode; when the settings name a
    /// variable that is not there: another secret must not be taken in its place.
    pub(crate) fn workspace_secret(&self) -> Result<Option<WorkspaceSecret>, CliError> {
        let name = &self.variable;
        let Some(found) = self.bus_secret(name)? else {
            if self.is_variable_named {
                let what =
                    format!("{name} is not set, though server.bus.workspace_secret_env names it");
                return Err(CliError::usage(what).next(format!(
                    "set it, or write it into {}, or unset that setting",
                    self.file.display()
                )));
            }
            return Ok(None);
        };
        let secret = WorkspaceSecret::from_text(&found.text).map_err(|error| {
            CliError::usage(format!("{name}: {error}"))
                .next("unset it to use the secret of the data directory")
        })?;
        Ok(Some(secret))
    }

    /// Has a command inherit none of the secrets. Those with fixed names never are; the variable
    /// that the settings name is known only here.
    pub(crate) fn withhold(&self, command: &mut CommandSpec) {
        command.env_removed.push(self.variable.clone().into());
    }

    /// The text of the secrets file; none when there is none.
    fn text(&self) -> Result<Option<Zeroizing<String>>, CliError> {
        let shown = self.file.display();
        match fs::symlink_metadata(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.is_file_named => {
                return Ok(None);
            }
            Err(error) => {
                return Err(CliError::usage(format!("cannot read {shown}: {error}"))
                    .next("see where secrets_file leads: vakbus config show --origin"));
            }
            Ok(_) => {}
        }
        private_file(&self.file).map(Some)
    }

    /// The value of `name` in the secrets file: lines of `NAME=value`, and comments.
    fn line_of(&self, text: &str, name: &str) -> Result<Option<Zeroizing<String>>, CliError> {
        let mut found: Option<Zeroizing<String>> = None;
        for (number, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let refused = |what: &str| {
                let place = format!("{}:{}", self.file.display(), number + 1);
                CliError::usage(format!("{place}: {what}"))
                    .next(format!("its lines are NAME=value, of {}", self.names().join(", ")))
            };
            let Some((key, value)) = line.split_once('=') else {
                return Err(refused("expected NAME=value"));
            };
            if !self.names().contains(&key) {
                // It is not told: base64 without a name ends in a sign of equality as well.
                return Err(refused("this name is of no secret of the bus"));
            }
            if value.is_empty() || value.chars().any(char::is_control) {
                return Err(refused(&format!("{key}: expected a value of one line of text")));
            }
            if key == name && found.replace(value.to_owned().into()).is_some() {
                return Err(refused(&format!("{key} stands here twice")));
            }
        }
        Ok(found)
    }
}

impl Source {
    /// In one word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Environment => "environment",
            Self::File => "file",
        }
    }
}

/// Reads a private file of secrets, which must not lie in a repository.
///
/// # Errors
/// When others can read it, or it lies in a git work tree.
pub(crate) fn private_file(file: &Path) -> Result<Zeroizing<String>, CliError> {
    if let Some(repository) = repository_of(file) {
        let what = format!("{} lies in the git work tree {}", file.display(), repository.display());
        return Err(CliError::new(Exit::Refused, what).next("move it elsewhere and name it there"));
    }
    read_private(file)
}

/// The git work tree in which `file` lies: whoever commits there would publish it.
fn repository_of(file: &Path) -> Option<PathBuf> {
    let dir = match file.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let dir = dir.canonicalize().ok()?;
    let found = dir.ancestors().find(|dir| fs::symlink_metadata(dir.join(".git")).is_ok());
    found.map(Path::to_owned)
}

#[cfg(test)]
mod tests;
