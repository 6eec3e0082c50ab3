//! A real process is killed a hundred times in the middle of its burst.
#![cfg(test)]

use std::{
    collections::HashSet,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use bus_core::{Bus, Seq};
use bus_disk::{DiskBus, DiskOptions};
use bus_subjects::{Filter, StreamName};

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_kills_in_a_burst_lose_nothing_that_was_answered() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let (mut stored, mut done) = (HashSet::new(), HashSet::new());
    let writer = writer();
    for life in 0..KILLS {
        let wait = Duration::from_millis(15 + u64::from(life * 37 % 60));
        for line in killed_after(&writer, (&home, life), wait).lines() {
            match line.split_once(' ') {
                Some(("stored", id)) => assert!(stored.insert(id.to_owned()), "{id} twice"),
                Some(("done", id)) => assert!(done.insert(id.to_owned()), "{id} done twice"),
                _ => {}
            }
        }
        if life % 10 == 9 {
            check(&home, (&stored, &done), life as usize + 1).await;
        }
    }
    assert!(stored.len() > 1_000, "only {} were stored: no burst", stored.len());
    assert!(done.len() > 100, "only {} were settled", done.len());
}

/// What was answered and not settled is there, once; what was settled is gone.
async fn check(home: &Path, (stored, done): (&HashSet<String>, &HashSet<String>), lives: usize) {
    let bus = DiskBus::open(DiskOptions::new(home)).unwrap();
    let stream = StreamName::parse("WORK").unwrap();
    let mut replay = bus.replay(stream, Filter::all(), Seq(1)).await.unwrap();
    let mut there = HashSet::new();
    while let Some(message) = replay.next().await {
        let id = message.unwrap().frame.id.to_string();
        assert!(!done.contains(&id), "{id} was settled and is there");
        assert!(there.insert(id.clone()), "{id} is there twice");
    }
    let missing = |id: &&String| !done.contains(*id) && !there.contains(*id);
    let (kept, tasks): (Vec<_>, Vec<_>) =
        stored.iter().filter(missing).partition(|id| id.contains("kept"));
    assert!(kept.is_empty(), "{} were answered and are lost: {kept:?}", kept.len());
    // A verdict that was stored may not have been told: one in flight in each life.
    assert!(tasks.len() <= lives, "{} tasks are lost: {tasks:?}", tasks.len());
    bus.close().await.unwrap();
}

/// What a writer printed until it was killed.
fn killed_after(writer: &Path, (home, life): (&Path, u32), wait: Duration) -> String {
    let mut child = Command::new(writer)
        .args([home.to_str().unwrap(), &life.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut output = child.stdout.take().unwrap();
    // Counted from the first answer: how long a start takes is not the point.
    let mut first = [0];
    output.read_exact(&mut first).unwrap();
    std::thread::park_timeout(wait);
    child.kill().unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    child.wait().unwrap();
    let whole = rest.rfind('\n').map_or(0, |end| end + 1);
    format!("{}{}", char::from(first[0]), &rest[..whole])
}

/// The example beside this test, which cargo does not build for a test alone.
fn writer() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let target = test.parent().and_then(Path::parent).unwrap().to_owned();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "-p", "bus-disk", "--example", "crash_writer"]);
    if target.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.status().unwrap().success(), "the writer cannot be built");
    target.join("examples").join("crash_writer")
}

const KILLS: u32 = 100;
