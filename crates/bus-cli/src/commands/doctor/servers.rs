//! What NATS servers say.

use std::sync::Arc;

use bus_core::{Clock as _, Durability, Engine, SystemClock, planes};
use bus_nats::{Inspection, NatsBus, StreamStanding, permissions::Layout};

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

/// All of it.
pub(super) async fn findings(
    place: &NatsPlace,
    home: &Home,
    monitor: Option<Monitor>,
    global: &Global,
) -> Result<Vec<Finding>, CliError> {
    let workspace = match Workspace::open(home, &global.workspace) {
        Ok(workspace) => workspace,
        // What is wrong with it was told before.
        Err(error) => return Ok(vec![Finding::skipped("engine", error.what())]),
    };
    let bus = place.look(workspace.name(), WHO).await?;
    let mut findings = vec![match place.supervisor() {
        Some(running) => checks::daemon(&running.version),
        None => Finding::ok("engine", format!("{} answers", place.told())),
    }];
    findings.push(sync(place, monitor).await);
    // Where agents have a login each, whoever sets a workspace up makes an outbox as well.
    let streams = match place.is_own() {
        true => Layout::of(workspace.name())?.streams()?,
        false => planes::workspace_streams(workspace.name())?,
    };
    let seen = bus.inspect(&streams).await;
    match seen {
        Ok(seen) => findings.extend(of(&seen)),
        Err(error) => findings.push(Finding::skipped("streams", error.to_string())),
    }
    let auditor = probes::name(Part::Auditor)?;
    let is_there = workspace.identity(&auditor).is_ok();
    // Where everybody logs in alike, this login reads it as well.
    match is_there.then_some(place.look_as(&workspace, &auditor)) {
        None => {}
        Some(look) => match look.await {
            Ok(own) => {
                let own = own.as_ref().unwrap_or(&bus);
                findings.extend(audit::against(own, home, workspace.name()).await);
            }
            Err(error) => findings.push(told("audit", &error)),
        },
    }
    findings.extend(permissions(place, &workspace, &bus).await?);
    Ok(findings)
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
) -> Result<Vec<Finding>, CliError> {
    if !bus.asks_who() {
        return Ok(vec![everybody("it asks nobody who it is")]);
    }
    let look = async |part| -> Result<Option<Asker>, CliError> {
        let name = probes::name(part)?;
        // One that is not there yet is not made for this.
        if let Err(error) = workspace.identity(&name) {
            return Ok(Some(Asker::Away(error.what().to_owned())));
        }
        Ok(match place.look_as(workspace, &name).await {
            Ok(None) => None,
            Ok(Some(bus)) => Some(Asker::Engine(Arc::new(bus) as Arc<dyn Engine>)),
            Err(error) => Some(Asker::Away(error.what().to_owned())),
        })
    };
    match (look(Part::Operator).await, look(Part::Worker).await) {
        (Err(error), _) | (_, Err(error)) => Ok(vec![told("permissions", &error)]),
        (Ok(None), _) | (_, Ok(None)) => {
            Ok(vec![everybody("whoever has this login may do everything there")])
        }
        (Ok(Some(operator)), Ok(Some(worker))) => {
            probes::findings(operator, worker, workspace.name()).await
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
