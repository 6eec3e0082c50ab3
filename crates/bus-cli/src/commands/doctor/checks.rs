//! What is good, what is not and how to mend it: each check a function of what was seen.

use std::time::Duration;

use bus_core::Durability;
use bus_nats::{StreamFacts, StreamStanding};
use humantime::format_duration;

use super::finding::Finding;
use crate::print as out;

/// The room where the data home is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) free_bytes: u64,
    /// Files that can still be made; none where the file system does not count them.
    pub(super) free_files: Option<u64>,
    /// The kind of network file system that it is on.
    pub(super) network: Option<&'static str>,
}

/// What is known of how a server syncs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sync {
    /// Its keeper says it: this machine's own engine, or a server that it supervises.
    Kept(Durability),
    /// The server said it: always, or every so often.
    Seen(Option<Duration>),
    /// Nobody can tell.
    Unseen,
}

/// What became of a question that must be refused, or must not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Probe {
    /// What was tried, in words.
    pub(super) what: &'static str,
    pub(super) may: bool,
    /// Whether it was let through.
    pub(super) was_let: bool,
}

pub(super) fn disk(room: Room) -> Finding {
    const CHECK: &str = "disk";
    let mib = room.free_bytes / MIB;
    let found = format!("{mib} MiB free for the data directory");
    let few_files = room.free_files.filter(|free| *free < FREE_FILES);
    let room_for = "free some room: tasks, values and blobs are refused when there is none";
    match room {
        Room { network: Some(kind), .. } => Finding::warn(CHECK, format!("it is on {kind}"))
            .expected("a local file system")
            .mend("move the data directory: locks and syncs of network file systems do not hold"),
        _ if room.free_bytes < BAD_BYTES => {
            Finding::bad(CHECK, found).expected("1024 MiB").mend(room_for)
        }
        _ if few_files.is_some() => {
            let left = few_files.unwrap_or_default();
            Finding::warn(CHECK, format!("{left} files can still be made")).mend(room_for)
        }
        _ if room.free_bytes < WARN_BYTES => {
            Finding::warn(CHECK, found).expected("1024 MiB").mend(room_for)
        }
        _ => Finding::ok(CHECK, found),
    }
}

/// The secret that seals now, and its age.
pub(super) fn secret(name: &str, age: Option<Duration>) -> Finding {
    const CHECK: &str = "keys";
    match age {
        Some(age) if age > SECRET_AGE => {
            Finding::warn(CHECK, format!("the secret {name} seals since {} days", days(age)))
                .expected("at most 90 days")
                .mend("vakbus keys rotate")
        }
        Some(age) => Finding::ok(CHECK, format!("the secret {name} is {} days old", days(age))),
        None => Finding::ok(CHECK, format!("the secret {name} seals")),
    }
}

/// Agents and how long their certificates are good; those without an end are not in the list.
pub(super) fn certificates(ends: &[(String, Option<Duration>)]) -> Finding {
    const CHECK: &str = "certificates";
    let names = |of: &dyn Fn(&Option<Duration>) -> bool| {
        let names = ends.iter().filter(|(_, left)| of(left)).map(|(name, _)| name.as_str());
        names.collect::<Vec<_>>().join(", ")
    };
    let ended = names(&|left| left.is_none());
    let ending = names(&|left| left.is_some_and(|left| left < CERTIFICATE_ENDS));
    let mend = "vakbus agent revoke, then vakbus agent add with the same roles";
    match (ended.is_empty(), ending.is_empty()) {
        (false, _) => Finding::bad(CHECK, format!("ended: {ended}")).mend(mend),
        (true, false) => Finding::warn(CHECK, format!("end within 14 days: {ending}")).mend(mend),
        (true, true) => Finding::ok(CHECK, "none ends within 14 days"),
    }
}

/// The version of the daemon that serves.
pub(super) fn daemon(version: &str) -> Finding {
    let own = env!("CARGO_PKG_VERSION");
    match version == own {
        true => Finding::ok("engine", format!("a daemon of version {version} answers")),
        false => Finding::warn("engine", format!("the daemon has version {version}"))
            .expected(format!("{own}, which this command has"))
            .mend("start the daemon again: vakbus up"),
    }
}

pub(super) fn server_version(version: &str, is_supported: bool) -> Finding {
    const CHECK: &str = "server-version";
    match is_supported {
        true => Finding::ok(CHECK, format!("nats-server {version}")),
        false => Finding::bad(CHECK, format!("nats-server {version}"))
            .expected("2.12.0 or newer")
            .mend("upgrade it: https://github.com/nats-io/nats-server/releases"),
    }
}

/// What an acknowledgement survives, and whether that is what `claims` says.
pub(super) fn sync(sync: Sync, (profile, claims): (&str, Durability)) -> Finding {
    const CHECK: &str = "sync";
    let always = "sync_interval: always in the server's configuration";
    match sync {
        Sync::Kept(Durability::Synced) | Sync::Seen(None) => {
            Finding::ok(CHECK, "what is acknowledged is on the disk")
        }
        Sync::Kept(_) => Finding::warn(CHECK, "a power cut may lose what was acknowledged last")
            .expected("synced before the answer")
            .mend("leave --sync out, or vakbus config set daemon.sync always"),
        Sync::Seen(Some(every)) => {
            let every = format_duration(every);
            let found = format!("the server syncs every {every}: a power cut may lose as much");
            let finding = match claims {
                Durability::Synced => Finding::bad(CHECK, found),
                _ => Finding::warn(CHECK, found),
            };
            finding.expected("always").mend(always)
        }
        Sync::Unseen => Finding::skipped(
            CHECK,
            format!("clients cannot see how a server syncs; the profile {profile} is believed"),
        )
        .mend("look with --monitor http://HOST:8222, the server's http_port"),
    }
}

/// Whether there are as many copies as the profile has, all of them at hand.
pub(super) fn replicas(streams: &[(String, StreamStanding)], copies: u64) -> Finding {
    const CHECK: &str = "replicas";
    let seen: Vec<_> = there(streams).collect();
    if seen.is_empty() {
        return Finding::skipped(CHECK, "no stream is seen");
    }
    if let Some((name, _)) = seen.iter().find(|(_, stream)| !stream.has_leader) {
        return Finding::bad(CHECK, format!("{name} has no leader: nothing is stored in it"))
            .mend("start the servers that are away; two of three are needed");
    }
    if let Some((name, stream)) = seen.iter().find(|(_, stream)| stream.copies < copies) {
        return Finding::bad(CHECK, format!("{name} has {} copies", stream.copies))
            .expected(copies.to_string())
            .mend(
                "add servers and raise num_replicas, or set server.bus.profile to what there is",
            );
    }
    let behind = seen.iter().find(|(_, stream)| !stream.behind.is_empty());
    match behind {
        Some((name, stream)) => {
            let who = stream.behind.join(", ");
            Finding::warn(CHECK, format!("the copy of {name} on {who} is away or behind"))
                .mend("see that these servers run; a copy catches up by itself")
        }
        None => Finding::ok(CHECK, format!("{copies} of each of {} streams", seen.len())),
    }
}

/// Whether each stream is there, and as it was declared.
pub(super) fn streams(streams: &[(String, StreamStanding)]) -> Vec<Finding> {
    const CHECK: &str = "streams";
    let mut findings = Vec::new();
    for (name, standing) in streams {
        match standing {
            // Everything else works without it.
            StreamStanding::Missing if name.starts_with("VAK_REC_") => findings.push(
                Finding::warn(CHECK, format!("{name} is not there: nothing can be recorded"))
                    .mend("vakbus up declares what is missing"),
            ),
            StreamStanding::Missing => findings.push(
                Finding::bad(CHECK, format!("{name} is not there"))
                    .mend("vakbus up declares what is missing"),
            ),
            StreamStanding::There(stream) if !stream.drift.is_empty() => {
                findings.push(
                    Finding::bad(CHECK, format!("{name}: {}", stream.drift.join("; ")))
                        .mend(format!("set it so again: nats stream edit {name}")),
                );
            }
            StreamStanding::There(_) | StreamStanding::Hidden => {}
        }
    }
    let seen = there(streams).count();
    match findings.is_empty() {
        true if seen < streams.len() => findings.push(Finding::skipped(
            CHECK,
            format!("{seen} of {} streams are seen by this login, as declared", streams.len()),
        )),
        true => findings.push(Finding::ok(CHECK, format!("{seen} are there, as declared"))),
        false => {}
    }
    findings
}

/// How far the server's clock is from ours, in nanoseconds, and how wrong that may be.
pub(super) fn clock(apart: Option<(i128, Duration)>) -> Finding {
    const CHECK: &str = "clock";
    let Some((apart, doubt)) = apart else {
        return Finding::skipped(CHECK, "the server does not tell this login its time");
    };
    let size = Duration::from_nanos(u64::try_from(apart.unsigned_abs()).unwrap_or(u64::MAX));
    let way = if apart < 0 { "behind" } else { "ahead of" };
    let found = match millis(size) {
        0 => "the server and this machine have the same time".to_owned(),
        ms => {
            let shown = format_duration(Duration::from_millis(ms));
            format!("the server is {shown} {way} this machine")
        }
    };
    // What may be the way of the answer is nobody's fault.
    let sure = size.saturating_sub(doubt);
    let finding = match () {
        () if sure > CLOCK_BAD => Finding::bad(CHECK, found),
        () if sure > CLOCK_WARN => Finding::warn(CHECK, found),
        () => return Finding::ok(CHECK, found),
    };
    finding.expected("less than a second").mend("set both by NTP: chronyc tracking")
}

pub(super) fn max_payload(bytes: usize) -> Finding {
    const CHECK: &str = "max-payload";
    let found = format!("messages of {} KiB", bytes / 1024);
    match bytes >= PAYLOAD_MIN {
        true => Finding::ok(CHECK, found),
        false => Finding::warn(CHECK, found)
            .expected("2048 KiB: a frame of 1 MiB and its headers do not fit")
            .mend("max_payload: 8MB in the server's configuration"),
    }
}

/// How many consumers a queue stream has; a server walks through all of them with each message.
pub(super) fn partitions(consumers: &[(String, u64)]) -> Finding {
    const CHECK: &str = "partitions";
    let Some((name, most)) = consumers.iter().max_by_key(|(_, count)| *count) else {
        return Finding::skipped(CHECK, "no stream of queues is seen");
    };
    let found = format!("{} in {name}", out::counted(*most, "queue", "queues"));
    let finding = match most {
        501.. => Finding::bad(CHECK, found),
        401.. => Finding::warn(CHECK, found),
        _ => return Finding::ok(CHECK, found),
    };
    finding
        .expected("at most 400 in one stream")
        .mend("share them among workspaces, or serve several roles' tasks with one role")
}

pub(super) fn permissions(probes: &[Probe]) -> Vec<Finding> {
    const CHECK: &str = "permissions";
    let mut findings = Vec::new();
    for Probe { what, may, was_let } in probes.iter().filter(|probe| probe.may != probe.was_let) {
        findings.push(match (may, was_let) {
            (false, true) => Finding::bad(CHECK, format!("{what} is let through"))
                .expected("denied")
                .mend("have the servers enforce roles: vakbus auth server-config"),
            _ => Finding::bad(CHECK, format!("{what} is denied"))
                .expected("allowed")
                .mend("vakbus acl explain says which rule decides; give the agent its role again"),
        });
    }
    if findings.is_empty() {
        let count = probes.len();
        findings.push(match count {
            0 => Finding::skipped(CHECK, "nobody could be tried"),
            _ => Finding::ok(CHECK, format!("{count} probes went as they should")),
        });
    }
    findings
}

pub(super) fn receipts_room(receipts: u64) -> Finding {
    const CHECK: &str = "receipts-room";
    let found = format!("{receipts} receipts are kept");
    match receipts > RECEIPTS_MAX / 5 * 4 {
        false => Finding::ok(CHECK, found),
        true => Finding::warn(CHECK, found)
            .expected(format!("{RECEIPTS_MAX} at most: then no task can be completed"))
            .mend("export what you need, and begin a new data directory before that"),
    }
}

fn there(streams: &[(String, StreamStanding)]) -> impl Iterator<Item = (&str, &StreamFacts)> {
    streams.iter().filter_map(|(name, standing)| match standing {
        StreamStanding::There(stream) => Some((name.as_str(), stream)),
        StreamStanding::Missing | StreamStanding::Hidden => None,
    })
}

fn days(age: Duration) -> u64 {
    age.as_secs() / DAY.as_secs()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

const DAY: Duration = Duration::from_secs(24 * 3600);
const MIB: u64 = 1 << 20;
const WARN_BYTES: u64 = 1024 * MIB;
const BAD_BYTES: u64 = 128 * MIB;
const FREE_FILES: u64 = 10_000;
const SECRET_AGE: Duration = Duration::from_secs(90 * 24 * 3600);
const CERTIFICATE_ENDS: Duration = Duration::from_secs(14 * 24 * 3600);
const CLOCK_WARN: Duration = Duration::from_secs(1);
const CLOCK_BAD: Duration = Duration::from_secs(30);
/// A frame of the largest size with the headers that the engine adds.
const PAYLOAD_MIN: usize = 2 << 20;
/// What the stream of receipts holds.
const RECEIPTS_MAX: u64 = 1_000_000;

#[cfg(test)]
mod tests;
