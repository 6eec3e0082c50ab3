//! What the daemon of this machine says.

use std::sync::Arc;

use bus_core::{Durability, Engine, ErrorKind, Identity, planes};
use bus_link::{LinkBus, LinkOptions};

use super::{
    audit,
    checks::{self, Sync},
    finding::Finding,
    probes::{self, Asker},
};
use crate::{
    args::Global,
    engine::Paths,
    error::CliError,
    home::Home,
    workspace::{Part, Workspace},
};

/// All of it.
pub(super) async fn findings(
    paths: &Paths,
    home: &Home,
    global: &Global,
) -> Result<Vec<Finding>, CliError> {
    let mut findings = Vec::new();
    match paths.running() {
        Some(running) => {
            findings.push(checks::daemon(&running.version));
            let kept = match running.durability.as_str() {
                "synced" => Durability::Synced,
                "written" => Durability::Written,
                _ => Durability::Memory,
            };
            findings.push(checks::sync(Sync::Kept(kept), ("", kept)));
        }
        None => findings.push(
            Finding::warn("engine", "the daemon's own file cannot be read")
                .mend("start the daemon again: vakbus up"),
        ),
    }
    let workspace = match Workspace::open(home, &global.workspace) {
        Ok(workspace) => workspace,
        // What is wrong with it was told before.
        Err(error) => {
            findings.push(Finding::skipped("permissions", error.what()));
            return Ok(findings);
        }
    };
    // One that is not there yet has nothing to hold against.
    if let Ok(auditor) = connect(paths, workspace.identity(&probes::name(Part::Auditor)?)).await {
        findings.extend(audit::against(&*auditor, home, &global.workspace).await);
    }
    let operator = connect(paths, workspace.identity(&probes::name(Part::Operator)?)).await;
    let worker = connect(paths, workspace.identity(&probes::name(Part::Worker)?)).await;
    if let Ok(operator) = &operator {
        findings.push(partitions(&**operator, global).await?);
        findings.push(receipts(&**operator).await?);
    }
    let asker = |who: Result<Arc<dyn Engine>, CliError>| match who {
        Ok(engine) => Asker::Engine(engine),
        Err(error) => Asker::Away(error.what().to_owned()),
    };
    findings.extend(probes::findings(asker(operator), asker(worker), &global.workspace).await?);
    Ok(findings)
}

/// A connection on which the daemon alone decides what `who` may.
async fn connect(
    paths: &Paths,
    who: Result<Identity, CliError>,
) -> Result<Arc<dyn Engine>, CliError> {
    let link = LinkBus::connect(&paths.socket, who?, LinkOptions::default()).await?;
    Ok(Arc::new(link))
}

async fn partitions(operator: &dyn Engine, global: &Global) -> Result<Finding, CliError> {
    let mut counts = Vec::new();
    for stream in
        [planes::work_stream(&global.workspace)?, planes::inbox_stream(&global.workspace)?]
    {
        // A mailbox's consumers are not an operator's to see everywhere.
        if let Ok(consumers) = operator.consumers(stream.clone()).await {
            counts.push((stream.to_string(), consumers.len() as u64));
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
