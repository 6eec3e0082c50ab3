//! What the command line takes.

mod acl;
mod agent;
mod approvals;
mod auth;
mod backup;
mod call;
mod config;
mod daemon;
mod deploy;
mod dlq;
mod doctor;
mod emit;
mod keys;
mod live;
mod mcp;
mod outbox;
mod queue;
mod raw;
mod receipts;
mod record;
mod shell;
mod size;
mod swarm;
mod tail;
mod task;
mod terminal;
mod top;
mod trace;
mod verify;
mod work;
mod workspace;

use std::{ffi::OsString, path::PathBuf, time::Duration};

use anstream::ColorChoice;
use bus_subjects::{AgentId, Role, WorkspaceId};
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

pub(crate) use self::{
    acl::{AclAction, AclCommand},
    agent::AgentCommand,
    approvals::{
        ApprovalsCommand, ApprovalsLsArgs, ApprovalsRequestArgs, ApprovalsResolveArgs,
        ApprovalsUseArgs, What,
    },
    auth::{AuthCommand, ServerConfigArgs, TicketArgs},
    backup::{BackupArgs, BackupCommand, RestoreArgs},
    call::{ReplyArgs, RequestArgs, Target},
    config::{ConfigCommand, flags},
    daemon::{StatusArgs, UpArgs},
    deploy::{DeployCommand, RenderArgs, RevokeArgs},
    dlq::{Chosen, DlqCommand, DlqDiscardArgs, DlqLsArgs, DlqRedriveArgs, DlqShowArgs, Meant},
    doctor::DoctorArgs,
    emit::{EmitCommand, EmitWhose},
    keys::KeysCommand,
    live::{PubArgs, SubArgs},
    mcp::McpArgs,
    outbox::{OutboxCommand, OutboxLsArgs, Stands},
    queue::{InboxCommand, QueueCommand},
    raw::Raw,
    receipts::{
        CheckpointArgs, ExportArgs, ProveArgs, RECEIPTS_HELP, ReceiptsCommand, ReceiptsLsArgs,
    },
    record::{BesideArgs, RecordArgs},
    shell::{CompletionsArgs, ManArgs},
    swarm::SwarmArgs,
    tail::{TailArgs, TailKind},
    task::{LsArgs, SendArgs, TaskCommand, TaskState, When},
    terminal::TerminalArgs,
    top::TopArgs,
    trace::TraceArgs,
    verify::VerifyArgs,
    work::WorkerArgs,
    workspace::WorkspaceCommand,
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
    /// The file of credentials to log in with at the NATS server.
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with = "memory")]
    pub(crate) creds: Option<PathBuf>,
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
    Status(StatusArgs),
    /// Look at everything that this bus rests on, and say how to mend what is wrong.
    Doctor(DoctorArgs),
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
    /// Approvals: questions that a person answers, each answer good for one use.
    #[command(subcommand)]
    Approvals(ApprovalsCommand),
    /// Be the door to the bus for an agent that speaks MCP, on standard input and output.
    Mcp(McpArgs),
    /// Outboxes: what waits here for a hub that may be away, and what became of it.
    #[command(subcommand)]
    Outbox(OutboxCommand),
    /// Dead letters: tasks that were given up, to look at, send again or throw away.
    #[command(subcommand)]
    Dlq(DlqCommand),
    /// Show what happened last, and with --follow what happens.
    Tail(TailArgs),
    /// Show what led to what: one chain of causes as a tree.
    Trace(TraceArgs),
    /// Publish a live event.
    Pub(PubArgs),
    /// Emit live events of a task: tokens of a model, output for the terminal.
    #[command(subcommand)]
    Emit(EmitCommand),
    /// Hear live events, and what was recorded of them.
    Sub(SubArgs),
    /// Keep what a session says live, for who comes late.
    Record(RecordArgs),
    /// Ask a module for something and print its answer.
    Request(RequestArgs),
    /// Answer the requests of a verb: run a command for each of them.
    Reply(ReplyArgs),
    /// See queues, agents, approvals and dead letters on one screen, and act on them.
    Top(TopArgs),
    /// Run a command once for each task, with retries, dead letters and signed receipts.
    Swarm(SwarmArgs),
    /// Receipts: what was done, by whom, and proofs of it for people who have no key.
    #[command(subcommand, after_help = RECEIPTS_HELP)]
    Receipts(ReceiptsCommand),
    /// Check an evidence directory or a proof offline and name the first thing that is wrong.
    Verify(VerifyArgs),
    /// Workspaces: the keys that agents share and are certified by.
    #[command(subcommand)]
    Workspace(WorkspaceCommand),
    /// Agents: who may act in a workspace, and in which roles.
    #[command(subcommand)]
    Agent(AgentCommand),
    /// Identities on NATS servers: their operator, its accounts, and whom they let in.
    #[command(subcommand)]
    Auth(AuthCommand),
    /// The machines of a fleet: their configurations, credentials and services.
    #[command(subcommand)]
    Deploy(DeployCommand),
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

#[cfg(test)]
mod tests;
