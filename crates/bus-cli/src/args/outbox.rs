//! What the commands of outboxes take.

use bus_subjects::AgentId;
use clap::{Args, Subcommand, ValueEnum};

/// Outboxes.
#[derive(Debug, Subcommand)]
pub(crate) enum OutboxCommand {
    /// List records, in the order in which they are carried; those that left are kept for 7 days.
    Ls(OutboxLsArgs),
    /// Count what waits, what arrived and what was refused.
    #[command(after_help = STATUS_HELP)]
    Status,
}

/// List records.
#[derive(Debug, Args)]
pub(crate) struct OutboxLsArgs {
    /// Only those of this agent's outbox.
    #[arg(id = "of_agent", long = "agent", value_name = "AGENT", value_parser = AgentId::parse)]
    pub(crate) agent: Option<AgentId>,
    /// Only those that stand so. Repeatable [default: waiting and refused].
    #[arg(long, value_enum, value_name = "STATE")]
    pub(crate) state: Vec<Stands>,
}

/// Where a record stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stands {
    /// In its outbox.
    Waiting,
    /// The hub has stored it.
    AtHub,
    /// It is not carried; a dead letter holds it.
    Refused,
}

const STATUS_HELP: &str = "\
Exit code 3: something was refused within the last 7 days. `vakbus outbox ls --state refused` says why,
and each has a dead letter here that can be sent again.";
