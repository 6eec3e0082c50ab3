//! Finds a nats-server program and makes sure that it is new enough.

use std::{
    env,
    ffi::OsString,
    fmt, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::error::ServerError;

/// A nats-server program whose version was read and is new enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerBinary {
    path: PathBuf,
    version: Version,
    source: Source,
}

/// The version of a nats-server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
    /// The third number.
    pub patch: u32,
}

/// Who named a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// The caller: a flag or a setting.
    Given,
    /// The variable `NATS_SERVER`.
    Environment,
    /// A folder of `PATH`.
    SearchPath,
}

/// Finds a nats-server: `explicit`, else what `NATS_SERVER` names, else the first in `PATH`.
///
/// A place that was named is not passed over: when it holds no usable server, that is the error.
/// The program is run once with `--version`.
///
/// # Errors
/// [`ServerError::NotFound`] when nothing is there, [`ServerError::NotAServer`] and
/// [`ServerError::TooOld`] when the program is not what is needed.
pub fn find_server(explicit: Option<&Path>) -> Result<ServerBinary, ServerError> {
    Places { explicit, named: env::var_os(VARIABLE), search: env::var_os("PATH") }.find()
}

/// Where to look.
pub(super) struct Places<'a> {
    pub(super) explicit: Option<&'a Path>,
    /// The value of `NATS_SERVER`.
    pub(super) named: Option<OsString>,
    /// The value of `PATH`.
    pub(super) search: Option<OsString>,
}

impl Places<'_> {
    pub(super) fn find(&self) -> Result<ServerBinary, ServerError> {
        if let Some(path) = self.explicit {
            return ServerBinary::check(path, Source::Given);
        }
        if let Some(path) = self.named.as_ref().filter(|path| !path.is_empty()) {
            return ServerBinary::check(Path::new(path), Source::Environment);
        }
        let folders = self.search.iter().flat_map(env::split_paths);
        let found = folders.map(|folder| folder.join(PROGRAM)).find(|path| is_program(path));
        let Some(path) = found else {
            let looked = format!("{VARIABLE} (not set) and PATH");
            return Err(ServerError::NotFound { looked });
        };
        ServerBinary::check(&path, Source::SearchPath)
    }
}

impl ServerBinary {
    /// The program.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it said it is.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Who named it.
    #[must_use]
    pub fn source(&self) -> Source {
        self.source
    }

    fn check(path: &Path, source: Source) -> Result<Self, ServerError> {
        if !is_program(path) {
            let looked = format!("{} (from {source}), which is no program", path.display());
            return Err(ServerError::NotFound { looked });
        }
        // A bare name would be looked up in PATH again, and a relative one moves with the caller.
        let path = std::path::absolute(path).map_err(ServerError::io("resolve", path))?;
        let strange =
            |said| ServerError::NotAServer { path: path.clone(), source_of: source, said };
        let output = Command::new(&path)
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .map_err(|error| strange(format!("it cannot be run: {error}")))?;
        let said: String = String::from_utf8_lossy(&output.stdout).chars().take(200).collect();
        let said = said.trim();
        let version = said.strip_prefix("nats-server: v").and_then(Version::parse);
        let version = version.ok_or_else(|| {
            strange(format!("`--version` answered `{}`", bus_subjects::Shown(said)))
        })?;
        if version < Version::OLDEST {
            return Err(ServerError::TooOld { path, source_of: source, version });
        }
        Ok(Self { path, version, source })
    }
}

impl Version {
    /// The oldest server that has what the bus needs (atomic batches came with it).
    pub const OLDEST: Self = Self { major: 2, minor: 12, patch: 0 };
    /// The oldest server that can be linked with others: since then acknowledgements name the
    /// domain that they belong to.
    pub const LINKED: Self = Self { major: 2, minor: 14, patch: 0 };
    /// The server that the tests run.
    pub const TESTED: Self = Self { major: 2, minor: 15, patch: 1 };

    /// Reads `2.15.1`; what stands behind the third number (`-RC.1`) is passed over.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let core = text.split(['-', '+']).next()?;
        let mut numbers = core.split('.').map(|number| number.parse().ok());
        let version =
            Self { major: numbers.next()??, minor: numbers.next()??, patch: numbers.next()?? };
        numbers.next().is_none().then_some(version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Given => "the setting",
            Self::Environment => VARIABLE,
            Self::SearchPath => "PATH",
        })
    }
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

const PROGRAM: &str = "nats-server";
const VARIABLE: &str = "NATS_SERVER";

#[cfg(test)]
mod tests;
