//! What this machine has of a bus: room, secrets, certificates.

use std::{path::Path, time::Duration};

use bus_core::{Clock as _, SystemClock};
use rustix::fs::{statfs, statvfs};

use super::{
    audit,
    checks::{self, Room},
    finding::Finding,
};
use crate::{
    args::Global,
    error::CliError,
    home::Home,
    secrets::Secrets,
    workspace::{KeyStanding, Workspace},
};

/// All of it.
pub(super) fn findings(home: &Home, secrets: &Secrets, global: &Global) -> Vec<Finding> {
    let mut findings = vec![disk(home.path())];
    if !home.below("workspaces").below(global.workspace.as_str()).exists() {
        let why = format!("there is no workspace {} here", global.workspace);
        findings
            .push(Finding::skipped("keys", why).mend("the first command that needs it makes it"));
        return findings;
    }
    match Workspace::open(home, &global.workspace) {
        Ok(workspace) => {
            findings.push(secret(&workspace, secrets).unwrap_or_else(|error| told("keys", &error)));
            let ends = certificates(&workspace);
            findings.push(ends.unwrap_or_else(|error| told("certificates", &error)));
        }
        Err(error) => findings.push(told("keys", &error)),
    }
    findings.extend(audit::files(home, &global.workspace));
    findings
}

/// What cannot be read is what is wrong: others can read it, or it is damaged.
pub(super) fn told(check: &'static str, error: &CliError) -> Finding {
    let finding = Finding::bad(check, error.what());
    match error.next_step() {
        Some(next) => finding.mend(next),
        None => finding,
    }
}

fn disk(home: &Path) -> Finding {
    // One that is not made yet is on the file system of what is above it.
    let there = home.ancestors().find(|path| path.exists()).unwrap_or(home);
    match statvfs(there) {
        Ok(room) => checks::disk(Room {
            free_bytes: room.f_bavail.saturating_mul(room.f_frsize),
            free_files: (room.f_files > 0).then_some(room.f_favail),
            network: network(there),
        }),
        Err(error) => Finding::skipped("disk", format!("{}: {error}", there.display())),
    }
}

/// The kind of network file system that `path` is on.
fn network(path: &Path) -> Option<&'static str> {
    let kind = u64::try_from(statfs(path).ok()?.f_type).ok()?;
    NETWORKS.iter().find(|(number, _)| *number == kind).map(|(_, name)| *name)
}

fn secret(workspace: &Workspace, secrets: &Secrets) -> Result<Finding, CliError> {
    if secrets.workspace_secret()?.is_some() {
        return Ok(Finding::ok("keys", "the workspace's secret comes from outside"));
    }
    // Reads each of them: one that others can read or that is damaged is told.
    drop(workspace.keyring(secrets)?);
    let named = workspace.secrets()?;
    let seals = named.iter().find(|secret| secret.standing == KeyStanding::Seals);
    Ok(match seals {
        Some(secret) => {
            let age = secret.since.and_then(|since| since.elapsed().ok());
            checks::secret(&secret.name.to_string(), age)
        }
        None => Finding::bad("keys", "no secret seals").mend("vakbus keys rotate"),
    })
}

fn certificates(workspace: &Workspace) -> Result<Finding, CliError> {
    let now = SystemClock::new().now();
    let agents = workspace.agents()?;
    let ends: Vec<_> = agents
        .iter()
        .filter_map(|agent| {
            let left = agent.expires?.since(now);
            Some((agent.agent.to_string(), Some(left).filter(|left| *left > Duration::ZERO)))
        })
        .collect();
    Ok(checks::certificates(&ends))
}

/// As the kernel numbers them.
const NETWORKS: [(u64, &str); 4] =
    [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0xfe53_4d42, "SMB"), (0x6173_6461, "AFS")];
