//! What can go wrong with a server that we start ourselves.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use bus_core::{Error, ErrorKind};

use super::binary::{Source, Version};

/// Why there is no running server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// No program was found.
    #[error(
        "no nats-server: looked at {looked}; install nats-server {}, set NATS_SERVER or run \
         `cargo xtask nats`",
        Version::TESTED
    )]
    NotFound {
        /// Every place that was looked at.
        looked: String,
    },
    /// A program was found that does not answer `--version` as a nats-server does.
    #[error("{} (from {source_of}) is no nats-server: {said}", .path.display())]
    NotAServer {
        /// The program.
        path: PathBuf,
        /// Who named it.
        source_of: Source,
        /// What it answered instead.
        said: String,
    },
    /// The server is older than the features that the bus needs.
    #[error(
        "{} (from {source_of}) is nats-server {version}, expected at least {}; install \
         nats-server {}, set NATS_SERVER or run `cargo xtask nats`",
        .path.display(), Version::OLDEST, Version::TESTED
    )]
    TooOld {
        /// The program.
        path: PathBuf,
        /// Who named it.
        source_of: Source,
        /// What it is.
        version: Version,
    },
    /// A setting cannot be given to the server.
    #[error("{field}: {reason}")]
    Config {
        /// The setting.
        field: &'static str,
        /// What was expected.
        reason: String,
    },
    /// Another server, of this process or another, works in the directory.
    #[error("{} is in use by {owner}: one server a directory", .dir.display())]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// Who wrote himself into its lock.
        owner: String,
    },
    /// Somebody else listens on the address.
    #[error("{address} is taken by another program: choose another port, or 0 for a free one")]
    PortTaken {
        /// What the server was to listen on.
        address: String,
    },
    /// The server ended before it was ready, or is not running any more.
    #[error("nats-server ended ({status}){}", .log.shown())]
    Ended {
        /// How it ended.
        status: String,
        /// The last lines of its log.
        log: LastLines,
    },
    /// The server was not ready in time; it was killed.
    #[error("nats-server was not ready within {waited:?}: {missing}{}", .log.shown())]
    NotReady {
        /// How long it was given.
        waited: Duration,
        /// What it had not done yet.
        missing: &'static str,
        /// The last lines of its log.
        log: LastLines,
    },
    /// The server died too often too soon.
    #[error("nats-server died {deaths} times in a row, the last time: {last}")]
    GaveUp {
        /// How often in a row.
        deaths: u32,
        /// What the last try came to.
        last: Box<ServerError>,
    },
    /// A file or a process could not be handled.
    #[error("{what} {}", .path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With which file or program.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The last lines of a server's log, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LastLines(pub Vec<String>);

impl ServerError {
    /// The kind of error that this is on the bus.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Config { .. } => ErrorKind::Invalid,
            Self::InUse { .. } => ErrorKind::Conflict,
            Self::TooOld { .. } | Self::NotAServer { .. } => ErrorKind::Unsupported,
            Self::NotReady { .. } => ErrorKind::Timeout,
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => ErrorKind::Denied,
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::Full,
                _ => ErrorKind::Unavailable,
            },
            Self::NotFound { .. }
            | Self::PortTaken { .. }
            | Self::Ended { .. }
            | Self::GaveUp { .. } => ErrorKind::Unavailable,
        }
    }

    pub(super) fn config(field: &'static str, reason: impl Into<String>) -> Self {
        Self::Config { field, reason: reason.into() }
    }

    /// Wraps what the system said about `path`.
    pub(super) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source }
    }

    /// Whether another try at the same directory and port can never go better.
    pub(super) fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Config { .. }
                | Self::InUse { .. }
                | Self::NotFound { .. }
                | Self::NotAServer { .. }
                | Self::TooOld { .. }
        )
    }
}

impl LastLines {
    /// The lines as the end of an error's text.
    fn shown(&self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        format!("; its last lines: {}", self.0.join(" | "))
    }
}

impl From<ServerError> for Error {
    fn from(error: ServerError) -> Self {
        Self::new(error.kind(), "nats-server", error.to_string()).because(error)
    }
}
