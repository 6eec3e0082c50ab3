//! A client whose machine has the wrong time: a process of its own, whose calls for the time are
//! answered an hour off.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use bus_conformance::wait_out;
use bus_core::{Buckets, Bus, Clock, Expect, Placement, Put, SystemClock, Verdict};
use bus_nats::{NatsBus, NatsOptions};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout},
    time::{Instant, timeout},
};

use crate::{
    queue::{LEASE, claim, crew, tasks},
    scale::Scale,
    stage::{SOON, Stage, bucket, frame, key},
};

pub(crate) async fn a_client_whose_clock_is_an_hour_off_keeps_every_time(scale: Scale) -> String {
    let folder = tempfile::tempdir().unwrap();
    let shim = build_shim(folder.path());
    let rounds = scale.pick(1, 10);
    for _ in 0..rounds {
        for shift in [3600, -3600] {
            with_a_clock_off_by(shift, &shim).await;
        }
    }
    format!(
        "{rounds} clients an hour ahead and {rounds} an hour behind; leases, delays and ends of \
             values came when they were due"
    )
}

async fn with_a_clock_off_by(shift: i64, shim: &Path) {
    let stage = Stage::new().await;
    stage.bus.declare(tasks()).await.unwrap();
    let mut other = Other::start(stage.server.url(), shift, shim);
    let off = other.line().await.parse::<i64>().unwrap() - now_s();
    assert!((off - shift).abs() < 60, "its clock is off by {off} s");

    // A task for later comes when it is due by everybody else's clock.
    let mut later = frame("work.task", "later");
    let not_before = Some(SystemClock::new().now().plus(LATER));
    later = later.placed(Placement { not_before, ..Placement::default() });
    let begun = Instant::now();
    stage.bus.append(later, Expect::Any).await.unwrap();
    assert_eq!(other.line().await, "later");
    due(LATER, begun, "the task");

    // A lease that is not kept ends after its time, for both.
    stage.bus.append(frame("work.task", "hold"), Expect::Any).await.unwrap();
    assert_eq!(other.line().await, "hold");
    let begun = Instant::now();
    let mut member = stage.bus.consume(crew(LEASE)).await.unwrap();
    let again = claim(&mut member).await;
    due(LEASE, begun, "the lease");
    assert_eq!((again.frame.id.as_str(), again.attempt), ("hold", 2));
    again.settle(Verdict::Ack).await.unwrap();
    assert_eq!(other.line().await, "lease-lost");

    // A value that it put ends after its time.
    assert_eq!(other.line().await, "put");
    let begun = Instant::now();
    while stage.bus.get(bucket(), key("value")).await.unwrap().is_some() {
        assert!(begun.elapsed() < SOON, "the value stays");
        wait_out(Duration::from_millis(50)).await;
    }
    due(LATER, begun, "the end of the value");
    other.end().await;
}

/// Neither early nor much later; a call may have been under way for a moment.
fn due(after: Duration, begun: Instant, what: &str) {
    let took = begun.elapsed();
    let earliest = after.saturating_sub(Duration::from_millis(300));
    assert!(took >= earliest, "{what} came after {took:?}, due after {after:?}");
    assert!(took < after + Duration::from_secs(5), "{what} came after {took:?}, due {after:?}");
}

/// The process with the wrong clock.
struct Other {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Other {
    fn start(url: &str, shift: i64, shim: &Path) -> Self {
        let mut command = tokio::process::Command::new(std::env::current_exe().unwrap());
        command.env(CHILD, url).env("SHIFT_SECONDS", shift.to_string()).env("LD_PRELOAD", shim);
        command.stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    async fn line(&mut self) -> String {
        let line = timeout(SOON, self.lines.next_line()).await.expect("the other says nothing");
        line.unwrap().expect("the other ended")
    }

    async fn end(mut self) {
        let ended = timeout(SOON, self.child.wait()).await.expect("the other does not end");
        assert!(ended.unwrap().success());
    }
}

/// What the process with the wrong clock does, when this is that one.
pub(crate) fn run_as_child() -> bool {
    let Ok(url) = std::env::var(CHILD) else { return false };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(work_with_a_wrong_clock(url));
    true
}

async fn work_with_a_wrong_clock(url: String) {
    say(&now_s().to_string());
    let bus = NatsBus::open(NatsOptions::new(url)).await.unwrap();
    let mut member = bus.consume(crew(LEASE)).await.unwrap();
    let later = claim(&mut member).await;
    // Half of the lease is over, and a new one begins: it is kept for a lease and a half.
    say(later.frame.id.as_str());
    wait_out(LEASE / 2).await;
    later.extend().await.unwrap();
    wait_out(LEASE * 3 / 4).await;
    later.settle(Verdict::Ack).await.unwrap();
    let hold = claim(&mut member).await;
    say(hold.frame.id.as_str());
    drop(member);
    wait_out(LEASE + Duration::from_millis(500)).await;
    let error = hold.settle(Verdict::Ack).await.unwrap_err();
    say(error.kind().as_str());
    bus.put(bucket(), key("value"), Put::new("here").ttl(LATER)).await.unwrap();
    say("put");
    bus.close().await.unwrap();
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

fn now_s() -> i64 {
    i64::try_from(SystemClock::new().now().unix_ns() / 1_000_000_000).unwrap()
}

/// Compiles what answers calls for the time, with the compiler that builds the cryptography too.
fn build_shim(folder: &Path) -> PathBuf {
    let shim = folder.join("shift.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/shift.c");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut command = Command::new(compiler);
    command.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&shim).arg(source).arg("-ldl");
    assert!(command.status().unwrap().success(), "the shim cannot be compiled");
    shim
}

/// Names the server to the process that is to have the wrong clock.
const CHILD: &str = "VAKBUS_FAULTS_CLOCK";
const LATER: Duration = Duration::from_secs(2);
