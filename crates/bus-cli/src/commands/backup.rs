//! `vakbus backup` and `vakbus restore`: copies of what the engine keeps.

mod kind;
mod line;
mod nats;
mod restore;
pub(super) mod target;
mod verify;

use std::{path::Path, time::Duration};

use bus_link::{BACKUP, LinkOptions, control_subject};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) use self::restore::run as restore;
pub(super) use self::verify::Scratch;
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
        (None, Some(BackupCommand::Verify { dir, deep })) => verify::run(dir, *deep, global),
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
    let paths = Paths::new(global, &home);
    let is_nats = NatsPlace::find(global, &home, &Secrets::new(&global.config, &home))?.is_some();
    if !is_nats && !paths.bus.exists() && !paths.is_served() {
        let what = format!("{} keeps no bus yet", home.path().display());
        return Err(CliError::new(Exit::Failed, what).next("name another with --data-dir"));
    }
    let (copied, more) = engine::run(global, async |session| match session.place() {
        Place::Disk(bus) => {
            check_right(session)?;
            target::check(&dir, home.path())?;
            Ok((Copied::from(bus.backup(&dir).await?), json!({})))
        }
        Place::Nats(place) => {
            check_right(session)?;
            target::check(&dir, home.path())?;
            let who = (session.workspace.name(), &session.actor(Part::Operator)?);
            nats::make(place, who, &dir, global).await
        }
        Place::Daemon { .. } | Place::Memory(_) => Ok((ask(session, &dir).await?, json!({}))),
    })?;
    tell("backup", &dir, (copied, more), global)
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

/// Tells what was copied; of `more` only what was left out stands beside the JSON as well.
fn tell(
    what: &str,
    dir: &Path,
    (copied, more): (Copied, Value),
    global: &Global,
) -> Result<Exit, CliError> {
    let (shown, Copied { files, bytes }) = (dir.display().to_string(), copied);
    if global.json {
        out::json(&out::with(json!({ what: shown, "files": files, "bytes": bytes }), more))?;
    } else {
        let files = out::counted(files, "file", "files");
        out::line(&out::harmless(&format!("{what}: {shown}, {files}, {bytes} bytes")))?;
        if let Some(left_out) = left_out(&more) {
            out::remark(&out::harmless(&left_out));
        }
        if what == "backup" {
            out::remark("keys and secrets are not in it: copy the directory workspaces as well");
        }
    }
    Ok(Exit::Done)
}

/// What is not in a copy though it was there.
fn left_out(more: &Value) -> Option<String> {
    let names = more.get("left_out")?.as_array()?.iter().filter_map(Value::as_str);
    let names: Vec<&str> = names.collect();
    (!names.is_empty()).then(|| format!("left out, kept in memory alone: {}", names.join(", ")))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_out_is_named_and_nothing_is_not() {
        let told = left_out(&json!({ "left_out": ["VAK_LATEST", "M"] })).unwrap();
        assert!(told.ends_with(": VAK_LATEST, M"), "{told}");
        assert_eq!(left_out(&json!({ "left_out": [] })), None);
        assert_eq!(left_out(&json!({})), None);
    }
}
