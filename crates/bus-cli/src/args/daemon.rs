//! What `up` and `status` take.

use clap::Args;

use super::some_time;
use crate::config::SyncMode;

/// Run the daemon of this data directory in the foreground.
#[derive(Debug, Args)]
#[command(after_help = UP_HELP)]
pub(crate) struct UpArgs {
    /// When stored things reach the disk: `always` before the answer, or every so often (100ms).
    /// [default: `always`, or what the settings say]
    #[arg(long, value_name = "WHEN", value_parser = sync)]
    pub(crate) sync: Option<SyncMode>,
    /// Start nothing: say whether a daemon runs, as `vakbus status` does.
    #[arg(long, conflicts_with = "sync")]
    pub(crate) check: bool,
}

fn sync(text: &str) -> Result<SyncMode, String> {
    match text {
        "always" => Ok(SyncMode::Always),
        other => some_time(other)
            .map(SyncMode::Every)
            .map_err(|error| format!("{error}; or `always`, which answers when it is on the disk")),
    }
}

const UP_HELP: &str = "\
One daemon serves one data directory. Once it takes connections it prints one line to stdout (JSON
with --json) and, under systemd, says READY=1. Every other command finds it by its socket,
DATA_DIR/run/bus.sock.

SIGTERM or Ctrl-C: what was accepted is stored and answered, then it ends with 0; a second one ends
it at once. SIGHUP: workspaces, agents and revocations are read again now.

Examples:
  vakbus up
  vakbus up --sync 100ms --data-dir /srv/vakbus
  vakbus status --json";
