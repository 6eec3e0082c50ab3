//! There is no room left: in the stream, and on the disk.

use std::{collections::BTreeMap, path::PathBuf, process::Command};

use bus_core::{Bus, ErrorKind, Expect, Frame, Outcome, Seq};
use bus_nats::{NatsBus, server::ServerConfig};
use tokio::task::JoinSet;

use crate::{
    scale::Scale,
    stage::{Stage, bounded, connected, frame, kept, stored, stream, until_taken},
};

pub(crate) async fn a_full_stream_takes_no_more_than_fits_and_nothing_is_dropped(
    scale: Scale,
) -> String {
    let room = scale.pick(300, 20_000);
    let stage = Stage::new().await;
    stage.bus.declare(bounded(room)).await.unwrap();
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        writers.spawn(append_until_full(stage.another().await, writer));
    }
    let mut taken = BTreeMap::new();
    while let Some(wrote) = writers.join_next().await {
        taken.extend(wrote.unwrap());
    }
    assert_eq!(stored(&stage.bus).await, taken);
    assert_eq!(taken.len() as u64, room);
    let batch: Vec<_> = (0..2).map(|n| frame("work.b", &format!("b{n}"))).collect();
    stage.bus.discard(stream("WORK"), Seq(1)).await.unwrap();
    let error = stage.bus.append_all(batch.clone()).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Full, Outcome::NotDone));
    stage.bus.discard(stream("WORK"), Seq(2)).await.unwrap();
    stage.bus.append_all(batch).await.unwrap();
    assert_eq!(stored(&stage.bus).await.len() as u64, room);
    format!("8 writers into a room of {room}: that many were taken and kept, all others told")
}

async fn append_until_full(bus: NatsBus, writer: u64) -> Vec<(String, u64)> {
    let mut taken = Vec::new();
    loop {
        let id = format!("w{writer}-{}", taken.len());
        match bus.append(frame("work.a", &id), Expect::Any).await {
            Ok(receipt) => taken.push((id, receipt.seq.0)),
            Err(error) => {
                let told = (error.kind(), error.outcome());
                assert_eq!(told, (ErrorKind::Full, Outcome::NotDone), "{error:?}");
                assert!(error.is_stream_full(), "{error:?}");
                return taken;
            }
        }
    }
}

/// On a small disk of its own where that is allowed, and else against the server's own bound.
pub(crate) async fn a_full_disk_loses_nothing_that_was_acknowledged(scale: Scale) -> String {
    if std::env::var_os(DISK).is_some() {
        return fill_the_disk(scale).await;
    }
    let may_mount = Command::new("unshare").args(["-rm", "true"]).status();
    if !may_mount.is_ok_and(|status| status.success()) {
        return fill_the_room(scale).await;
    }
    let disk = tempfile::tempdir().unwrap();
    let own = std::env::current_exe().unwrap();
    let (name, mount) = ("a_full_disk_loses_nothing_that_was_acknowledged", MOUNT);
    let mut child = Command::new("unshare");
    child.args(["-rm", "sh", "-c", mount]).arg(disk.path()).arg(own).args([name, "--exact"]);
    child.env(DISK, disk.path()).env("TMPDIR", disk.path()).env("VAKBUS_FAULTS_JSON", "1");
    let output = tokio::task::block_in_place(|| child.output()).unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let row = printed.lines().find(|line| line.starts_with('{')).unwrap_or_default();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}{told}");
    let row: serde_json::Value = serde_json::from_str(row).unwrap();
    row["facts"].as_str().unwrap().to_owned()
}

/// This process sees a disk of its own, on which its server lies.
async fn fill_the_disk(scale: Scale) -> String {
    let disk = PathBuf::from(std::env::var_os(DISK).unwrap());
    let config = ServerConfig { file_bytes_max: Some(1 << 30), ..ServerConfig::default() };
    let mut stage = Stage::with(config).await;
    stage.bus.declare(kept()).await.unwrap();
    let (rounds, mut taken, mut refused) = (scale.pick(1, 5), BTreeMap::new(), Vec::new());
    for round in 0..rounds {
        let ballast = disk.join("ballast");
        std::fs::write(&ballast, vec![1; BALLAST]).unwrap();
        let last = append_until_refused(&stage.bus, round, &mut taken, &mut refused).await;
        // The operator makes room and starts the server again.
        std::fs::remove_file(&ballast).unwrap();
        stage.server.restart().unwrap();
        connected(&stage.bus).await;
        let append = || stage.bus.append(last.clone(), Expect::Any);
        let (receipt, _) = until_taken(&stage.bus, append).await;
        taken.insert(last.id.to_string(), receipt.seq.0);
        check(&stage.bus, &taken).await;
        make_room(&stage.bus, &mut taken).await;
    }
    format!(
        "{rounds} times a full disk of {DISK_MIB} MiB, \
             answered with {}; nothing acknowledged was lost",
        named(&refused)
    )
}

/// The server has a bound of its own on what it keeps.
async fn fill_the_room(scale: Scale) -> String {
    let config = ServerConfig { file_bytes_max: Some(8 << 20), ..ServerConfig::default() };
    let mut stage = Stage::with(config).await;
    stage.bus.declare(kept()).await.unwrap();
    let (rounds, mut taken, mut refused) = (scale.pick(1, 5), BTreeMap::new(), Vec::new());
    for round in 0..rounds {
        let last = append_until_refused(&stage.bus, round, &mut taken, &mut refused).await;
        check(&stage.bus, &taken).await;
        make_room(&stage.bus, &mut taken).await;
        let append = || stage.bus.append(last.clone(), Expect::Any);
        let (receipt, _) = until_taken(&stage.bus, append).await;
        taken.insert(last.id.to_string(), receipt.seq.0);
        stage.kill_and_restart();
        connected(&stage.bus).await;
        check(&stage.bus, &taken).await;
    }
    format!(
        "no disk may be mounted here: {rounds} times the server's own bound, answered with \
             {}; nothing acknowledged was lost",
        named(&refused)
    )
}

/// Appends large frames until one is refused, and returns that one.
async fn append_until_refused(
    bus: &NatsBus,
    round: u64,
    taken: &mut BTreeMap<String, u64>,
    refused: &mut Vec<ErrorKind>,
) -> Frame {
    for n in 0..10_000 {
        let mut large = frame("work.a", &format!("r{round}-{n}"));
        large.body = vec![7; LARGE].into();
        match bus.append(large.clone(), Expect::Any).await {
            Ok(receipt) => taken.insert(large.id.to_string(), receipt.seq.0),
            Err(error) => {
                let kind = error.kind();
                let is_told =
                    matches!(kind, ErrorKind::Full | ErrorKind::Unavailable | ErrorKind::Timeout);
                assert!(is_told, "{error:?}");
                refused.push(kind);
                return large;
            }
        };
    }
    panic!("nothing was refused");
}

async fn check(bus: &NatsBus, taken: &BTreeMap<String, u64>) {
    let there = stored(bus).await;
    for (id, seq) in taken {
        assert_eq!(there.get(id), Some(seq), "{id} was acknowledged");
    }
}

async fn make_room(bus: &NatsBus, taken: &mut BTreeMap<String, u64>) {
    for seq in std::mem::take(taken).into_values() {
        bus.discard(stream("WORK"), Seq(seq)).await.unwrap();
    }
}

fn named(kinds: &[ErrorKind]) -> String {
    let mut names: Vec<_> = kinds.iter().map(|kind| kind.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

/// Names the folder of a small disk to the process that is to fill it.
const DISK: &str = "VAKBUS_FAULTS_DISK";
/// Mounts the disk where only this process and its children see it.
const MOUNT: &str = r#"mount -t tmpfs -o size=32m tmpfs "$0" && exec "$@""#;
const DISK_MIB: u64 = 32;
const BALLAST: usize = 12 << 20;
const LARGE: usize = 256 << 10;
