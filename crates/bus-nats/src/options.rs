//! Where a bus is and who connects to it.

use std::{path::PathBuf, sync::Arc, time::Duration};

use bus_core::{Error, ErrorKind, Result};
use bus_crypto::{Credentials, Entropy, SigningKey, SystemEntropy, jwt};
use bus_subjects::{AgentId, Subject, SubjectError, WorkspaceId};
use data_encoding::HEXLOWER;

use crate::{permissions::Layout, profile::Profile};

/// How to connect.
///
/// No secret stands in a server's address: who connects is told by [`NatsAuth`] alone.
#[derive(Clone)]
pub struct NatsOptions {
    /// Servers of one cluster, as `nats://host:port` or `tls://host:port`; at least one.
    pub servers: Vec<String>,
    /// What the server's logs call this connection.
    pub name: String,
    /// Who connects.
    pub auth: NatsAuth,
    /// How the connection is encrypted.
    pub tls: NatsTls,
    /// What the subjects of all answers to this connection begin with, before a level of its own
    /// (`_INBOX`). Give every identity another one, and it the right to hear `<prefix>.>` alone:
    /// then nobody reads another's answers.
    pub inbox_prefix: String,
    /// What the subjects of JetStream's API begin with (`$JS.API`).
    ///
    /// Under another prefix somebody else's account keeps everything, as in the layout of two
    /// accounts (ADR 0024): then nothing is made there, removed nor asked for that no agent may.
    pub api_prefix: String,
    /// The workspace whose [`Layout`] the servers keep: which of its streams keeps what is known
    /// then, and not asked for. None: the servers are asked.
    pub workspace: Option<WorkspaceId>,
    /// How the servers keep what is stored.
    pub profile: Profile,
    /// How long any call may take (5 s).
    pub answer_wait: Duration,
    /// How long the first connection may take, and for how long a server may refuse to let us in
    /// again before we give up (5 s).
    pub connect_wait: Duration,
    /// How often the server is asked whether it lives; it is given up after two without an answer
    /// (10 s; at most 2 s with [`Profile::Replicated`], where there are others to go to).
    pub ping_interval: Duration,
    /// The most messages that wait to be written; who sends more waits, at most `answer_wait`
    /// (2,048).
    pub waiting_max: usize,
}

/// Who connects. Nothing secret of it is printed.
#[derive(Clone, Default)]
pub enum NatsAuth {
    /// Nobody in particular.
    #[default]
    None,
    /// The owner of a key that the server knows.
    Nkey(Arc<SigningKey>),
    /// The owner of a token and its key.
    Jwt(Arc<Credentials>),
    /// Whoever is told anew at each login. When a token ends, the server ends the connection, and
    /// it goes on with the next one. At a server that knows no users, nobody in particular.
    Renewed(Renewal),
}

/// Makes a token and its key for one login.
#[derive(Clone)]
pub struct Renewal(Arc<dyn Fn() -> Result<Credentials> + Send + Sync>);

impl Renewal {
    /// Asks `make` at each login; it must not block for long.
    pub fn new(make: impl Fn() -> Result<Credentials> + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }

    /// What to log in with now.
    ///
    /// # Errors
    /// Those of who makes it.
    pub fn credentials(&self) -> Result<Credentials> {
        (self.0)()
    }
}

/// How the connection is encrypted.
#[derive(Debug, Clone, Default)]
pub struct NatsTls {
    /// Whether a connection without it is refused.
    pub required: bool,
    /// Whether it begins before the server has said anything (`handshake_first`).
    pub first: bool,
    /// Files with the authorities to trust, in PEM; none: those of the system.
    pub roots: Vec<PathBuf>,
    /// A certificate and its key, in PEM, for servers that ask for one.
    pub client: Option<(PathBuf, PathBuf)>,
}

impl NatsOptions {
    /// Connects to `server` as nobody in particular, with the defaults.
    pub fn new(server: impl Into<String>) -> Self {
        Self {
            servers: vec![server.into()],
            name: "vakbus".to_owned(),
            auth: NatsAuth::None,
            tls: NatsTls::default(),
            inbox_prefix: "_INBOX".to_owned(),
            api_prefix: API_PREFIX.to_owned(),
            workspace: None,
            profile: Profile::default(),
            answer_wait: Duration::from_secs(5),
            connect_wait: Duration::from_secs(5),
            ping_interval: Duration::from_secs(10),
            waiting_max: 2048,
        }
    }

    /// Connects to `server` as the agent that `credentials` are of, in the account of the agents of
    /// `workspace`, with the defaults.
    ///
    /// # Errors
    /// `Invalid` when the token is none of a user, or the name in it is no level of a subject.
    pub fn for_agent(
        server: impl Into<String>,
        credentials: Arc<Credentials>,
        workspace: WorkspaceId,
    ) -> Result<Self> {
        let refuse = |why: String| Error::new(ErrorKind::Invalid, "credentials", why);
        let user = jwt::decode_user(credentials.jwt())
            .map_err(|error| refuse("the token is none of a user".to_owned()).because(error))?;
        let name: AgentId = user.name.parse().map_err(|error: SubjectError| {
            refuse(format!("the user's name is no agent's: {error}")).because(error)
        })?;
        Ok(Self {
            auth: NatsAuth::Jwt(credentials),
            inbox_prefix: format!("_INBOX.{name}"),
            api_prefix: Layout::API_PREFIX.to_owned(),
            workspace: Some(workspace),
            ..Self::new(server)
        })
    }

    /// Whether what is kept is kept in this connection's own account, so that it may make it.
    pub(crate) fn keeps_itself(&self) -> bool {
        self.api_prefix == API_PREFIX
    }

    /// Checks the addresses, so that a mistake is told before anything connects.
    ///
    /// # Errors
    /// `Invalid`; an address is never quoted, for it may hold a password.
    pub fn check(&self) -> Result<()> {
        self.addresses().map(drop)
    }

    /// The servers' addresses as the client takes them.
    pub(crate) fn addresses(&self) -> Result<Vec<async_nats::ServerAddr>> {
        let refuse = |why: String| Error::new(ErrorKind::Invalid, "nats servers", why);
        if self.servers.is_empty() {
            return Err(refuse("no server is named".to_owned()));
        }
        let address = |text: &String| {
            // The address is not quoted: it may hold a password.
            if text.contains('@') {
                let why = "an address holds a user or token: give a key or credentials instead";
                return Err(refuse(why.to_owned()));
            }
            text.parse().map_err(|error: std::io::Error| {
                refuse(format!("{} is no address: {error}", bus_subjects::Shown(text)))
            })
        };
        self.servers.iter().map(address).collect()
    }

    /// What the subjects of this connection's answers begin with: the prefix and a level that
    /// nobody can guess. Of the answers to calls, which others give, with another such level.
    pub(crate) fn own_inboxes(&self) -> Result<[String; 2]> {
        check_prefix("inbox_prefix", &self.inbox_prefix)?;
        check_prefix("api_prefix", &self.api_prefix)?;
        let mut unique = [0; 32];
        SystemEntropy::new().fill(&mut unique).map_err(|error| {
            Error::new(ErrorKind::Unavailable, "connect", "no randomness").because(error)
        })?;
        let (own, of_calls) = unique.split_at(16);
        let prefix = &self.inbox_prefix;
        let [own, of_calls] = [own, of_calls].map(|unique| HEXLOWER.encode(unique));
        Ok([format!("{prefix}.{own}"), format!("{prefix}.{CALLS}.{of_calls}")])
    }
}

fn check_prefix(field: &'static str, prefix: &str) -> Result<()> {
    let refuse = |why: String| Error::new(ErrorKind::Invalid, field, why);
    Subject::parse(prefix).map_err(|error| refuse(error.to_string()).because(error))?;
    if prefix.len() > PREFIX_BYTES_MAX {
        return Err(refuse(format!("it is longer than {PREFIX_BYTES_MAX} bytes")));
    }
    Ok(())
}

/// What a server itself calls the API.
const API_PREFIX: &str = "$JS.API";
/// The level below which answers to calls are heard, as in
/// [`CALL_ANSWERS`](crate::permissions::CALL_ANSWERS).
const CALLS: &str = "call";
/// With a subject's own 1,024 bytes it must fit in one line of the protocol.
const PREFIX_BYTES_MAX: usize = 256;

impl std::fmt::Debug for NatsOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { servers, name, auth, tls, inbox_prefix, api_prefix, profile, .. } = self;
        // Who wrote a password into an address is told so when it is used, and it is not shown.
        let shown = |server: &String| server.rsplit('@').next().unwrap_or_default().to_owned();
        f.debug_struct("NatsOptions")
            .field("servers", &servers.iter().map(shown).collect::<Vec<_>>())
            .field("name", name)
            .field("auth", auth)
            .field("tls", tls)
            .field("inbox_prefix", inbox_prefix)
            .field("api_prefix", api_prefix)
            .field("workspace", &self.workspace)
            .field("profile", profile)
            .field("answer_wait", &self.answer_wait)
            .field("connect_wait", &self.connect_wait)
            .field("ping_interval", &self.ping_interval)
            .field("waiting_max", &self.waiting_max)
            .finish()
    }
}

impl std::fmt::Debug for NatsAuth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Nkey(key) => write!(f, "Nkey({})", key.public()),
            Self::Jwt(credentials) => write!(f, "Jwt({})", credentials.key().public()),
            Self::Renewed(_) => f.write_str("Renewed(..)"),
        }
    }
}

#[cfg(test)]
mod tests;
