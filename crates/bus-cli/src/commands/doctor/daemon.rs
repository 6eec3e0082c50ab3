//! What the daemon of this machine says.

use std::sync::Arc;

use bus_core::{Durability, Engine, ErrorKind, planes};
use bus_link::{LinkBus, LinkOptions};

use super::{
    audit,
    checks::{self, Sync},
    finding::Finding,
    local::told,
    probes::{self, Asker},
};
use crate::{
    args::Global,
    engine::Paths,
    error::CliError,
    home::Home,
    workspace::{Part, Workspace},
};

/// All of it. A question that is not answered is a finding of its own.
///
/// # Errors
/// When the daemon lets nobody in any more, because it stands still or has just ended.
pub(super) async fn look(
    paths: &Paths,
    home: &Home,
    global: &Global,
    found: &mut Vec<Finding>,
) -> Result<(), CliError> {
    let workspace = match Workspace::open(home, &global.workspace) {
        Ok(workspace) => workspace,
        // What is wrong with it was told before.
        Err(error) => {
            version(paths, found);
            found.push(Finding::skipped("permissions", error.what()));
            return Ok(());
        }
    };
    let operator = connect(paths, &workspace, Part::Operator).await?;
    version(paths, found);
    let is_kept = paths.running().is_some_and(|running| running.durability != "memory");
    // What is in memory alone begins anew with each daemon; who is not there yet has nothing to
    // hold against it.
    if is_kept && let Asker::Engine(auditor) = connect(paths, &workspace, Part::Auditor).await? {
        found.extend(audit::against(&*auditor, home, &global.workspace).await);
        let _closed = auditor.close().await;
    }
    if let Asker::Engine(operator) = &operator {
        let counted = partitions(&**operator, global).await;
        found.push(counted.unwrap_or_else(|error| told("partitions", &error)));
        let counted = receipts(&**operator).await;
        found.push(counted.unwrap_or_else(|error| told("receipts-room", &error)));
    }
    let worker = connect(paths, &workspace, Part::Worker).await?;
    probes::look((operator, worker), &global.workspace, found).await;
    Ok(())
}

/// What the daemon wrote down of itself when it started.
fn version(paths: &Paths, found: &mut Vec<Finding>) {
    match paths.running() {
        Some(running) => {
            found.push(checks::daemon(&running.version));
            let kept = match running.durability.as_str() {
                "synced" => Durability::Synced,
                "written" => Durability::Written,
                _ => Durability::Memory,
            };
            found.push(checks::sync(Sync::Kept(kept), ("", kept)));
        }
        None => found.push(
            Finding::warn("engine", "the daemon's own file cannot be read")
                .mend("start the daemon again: vakbus up"),
        ),
    }
}

/// A connection on which the daemon alone decides what the agent may.
///
/// # Errors
/// When the daemon does not answer: nothing that would follow can be seen.
async fn connect(paths: &Paths, workspace: &Workspace, part: Part) -> Result<Asker, CliError> {
    let who = match probes::identity(workspace, part) {
        Ok(who) => who,
        Err(why) => return Ok(Asker::Away(why)),
    };
    match LinkBus::connect(&paths.socket, who, LinkOptions::default()).await {
        Ok(link) => Ok(Asker::Engine(Arc::new(link))),
        Err(error) if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout) => {
            Err(error.into())
        }
        Err(error) => Ok(Asker::Away(told("permissions", &error.into()))),
    }
}

async fn partitions(operator: &dyn Engine, global: &Global) -> Result<Finding, CliError> {
    let mut counts = Vec::new();
    for stream in
        [planes::work_stream(&global.workspace)?, planes::inbox_stream(&global.workspace)?]
    {
        match operator.consumers(stream.clone()).await {
            Ok(consumers) => counts.push((stream.to_string(), consumers.len() as u64)),
            // A mailbox's consumers are not an operator's to see everywhere.
            Err(error) if error.kind() == ErrorKind::Denied => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(checks::partitions(&counts))
}

async fn receipts(operator: &dyn Engine) -> Result<Finding, CliError> {
    Ok(match operator.lag(planes::receipts_stream()?).await {
        Ok(lag) => checks::receipts_room(lag.pending),
        // All workspaces share their stream.
        Err(error) if error.kind() == ErrorKind::Denied => {
            let why = "an operator of one workspace may not count the receipts of all";
            Finding::skipped("receipts-room", why)
        }
        Err(error) => return Err(error.into()),
    })
}
