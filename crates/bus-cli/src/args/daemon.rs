//! What `up` and `status` take.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, ValueHint};

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
    /// Keep the bus in a nats-server of this data directory, which is started, watched over and
    /// started again when it dies; other machines can join it.
    #[arg(long, conflicts_with_all = ["nats_url", "memory"])]
    pub(crate) nats: bool,
    /// Where that server listens [default: on this machine alone, on the port of the last time, at
    /// first a free one].
    #[arg(long, value_name = "IP:PORT", requires = "nats")]
    pub(crate) listen: Option<SocketAddr>,
    /// The certificate of that server, in PEM: its connections are encrypted then.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_key")]
    #[arg(requires = "nats")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private file with the key of that certificate, in PEM.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Start nothing: say whether a daemon runs, as `vakbus status` does.
    #[arg(long, conflicts_with_all = ["sync", "nats"])]
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

With --nats the bus is kept by a nats-server (2.12 or newer, from NATS_SERVER or PATH) whose store is
DATA_DIR/nats. Every other command of the data directory finds it without options. Only the key in
DATA_DIR/nats.nk may log in. A worker on another machine has the same DATA_DIR/workspaces, and that
key in VAK_BUS_NATS_NKEY_SEED:
  vakbus worker --nats-url nats://host:4222 --role coder -- ./agent.py
A server that dies is started again after growing pauses; after six deaths in a row it is given up
and the exit code is 5. The bus stays that server's when this ends: without it other commands say so
and use no other engine, until a plain `vakbus up` changes back to this machine's own.

With --nats-url (or the setting) nothing is started and no socket is served: the streams of all
workspaces are declared on that server and what nobody needs any more is swept.

Examples:
  vakbus up
  vakbus up --nats --listen 0.0.0.0:4222
  vakbus up --sync 100ms --data-dir /srv/vakbus
  vakbus status --json";
