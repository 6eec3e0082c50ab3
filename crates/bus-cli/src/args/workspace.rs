//! `vakbus workspace`: keys that agents share and are certified by.

use bus_subjects::WorkspaceId;
use clap::Subcommand;

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
