//! Which command runs.

mod acl;
mod agent;
mod approvals;
mod auth;
mod backup;
mod call;
mod completions;
mod config;
mod confirm;
mod deploy;
mod dlq;
mod doctor;
mod emit;
mod inbox;
mod keys;
mod live;
mod man;
mod mcp;
mod outbox;
pub(crate) mod queue;
mod receipts;
mod record;
mod tail;
mod task;
mod trace;
mod up;
mod verify;
mod worker;
mod workspace;

pub(crate) use self::up::DaemonCounts;
use crate::{
    args::{Cli, Command},
    error::{CliError, Exit},
    swarm, top,
};

/// Runs what the command line asks for.
pub(crate) fn run(cli: Cli) -> Result<Exit, CliError> {
    let Cli { command, global } = cli;
    match command {
        Command::Up(args) => up::run(&args, &global),
        Command::Status(args) => up::status(&args, &global),
        Command::Task(command) => task::run(command, &global),
        Command::Worker(args) => worker::run(args, &global),
        Command::Queue(command) => queue::run(command, &global),
        Command::Inbox(command) => inbox::run(command, &global),
        Command::Approvals(command) => approvals::run(command, &global),
        Command::Mcp(args) => mcp::run(&args, &global),
        Command::Outbox(command) => outbox::run(command, &global),
        Command::Dlq(command) => dlq::run(command, &global),
        Command::Tail(args) => tail::run(&args, &global),
        Command::Trace(args) => trace::run(&args, &global),
        Command::Pub(args) => live::publish(&args, &global),
        Command::Emit(command) => emit::run(command, &global),
        Command::Sub(args) => live::subscribe(&args, &global),
        Command::Record(args) => record::run(&args, &global),
        Command::Request(args) => call::request(&args, &global),
        Command::Reply(args) => call::reply(args, &global),
        Command::Receipts(command) => receipts::run(command, &global),
        Command::Top(args) => top::run(&args, &global),
        Command::Swarm(args) => swarm::run(args, &global),
        Command::Verify(args) => verify::run(&args, &global),
        Command::Workspace(command) => workspace::run(&command, &global),
        Command::Auth(command) => auth::run(command, &global),
        Command::Deploy(command) => deploy::run(command, &global),
        Command::Doctor(args) => doctor::run(&args, &global),
        Command::Agent(command) => agent::run(command, &global),
        Command::Backup(args) => backup::run(&args, &global),
        Command::Restore(args) => backup::restore(&args, &global),
        Command::Acl(command) => acl::run(&command, &global),
        Command::Config(command) => config::run(&command, &global),
        Command::Keys(command) => keys::run(&command, &global),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args, &global),
    }
}
