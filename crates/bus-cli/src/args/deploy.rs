//! What `vakbus deploy` takes.

use std::path::PathBuf;

use bus_subjects::AgentId;
use clap::{ArgGroup, Args, Subcommand, ValueHint};

/// The machines of a fleet.
#[derive(Debug, Subcommand)]
pub(crate) enum DeployCommand {
    /// Write a folder for each machine: the configuration of its nats-server, its credentials and
    /// its services.
    #[command(after_help = RENDER_HELP)]
    Render(RenderArgs),
    /// Take back the credentials of a machine that was lost, or the key of an agent, and tell all
    /// servers of the fleet.
    #[command(after_help = REVOKE_HELP)]
    Revoke(RevokeArgs),
}

/// What to write, and where.
#[derive(Debug, Args)]
pub(crate) struct RenderArgs {
    /// The file that describes the machines (docs/guide/deploy.md).
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// The directory that gets the folders.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,
    /// Have nats-server read each configuration before anything is written. Certificates that the
    /// file names must be there.
    #[arg(long)]
    pub(crate) check: bool,
}

/// Whom to shut out, and of which fleet.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("whom").required(true))]
pub(crate) struct RevokeArgs {
    /// The file that describes the machines (docs/guide/deploy.md).
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// The directory that has the folders; they are brought up to date.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,
    /// All credentials that this machine was ever given.
    #[arg(long, value_name = "NAME", group = "whom")]
    pub(crate) machine: Option<String>,
    /// The key of this agent, of the workspace that --workspace names.
    #[arg(id = "taken_back", long = "agent", value_name = "NAME", group = "whom")]
    #[arg(value_parser = AgentId::parse)]
    pub(crate) agent: Option<AgentId>,
    /// Do not ask.
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
}

const REVOKE_HELP: &str = "\
The servers of FILE are told, those that --nats-url names in their place: each cuts off whoever was
let in with what is taken back. Exit code 5 when one of the servers and machines in FILE was not told;
one that is away asks the others within 10 seconds of its return, and `vakbus auth push` tells all.

The folders in DIR are brought up to date as by render, so that a server which is set up anew knows
it from its start. The folder of the machine has no credentials afterwards: the next render makes new
ones, for the machine that takes its place. A machine that had the directory of a workspace, for its
courier, has the keys of that workspace: only another workspace takes those back.

Examples:
  vakbus deploy revoke fleet.toml --out fleet --machine build-1
  vakbus deploy revoke fleet.toml --out fleet --agent bob --workspace fleet";

const RENDER_HELP: &str = "\
A folder that is there is brought up to date: what is still right stays as it is, credentials too.
A file in it that this command did not write, or that was changed since, is never touched: nothing
is written then. MANIFEST has the hash of each file: sha256sum -c MANIFEST.";
