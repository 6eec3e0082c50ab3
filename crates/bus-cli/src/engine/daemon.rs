//! Where a daemon's files are, and what they say of the one that runs.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{
    args::Global,
    error::{CliError, Exit},
    home::Home,
};

/// The places of a data home that a daemon uses.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    /// Where the bus is kept.
    pub(crate) bus: PathBuf,
    /// The directory of what is there while a daemon runs.
    pub(crate) run: Home,
    /// Its socket.
    pub(crate) socket: PathBuf,
}

/// What a running daemon says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Running {
    /// Its process id.
    pub(crate) pid: u32,
    /// When it began to serve, in canonical form.
    pub(crate) since: String,
    /// Its socket.
    pub(crate) socket: String,
    /// What an acknowledged append survives: `synced` or `written`.
    pub(crate) durability: String,
    /// Its version.
    pub(crate) version: String,
}

impl Paths {
    /// Those of `home`, as the settings have them.
    pub(crate) fn new(global: &Global, home: &Home) -> Self {
        let run = home.below("run");
        let socket = match global.config.socket() {
            Some(path) => path.to_owned(),
            None => run.path().join("bus.sock"),
        };
        Self { bus: home.path().join("bus"), run, socket }
    }

    /// Whether a daemon takes connections there.
    pub(crate) fn is_served(&self) -> bool {
        is_served(&self.socket)
    }

    /// What the daemon wrote about itself; none when that cannot be read.
    pub(crate) fn running(&self) -> Option<Running> {
        serde_json::from_str(&self.run.read(RUNNING_FILE).ok()?).ok()
    }

    /// Writes what a daemon says of itself.
    pub(crate) fn write(&self, running: &Running) -> Result<(), CliError> {
        let text = serde_json::to_string(running)
            .map_err(|error| CliError::new(Exit::Failed, error.to_string()))?;
        self.run.replace(RUNNING_FILE, &text)
    }

    /// Removes it again.
    pub(crate) fn forget(&self) {
        // Best effort: one that is left behind says nothing as long as nobody serves the socket.
        let _removed = self.run.remove(RUNNING_FILE);
    }
}

/// Whether somebody takes connections at `socket`. One left behind by a dead process refuses them.
fn is_served(socket: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(socket).is_ok()
}

const RUNNING_FILE: &str = "daemon.json";
