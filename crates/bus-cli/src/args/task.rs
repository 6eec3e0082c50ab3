//! What the commands about tasks take.

use std::{path::PathBuf, time::Duration};

use bus_core::{OrderKey, Priority};
use bus_envelope::Timestamp;
use bus_subjects::RoleName;
use clap::{Args, Subcommand, ValueEnum, ValueHint};

use super::{Raw, duration, some_time};

/// Tasks.
#[derive(Debug, Subcommand)]
pub(crate) enum TaskCommand {
    /// Store a task in the queue of a role, and print its id.
    Send(SendArgs),
    /// List tasks: those in their queues, or with --state those that are done or given up.
    Ls(LsArgs),
    /// Say where a task stands.
    Show {
        /// The task's id.
        id: String,
    },
    /// Take a task out of its queue, or tell the worker that runs it to stop.
    Cancel {
        /// The task's id.
        id: String,
        /// Why; it stands in the dead letter.
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Print what a finished task wrote to its standard output.
    #[command(after_help = RESULT_HELP)]
    Result {
        /// The task's id.
        id: String,
        /// Wait for its end: as long as it takes, or so long at most.
        #[arg(long, value_name = "D", num_args = 0..=1, require_equals = true)]
        #[arg(default_missing_value = "forever", value_parser = patience)]
        wait: Option<Patience>,
        /// Print it as it is; to a terminal only with =force.
        #[arg(long, value_enum, value_name = "HOW", conflicts_with = "json")]
        #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "away")]
        raw: Option<Raw>,
    },
}

/// Store a task.
#[derive(Debug, Args)]
#[command(after_help = SEND_HELP)]
pub(crate) struct SendArgs {
    /// The role whose queue gets it.
    #[arg(long, value_name = "R", default_value = "worker", value_parser = RoleName::parse)]
    pub(crate) role: RoleName,
    /// Its id, of your choice: a second task with it is refused within ten minutes
    /// [default: a new UUID].
    #[arg(long, value_name = "ID", value_parser = task_id)]
    pub(crate) id: Option<String>,
    /// How long it rests before anybody gets it.
    #[arg(long, value_name = "D", value_parser = some_time, conflicts_with = "at")]
    pub(crate) delay: Option<Duration>,
    /// The time before which nobody gets it, as 2026-01-31T08:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) at: Option<Timestamp>,
    /// How urgent it is: 0 to 9, 9 being most urgent.
    #[arg(long, value_name = "N", default_value = "4", value_parser = priority)]
    pub(crate) priority: Priority,
    /// Tasks of one key run one after the other, in the order they were sent.
    #[arg(long, value_name = "KEY", value_parser = order_key)]
    pub(crate) key: Option<OrderKey>,
    /// When it is of no use any more: a time, or how long from now. It is not begun after that, and
    /// given up instead.
    #[arg(long, value_name = "TIME|D", value_parser = deadline)]
    pub(crate) deadline: Option<When>,
    /// Wait for its end and print what it wrote: as long as it takes, or so long at most.
    #[arg(long, value_name = "D", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "forever", value_parser = patience)]
    pub(crate) wait: Option<Patience>,
    /// Keep it in the outbox here, and have it carried to the hub of `vakbus up --hub-url`.
    #[arg(long, conflicts_with = "wait")]
    pub(crate) to_hub: bool,
    /// The payload is what this file holds.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["stdin", "text"])]
    pub(crate) file: Option<PathBuf>,
    /// The payload is what comes in on standard input.
    #[arg(long, conflicts_with = "text")]
    pub(crate) stdin: bool,
    /// The payload itself.
    #[arg(value_name = "TEXT", required_unless_present_any = ["file", "stdin"])]
    pub(crate) text: Option<String>,
}

/// List tasks.
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// Only those of this role's queue.
    #[arg(long, value_name = "R", value_parser = RoleName::parse)]
    pub(crate) role: Option<RoleName>,
    /// Only those that stand so. Repeatable [default: all that are in their queues].
    #[arg(long, value_enum, value_name = "STATE")]
    pub(crate) state: Vec<TaskState>,
}

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TaskState {
    /// In its queue; nobody works on it.
    Waiting,
    /// In its queue; its time has not come.
    Scheduled,
    /// A worker began it.
    Running,
    /// In its queue, and not to be run any more.
    Cancelled,
    /// Done; its result is kept for a week.
    Done,
    /// Given up: it has a dead letter.
    Dead,
}

/// How long an end is waited for; none: as long as it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Patience(pub(crate) Option<Duration>);

/// A moment, or how far away it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// This moment.
    At(Timestamp),
    /// So long from now.
    In(Duration),
}

impl TaskState {
    /// Its name, as it is given and printed.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Scheduled => "scheduled",
            Self::Running => "running",
            Self::Cancelled => "cancelled",
            Self::Done => "done",
            Self::Dead => "dead",
        }
    }
}

pub(super) fn patience(text: &str) -> Result<Patience, String> {
    match text {
        "forever" => Ok(Patience(None)),
        other => duration(other).map(|limit| Patience(Some(limit))),
    }
}

fn deadline(text: &str) -> Result<When, String> {
    match (time(text), some_time(text)) {
        (Ok(time), _) => Ok(When::At(time)),
        (_, Ok(after)) => Ok(When::In(after)),
        (Err(_), Err(_)) => {
            Err("expected a time as 2026-01-31T08:00:00Z, or how long from now as 10m".to_owned())
        }
    }
}

fn time(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse_rfc3339(text).map_err(|_| "expected a time as 2026-01-31T08:00:00Z".to_owned())
}

fn priority(text: &str) -> Result<Priority, String> {
    let level = text.parse().map_err(|_| "expected 0 to 9".to_owned())?;
    Priority::new(level).map_err(|error| error.to_string())
}

fn order_key(text: &str) -> Result<OrderKey, String> {
    OrderKey::parse(text).map_err(|error| error.to_string())
}

/// Ids of ours are a good deal shorter; this one must fit into whatever is made of it.
pub(super) fn task_id(text: &str) -> Result<String, String> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '~' | '-');
    if text.is_empty() || text.len() > TASK_ID_BYTES_MAX || !text.chars().all(is_good) {
        return Err(format!("expected 1 to {TASK_ID_BYTES_MAX} of letters, digits, '_', '~', '-'"));
    }
    Ok(text.to_owned())
}

/// The longest id of a task, in bytes: as in a tasks file.
const TASK_ID_BYTES_MAX: usize = bus_runner::ID_CHARACTERS_MAX;

const RESULT_HELP: &str = "\
Into a pipe or a file it goes byte by byte as the task wrote it. On a terminal it is shown as it was
left there: colours stay, carriage returns and cursor moves are followed, and nothing reaches your
terminal that would change it.

Examples:
  vakbus task result t-1
  vakbus task result t-1 --wait=5m >report.tar";

const SEND_HELP: &str = "\
With --wait the exit code says how it ended: 0 done, 3 given up (dead-lettered), 7 no end in time;
the task goes on then.

Examples:
  vakbus task send --role coder 'fix the build'
  vakbus task send --role coder --priority 9 --deadline 10m --wait=5m --file prompt.txt
  git diff | vakbus task send --role judge --key repository-1 --stdin";
