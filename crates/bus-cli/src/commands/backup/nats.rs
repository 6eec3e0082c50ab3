//! Backups of NATS servers: made by them, tried out on one of their kind, given back to them.

use std::path::Path;

use bus_core::{Bus as _, Clock, Error, ErrorKind, Outcome, SystemClock};
use bus_nats::{
    Backup, Restored,
    server::{NatsServer, ServerOptions, find_server},
    try_backup, verify_backup,
};
use bus_subjects::{AgentId, WorkspaceId};
use serde_json::{Value, json};

use super::{Copied, line::Line, restore::refuse_a_bus, unsound, verify::Scratch};
use crate::{
    args::Global,
    commands::up::{nats as up, signals::Asks},
    engine::{self, NatsPlace, NatsRunning, Paths},
    error::{CliError, Exit},
    home::Home,
    print as out,
    secrets::Secrets,
    workspace::Workspace,
};

/// Has the servers make a backup in `dir`.
pub(super) async fn make(
    place: &NatsPlace,
    (workspace, agent): (&WorkspaceId, &AgentId),
    dir: &Path,
    global: &Global,
) -> Result<(Copied, Value), CliError> {
    let bus = place.house(workspace, agent.as_str()).await?;
    let line = Line::new(global);
    let mut told = |step: bus_nats::BackupStep<'_>| line.show(step);
    let made = unless_stopped(bus.backup(dir, &mut told)).await.map_err(stopped)?;
    Ok(counted(&made.map_err(|error| failed(&error))?))
}

/// Restores the backup in `dir` on a server that is started in `scratch`, and compares.
pub(super) fn try_out(
    dir: &Path,
    scratch: &Scratch,
    global: &Global,
) -> Result<(Copied, Value), CliError> {
    let binary = find_server(None).map_err(|error| up::failed(&error))?;
    let options = ServerOptions::new(binary, scratch.path());
    let line = Line::new(global);
    let mut told = |step: bus_nats::BackupStep<'_>| line.show(step);
    let tried =
        engine::block_on(async { Ok(unless_stopped(try_backup(dir, options, &mut told)).await) })?;
    let tried = tried.map_err(stopped)?;
    Ok(counted(&tried.map_err(|error| unsound(&error))?))
}

/// Gives the backup in `dir` to the servers that the settings name, else to one of this data home,
/// which is started for that alone.
pub(super) fn restore(
    dir: &Path,
    (home, paths): (&Home, &Paths),
    global: &Global,
) -> Result<Exit, CliError> {
    let secrets = Secrets::new(&global.config, home);
    if global.config.nats_url().is_none() {
        return into_home(dir, (home, paths), global);
    }
    let Some(place) = NatsPlace::find(global, home, &secrets)? else {
        return Err(CliError::usage("no NATS server is named").next("give --nats-url"));
    };
    let restored = engine::block_on(give(&place, dir, left, global))?;
    tell(&place.url(), &restored, global)?;
    if !restored.knows_ids {
        out::remark(
            "start the servers again before work goes on: until then they do not know which ids \
             they have stored, and what is sent again is stored twice",
        );
    }
    Ok(Exit::Done)
}

/// Makes the store of `vakbus up --nats`.
fn into_home(
    dir: &Path,
    (home, paths): (&Home, &Paths),
    global: &Global,
) -> Result<Exit, CliError> {
    refuse_a_bus(home, paths)?;
    refuse_a_store(paths)?;
    verify_backup(dir).map_err(|error| unsound(&error))?;
    let binary = find_server(None).map_err(|error| up::failed(&error))?;
    // Its keys say whose account the streams are in.
    drop(Workspace::open(home, &global.workspace).map_err(|error| {
        CliError::new(error.code(), error.what().to_owned())
            .next("put the directory workspaces back first, and restore then")
    })?);
    let draft = home.draft()?;
    let options = up::own_options(home, draft.path(), binary)?;
    let mut server = NatsServer::start(options).map_err(|error| up::failed(&error))?;
    let running = NatsRunning {
        pid: std::process::id(),
        since: SystemClock::new().now().to_string(),
        url: server.url().to_owned(),
        server: 0,
        durability: "synced".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        http: None,
    };
    let place = NatsPlace::supervised(running.clone(), global, home)?;
    // The store that it would have become goes with its draft.
    let restored = engine::block_on(give(&place, dir, |_| stopped(Stopped), global))?;
    // In order: what it has stored is on the disk then.
    server.stop();
    drop(server);
    let moved = std::fs::rename(draft.path(), &paths.nats).and_then(|()| home.sync());
    moved.map_err(|error| {
        let what = format!("cannot put the store at {}: {error}", paths.nats.display());
        CliError::new(Exit::Failed, what).next("see that nobody else uses this data directory")
    })?;
    // From now on no other engine takes the place of that server.
    paths.run.create()?;
    paths.write_nats(&running)?;
    tell(&paths.nats.display().to_string(), &restored, global)?;
    out::remark("start it: vakbus up --nats");
    Ok(Exit::Done)
}

/// Refuses a data directory that has a server's store, or a server.
fn refuse_a_store(paths: &Paths) -> Result<(), CliError> {
    if paths.is_nats_held() {
        let what = format!("a nats-server works in {}", paths.nats.display());
        return Err(CliError::new(Exit::Failed, what).next("stop it first: vakbus status"));
    }
    if paths.nats.symlink_metadata().is_ok() {
        let what = format!("{} is there already", paths.nats.display());
        let next = "restore into another --data-dir, or move that one away first";
        return Err(CliError::new(Exit::Failed, what).next(next));
    }
    Ok(())
}

/// Gives the backup to the servers at `place`; `stopped` says what a signal leaves, of the streams
/// that were begun.
async fn give(
    place: &NatsPlace,
    dir: &Path,
    stopped: impl FnOnce(&[String]) -> CliError,
    global: &Global,
) -> Result<Restored, CliError> {
    let agent = match &global.agent {
        Some(agent) => agent.clone(),
        None => AgentId::parse(RESTORER)?,
    };
    let bus = place.house(&global.workspace, agent.as_str()).await?;
    let line = Line::new(global);
    let mut begun: Vec<String> = Vec::new();
    let mut told = |step: bus_nats::BackupStep<'_>| {
        if begun.last().is_none_or(|last| last != step.stream) {
            begun.push(step.stream.to_owned());
        }
        line.show(step);
    };
    let restored = unless_stopped(bus.restore(dir, &mut told)).await;
    let restored = restored.map_err(|_| stopped(&begun));
    let closed = bus.close().await;
    let restored = restored?.map_err(|error| failed(&error))?;
    closed?;
    Ok(restored)
}

/// The failure of a restore on servers that a signal has stopped.
fn left(begun: &[String]) -> CliError {
    let Some((last, done)) = begun.split_last() else { return stopped(Stopped) };
    let done = match done {
        [] => String::new(),
        done => format!("{} were restored and stay there, and ", done.join(", ")),
    };
    let what = format!("stopped by a signal: {done}{last} may be there as well");
    CliError::new(Exit::Unknown, what).next("remove them before you restore again: nats stream rm")
}

/// A signal came that stops the command.
struct Stopped;

/// Runs `work` to its end, or drops it when a signal comes that stops the command.
async fn unless_stopped<T>(work: impl Future<Output = T>) -> Result<T, Stopped> {
    let mut asks = Asks::new();
    tokio::select! {
        biased;
        done = work => Ok(done),
        () = asks.stop() => Err(Stopped),
    }
}

/// The failure of a command that leaves nothing behind.
fn stopped(_signal: Stopped) -> CliError {
    CliError::new(Exit::Failed, "stopped by a signal: nothing is left of it").next("run it again")
}

/// What a backup has, and what only this kind has.
pub(super) fn counted(backup: &Backup) -> (Copied, Value) {
    let Backup { streams, messages, bytes, left_out } = backup;
    let more = json!({ "streams": streams, "messages": messages, "left_out": left_out });
    (Copied { files: *streams, bytes: *bytes }, more)
}

fn tell(into: &str, restored: &Restored, global: &Global) -> Result<(), CliError> {
    let Restored { backup: Backup { streams, messages, bytes, .. }, knows_ids } = restored;
    if global.json {
        return out::json(&json!({
            "restored": into,
            "streams": streams,
            "messages": messages,
            "bytes": bytes,
            "knows_ids": knows_ids,
        }));
    }
    let streams = out::counted(*streams, "stream", "streams");
    let messages = out::counted(*messages, "message", "messages");
    let text = format!("restored: {into}, {streams}, {messages}, {bytes} bytes");
    out::line(&out::harmless(&text))?;
    out::remark("keys and secrets are not in a backup: put the directory workspaces back as well");
    Ok(())
}

/// The failure of servers to make a backup or to take one.
fn failed(error: &Error) -> CliError {
    let next = match error.kind() {
        ErrorKind::Corrupt | ErrorKind::NotFound if error.op() == "verify backup" => {
            return unsound(error);
        }
        ErrorKind::Denied => {
            "log in as one who may use $JS.API.STREAM.LIST, $JS.API.STREAM.SNAPSHOT.* and \
             $JS.SNAPSHOT.ACK.>, or for a restore $JS.API.STREAM.RESTORE.* and \
             $JS.SNAPSHOT.RESTORE.>"
        }
        ErrorKind::Conflict => {
            "restore on servers that have none of these streams, or remove those first; nothing \
             that is there was touched"
        }
        ErrorKind::Corrupt => "the log of the server says more",
        ErrorKind::Full => "make room, and do it again",
        _ if error.outcome() == Outcome::Unknown => {
            return CliError::new(Exit::Unknown, error.to_string());
        }
        _ => return CliError::new(Exit::of(error.kind()), error.to_string()),
    };
    let code = match (error.outcome(), error.kind()) {
        // Some of it was done, and is left.
        (Outcome::Unknown, _) => Exit::Unknown,
        (_, ErrorKind::Denied) => Exit::Refused,
        _ => Exit::Failed,
    };
    CliError::new(code, error.to_string()).next(next)
}

/// As whom a restore connects: there may be no workspace here yet.
const RESTORER: &str = "restorer";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restore_that_did_a_part_says_that_the_rest_is_not_known() {
        let part = Error::new(ErrorKind::Full, "restore", "no room; restored before that: A");
        assert_eq!(failed(&part.unknown()).code(), Exit::Unknown);
        let none = Error::new(ErrorKind::Full, "restore", "no room");
        assert_eq!(failed(&none).code(), Exit::Failed);
    }

    #[test]
    fn a_restore_that_was_stopped_names_what_it_left() {
        let begun = ["A", "B", "C"].map(str::to_owned);
        let told = left(&begun).to_string();
        assert!(told.contains("A, B were restored") && told.contains("C may be there"), "{told}");
        assert_eq!(left(&begun).code(), Exit::Unknown);
        assert_eq!(left(&[]).code(), Exit::Failed);
    }
}
