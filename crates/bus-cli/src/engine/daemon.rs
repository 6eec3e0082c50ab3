//! Where a daemon's files are, and what they say of the one that runs.

use std::{
    fs::TryLockError,
    path::{Path, PathBuf},
};

use rustix::{
    io::Errno,
    process::{Pid, test_kill_process},
};
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
    /// Where a supervised nats-server works.
    pub(crate) nats: PathBuf,
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
    /// Where it answers HTTP, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) http: Option<String>,
}

/// What `vakbus up --nats` says of itself and its server. It stays when it ends: as long as it is
/// there, the bus of the data home is that server's and no other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NatsRunning {
    /// The process id of the supervisor.
    pub(crate) pid: u32,
    /// When it began, in canonical form.
    pub(crate) since: String,
    /// Where the server is reached from this machine.
    pub(crate) url: String,
    /// The process id of the server.
    pub(crate) server: u32,
    /// What an acknowledged append survives: `synced` or `written`.
    pub(crate) durability: String,
    /// The version of the supervisor.
    pub(crate) version: String,
    /// Where it answers HTTP, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) http: Option<String>,
}

impl NatsRunning {
    /// Whether the supervisor lives.
    pub(crate) fn is_alive(&self) -> bool {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        // Somebody else's process is one as well.
        pid.is_some_and(|pid| !matches!(test_kill_process(pid), Err(Errno::SRCH)))
    }
}

impl Paths {
    /// Those of `home`, as the settings have them.
    pub(crate) fn new(global: &Global, home: &Home) -> Self {
        let run = home.below("run");
        let socket = match global.config.socket() {
            Some(path) => path.to_owned(),
            None => run.path().join("bus.sock"),
        };
        Self { bus: home.path().join("bus"), nats: home.path().join("nats"), run, socket }
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

    /// What `vakbus up --nats` wrote about itself; none when the bus is not such a server's.
    ///
    /// # Errors
    /// When it is there and cannot be read: to go on without it would be on another bus.
    pub(crate) fn nats(&self) -> Result<Option<NatsRunning>, CliError> {
        if !self.run.below(NATS_FILE).exists() {
            return Ok(None);
        }
        let text = self.run.read(NATS_FILE)?;
        let shown = self.run.path().join(NATS_FILE);
        serde_json::from_str(&text).map(Some).map_err(|error| {
            let what = format!("{} is damaged: {error}", shown.display());
            CliError::new(Exit::Failed, what).next("vakbus up --nats writes it anew")
        })
    }

    /// Whether a supervised server has its directory: it or its supervisor lives.
    pub(crate) fn is_nats_held(&self) -> bool {
        let lock = std::fs::File::open(self.nats.join("lock"));
        lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Writes what `vakbus up --nats` says of itself.
    pub(crate) fn write_nats(&self, running: &NatsRunning) -> Result<(), CliError> {
        let text = serde_json::to_string(running)
            .map_err(|error| CliError::new(Exit::Failed, error.to_string()))?;
        self.run.replace(NATS_FILE, &text)
    }

    /// Has the data home's bus be this machine's own again; whether it was a server's.
    pub(crate) fn leave_nats(&self) -> Result<bool, CliError> {
        self.run.remove(NATS_FILE)
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
const NATS_FILE: &str = "nats.json";
