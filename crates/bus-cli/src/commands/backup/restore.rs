//! A data directory's bus, made from a backup: read back first, and then put in its place.

use std::{fs, path::Path, sync::Arc};

use bus_core::{Clock, SystemClock};
use bus_disk::Contents;
use serde_json::json;

use super::{kind::Kind, nats, unsound};
use crate::{
    args::{Global, RestoreArgs},
    engine::{self, NatsPlace, Paths, disk_options, open_disk},
    error::{CliError, Exit},
    home::Home,
    print as out,
    secrets::Secrets,
};

/// Restores a backup.
pub(crate) fn run(args: &RestoreArgs, global: &Global) -> Result<Exit, CliError> {
    if global.memory {
        let what = "with --memory nothing is kept, so there is nowhere to restore to";
        return Err(CliError::usage(what).next("leave it out"));
    }
    let home = Home::locate(global.data_dir.as_deref())?;
    let paths = Paths::new(global, &home);
    if Kind::of(&args.dir) == Kind::Nats {
        return nats::restore(&args.dir, (&home, &paths), global);
    }
    refuse_nats(&args.dir, &home, global)?;
    refuse_a_bus(&home, &paths)?;
    bus_disk::verify_backup(&args.dir).map_err(|error| unsound(&error))?;
    home.create()?;
    let draft = home.draft()?;
    bus_disk::restore(&args.dir, draft.path()).map_err(|error| unsound(&error))?;
    let contents = engine::block_on(async { read_back(&paths, draft.path(), global).await })?;
    put_in_place(draft.path(), &home, &paths)?;
    tell(&paths.bus, contents, global)
}

/// Refuses a bus that NATS servers keep: another engine's copy is of no use to them.
fn refuse_nats(dir: &Path, home: &Home, global: &Global) -> Result<(), CliError> {
    let who = match NatsPlace::find(global, home, &Secrets::new(&global.config, home)) {
        Ok(None) => return Ok(()),
        // It is a server's, whether it runs or not.
        Err(error) if error.code() == Exit::Unreachable => {
            "the nats-server of `vakbus up --nats`".to_owned()
        }
        found => {
            found?.map_or_else(String::new, |place| format!("the servers at {}", place.told()))
        }
    };
    let what = format!("{who} keep this bus, and {} is no backup of servers", dir.display());
    let next = "name a backup that was made of NATS servers, or another --data-dir without them";
    Err(CliError::usage(what).next(next))
}

/// Refuses a data directory that has a bus, or somebody who is about to have one.
pub(super) fn refuse_a_bus(home: &Home, paths: &Paths) -> Result<(), CliError> {
    if paths.is_served() {
        let pid =
            paths.running().map_or_else(String::new, |daemon| format!(", pid {}", daemon.pid));
        let what = format!("a daemon serves {}{pid}", home.path().display());
        return Err(CliError::new(Exit::Failed, what).next("stop it first: vakbus status"));
    }
    if home.below(BUS).exists() {
        let what = format!("{} is there already", paths.bus.display());
        let next = "restore into another --data-dir, or move that one away first";
        return Err(CliError::new(Exit::Failed, what).next(next));
    }
    Ok(())
}

/// Opens what was restored as the daemon will, and says what is in it.
pub(super) async fn read_back(
    paths: &Paths,
    draft: &Path,
    global: &Global,
) -> Result<Contents, CliError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let mut options = disk_options(paths, global, global.config.sync(), &clock);
    options.dir = draft.to_owned();
    let bus = open_disk(options).await.map_err(|error| unsound(&error))?;
    let contents = bus.contents();
    bus.shut_down().await?;
    Ok(contents)
}

/// The last step: whoever made a bus there meanwhile keeps it.
fn put_in_place(draft: &Path, home: &Home, paths: &Paths) -> Result<(), CliError> {
    let moved = fs::rename(draft, &paths.bus)
        .and_then(|()| fs::File::open(home.path()))
        .and_then(|home| home.sync_all());
    moved.map_err(|error| {
        let what = format!("cannot put the bus at {}: {error}", paths.bus.display());
        CliError::new(Exit::Failed, what).next("see that nobody else uses this data directory")
    })
}

fn tell(bus: &Path, contents: Contents, global: &Global) -> Result<Exit, CliError> {
    let Contents { streams, messages, values, blobs, position } = contents;
    let shown = bus.display().to_string();
    if global.json {
        out::json(&json!({
            "restored": shown,
            "streams": streams,
            "messages": messages,
            "values": values,
            "blobs": blobs,
            "position": position,
        }))?;
        return Ok(Exit::Done);
    }
    let streams = out::counted(streams, "stream", "streams");
    let messages = out::counted(messages, "message", "messages");
    let values = out::counted(values, "value", "values");
    let blobs = out::counted(blobs, "blob", "blobs");
    let text =
        format!("restored: {shown}, {streams}, {messages}, {values}, {blobs}, position {position}");
    out::line(&out::harmless(&text))?;
    out::remark("keys and secrets are not in a backup: put the directory workspaces back as well");
    Ok(Exit::Done)
}

/// The name of the bus in a data directory.
const BUS: &str = "bus";
