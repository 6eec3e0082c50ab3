//! What the commands of queues and mailboxes take.

use std::time::Duration;

use bus_subjects::{AgentId, RoleName};
use clap::Subcommand;

use super::some_time;

/// Work queues.
#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// List the queues: what waits, what runs, the oldest, and whether they are paused.
    Ls,
    /// Hand out nothing of a queue; what runs goes on.
    Pause {
        /// The role whose queue it is.
        #[arg(value_parser = RoleName::parse)]
        role: RoleName,
        /// For how long [default: until `queue resume`].
        #[arg(long = "for", value_name = "D", value_parser = some_time)]
        time: Option<Duration>,
    },
    /// Hand out tasks of a queue again.
    Resume {
        /// The role whose queue it is.
        #[arg(value_parser = RoleName::parse)]
        role: RoleName,
    },
}

/// Mailboxes.
#[derive(Debug, Subcommand)]
pub(crate) enum InboxCommand {
    /// Send a message to an agent's mailbox, where it stays until that agent takes it.
    Send {
        /// The agent.
        #[arg(value_parser = AgentId::parse)]
        to: AgentId,
        /// The message; - is standard input.
        text: String,
        /// Keep it in the outbox here, and have it carried to the hub of `vakbus up --hub-url`.
        #[arg(long)]
        to_hub: bool,
    },
    /// Take the messages out of the mailbox of the agent that --as names; answers to approvals stay
    /// there for `vakbus approvals use`.
    Read {
        /// Go on waiting for more.
        #[arg(long)]
        follow: bool,
        /// Leave them in the mailbox.
        #[arg(long, conflicts_with = "follow")]
        keep: bool,
        /// Take answers to approvals out too: they cannot be used then until they are sent again.
        #[arg(long, conflicts_with = "keep")]
        all: bool,
    },
}
