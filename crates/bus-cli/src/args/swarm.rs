//! `vakbus swarm`: a command for each of many tasks.

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, time::Duration};

use bus_subjects::RoleName;
use clap::{Args, ValueHint};

use super::{BesideArgs, TerminalArgs, duration, size::size, some_time};
use crate::gateway::loopback;

/// Run a command once for each task.
#[derive(Debug, Args)]
#[command(after_help = SWARM_HELP)]
pub(crate) struct SwarmArgs {
    /// The role whose work queue carries the tasks.
    #[arg(long, value_name = "R", default_value = "worker", value_parser = RoleName::parse)]
    pub(crate) role: RoleName,
    /// How many tasks run at once [default: the number of processors].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: Option<u16>,
    /// The tasks, one a line: plain text, or JSON {"id","payload"}; - is stdin.
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub(crate) tasks: PathBuf,
    /// How often a failed task is tried again before it is dead-lettered [default: 3].
    #[arg(long, value_name = "N")]
    pub(crate) max_retries: Option<u32>,
    /// How long one try may take; then its whole process group is ended.
    #[arg(long, value_name = "D", value_parser = some_time)]
    pub(crate) timeout: Option<Duration>,
    /// The delay before the first retry; five times it before the second, then thirty times
    /// [default: 1s].
    #[arg(long, value_name = "D", value_parser = duration)]
    pub(crate) backoff: Option<Duration>,
    /// How much of a task's output is kept as its result, where others can ask for it (a daemon, a
    /// NATS server): of a longer one the beginning and the end. 0 keeps none [default: 64MiB].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) output_max: Option<u64>,
    /// Write receipts, dead letters, tasks and certificates there, for `vakbus verify`.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) evidence: Option<PathBuf>,
    /// Show what the tasks write, as it comes.
    #[arg(long, conflicts_with = "json")]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) terminal: TerminalArgs,
    #[command(flatten)]
    pub(crate) recording: BesideArgs,
    /// Answer HTTP there, for scrapers and probes of this machine: /metrics, /healthz, /readyz;
    /// port 0 takes a free one.
    #[arg(long, value_name = "IP:PORT", value_parser = loopback)]
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// The command, after `--`. {} in an argument becomes the task's text.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

const SWARM_HELP: &str = "\
The payload of a task arrives on the command's stdin and, as text, in place of {}.
The command's environment holds VAKBUS_TASK_ID, VAKBUS_ATTEMPT, VAKBUS_SESSION, VAKBUS_RUN_ID and
TRACEPARENT, and none of the bus's secrets. A TRACEPARENT in the environment of vakbus itself is
gone on from. With VAKBUS_EMIT and VAKBUS_EMIT_TOKEN, which are in it too, the command emits tokens
and more while it runs (`vakbus emit --help`).

Exit code 0 of the command completes its task; anything else is tried again after a growing delay
and at last dead-lettered. Ctrl-C finishes what runs and then stops; a second one stops now:
commands get SIGTERM, and SIGKILL three seconds later.

With --pty the command writes to a terminal of its own, as large as yours, and leads a session in
it; what it writes to stdout and stderr comes as one stream. Its stdin stays the payload.

With a daemon or a NATS server (--nats-url) the tasks stand in a queue of the run's own, and stderr
says how workers of other processes and machines join it: vakbus worker --join RUN -- CMD. There
--record keeps what the tasks write: see it with vakbus sub --session SESSION --window 500.

Examples:
  ls *.png | vakbus swarm -- optipng {}
  vakbus swarm --workers 8 --tasks urls.txt --timeout 30s -- curl -fsS {}
  vakbus swarm --tasks tasks.jsonl --evidence run-1 -- ./agent.py && vakbus verify run-1";
