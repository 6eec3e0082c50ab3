//! What the command line takes.

mod backup;
mod call;
mod config;
mod daemon;
mod keys;
mod live;
mod queue;
mod shell;
mod task;
mod work;

use std::{ffi::OsString, path::PathBuf, time::Duration};

use anstream::ColorChoice;
use bus_subjects::{AgentId, Role, RoleName, SessionId, WorkspaceId};
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

pub(crate) use self::{
    backup::{BackupArgs, BackupCommand, RestoreArgs},
    call::{ReplyArgs, RequestArgs, Target},
    config::{ConfigCommand, flags},
    daemon::UpArgs,
    keys::KeysCommand,
    live::{PubArgs, SubArgs},
    queue::{InboxCommand, QueueCommand},
    shell::{CompletionsArgs, ManArgs},
    task::{LsArgs, SendArgs, TaskCommand, TaskState, When},
    work::WorkerArgs,
};
use crate::config::{Config, Layer};

/// A message fabric for fleets of agents: live events, durable work, signed receipts.
#[derive(Debug, Parser)]
#[command(name = "vakbus", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) global: Global,
}

/// Options that every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// The workspace to act in; made with its keys when it is first used.
    #[arg(long, global = true, value_name = "NAME", default_value = "default")]
    #[arg(value_parser = WorkspaceId::parse)]
    pub(crate) workspace: WorkspaceId,
    /// Where keys and certificates are kept [default: the platform's data home].
    #[arg(long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) data_dir: Option<PathBuf>,
    /// The NATS server to use instead of this machine's own engine; several of one cluster with
    /// commas between them.
    #[arg(long, global = true, value_name = "URL", value_hint = ValueHint::Url)]
    #[arg(conflicts_with = "memory")]
    pub(crate) nats_url: Option<String>,
    /// The settings file to read instead of the user's own (also: `VAKBUS_CONFIG`).
    #[arg(long = "config", global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) settings_file: Option<PathBuf>,
    /// The agent that acts [default: cli, or cli-worker where only workers may; both are made when
    /// they are first needed].
    #[arg(long = "as", global = true, value_name = "AGENT", value_parser = AgentId::parse)]
    pub(crate) agent: Option<AgentId>,
    /// Keep nothing: use an engine in the memory of this process, and no daemon.
    #[arg(long, global = true)]
    pub(crate) memory: bool,
    /// Print JSON, one object a line.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say more (-vv, -vvv: still more).
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Tell errors only; data is printed all the same.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// When to use colours.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
    /// All settings, these options among them.
    #[arg(skip)]
    pub(crate) config: Config,
    /// The settings that these options make.
    #[arg(skip)]
    pub(crate) flags: Layer,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the daemon that keeps the bus of this data directory, or with --nats its nats-server.
    Up(UpArgs),
    /// Say which engine keeps the bus, whether it runs, and what it promises.
    Status,
    /// Copy what the bus keeps into a directory, while it is used; keys are not in it.
    Backup(BackupArgs),
    /// Make the bus of a data directory from a backup.
    Restore(RestoreArgs),
    /// Tasks: sent, listed, cancelled, and their results.
    #[command(subcommand)]
    Task(TaskCommand),
    /// Serve a queue: run a command for each of its tasks.
    Worker(WorkerArgs),
    /// Work queues: what waits in them, and their pausing.
    #[command(subcommand)]
    Queue(QueueCommand),
    /// Mailboxes: messages to one agent, kept until it takes them.
    #[command(subcommand)]
    Inbox(InboxCommand),
    /// Publish a live event.
    Pub(PubArgs),
    /// Hear live events.
    Sub(SubArgs),
    /// Ask a module for something and print its answer.
    Request(RequestArgs),
    /// Answer the requests of a verb: run a command for each of them.
    Reply(ReplyArgs),
    /// Run a command once for each task, with retries, dead letters and signed receipts.
    Swarm(SwarmArgs),
    /// Check an evidence directory offline and name the first thing that is wrong.
    Verify(VerifyArgs),
    /// Workspaces: the keys that agents share and are certified by.
    #[command(subcommand)]
    Workspace(WorkspaceCommand),
    /// Agents: who may act in a workspace, and in which roles.
    #[command(subcommand)]
    Agent(AgentCommand),
    /// Access rules: who may publish and subscribe where.
    #[command(subcommand)]
    Acl(AclCommand),
    /// Settings: where each comes from, and how to change them.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// The secrets of a workspace: rotate them, withdraw old ones.
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Print a script that completes commands and options in a shell.
    Completions(CompletionsArgs),
    /// Print a manual page, or write all of them to a directory.
    Man(ManArgs),
}

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
    /// Write receipts, dead letters, tasks and certificates there, for `vakbus verify`.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) evidence: Option<PathBuf>,
    /// Show what the tasks write, as it comes.
    #[arg(long, conflicts_with = "json")]
    pub(crate) follow: bool,
    /// The command, after `--`. {} in an argument becomes the task's text.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// Check an evidence directory.
#[derive(Debug, Args)]
#[command(after_help = VERIFY_HELP)]
pub(crate) struct VerifyArgs {
    /// The directory that `swarm --evidence` wrote.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// The workspace's account key (`vakbus workspace show`): whose word counts.
    #[arg(long, value_name = "A…")]
    pub(crate) trust: Option<String>,
    /// Revoked keys (`vakbus agent ls --revocations`), whose signatures do not count. Repeatable.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "trust")]
    pub(crate) revoked: Vec<PathBuf>,
    /// A checkpoint kept elsewhere; tells whether the end of its log was cut off. Repeatable.
    #[arg(long, value_name = "FILE")]
    pub(crate) checkpoint: Vec<PathBuf>,
}

/// Workspaces.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkspaceCommand {
    /// Make a workspace: its account key and its secret.
    New {
        /// Its name: 1 to 64 of letters, digits, '-', '_' and '~'.
        #[arg(value_parser = WorkspaceId::parse)]
        name: WorkspaceId,
    },
    /// Show a workspace: its public account key, its agents, where its keys are kept.
    Show,
    /// List the workspaces of this data directory.
    Ls,
}

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
    },
    /// List the agents of the workspace, those whose key was revoked last.
    Ls {
        /// Print the signed revocations instead, one a line, for `vakbus verify --revoked`.
        #[arg(long, conflicts_with = "json")]
        revocations: bool,
    },
    /// Take an agent's key back for ever: nothing that it signed counts any more.
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

/// Access rules.
#[derive(Debug, Subcommand)]
pub(crate) enum AclCommand {
    /// Say whether an agent in a role may do something, and which rule decides; without an action
    /// list all its rules.
    Explain {
        /// The role. Repeatable: rights add up, refusals win.
        #[arg(long = "role", value_name = "ROLE", required = true, value_parser = role)]
        roles: Vec<Role>,
        /// The agent.
        #[arg(long, value_name = "NAME", default_value = "me", value_parser = AgentId::parse)]
        agent: AgentId,
        /// The one session it works for [default: any].
        #[arg(long, value_name = "NAME", value_parser = SessionId::parse)]
        session: Option<SessionId>,
        /// The one work queue it serves [default: any].
        #[arg(long, value_name = "NAME", value_parser = RoleName::parse)]
        queue: Option<RoleName>,
        /// What is asked.
        #[arg(value_enum, requires = "subject")]
        action: Option<AclAction>,
        /// On which subject; wildcards may be asked for.
        subject: Option<String>,
    },
}

/// What a policy is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AclAction {
    /// To publish, or to append to a stream.
    Publish,
    /// To subscribe, or to consume from a stream.
    Subscribe,
}

impl Command {
    /// Whether it acts by the settings; what repairs them and what speaks to the shell does not.
    pub(crate) fn needs_settings(&self) -> bool {
        !matches!(self, Self::Config(_) | Self::Completions(_) | Self::Man(_))
    }
}

impl Color {
    /// What the raw arguments of the program ask for; only a guess, made before they are parsed.
    pub(crate) fn asked(args: impl Iterator<Item = OsString>) -> Self {
        let mut asked = Self::Auto;
        let mut is_value = false;
        for arg in args.take_while(|arg| arg != "--") {
            let text = arg.to_str().unwrap_or_default();
            let value = if is_value { Some(text) } else { text.strip_prefix("--color=") };
            is_value = text == "--color";
            if let Some(Ok(color)) = value.map(|value| Self::from_str(value, false)) {
                asked = color;
            }
        }
        asked
    }
}

impl From<Color> for ColorChoice {
    fn from(color: Color) -> Self {
        match color {
            Color::Auto => Self::Auto,
            Color::Always => Self::Always,
            Color::Never => Self::Never,
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error} (examples: 100ms, 5s, 2m)"))
}

fn some_time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("expected more than no time at all".to_owned()),
        some => Ok(some),
    }
}

fn role(text: &str) -> Result<Role, String> {
    text.parse::<Role>().map_err(|error| error.to_string())
}

const AFTER_HELP: &str = "\
Exit codes: 0 done, 1 failed, 2 wrong call, 3 partly (tasks were dead-lettered), 4 refused by
policy, 5 unreachable, 6 outcome unknown, 7 no answer in time.
Environment: VAKBUS_DATA_DIR, VAKBUS_WORKSPACE and the others that `vakbus config --help` names,
VAKBUS_WORKSPACE_SECRET (raw, base64:… or hex:…; instead of the one in the data directory),
VAKBUS_LOG, NO_COLOR.";

const REVOKE_HELP: &str = "\
The agent still knows the workspace's secret and could read on. To end that too:
  vakbus keys rotate && vakbus keys withdraw v1

Messages that were signed before the revocation are refused as well: their time is what the holder
of the key wrote into them.";

const SWARM_HELP: &str = "\
The payload of a task arrives on the command's stdin and, as text, in place of {}.
The command's environment holds VAKBUS_TASK_ID, VAKBUS_ATTEMPT, VAKBUS_SESSION, VAKBUS_RUN_ID and
TRACEPARENT, and none of the bus's secrets. A TRACEPARENT in the environment of vakbus itself is
gone on from.

Exit code 0 of the command completes its task; anything else is tried again after a growing delay
and at last dead-lettered. Ctrl-C finishes what runs and then stops; a second one stops now.

With a daemon or a NATS server (--nats-url) the tasks stand in a queue of the run's own, and stderr
says how workers of other processes and machines join it: vakbus worker --join RUN -- CMD.

Examples:
  ls *.png | vakbus swarm -- optipng {}
  vakbus swarm --workers 8 --tasks urls.txt --timeout 30s -- curl -fsS {}
  vakbus swarm --tasks tasks.jsonl --evidence run-1 -- ./agent.py && vakbus verify run-1";

const VERIFY_HELP: &str = "\
Needs no key, no network and no bus. Without --trust the verdict is \"consistent, signer unknown\":
everything fits together, but anybody could have made it. Without --checkpoint the end of a log
could have been cut off together with its checkpoint.

Example:
  vakbus verify run-1 --trust \"$(vakbus workspace show --json | jq -r .account)\"";
