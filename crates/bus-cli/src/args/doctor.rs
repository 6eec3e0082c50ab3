//! What `doctor` takes.

use clap::{Args, ValueHint};

/// Look at everything that this bus rests on, and say how to mend what is wrong.
#[derive(Debug, Args)]
#[command(after_help = DOCTOR_HELP)]
pub(crate) struct DoctorArgs {
    /// The monitoring address of the NATS server, such as `http://127.0.0.1:8222` (its
    /// `http_port`): what only it knows is asked there.
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) monitor: Option<String>,
}

const DOCTOR_HELP: &str = "\
It changes nothing. Each line is a check: ok, warn (it works, and may not for long), bad, or skipped
(it cannot be seen from here, and why); what is wrong is told with how to mend it. With --json each
check is {\"check\",\"level\",\"found\",\"expected\",\"mend\"}, and the last line counts them.

Checks: disk, keys, certificates, engine, server-version, sync, clock, max-payload, replicas,
streams, partitions, permissions, receipts-room. Permissions are tried, not read: with the rights of
the workspace's own worker a task is forged, an approval and another mailbox are read; all of it has
to be denied, and nothing is stored if it is not.

Exit codes: 0 nothing is bad, 1 something is, 5 the engine cannot be reached (what is on this machine
is told first).

Examples:
  vakbus doctor
  vakbus doctor --json
  vakbus doctor --nats-url nats://host:4222 --monitor http://host:8222";
