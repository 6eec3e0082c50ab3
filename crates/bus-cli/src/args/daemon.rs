//! What `up` and `status` take.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, ValueHint};

use super::some_time;
use crate::{config::SyncMode, gateway::loopback};

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
    /// The NATS server of a hub: what --workspace sends with --to-hub is kept here while the hub is
    /// away, and carried there; several of one cluster with commas between them.
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) hub_url: Option<String>,
    /// The private file with the credentials for the hub [default: the login of the secrets].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "hub_url")]
    pub(crate) hub_creds: Option<PathBuf>,
    /// Answer HTTP there, for scrapers and probes of this machine: /metrics, /healthz, /readyz;
    /// port 0 takes a free one.
    #[arg(long, value_name = "IP:PORT", value_parser = loopback)]
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// Answer HTTP there for agents as well: they register, send to each other and listen, with the
    /// secret in the file http.secret of the data directory. On this machine alone, unless
    /// --http-cert is given.
    #[arg(long, value_name = "IP:PORT", conflicts_with = "metrics_listen")]
    pub(crate) http_listen: Option<SocketAddr>,
    /// The certificate of that door, in PEM: others than this machine may come then, through TLS.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "http_listen")]
    #[arg(requires_all = ["http_key", "http_name"])]
    pub(crate) http_cert: Option<PathBuf>,
    /// The private file with the key of that certificate, in PEM.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "http_cert")]
    pub(crate) http_key: Option<PathBuf>,
    /// A host by which clients ask for it. Repeatable.
    #[arg(long, value_name = "HOST", requires = "http_cert")]
    pub(crate) http_name: Vec<String>,
    /// What to do about each task that is given up: a command that gets the dead letter as JSON on
    /// its stdin, or an https URL that it is posted to [default: what the settings say].
    #[arg(long, value_name = "CMD|URL")]
    pub(crate) on_dead_letter: Option<String>,
    /// What to do about each approval that is asked for; as --on-dead-letter.
    #[arg(long, value_name = "CMD|URL")]
    pub(crate) on_approval: Option<String>,
    /// Start nothing: say whether a daemon runs, as `vakbus status` does.
    #[arg(long, conflicts_with_all = ["sync", "nats", "hub_url", "metrics_listen"])]
    #[arg(conflicts_with_all = ["http_listen", "on_dead_letter", "on_approval"])]
    pub(crate) check: bool,
}

/// Say which engine keeps the bus.
#[derive(Debug, Default, Args)]
#[command(after_help = STATUS_HELP)]
pub(crate) struct StatusArgs {
    /// While no engine answers, look again for so long.
    #[arg(long, value_name = "D", value_parser = some_time, conflicts_with = "memory")]
    pub(crate) wait: Option<Duration>,
}

fn sync(text: &str) -> Result<SyncMode, String> {
    match text {
        "always" => Ok(SyncMode::Always),
        other => some_time(other)
            .map(SyncMode::Every)
            .map_err(|error| format!("{error}; or `always`, which answers when it is on the disk")),
    }
}

const STATUS_HELP: &str = "\
The exit code is 0 when the engine answers and 5 when none does, with --wait not before that time is
over. A script that has started a daemon goes on when it answers:
  vakbus up & vakbus status --wait 10s
A login that the server refuses, or settings that are wrong, no waiting mends: that is told at once.";

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

With --hub-url a courier carries what waits in the outboxes of --workspace to that hub, in order and
once. The hub may come and go; `vakbus outbox status` says how it stands. Its credentials need the right
to send tasks and messages there, as an orchestrator's have.

A hook gets one JSON object, on its stdin or as the body of a POST; its member \"hook\" is dead-letter
or approval, as VAKBUS_HOOK in the environment of a command is. It has 10s; what fails (another exit
code than 0, a status of no success) is tried again after growing pauses, 8 times in all, and then
given up. It hears of each at least once and in order, and never delays the bus. What came before it
was first named it does not hear of. A URL with a token in it belongs into your settings file, written
with an editor (hooks.on_dead_letter, hooks.on_approval): what a command is called with everybody on
this machine may read.

With --metrics-listen it answers HTTP on this machine: /metrics is OpenMetrics text (traffic by
workspace and how the queues stand), /readyz is 200 when the engine answers. Nobody has to log in;
web pages are refused. The address is in the line that says ready, as \"http\" with --json.

With --http-listen agents in any language come by HTTP: they register, publish and listen below
/api/v1/bus, and /api/v1/openapi.json says how. Whoever has DATA_DIR/http.secret may; it is made the
first time, and a new one takes its place when the file is removed and the daemon started again.
Messages are recorded in DATA_DIR/logs/bus. /metrics and the rest are answered there too.

Examples:
  vakbus up
  vakbus up --on-dead-letter 'jq -r .reason >> failed.txt' --on-approval https://chat.example/hook
  vakbus up --hub-url tls://hub.example:4222 --hub-creds hub.creds
  vakbus up --nats --listen 0.0.0.0:4222
  vakbus up --metrics-listen 127.0.0.1:9100
  vakbus up --http-listen 127.0.0.1:9100
  vakbus up --sync 100ms --data-dir /srv/vakbus
  vakbus status --json";
