//! The configuration of a server that we start: every setting we rely on, written out.
//!
//! What is not here stays off, as MQTT and gateways; clusters, leaf nodes, web sockets and the
//! monitoring port are off unless asked for.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use super::{error::ServerError, text};

pub use address::HostPort;
pub use links::{Cluster, LeafDoor, LeafNodes, LeafRemote, LeafTls, RoutePassword, WebSocketDoor};
pub use login::{Authorization, NkeyUser, Resolver};

mod address;
mod check;
mod links;
mod login;

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
    /// The longest line of the protocol that a client may send, in bytes. Default 65,536: a token
    /// travels on one, and the server's own 4,096 are too few for an agent with several roles.
    pub control_line_bytes_max: u32,
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
    /// How long whoever connects may take to prove who it is, and with it how long a service that
    /// admits users may think about it. Default 2 s. Means nothing where nobody has to prove it.
    pub login_within: Duration,
    /// Where the tokens of accounts are. Default [`Resolver::Memory`].
    pub resolver: Resolver,
    /// The token of the user that whoever comes without a token is taken for, so that a service
    /// which admits users is asked. Default `None`. Only with [`Authorization::Jwt`].
    pub sentinel: Option<String>,
    /// Encrypts connections. Default `None`.
    pub tls: Option<ServerTls>,
    /// The name of this server's or cluster's JetStream among those that leaf nodes link together:
    /// letters, digits, `-` and `_`. Default `None`; needed beside leaf nodes.
    pub domain: Option<String>,
    /// The cluster that the server belongs to. Default `None`: it stands alone.
    pub cluster: Option<Cluster>,
    /// The leaf nodes and hubs that it is linked with. Default none.
    pub leafnodes: LeafNodes,
    /// Where browsers connect. Default `None`.
    pub websocket: Option<WebSocketDoor>,
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
            control_line_bytes_max: 64 * 1024,
            sync: SyncPolicy::Always,
            memory_bytes_max: None,
            file_bytes_max: None,
            write_deadline: Duration::from_secs(10),
            ping_interval: Duration::from_secs(10),
            lame_duck_duration: Duration::from_secs(30),
            lame_duck_grace: Duration::from_secs(2),
            authorization: Authorization::Open,
            login_within: Duration::from_secs(2),
            resolver: Resolver::Memory,
            sentinel: None,
            tls: None,
            domain: None,
            cluster: None,
            leafnodes: LeafNodes::default(),
            websocket: None,
        }
    }
}

impl ServerConfig {
    /// Writes the whole configuration of a server that works in `dir` and that somebody else
    /// starts. A [`RoutePassword`] and nothing else secret stands in it.
    ///
    /// Needs [`super::Version::LINKED`] when [`is_linked`](Self::is_linked).
    ///
    /// # Errors
    /// [`ServerError::Config`] for a setting that the server would refuse or read otherwise, or
    /// that would let in more than was meant.
    pub fn render(&self, dir: &Path) -> Result<String, ServerError> {
        self.check()?;
        text::render(self, dir, None)
    }

    /// The same for a server that says in the folder `ports` which ports it took.
    pub(super) fn render_with_ports(
        &self,
        dir: &Path,
        ports: &Path,
    ) -> Result<String, ServerError> {
        self.check()?;
        text::render(self, dir, Some(ports))
    }

    /// Whether the server may meet another one: it has a domain, a cluster or leaf nodes.
    ///
    /// Then its acknowledgements name the domain that they belong to; without that one of another
    /// domain would settle a task of this one.
    #[must_use]
    pub fn is_linked(&self) -> bool {
        self.domain.is_some() || self.cluster.is_some() || self.leafnodes.is_used()
    }
}
