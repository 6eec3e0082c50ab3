//! What `worker` takes.

use std::{ffi::OsString, net::SocketAddr, time::Duration};

use bus_subjects::RoleName;
use clap::Args;

use super::{BesideArgs, TerminalArgs, duration, size::size, some_time};
use crate::gateway::loopback;

/// Serve a queue: run a command for each of its tasks.
#[derive(Debug, Args)]
#[command(after_help = WORKER_HELP)]
pub(crate) struct WorkerArgs {
    /// The role whose queue is served.
    #[arg(long, value_name = "R", default_value = "worker", value_parser = RoleName::parse)]
    pub(crate) role: RoleName,
    /// The run of a swarm whose tasks are shared: the id that `vakbus swarm` said, or its `run_id`.
    #[arg(long, value_name = "RUN", conflicts_with = "role", value_parser = run)]
    pub(crate) join: Option<String>,
    /// How many tasks run at once.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) concurrency: u16,
    /// How often a failed task is tried again before it is dead-lettered.
    /// [default: 3]
    #[arg(long, value_name = "N")]
    pub(crate) max_retries: Option<u32>,
    /// The delay before the first retry; five times it before the second, then thirty times.
    /// [default: 1s]
    #[arg(long, value_name = "D", value_parser = duration)]
    pub(crate) backoff: Option<Duration>,
    /// How long one try may take; then its whole process group is ended.
    #[arg(long, value_name = "D", value_parser = some_time)]
    pub(crate) timeout: Option<Duration>,
    /// How much of a task's output is kept as its result: of a longer one the beginning and the
    /// end. 0 keeps none. [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) output_max: Option<u64>,
    #[command(flatten)]
    pub(crate) recording: BesideArgs,
    /// End when nothing waits or runs in the queue any more.
    #[arg(long)]
    pub(crate) until_empty: bool,
    #[command(flatten)]
    pub(crate) terminal: TerminalArgs,
    /// Answer HTTP there, for scrapers and probes of this machine: /metrics, /healthz, /readyz;
    /// port 0 takes a free one.
    #[arg(long, value_name = "IP:PORT", value_parser = loopback)]
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// The command, after `--`. {} in an argument becomes the task's text.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

impl WorkerArgs {
    /// The run that is joined, and the name that its queue and its session have.
    pub(crate) fn joined(&self) -> Option<(&str, String)> {
        self.join.as_deref().map(|run| (run, format!("swarm-{run}")))
    }
}

fn run(text: &str) -> Result<String, String> {
    let id = uuid::Uuid::parse_str(text)
        .map_err(|error| format!("{error}; expected the id that `vakbus swarm` said"))?;
    Ok(id.to_string())
}

const WORKER_HELP: &str = "\
The command gets the payload on stdin and, as text, in place of {}; what it writes to stdout is kept
as the task's result. Its environment holds VAKBUS_TASK_ID, VAKBUS_ATTEMPT, VAKBUS_SESSION,
VAKBUS_RUN_ID and TRACEPARENT, and none of the bus's secrets; also VAKBUS_EMIT and
VAKBUS_EMIT_TOKEN, with which it emits tokens and more while it runs (`vakbus emit --help`).

Exit code 0 of the command completes its task; anything else is tried again after a growing delay
and at last dead-lettered. SIGTERM or Ctrl-C finishes what runs and then stops; a second one hands
it back and stops now: commands get SIGTERM, and SIGKILL three seconds later. With --until-empty the exit code is 3 when tasks were dead-lettered.

Workers of other processes share a queue when they use the same engine: a daemon on one machine, a
NATS server across machines (--nats-url). They need the workspace's keys: a copy of
DATA_DIR/workspaces. With --join a worker takes tasks of a swarm that runs elsewhere; its receipts
and dead letters are part of that run and of its evidence.

Examples:
  vakbus worker --role coder --concurrency 4 -- ./agent.py
  vakbus worker --nats-url nats://host:4222 --role coder -- ./agent.py
  vakbus worker --join 01a22b8f-de51-7ad5-ada0-081fe20357f1 --until-empty -- ./agent.py
  vakbus worker --role fetch --until-empty --timeout 30s -- curl -fsS {}";
