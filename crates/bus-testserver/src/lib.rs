#![doc = include_str!("../README.md")]

use std::{
    ops::{Deref, DerefMut},
    path::{Path, PathBuf},
};

use bus_nats::server::{
    NatsServer, ServerBinary, ServerConfig, ServerError, ServerOptions, Version, find_server,
};
use tempfile::TempDir;

pub use cluster::{TestCluster, free_address};
pub use pair::TestPair;

mod cluster;
mod pair;
mod wire;

/// A running server and its folder; both go when it is dropped.
///
/// It is a [`NatsServer`]: `url`, `kill`, `freeze`, `thaw`, `restart` and the rest are its own.
#[derive(Debug)]
pub struct TestServer {
    // The server must have ended before its folder goes: fields go in this order.
    server: NatsServer,
    home: TempDir,
}

impl TestServer {
    /// Starts a server with the default configuration.
    ///
    /// # Panics
    /// When there is none, or it does not start.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(ServerConfig::default())
    }

    /// Starts a server with this configuration.
    ///
    /// # Panics
    /// When there is none, or it does not start.
    #[must_use]
    #[expect(clippy::panic, reason = "test support: without its server a test must fail")]
    pub fn start_with(config: ServerConfig) -> Self {
        Self::try_start_with(config).unwrap_or_else(|error| panic!("{error}"))
    }

    #[expect(clippy::panic, reason = "test support: without a folder a test must fail")]
    fn try_start_with(config: ServerConfig) -> Result<Self, ServerError> {
        let home = tempfile::tempdir().unwrap_or_else(|error| panic!("temporary folder: {error}"));
        let options = ServerOptions { config, ..options(home.path()) };
        Ok(Self { server: NatsServer::start(options)?, home })
    }

    /// What the server answers on `subject` to whoever needs no login; in words what went wrong.
    ///
    /// # Errors
    /// When it does not run, or says nothing within five seconds.
    pub fn ask(&self, subject: &str, body: &str) -> Result<String, String> {
        wire::ask(self.server.url(), subject, body)
    }

    /// The folder in which the server's own one lies.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.home.path()
    }
}

impl Deref for TestServer {
    type Target = NatsServer;

    fn deref(&self) -> &NatsServer {
        &self.server
    }
}

impl DerefMut for TestServer {
    fn deref_mut(&mut self) -> &mut NatsServer {
        &mut self.server
    }
}

/// The options for a server in the folder `nats` of `home`, to be started by the test itself.
///
/// # Panics
/// When there is no server.
#[must_use]
pub fn options(home: &Path) -> ServerOptions {
    ServerOptions::new(binary(), home.join("nats"))
}

/// The server that tests run on.
///
/// # Panics
/// With the sentence `no nats-server: …` when there is none.
#[must_use]
#[expect(clippy::panic, reason = "test support: without its server a test must fail")]
pub fn binary() -> ServerBinary {
    let found = match find_server(None) {
        Err(ServerError::NotFound { .. }) if std::env::var_os("NATS_SERVER").is_none() => {
            find_server(fetched().as_deref())
        }
        found => found,
    };
    found.unwrap_or_else(|error| panic!("{error}"))
}

/// What `cargo xtask nats` fetched, in the folder that cargo built this test into.
fn fetched() -> Option<PathBuf> {
    let name = format!("nats-server-{}", Version::TESTED);
    let own = std::env::current_exe().ok()?;
    let places = own.ancestors().map(|dir| dir.join("tools").join(&name).join("nats-server"));
    places.into_iter().find(|place| place.is_file())
}
