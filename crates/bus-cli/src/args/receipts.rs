//! What the commands about receipts take.

use std::{path::PathBuf, time::Duration};

use bus_subjects::{AgentId, SessionId};
use clap::{Args, Subcommand, ValueHint};

use super::some_time;

/// Receipts.
#[derive(Debug, Subcommand)]
pub(crate) enum ReceiptsCommand {
    /// List receipts and other evidence of what was executed, in the order of their storing.
    #[command(after_help = LS_HELP)]
    Ls(ReceiptsLsArgs),
    /// Show all that a receipt says.
    Show {
        /// The task's id, or the position of the receipt: a number is a position.
        #[arg(value_name = "TASK|POSITION")]
        what: String,
    },
    /// Write the receipts and dead letters of a session into a directory, for `vakbus verify`.
    #[command(after_help = EXPORT_HELP)]
    Export(ExportArgs),
    /// Prove that one receipt is in its session's log, or that a log goes on from a checkpoint that
    /// was kept.
    #[command(after_help = PROVE_HELP)]
    Prove(ProveArgs),
    /// Sign the head of a session's log, for keeping it elsewhere.
    #[command(after_help = CHECKPOINT_HELP)]
    Checkpoint(CheckpointArgs),
}

/// List receipts.
#[derive(Debug, Args)]
pub(crate) struct ReceiptsLsArgs {
    /// Only those of this session.
    #[arg(long, value_name = "S", value_parser = SessionId::parse)]
    pub(crate) session: Option<SessionId>,
    /// Only those of this task.
    #[arg(long, value_name = "ID")]
    pub(crate) task: Option<String>,
    /// Only those by this worker.
    #[arg(long, value_name = "AGENT", value_parser = AgentId::parse)]
    pub(crate) worker: Option<AgentId>,
    /// Only those stored within this time.
    #[arg(long, value_name = "D", value_parser = some_time)]
    pub(crate) newer: Option<Duration>,
    /// At most so many, the newest ones.
    #[arg(long, value_name = "N", default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
}

/// Export a session.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The directory to write: a new or an empty one.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// The session.
    #[arg(long, value_name = "S", value_parser = SessionId::parse)]
    pub(crate) session: SessionId,
}

/// Prove something about a session's log.
#[derive(Debug, Args)]
#[command(override_usage = PROVE_USAGE)]
pub(crate) struct ProveArgs {
    /// The task's id, or the position of the receipt: a number is a position.
    #[arg(value_name = "TASK|POSITION", required_unless_present = "since")]
    #[arg(conflicts_with = "since")]
    pub(crate) what: Option<String>,
    /// The session, where several have a task of that id.
    #[arg(long, value_name = "S", requires = "what", value_parser = SessionId::parse)]
    pub(crate) session: Option<SessionId>,
    /// The checkpoint that was kept, and that the log is shown to go on from.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) since: Option<PathBuf>,
    /// Where to write the proof, a new file [default: stdout].
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
}

/// Sign the head of a session's log.
#[derive(Debug, Args)]
pub(crate) struct CheckpointArgs {
    /// The session.
    #[arg(long, value_name = "S", value_parser = SessionId::parse)]
    pub(crate) session: SessionId,
    /// Where to write it, a new file [default: stdout].
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
}

/// What stands below the commands.
pub(crate) const RECEIPTS_HELP: &str = "\
They act as cli-auditor, which is made when it is first needed, unless --as names another auditor or
an operator. Reading evidence takes no other right, and nothing of the bus is changed.";

const PROVE_USAGE: &str = "\
vakbus receipts prove [OPTIONS] <TASK|POSITION>
       vakbus receipts prove [OPTIONS] --since <FILE>";

const LS_HELP: &str = "\
Each line says whether the record is verified: its signer is certified here and may write receipts,
and it follows the record before it in its session's chain. A record that cannot be opened is
listed as well, with the reason.

Examples:
  vakbus receipts ls --newer 1h
  vakbus receipts ls --worker cli-worker --json | jq -r .task";

const EXPORT_HELP: &str = "\
The directory holds certificates, receipts and dead letters with signed checkpoints, as
docs/spec/receipts.md says, and no log of tasks: they left their queues when they were done. The
verdict of `vakbus verify` says so. `swarm --evidence` writes the tasks too.

Examples:
  vakbus receipts export june --session nightly
  vakbus verify june --trust \"$(vakbus workspace show --json | jq -r .account)\"";

const PROVE_HELP: &str = "\
A proof of one receipt is a C2SP tlog-proof: the receipt, the certificates of its worker and of the
recorder, and the path to a signed checkpoint. With --since it shows that the log of today begins
with the one that the kept checkpoint covers. Whoever has the account's public key checks both with
`vakbus verify`, without a bus and without a secret.

Examples:
  vakbus receipts prove t-17 -o t-17.tlog-proof
  vakbus receipts checkpoint --session nightly -o monday.checkpoint
  vakbus receipts prove --since monday.checkpoint -o grown.proof
  vakbus verify grown.proof --checkpoint monday.checkpoint";

const CHECKPOINT_HELP: &str = "\
Whoever keeps a checkpoint where the bus's keeper cannot write can show later that nothing was cut
off or rewritten. A daemon signs them too, into DATA_DIR/audit/WORKSPACE/checkpoints.

Example:
  vakbus receipts checkpoint --session nightly -o monday.checkpoint";
