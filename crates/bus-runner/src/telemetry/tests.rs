//! Tests of the probe, on real processes.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use procfs::FromRead;
use procfs::process::Stat;

use super::*;

/// A real process that ends when its stdin is closed, or when the test does.
struct Sitting {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
}

impl Sitting {
    fn new(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    fn shell(script: &str) -> Self {
        Self::new(Command::new("sh").args(["-c", script]))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Sitting {
    fn drop(&mut self) {
        let _ignored = self.child.kill();
        let _ignored = self.child.wait();
    }
}

fn at(start: Instant, ms: u64) -> Instant {
    start + Duration::from_millis(ms)
}

#[expect(clippy::disallowed_methods, reason = "a test needs one instant to count from")]
fn start() -> Instant {
    Instant::now()
}

/// The figures that a process shows whose program file has this name.
fn figures_of_a_process_named(name: &OsStr) -> (system::Figures, Stat) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::os::unix::fs::symlink("/bin/cat", &path).unwrap();
    let mut sitting = Sitting::new(&mut Command::new(&path));
    sitting.child.stdin.as_mut().unwrap().write_all(b"ready\n").unwrap();
    assert_eq!(sitting.line(), "ready\n");
    let pid = sitting.child.id();
    let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap();
    (system::read(pid).unwrap(), Stat::from_read(stat.as_slice()).unwrap())
}

#[test]
fn a_name_with_brackets_and_blanks_moves_no_field() {
    let stat = "68927 (test(cmd).sh) S 1 68927 68927 34818 68927 4202496 165 0 0 0 7 8 0 0 20 0 1 \
                0 114413973 2981888 786 18446744073709551615 1 1 0 0 0 0 0 4100 65536 1 0 0 17 1 0 \
                0 0 0 0 0 0 0 0 0 0 0 0";
    let stat = Stat::from_read(stat.as_bytes()).unwrap();
    let fields = (stat.comm.as_str(), stat.starttime, stat.utime, stat.stime);
    assert_eq!(fields, ("test(cmd).sh", 114_413_973, 7, 8));
}

#[test]
fn a_short_stat_is_refused() {
    for stat in ["68927 (a) S 1 2", "68927 (a", "68927", ""] {
        assert!(Stat::from_read(stat.as_bytes()).is_err(), "{stat:?}");
    }
}

#[test]
fn real_processes_with_odd_names_show_their_own_start_time() {
    let uptime_ticks =
        procfs::Uptime::from_read(std::fs::File::open("/proc/uptime").unwrap()).unwrap().uptime
            * procfs::ticks_per_second() as f64;
    for name in ["sle ep", "a) R 1 1 (x", ")", "a\nb", "fifteen-letters", "gunicorn: maste"] {
        let (figures, stat) = figures_of_a_process_named(OsStr::new(name));
        assert_eq!(stat.comm, name);
        assert_eq!(stat.ppid, std::process::id() as i32, "{name:?}");
        let age_ticks = figures.start_ticks as f64 - uptime_ticks;
        assert!((-200.0..60_000.0).contains(&age_ticks), "{name:?}: {age_ticks}");
    }
}

#[test]
fn the_first_sample_has_no_rate_yet() {
    let sitting = Sitting::shell("read x");
    let sample = Probe::new(sitting.child.id()).sample(start()).unwrap();
    assert_eq!((sample.cpu_rate, sample.interval), (None, Duration::ZERO));
}

#[test]
fn even_a_young_process_has_memory() {
    for _ in 0..50 {
        let sitting = Sitting::shell("read x");
        let sample = Probe::new(sitting.child.id()).sample(start()).unwrap();
        assert!(sample.rss_bytes >= 4_096, "{sample:?}");
    }
}

#[test]
fn two_samples_at_one_moment_have_no_rate() {
    let sitting = Sitting::shell("read x");
    let (mut probe, now) = (Probe::new(sitting.child.id()), start());
    probe.sample(now).unwrap();
    assert_eq!(probe.sample(now).unwrap().cpu_rate, None);
    assert_eq!(probe.sample(at(now, 99)).unwrap().cpu_rate, None);
}

#[test]
fn time_that_goes_backwards_gives_no_rate() {
    let sitting = Sitting::shell("read x");
    let (mut probe, now) = (Probe::new(sitting.child.id()), start());
    probe.sample(at(now, 500)).unwrap();
    let sample = probe.sample(now).unwrap();
    assert_eq!((sample.cpu_rate, sample.interval), (None, Duration::ZERO));
}

#[test]
fn an_idle_process_has_a_rate_of_zero() {
    let sitting = Sitting::shell("read x");
    let (mut probe, now) = (Probe::new(sitting.child.id()), start());
    probe.sample(now).unwrap();
    let sample = probe.sample(at(now, 500)).unwrap();
    assert_eq!((sample.cpu_rate, sample.interval), (Some(0.0), Duration::from_millis(500)));
}

#[test]
fn the_rate_covers_samples_that_came_too_early() {
    let mut probe = Probe { process: None, baseline: None };
    let now = start();
    let second = Duration::from_secs;
    assert_eq!(probe.rate(second(1), now), (None, Duration::ZERO));
    assert_eq!(probe.rate(second(2), at(now, 50)), (None, Duration::from_millis(50)));
    assert_eq!(probe.rate(second(3), at(now, 500)), (Some(4.0), Duration::from_millis(500)));
}

#[test]
fn a_busy_process_is_seen_to_work() {
    let mut sitting =
        Sitting::shell("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo; read x");
    let (mut probe, now) = (Probe::new(sitting.child.id()), start());
    probe.sample(now).unwrap();
    sitting.line();
    let sample = probe.sample(at(now, 1_000)).unwrap();
    assert!(sample.cpu_rate.unwrap() > 0.0 && sample.cpu_time > Duration::ZERO, "{sample:?}");
}

#[test]
fn a_process_that_ended_gives_no_sample_before_and_after_it_was_waited_for() {
    let mut sitting = Sitting::shell("read x");
    let (mut probe, now) = (Probe::new(sitting.child.id()), start());
    probe.sample(now).unwrap();
    drop(sitting.child.stdin.take());
    // The end of the output comes with the end of the process; then the kernel makes it a zombie.
    sitting.stdout.read_to_end(&mut Vec::new()).unwrap();
    let pid = rustix::process::Pid::from_raw(sitting.child.id() as i32);
    let options = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
    rustix::process::waitid(rustix::process::WaitId::Pid(pid.unwrap()), options).unwrap();
    assert_eq!(probe.sample(at(now, 500)), None);
    sitting.child.wait().unwrap();
    assert_eq!(probe.sample(at(now, 1_000)), None);
}

#[test]
fn a_pid_that_now_belongs_to_another_process_gives_no_sample() {
    let sitting = Sitting::shell("read x");
    let mut probe = Probe::new(sitting.child.id());
    if let Some(process) = &mut probe.process {
        process.start_ticks -= 1;
    }
    assert_eq!(probe.sample(start()), None);
}

#[test]
fn a_pid_that_nobody_has_gives_no_sample() {
    for pid in [u32::MAX, i32::MAX as u32] {
        assert_eq!(Probe::new(pid).sample(start()), None);
    }
}

#[test]
fn an_identity_of_another_boot_is_another_process() {
    let sitting = Sitting::shell("read x");
    let process = ProcessIdentity::of(sitting.child.id()).unwrap();
    assert!(process.is_running());
    let other = ProcessIdentity { boot_id: uuid::Uuid::from_u128(1), ..process };
    assert!(!other.is_running());
}

#[test]
fn an_identity_of_another_start_is_another_process() {
    let sitting = Sitting::shell("read x");
    let process = ProcessIdentity::of(sitting.child.id()).unwrap();
    let earlier = ProcessIdentity { start_ticks: process.start_ticks - 1, ..process };
    assert!(!earlier.is_running());
}

#[test]
fn a_process_that_ended_runs_no_more() {
    let mut sitting = Sitting::shell("read x");
    let process = ProcessIdentity::of(sitting.child.id()).unwrap();
    drop(sitting.child.stdin.take());
    sitting.child.wait().unwrap();
    assert!(!process.is_running());
}

#[test]
fn nobody_has_an_identity_under_a_pid_that_nobody_has() {
    for pid in [0, u32::MAX, i32::MAX as u32] {
        assert_eq!(ProcessIdentity::of(pid), None);
    }
}

#[test]
fn a_renamed_thread_is_the_same_process() {
    let rename = "printf 'x) R 1 1 (y' > /proc/$$/comm; echo; read x";
    let mut sitting = Sitting::shell(&format!("read x; {rename}"));
    let before = ProcessIdentity::of(sitting.child.id()).unwrap();
    sitting.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    sitting.line();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", before.pid)).unwrap();
    assert!(stat.contains("(x) R 1 1 (y)"), "{stat}");
    assert_eq!(ProcessIdentity::of(before.pid), Some(before));
    assert!(before.is_running());
}

#[test]
fn a_sleep_of_the_machine_is_in_the_interval() {
    let mut probe = Probe { process: None, baseline: None };
    let now = start();
    probe.rate(Duration::from_secs(1), now);
    let (rate, interval) = probe.rate(Duration::from_secs(4), at(now, 60_000));
    assert_eq!((rate, interval), (Some(0.05), Duration::from_secs(60)));
}
