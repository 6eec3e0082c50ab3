//! What `vakbus deploy` takes.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// The machines of a fleet.
#[derive(Debug, Subcommand)]
pub(crate) enum DeployCommand {
    /// Write a folder for each machine: the configuration of its nats-server, its credentials and
    /// its services.
    #[command(after_help = RENDER_HELP)]
    Render(RenderArgs),
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

const RENDER_HELP: &str = "\
A folder that is there is brought up to date: what is still right stays as it is, credentials too.
A file in it that this command did not write, or that was changed since, is never touched: nothing
is written then. MANIFEST has the hash of each file: sha256sum -c MANIFEST.";
