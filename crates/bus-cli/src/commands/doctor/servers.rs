//! What NATS servers say.

use std::sync::Arc;

use bus_core::{Clock as _, Durability, Engine, StreamSpec, SystemClock, planes};
use bus_nats::{Inspection, NatsBus, StreamStanding, permissions::Layout};
use bus_subjects::{AgentId, WorkspaceId};

use super::{
    audit,
    checks::{self, Sync},
    finding::Finding,
    local::told,
    monitor::Monitor,
    probes::{self, Asker},
};
use crate::{
    args::Global,
    engine::NatsPlace,
    error::CliError,
    home::Home,
    workspace::{Part, Workspace},
};

/// All of it. A question that is not answered is a finding of its own.
///
/// # Errors
/// When no server is reached.
pub(super) async fn look(
    place: &NatsPlace,
    home: &Home,
    (monitor, global): (Option<Monitor>, &Global),
    found: &mut Vec<Finding>,
) -> Result<(), CliError> {
    let workspace = match Workspace::open(home, &global.workspace) {
        Ok(workspace) => workspace,
        // What is wrong with it was told before.
        Err(error) => {
            found.push(Finding::skipped("engine", error.what()));
            return Ok(());
        }
    };
    let bus = place.look(workspace.name(), WHO).await?;
    found.push(match place.supervisor() {
        Some(running) => checks::daemon(&running.version),
        None => Finding::ok("engine", format!("{} answers", place.told())),
    });
    found.push(sync(place, monitor).await);
    match bus.inspect(&streams(place, workspace.name())?).await {
        Ok(seen) => found.extend(of(&seen)),
        Err(error) => found.push(told("streams", &error.into())),
    }
    against(place, &workspace, &bus, home, found).await;
    permissions(place, &workspace, &bus, found).await;
    Ok(())
}

/// The audit log of this machine against what the servers hold.
async fn against(
    place: &NatsPlace,
    workspace: &Workspace,
    bus: &NatsBus,
    home: &Home,
    found: &mut Vec<Finding>,
) {
    // One that is not there yet has nothing to hold against.
    let Ok(auditor) = AgentId::parse(Part::Auditor.name()) else { return };
    if !workspace.has_agent(&auditor) {
        return;
    }
    // Where everybody logs in alike, this login reads it as well.
    match place.look_as(workspace, &auditor).await {
        Ok(own) => {
            let own = own.as_ref().unwrap_or(bus);
            found.extend(audit::against(own, home, workspace.name()).await);
        }
        Err(error) => found.push(told("audit", &error)),
    }
}

/// What a workspace needs there.
fn streams(place: &NatsPlace, workspace: &WorkspaceId) -> Result<Vec<StreamSpec>, CliError> {
    // Where agents have a login each, whoever sets a workspace up makes an outbox as well.
    if place.is_own() {
        return Ok(Layout::of(workspace)?.streams()?);
    }
    let mut streams = planes::workspace_streams(workspace)?;
    streams.push(planes::recordings(workspace)?);
    Ok(streams)
}

/// How the server syncs, as far as somebody knows.
async fn sync(place: &NatsPlace, monitor: Option<Monitor>) -> Finding {
    let known = match (monitor, place.supervisor()) {
        (Some(monitor), _) => match monitor.sync().await {
            Ok(seen) => seen,
            Err(error) => {
                let finding = Finding::skipped("sync", error.what());
                return match error.next_step() {
                    Some(next) => finding.mend(next),
                    None => finding,
                };
            }
        },
        (None, Some(running)) if running.durability == "synced" => Sync::Kept(Durability::Synced),
        (None, Some(_)) => Sync::Kept(Durability::Written),
        (None, None) => Sync::Unseen,
    };
    checks::sync(known, (place.profile(), place.durability()))
}

/// What an inspection shows.
fn of(seen: &Inspection) -> Vec<Finding> {
    let ours = SystemClock::new().now();
    let apart = seen.clock.map(|(time, doubt)| (time.unix_ns() - ours.unix_ns(), doubt));
    let streams: Vec<_> =
        seen.streams.iter().map(|(name, standing)| (name.to_string(), standing.clone())).collect();
    let facts = |of: &dyn Fn(&str) -> bool| {
        let there = streams.iter().filter_map(|(name, standing)| match standing {
            StreamStanding::There(facts) if of(name) => Some((name.clone(), facts.clone())),
            _ => None,
        });
        there.collect::<Vec<_>>()
    };
    let queues = facts(&|name| name.starts_with("VAK_WORK") || name.starts_with("VAK_INBOX"));
    let consumers: Vec<_> =
        queues.into_iter().map(|(name, facts)| (name, facts.consumers)).collect();
    let mut findings = vec![
        checks::server_version(&seen.version, seen.is_supported),
        checks::clock(apart),
        checks::max_payload(seen.payload_max),
        checks::replicas(&streams, seen.copies),
    ];
    findings.extend(checks::streams(&streams));
    findings.push(checks::partitions(&consumers));
    findings.push(match facts(&|name| name == "VAK_RECEIPTS").first() {
        Some((_, facts)) => checks::receipts_room(facts.messages),
        None => Finding::skipped("receipts-room", "the stream of receipts is not seen"),
    });
    findings
}

/// Tries what agents may, where each of them has a login of its own.
async fn permissions(
    place: &NatsPlace,
    workspace: &Workspace,
    bus: &NatsBus,
    found: &mut Vec<Finding>,
) {
    if !bus.asks_who() {
        found.push(everybody("it asks nobody who it is"));
        return;
    }
    let look = async |part| {
        let who = match probes::identity(workspace, part) {
            Ok(who) => who,
            Err(why) => return Some(Asker::Away(why)),
        };
        match place.look_as(workspace, &who.certificate().agent).await {
            Ok(None) => None,
            Ok(Some(bus)) => Some(Asker::Engine(Arc::new(bus) as Arc<dyn Engine>)),
            Err(error) => Some(Asker::Away(told("permissions", &error))),
        }
    };
    match (look(Part::Operator).await, look(Part::Worker).await) {
        (None, _) | (_, None) => {
            found.push(everybody("whoever has this login may do everything there"));
        }
        (Some(operator), Some(worker)) => {
            probes::look((operator, worker), workspace.name(), found).await;
        }
    }
}

/// A server that enforces no roles.
fn everybody(why: &str) -> Finding {
    Finding::warn("permissions", format!("the server enforces no roles: {why}"))
        .expected("a login for each agent")
        .mend("vakbus auth server-config writes a configuration that knows each agent")
}

/// As whom it connects.
const WHO: &str = "doctor";
