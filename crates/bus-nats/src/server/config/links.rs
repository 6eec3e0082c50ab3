//! What a server has to do with other servers: its cluster, its leaf nodes, its hub.

use std::{fmt, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use bus_crypto::{Entropy, PublicKey, Zeroizing};
use bus_subjects::Filter;
use data_encoding::BASE64URL_NOPAD;

use super::{HostPort, ServerError, ServerTls};

/// The cluster that a server belongs to.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// The name of the cluster, the same on every server: letters, digits, `-` and `_`.
    pub name: String,
    /// Where the other servers connect. Beyond this machine only with `tls`.
    pub listen: SocketAddr,
    /// Where the servers of the cluster are, this one among them: until they have all met, they
    /// take the number of routes for that of the servers, and one that never came is missed by
    /// nobody when they are told of too few. At least one.
    pub routes: Vec<HostPort>,
    /// What the servers show each other. Default none; then whoever reaches the address and, with
    /// `tls`, has a certificate of its authority is a server of the cluster.
    pub password: Option<RoutePassword>,
    /// Encrypts the routes. Both ends show a certificate, so that `ca` is needed; the server
    /// behaves as if `verify` were set.
    pub tls: Option<ServerTls>,
}

/// The secret that the servers of a cluster share.
///
/// It stands in the configuration of each of them, because the server reads it nowhere else; the
/// file is readable by its owner alone. It is wiped when the last copy is dropped.
#[derive(Clone)]
pub struct RoutePassword(Arc<Zeroizing<String>>);

/// The leaf nodes that connect to a server, and the hubs that it is a leaf node of.
#[derive(Debug, Clone)]
pub struct LeafNodes {
    /// Where leaf nodes connect. Default `None`.
    pub listen: Option<LeafDoor>,
    /// The hubs, one entry an account. Default none.
    pub remotes: Vec<LeafRemote>,
    /// How long is waited before a lost hub is tried again. Default 1 s.
    pub reconnect: Duration,
}

/// Where leaf nodes connect.
#[derive(Debug, Clone)]
pub struct LeafDoor {
    /// The address. Beyond this machine only with `tls` and with [`super::Authorization`].
    pub listen: SocketAddr,
    /// Encrypts the links.
    pub tls: Option<ServerTls>,
}

/// A hub, as one account of a leaf node reaches it.
#[derive(Debug, Clone)]
pub struct LeafRemote {
    /// The servers of the hub; at least one. Beyond this machine only with `tls`.
    pub urls: Vec<HostPort>,
    /// The account of this server that is linked.
    pub account: PublicKey,
    /// The file with the token and the key that the hub asks for.
    pub credentials: PathBuf,
    /// What is not sent to the hub. A subject that both sides keep must be denied here and in
    /// `deny_imports`, or one publish is stored twice: see [`crate::permissions::leaf_denies`].
    pub deny_exports: Vec<Filter>,
    /// What is not heard from the hub.
    pub deny_imports: Vec<Filter>,
    /// Encrypts the link.
    pub tls: Option<LeafTls>,
}

/// How a leaf node encrypts the link to its hub, all as paths of PEM files.
#[derive(Debug, Clone, Default)]
pub struct LeafTls {
    /// Who signs the hub's certificates. Default: whom the system trusts.
    pub ca: Option<PathBuf>,
    /// A certificate and its key, for hubs that ask for one.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// Where browsers connect.
#[derive(Debug, Clone)]
pub struct WebSocketDoor {
    /// The address. Beyond this machine only with `tls`.
    pub listen: SocketAddr,
    /// Encrypts the connections.
    pub tls: Option<ServerTls>,
    /// The pages that may connect, as `https://host`. Default none: a page of the same host and
    /// port, or a program that is no browser.
    pub origins: Vec<String>,
}

impl RoutePassword {
    /// Takes a password of 22 to 128 letters, digits, `-` and `_`: it stands in an address.
    ///
    /// # Errors
    /// [`ServerError::Config`] when it is shorter, longer or holds anything else. It is not quoted.
    pub fn parse(text: Zeroizing<String>) -> Result<Self, ServerError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if !(22..=128).contains(&text.len()) || !text.bytes().all(is_plain) {
            let reason = "expected 22 to 128 letters, digits, `-` and `_`";
            return Err(ServerError::config("cluster.password", reason));
        }
        Ok(Self(Arc::new(text)))
    }

    /// Draws a password of 256 bits.
    ///
    /// # Errors
    /// [`ServerError::Config`] when there is no randomness.
    pub fn generate(entropy: &dyn Entropy) -> Result<Self, ServerError> {
        let mut bytes = Zeroizing::new([0; 32]);
        entropy
            .fill(&mut *bytes)
            .map_err(|error| ServerError::config("cluster.password", error.to_string()))?;
        Self::parse(Zeroizing::new(BASE64URL_NOPAD.encode(&*bytes)))
    }

    /// The password, for whoever writes it into a configuration.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for RoutePassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RoutePassword(..)")
    }
}

impl Default for LeafNodes {
    fn default() -> Self {
        Self { listen: None, remotes: Vec::new(), reconnect: Duration::from_secs(1) }
    }
}

impl LeafNodes {
    /// Whether there is anything to say about them.
    pub(in crate::server) fn is_used(&self) -> bool {
        self.listen.is_some() || !self.remotes.is_empty()
    }
}
