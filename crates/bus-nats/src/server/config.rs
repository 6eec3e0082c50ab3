//! The configuration of a server that we start: every setting we rely on, written out.
//!
//! What is not here stays off: clusters, leaf nodes, web sockets, MQTT, and, unless asked for, the
//! monitoring port.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use bus_crypto::{PublicKey, jwt::Permissions};

use super::{error::ServerError, text};

/// What a server is told, apart from the directory it works in.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The server's name in its events and logs, without white space. Default `vakbus`.
    pub name: String,
    /// Where clients connect. Default 127.0.0.1 with port 0: a free port that the system chooses
    /// and a restart keeps. An address that other machines reach is refused without
    /// [`Authorization`].
    pub listen: SocketAddr,
    /// Where the monitoring pages are served. Default `None`: they need no login, so they are off.
    pub monitor: Option<SocketAddr>,
    /// The largest payload in bytes, headers counted. Default 4 MiB: a body of 1 MiB grows by a
    /// third as base64, and headers, sealing and the engine's own bookkeeping come on top.
    pub payload_bytes_max: u32,
    /// When written messages are brought to the disk. Default [`SyncPolicy::Always`].
    pub sync: SyncPolicy,
    /// The most bytes of all streams in memory. Default `None`: the server takes three quarters of
    /// the machine's memory as the limit.
    pub memory_bytes_max: Option<u64>,
    /// The most bytes of all streams on disk. Default `None`: the server takes three quarters of
    /// the free room as the limit.
    pub file_bytes_max: Option<u64>,
    /// How long a client may take to read before it is cut off. Default 10 s.
    pub write_deadline: Duration,
    /// How often a silent client is asked whether it lives; after two unanswered questions it is
    /// cut off. Default 10 s.
    pub ping_interval: Duration,
    /// How long a lame duck takes to send its clients away. Default 30 s, at least 30 s.
    pub lame_duck_duration: Duration,
    /// How long a lame duck waits before that. Default 2 s; shorter than `lame_duck_duration`.
    pub lame_duck_grace: Duration,
    /// Who may connect. Default everybody who reaches the address.
    pub authorization: Authorization,
    /// Encrypts connections. Default `None`.
    pub tls: Option<ServerTls>,
}

/// When written messages are brought to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Before the acknowledgement (D15): a power cut loses nothing that was acknowledged.
    Always,
    /// At this interval: a power cut loses what was acknowledged since. A killed server loses
    /// nothing.
    Every(Duration),
}

/// Who may connect.
#[derive(Debug, Clone)]
pub enum Authorization {
    /// Everybody who reaches the address.
    Open,
    /// These users, each proving that it has the key.
    Nkeys(Vec<NkeyUser>),
    /// The users of these accounts, by tokens.
    Jwt {
        /// The operator's token.
        operator: String,
        /// The account that sees the server's own events; must be one of `accounts`.
        system_account: PublicKey,
        /// The accounts and their tokens.
        accounts: Vec<(PublicKey, String)>,
    },
}

/// A user that is known by its key.
#[derive(Debug, Clone)]
pub struct NkeyUser {
    /// The user's public key (`U…`).
    pub key: PublicKey,
    /// What it may do; `None` means everything.
    pub permissions: Option<Permissions>,
}

/// The certificate of the server, all as paths of PEM files.
#[derive(Debug, Clone)]
pub struct ServerTls {
    /// The server's certificate, with those in between.
    pub cert: PathBuf,
    /// The private key of `cert`.
    pub key: PathBuf,
    /// Who signs the certificates of clients; needed when `verify` is set.
    pub ca: Option<PathBuf>,
    /// Whether a client must show a certificate.
    pub verify: bool,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            name: "vakbus".to_owned(),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            monitor: None,
            payload_bytes_max: 4 * 1024 * 1024,
            sync: SyncPolicy::Always,
            memory_bytes_max: None,
            file_bytes_max: None,
            write_deadline: Duration::from_secs(10),
            ping_interval: Duration::from_secs(10),
            lame_duck_duration: Duration::from_secs(30),
            lame_duck_grace: Duration::from_secs(2),
            authorization: Authorization::Open,
            tls: None,
        }
    }
}

impl ServerConfig {
    /// Writes the whole configuration of a server that works in `dir`.
    ///
    /// # Errors
    /// [`ServerError::Config`] for a setting that the server would refuse or read otherwise.
    pub fn render(&self, dir: &Path) -> Result<String, ServerError> {
        self.check()?;
        text::render(self, dir)
    }

    fn check(&self) -> Result<(), ServerError> {
        let refuse = |field, reason: String| Err(ServerError::config(field, reason));
        if self.name.contains(char::is_whitespace) {
            return refuse("name", "expected no white space".to_owned());
        }
        let is_open = matches!(self.authorization, Authorization::Open);
        if is_open && !self.listen.ip().is_loopback() {
            return refuse("listen", format!("{} without authorization", self.listen.ip()));
        }
        if let Some(monitor) = self.monitor.filter(|monitor| !monitor.ip().is_loopback()) {
            let reason =
                format!("expected a loopback address, not {}: it asks nobody", monitor.ip());
            return refuse("monitor", reason);
        }
        if !(PAYLOAD_BYTES_LEAST..=PAYLOAD_BYTES_MOST).contains(&self.payload_bytes_max) {
            let reason = format!("expected {PAYLOAD_BYTES_LEAST} to {PAYLOAD_BYTES_MOST} bytes");
            return refuse("payload_bytes_max", reason);
        }
        if self.lame_duck_duration < LAME_DUCK_LEAST {
            return refuse("lame_duck_duration", format!("expected at least {LAME_DUCK_LEAST:?}"));
        }
        if self.lame_duck_grace >= self.lame_duck_duration {
            let reason = format!("expected less than the {:?} of all", self.lame_duck_duration);
            return refuse("lame_duck_grace", reason);
        }
        if self.tls.as_ref().is_some_and(|tls| tls.verify && tls.ca.is_none()) {
            return refuse("tls.ca", "expected the signers of clients to verify".to_owned());
        }
        self.authorization.check()
    }
}

impl Authorization {
    fn check(&self) -> Result<(), ServerError> {
        let refuse = |reason: &str| Err(ServerError::config("authorization", reason));
        match self {
            Self::Open => Ok(()),
            // The server takes an empty list for no authorization at all.
            Self::Nkeys(users) if users.is_empty() => refuse("expected at least one user"),
            Self::Nkeys(users) => {
                let is_user = |user: &NkeyUser| user.key.kind() == bus_crypto::NkeyKind::User;
                if !users.iter().all(is_user) {
                    return refuse("expected public keys of users (`U…`)");
                }
                Ok(())
            }
            Self::Jwt { system_account, accounts, .. } => {
                if !accounts.iter().any(|(key, _)| key == system_account) {
                    return refuse("expected the system account among the accounts");
                }
                Ok(())
            }
        }
    }
}

/// Enough for a credential and a small answer; less would break the server's own requests.
const PAYLOAD_BYTES_LEAST: u32 = 64 * 1024;
/// What the server queues for one client before it cuts it off; a larger payload never fits.
const PAYLOAD_BYTES_MOST: u32 = 64 * 1024 * 1024;
/// The server refuses less.
const LAME_DUCK_LEAST: Duration = Duration::from_secs(30);
