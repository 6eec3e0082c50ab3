//! What `vakbus auth` takes.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use bus_subjects::{AgentId, Role, RoleName, SessionId};
use clap::{Args, Subcommand, ValueHint};

use super::{duration, role};

/// Identities on servers.
#[derive(Debug, Subcommand)]
pub(crate) enum AuthCommand {
    /// Write the whole configuration of a nats-server that lets in the agents of all workspaces;
    /// makes the operator of this data directory when it has none.
    #[command(after_help = SERVER_CONFIG_HELP)]
    ServerConfig(Box<ServerConfigArgs>),
    /// Give the servers the tokens of all accounts again.
    #[command(after_help = PUSH_HELP)]
    Push,
    /// Decide about whoever comes to the servers without a token: agents with their key alone, and
    /// bearers of tickets. Runs until it is told to stop; start several.
    #[command(after_help = SERVE_HELP)]
    Serve,
    /// Make a ticket, which lets whoever has it in once.
    #[command(after_help = TICKET_HELP)]
    Ticket(TicketArgs),
    /// Say what the servers hold of each account, and whether they keep what the bus promises.
    Status,
}

/// The configuration of a server.
#[derive(Debug, Args)]
pub(crate) struct ServerConfigArgs {
    /// The directory of the server: its configuration is written there, and it keeps its streams
    /// and the accounts' tokens there.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,
    /// The server's name, another one for each.
    #[arg(long, value_name = "NAME", default_value = "vakbus")]
    pub(crate) name: String,
    /// Where clients connect.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:4222")]
    pub(crate) listen: SocketAddr,
    /// The name of its JetStream among those that leaf nodes link together.
    #[arg(long, value_name = "NAME")]
    pub(crate) domain: Option<String>,
    /// Its certificate, in PEM; needed beyond this machine.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key of the certificate.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Where browsers connect; with the same certificate.
    #[arg(long, value_name = "ADDR")]
    pub(crate) websocket: Option<SocketAddr>,
    /// The pages that browsers may connect from, as `https://host`. Repeatable.
    #[arg(long, value_name = "URL", requires = "websocket")]
    pub(crate) origin: Vec<String>,
    /// Have whoever comes without a token decided about by `vakbus auth serve`.
    #[arg(long)]
    pub(crate) callout: bool,
    /// Put it in the place of another configuration that is there.
    #[arg(long)]
    pub(crate) force: bool,
}

/// A ticket.
#[derive(Debug, Args)]
pub(crate) struct TicketArgs {
    /// The agent that its bearer is taken for.
    #[arg(id = "bearer", long = "agent", value_name = "NAME", value_parser = AgentId::parse)]
    pub(crate) agent: AgentId,
    /// What it may do. Repeatable.
    #[arg(long = "role", value_name = "ROLE", required = true, value_parser = role)]
    pub(crate) roles: Vec<Role>,
    /// The one session that its rights are bound to.
    #[arg(long, value_name = "NAME", value_parser = SessionId::parse)]
    pub(crate) session: Option<SessionId>,
    /// The one work queue that its rights are bound to.
    #[arg(long, value_name = "R", value_parser = RoleName::parse)]
    pub(crate) queue: Option<RoleName>,
    /// How long it is good for, and whatever it gives; at most 24 hours.
    #[arg(long = "for", value_name = "D", default_value = "10m", value_parser = duration)]
    pub(crate) valid_for: Duration,
}

const SERVE_HELP: &str = "\
The servers have to be told to ask it: vakbus auth server-config --callout. Where none runs nobody
comes in without a token, and who is in stays.
SIGTERM and Ctrl-C end it when it has answered what it was asked.";

const TICKET_HELP: &str = "\
The ticket is a secret: a client shows it as its token when it connects (auth_token). Whoever does
that first comes in, for ten minutes at most. vakbus auth serve has to run.";

const SERVER_CONFIG_HELP: &str = "\
Start the server with it: nats-server -c DIR/server.conf
No private key stands in it. What changes later is pushed to the running server.";

const PUSH_HELP: &str = "\
Exit code 5: a server was not there. It fetches the tokens from the others when it is back; a
server that is alone has to be pushed to again.";
