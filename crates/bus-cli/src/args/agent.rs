//! What `vakbus agent` takes.

use std::{path::PathBuf, time::Duration};

use bus_subjects::{AgentId, Role, RoleName, SessionId};
use clap::{Subcommand, ValueHint};

use super::{role, some_time};

/// Agents.
#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// Make an agent's key and have the workspace certify it.
    Add {
        /// Its name.
        #[arg(value_parser = AgentId::parse)]
        name: AgentId,
        /// What it may do. Repeatable.
        #[arg(long = "role", value_name = "ROLE", required = true, value_parser = role)]
        roles: Vec<Role>,
        /// How long the certificate is valid [default: for ever].
        #[arg(long, value_name = "D", value_parser = some_time)]
        valid_for: Option<Duration>,
        /// The one work queue it may serve [default: any]; at a NATS server a worker takes tasks
        /// with its own credentials or its key only when one is named.
        #[arg(long, value_name = "ROLE", value_parser = RoleName::parse)]
        queue: Option<RoleName>,
        /// The one session it may report on [default: any].
        #[arg(long, value_name = "NAME", value_parser = SessionId::parse)]
        session: Option<SessionId>,
        /// Write its credentials there as well, for the machine that it runs on; only their owner
        /// can read them.
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        out: Option<PathBuf>,
    },
    /// List the agents of the workspace, those whose key was revoked last.
    Ls {
        /// Print the signed revocations instead, one a line, for `vakbus verify --revoked`.
        #[arg(long, conflicts_with = "json")]
        revocations: bool,
    },
    /// Take an agent's key back for ever: nothing that it signs counts any more.
    #[command(after_help = REVOKE_HELP)]
    Revoke {
        /// Its name. It is free for a new key afterwards.
        #[arg(value_parser = AgentId::parse)]
        name: AgentId,
        /// Do not ask.
        #[arg(long, short = 'y')]
        yes: bool,
    },
}

const REVOKE_HELP: &str = "\
The agent still knows the workspace's secret and could read on. To end that too:
  vakbus keys rotate && vakbus keys withdraw v1

Messages that are new are refused whatever time they say: that is what the holder of the key wrote
into them. Receipts and approvals that the bus stored before can be shown, proved and exported for ever.";
