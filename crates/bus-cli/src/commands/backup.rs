//! `vakbus backup` and `vakbus restore`: copies of what the engine keeps.

mod restore;
pub(super) mod target;

use std::{path::Path, time::Duration};

use bus_link::{BACKUP, LinkOptions, control_subject};
use serde::{Deserialize, Serialize};
use serde_json::json;

pub(crate) use self::restore::run as restore;
use crate::{
    args::{BackupArgs, BackupCommand, Global},
    engine::{self, NatsPlace, Paths, Place, Session},
    error::{CliError, Exit},
    home::Home,
    print as out,
    secrets::Secrets,
    workspace::Part,
};

/// What was copied, as a daemon says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Copied {
    /// How many files it has.
    files: u64,
    /// Their bytes together.
    bytes: u64,
}

impl From<bus_disk::Backup> for Copied {
    fn from(backup: bus_disk::Backup) -> Self {
        Self { files: backup.files, bytes: backup.bytes }
    }
}

/// Makes a backup, or verifies one.
pub(crate) fn run(args: &BackupArgs, global: &Global) -> Result<Exit, CliError> {
    match (&args.dir, &args.command) {
        (Some(dir), None) => make(dir, global),
        (None, Some(BackupCommand::Verify { dir })) => verify(dir, global),
        _ => {
            let what = "expected a directory, or verify and a directory, and not both";
            Err(CliError::usage(what).next("vakbus backup --help"))
        }
    }
}

fn make(dir: &Path, global: &Global) -> Result<Exit, CliError> {
    if global.memory {
        let what = "with --memory nothing is kept, so there is nothing to back up";
        return Err(CliError::usage(what).next("leave it out"));
    }
    let cannot = |error| CliError::usage(format!("cannot find {}: {error}", dir.display()));
    // The daemon has a working directory of its own.
    let dir = std::path::absolute(dir).map_err(cannot)?;
    let home = Home::locate(global.data_dir.as_deref())?;
    refuse_nats(global, &home, "back up")?;
    let paths = Paths::new(global, &home);
    if !paths.bus.exists() && !paths.is_served() {
        let what = format!("{} keeps no bus yet", home.path().display());
        return Err(CliError::new(Exit::Failed, what).next("name another with --data-dir"));
    }
    let copied = engine::run(global, async |session| match session.place() {
        Place::Disk(bus) => {
            check_right(session)?;
            target::check(&dir, home.path())?;
            Ok(Copied::from(bus.backup(&dir).await?))
        }
        Place::Daemon { .. } | Place::Nats(_) | Place::Memory(_) => ask(session, &dir).await,
    })?;
    tell("backup", &dir, copied, global)
}

/// Refuses a bus that NATS servers keep: what is in this data home is not it.
pub(super) fn refuse_nats(global: &Global, home: &Home, verb: &str) -> Result<(), CliError> {
    let place = match NatsPlace::find(global, home, &Secrets::new(&global.config, home)) {
        // It is a server's, whether it runs or not.
        Err(error) if error.code() == Exit::Unreachable => None,
        Ok(None) => return Ok(()),
        found => found?,
    };
    let who = match place {
        Some(place) => format!("the servers at {}", place.told()),
        None => "the nats-server of `vakbus up --nats`".to_owned(),
    };
    let what = format!("{who} keep this bus, and vakbus can {verb} only this machine's own engine");
    Err(CliError::usage(what).next(
        "copy their JetStream store with their operator's tools (nats account backup), and \
         DATA_DIR/workspaces as well",
    ))
}

/// Refuses an agent whom a daemon would refuse.
fn check_right(session: &Session) -> Result<(), CliError> {
    let name = session.actor(Part::Operator)?;
    let identity = session.workspace.identity(&name)?;
    let asked = control_subject(BACKUP, session.workspace.name())?;
    if identity.certificate().policy().can_publish(&asked) {
        return Ok(());
    }
    let what = format!("backup: the policy of {name} does not allow to publish {asked}");
    Err(CliError::new(Exit::Refused, what))
}

/// Has the daemon make it.
async fn ask(session: &Session, dir: &Path) -> Result<Copied, CliError> {
    let Some(argument) = dir.to_str() else {
        return Err(CliError::usage("a daemon takes a directory whose name is UTF-8")
            .next("name another, or stop the daemon first"));
    };
    let options = LinkOptions { answer_max: MADE_WITHIN, ..LinkOptions::default() };
    let Some(link) = session.link(Part::Operator, options).await? else {
        return Err(CliError::new(Exit::Unreachable, "no daemon runs").next("vakbus status"));
    };
    let said = link.control(BACKUP, argument).await?;
    serde_json::from_str(&said).map_err(|error| {
        let what = format!("the daemon's answer is not understood: {error}");
        CliError::new(Exit::Unknown, what).next("vakbus backup verify says whether it was made")
    })
}

fn verify(dir: &Path, global: &Global) -> Result<Exit, CliError> {
    let backup = bus_disk::verify_backup(dir).map_err(|error| unsound(&error))?;
    tell("verified", dir, backup.into(), global)
}

fn tell(what: &str, dir: &Path, copied: Copied, global: &Global) -> Result<Exit, CliError> {
    let (shown, Copied { files, bytes }) = (dir.display().to_string(), copied);
    if global.json {
        out::json(&json!({ what: shown, "files": files, "bytes": bytes }))?;
    } else {
        let files = out::counted(files, "file", "files");
        out::line(&out::harmless(&format!("{what}: {shown}, {files}, {bytes} bytes")))?;
        if what == "backup" {
            out::remark("keys and secrets are not in it: copy the directory workspaces as well");
        }
    }
    Ok(Exit::Done)
}

/// The failure of a backup that cannot be used, whatever is wrong with it.
fn unsound(error: &bus_core::Error) -> CliError {
    let next = match error.kind() {
        bus_core::ErrorKind::NotFound => "name the directory that `vakbus backup` made",
        bus_core::ErrorKind::Corrupt => "use another backup: this one is not what was written",
        _ => "see that the directory is there and that you may read it",
    };
    CliError::new(Exit::Failed, error.to_string()).next(next)
}

/// How long a daemon may take.
const MADE_WITHIN: Duration = Duration::from_secs(24 * 60 * 60);
