//! What the commands of dead letters take.

use std::time::Duration;

use bus_core::{GivenUpCause, Seq};
use bus_subjects::{AgentId, RoleName};
use clap::{Args, Subcommand, ValueEnum};

use super::{Raw, some_time};

/// Dead letters.
#[derive(Debug, Subcommand)]
pub(crate) enum DlqCommand {
    /// List dead letters: their numbers, how old they are, and why each task was given up.
    #[command(after_help = LS_HELP)]
    Ls(DlqLsArgs),
    /// Show one dead letter, and with --payload what its task was to do.
    #[command(after_help = SHOW_HELP)]
    Show(DlqShowArgs),
    /// Put the tasks of dead letters into their queues again; the letters go.
    #[command(after_help = REDRIVE_HELP)]
    Redrive(DlqRedriveArgs),
    /// Throw dead letters away, with the tasks in them.
    #[command(after_help = DISCARD_HELP)]
    Discard(DlqDiscardArgs),
}

/// Which letters are meant: those for which all of it holds.
#[derive(Debug, Args)]
pub(crate) struct Meant {
    /// Only those of this agent, which gave the tasks up.
    #[arg(id = "given_up_by", long = "agent", value_name = "AGENT")]
    #[arg(value_parser = AgentId::parse)]
    pub(crate) agent: Option<AgentId>,
    /// Only tasks that were given up for this.
    #[arg(long, value_enum, value_name = "KIND")]
    pub(crate) kind: Option<LetterKind>,
    /// Only tasks whose failure says this somewhere, as it is written.
    #[arg(long, value_name = "TEXT")]
    pub(crate) failed_with: Option<String>,
    /// Only tasks of this role's queue.
    #[arg(long, value_name = "R", value_parser = RoleName::parse)]
    pub(crate) queue: Option<RoleName>,
    /// Only letters that are at least so old.
    #[arg(long, value_name = "D", value_parser = some_time)]
    pub(crate) older: Option<Duration>,
    /// Only letters that are younger.
    #[arg(long, value_name = "D", value_parser = some_time)]
    pub(crate) newer: Option<Duration>,
}

/// List dead letters.
#[derive(Debug, Args)]
pub(crate) struct DlqLsArgs {
    #[command(flatten)]
    pub(crate) meant: Meant,
    /// The oldest first.
    #[arg(long)]
    pub(crate) oldest_first: bool,
    /// How many at most.
    #[arg(long, value_name = "N", default_value = "50")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: u64,
}

/// Show one dead letter.
#[derive(Debug, Args)]
pub(crate) struct DlqShowArgs {
    /// Its number, as `vakbus dlq ls` shows it.
    #[arg(value_name = "LETTER", value_parser = letter)]
    pub(crate) letter: Seq,
    /// Print the payload of its task and nothing else; with --json add it.
    #[arg(long)]
    pub(crate) payload: bool,
    /// Print it as it is; to a terminal only with =force.
    #[arg(long, value_enum, value_name = "HOW", requires = "payload", conflicts_with = "json")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "away")]
    pub(crate) raw: Option<Raw>,
}

/// The letters that are to be treated: some by number, or all that are meant.
#[derive(Debug, Args)]
pub(crate) struct Chosen {
    /// Their numbers, as `vakbus dlq ls` shows them.
    #[arg(value_name = "LETTER", value_parser = letter)]
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub(crate) letters: Vec<Seq>,
    /// All that are meant by --agent, --kind, --failed-with, --queue, --older and --newer; they are
    /// counted, and you are asked.
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) meant: Meant,
    /// With --all: do not ask.
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// Redrive dead letters.
#[derive(Debug, Args)]
pub(crate) struct DlqRedriveArgs {
    #[command(flatten)]
    pub(crate) chosen: Chosen,
    /// How often one task may be sent again.
    #[arg(long, value_name = "N", default_value = "3")]
    pub(crate) max_redrives: u32,
    /// Send again also what came back that often.
    #[arg(long, conflicts_with = "max_redrives")]
    pub(crate) force: bool,
}

/// Discard dead letters.
#[derive(Debug, Args)]
pub(crate) struct DlqDiscardArgs {
    #[command(flatten)]
    pub(crate) chosen: Chosen,
    /// Why they are of no use any more; it goes to the log. 1 to 1,024 bytes.
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub(crate) reason: String,
}

/// Why a task was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LetterKind {
    /// It failed in every attempt that it had.
    Exhausted,
    /// Its worker said that no other attempt can do better.
    Hopeless,
    /// Its attempts ended without a word, as when workers die.
    Vanished,
    /// It is damaged, forged or from nobody who may send it; or the hub does not take it.
    Refused,
    /// The secret that it is sealed under was withdrawn.
    KeyWithdrawn,
    /// Its deadline was over.
    Expired,
    /// It was cancelled.
    Cancelled,
}

impl Meant {
    /// Whether anything of it is given.
    pub(crate) const fn is_any(&self) -> bool {
        self.agent.is_some()
            || self.kind.is_some()
            || self.failed_with.is_some()
            || self.queue.is_some()
            || self.older.is_some()
            || self.newer.is_some()
    }
}

impl From<LetterKind> for GivenUpCause {
    fn from(kind: LetterKind) -> Self {
        match kind {
            LetterKind::Exhausted => Self::Exhausted,
            LetterKind::Hopeless => Self::Hopeless,
            LetterKind::Vanished => Self::Vanished,
            LetterKind::Refused => Self::Refused,
            LetterKind::KeyWithdrawn => Self::KeyWithdrawn,
            LetterKind::Expired => Self::Expired,
            LetterKind::Cancelled => Self::Cancelled,
        }
    }
}

fn letter(text: &str) -> Result<Seq, String> {
    match text.parse() {
        Ok(number @ 1..) => Ok(Seq(number)),
        _ => Err("expected the number of a dead letter, as `vakbus dlq ls` shows it".to_owned()),
    }
}

fn reason(text: &str) -> Result<String, String> {
    let bytes_max = bus_core::DeadLetters::DISCARD_REASON_BYTES_MAX;
    if (1..=bytes_max).contains(&text.len()) {
        return Ok(text.to_owned());
    }
    Err(format!("it has {} bytes: expected 1 to {bytes_max}", text.len()))
}

const LS_HELP: &str = "\
A task that is given up leaves its queue; its dead letter keeps it whole. A letter that cannot be
opened is listed too, whatever is asked of its task.

With --json a line each: letter, stored, age_ms, agent, kind (unknown in letters of old), task,
queue, subject, attempts, worker, reason, redrives, unreadable.

Examples:
  vakbus dlq ls --newer 1h
  vakbus dlq ls --queue coder --kind exhausted --failed-with 'exit code 1'";

const SHOW_HELP: &str = "\
Example:
  vakbus dlq show 17 --payload > task.txt";

const REDRIVE_HELP: &str = "\
A task goes again as it was: the same id, headers, trace and seal, behind what waits in its queue,
with all its attempts before it. The letter goes only when the task is stored, so a repeat after an
error is safe. What was sent again three times and came back needs --force: see first why it fails.

Exit codes: 0 all went, 3 some stayed, 1 none of those named went, 4 not allowed, 6 outcome unknown:
say it again.

Examples:
  vakbus dlq redrive 17 18
  vakbus dlq redrive --all --queue coder --newer 1h";

const DISCARD_HELP: &str = "\
There is no way back: look first, with `vakbus dlq ls` and the same filters. With --all, letters that
cannot be opened stay when --kind, --failed-with or --queue asks for what only their text tells.

Exit codes: 0 all went, 3 some stayed, 1 none of those named went, 4 not allowed, 6 outcome unknown.

Examples:
  vakbus dlq discard 17 --reason 'done by hand'
  vakbus dlq discard --all --kind expired --older 7d --reason 'too late anyway'";
