//! What the commands about a workspace's secrets take.

use clap::Subcommand;

/// The secrets of a workspace.
#[derive(Debug, Subcommand)]
#[command(after_help = KEYS_HELP)]
pub(crate) enum KeysCommand {
    /// List the secrets by name: which one seals, which still open, which are withdrawn.
    Ls,
    /// Make the next secret and seal with it from now on; older ones still open.
    Rotate,
    /// Withdraw a secret for ever: whatever was sealed with it is refused.
    Withdraw {
        /// Its name, such as v1.
        #[arg(value_name = "NAME")]
        name: String,
        /// Do not ask.
        #[arg(long, short = 'y')]
        yes: bool,
    },
}

const KEYS_HELP: &str = "\
A secret that may have become known is rotated first and then withdrawn. What waits in queues under
it can no longer be opened then, so drain them in between.

Example:
  vakbus keys rotate && vakbus keys withdraw v1 --yes";
