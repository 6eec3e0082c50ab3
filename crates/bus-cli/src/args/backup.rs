//! What `backup` and `restore` take.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// Copy what the bus keeps.
#[derive(Debug, Args)]
#[command(subcommand_negates_reqs = true, override_usage = BACKUP_USAGE, after_help = BACKUP_HELP)]
pub(crate) struct BackupArgs {
    /// The directory to make: a new one or an empty one (mode 0700), outside the data directory.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath, required = true)]
    pub(crate) dir: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Option<BackupCommand>,
}

/// What else there is to do with backups.
#[derive(Debug, Subcommand)]
pub(crate) enum BackupCommand {
    /// Read a whole backup and name the first file that is damaged; exit code 1 then.
    Verify {
        /// The backup.
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        dir: PathBuf,
        /// Also restore it into a place of its own, and compare what that holds; takes room in
        /// TMPDIR, and a nats-server for a backup of NATS servers.
        #[arg(long)]
        deep: bool,
    },
}

/// Make the bus of a data directory from a backup.
#[derive(Debug, Args)]
#[command(after_help = RESTORE_HELP)]
pub(crate) struct RestoreArgs {
    /// The backup.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
}

const BACKUP_USAGE: &str = "\
vakbus backup [OPTIONS] <DIR>
       vakbus backup verify [OPTIONS] <DIR>";

const BACKUP_HELP: &str = "\
While a daemon runs it makes the backup and goes on meanwhile: everything that was acknowledged
before the backup began is in it. Without a daemon this command makes it. It takes an operator.

A backup holds what the engine keeps: streams, queues, buckets and blobs, of all workspaces. Keys,
certificates and secrets of the data directory are NOT in it. Copy DATA_DIR/workspaces as well, to a
place as safe as they are: without its secret nobody can read what a workspace has stored.

A directory without the file `manifest` is no backup: making it was broken off.

Of a bus on NATS servers it takes every stream that the login sees, one after the other, also while
they are used: queues first, then what tells of their work. Such a backup is restored on servers.

Examples:
  vakbus backup /backups/monday && vakbus backup verify /backups/monday
  vakbus restore /backups/monday --data-dir /srv/vakbus";

const RESTORE_HELP: &str = "\
The backup is verified before anything is written, and read back before it takes its place. A data
directory that has a bus, or whose daemon runs, is refused and left as it is.

A backup of NATS servers goes to the servers that --nats-url names; a stream that is there is never
touched, and then nothing is restored. Without --nats-url a nats-server is started for it, and the
data directory has the bus that `vakbus up --nats` serves.

A backup has no keys and secrets: DATA_DIR/workspaces is to be put back from a copy of its own.

Example:
  vakbus restore /backups/monday --data-dir /srv/vakbus";
