//! Figures of real commands (C30).

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use bus_runner::{Children, Probe, TelemetryRecord};

use crate::support::{again_with, finished, is_again, shell};

#[tokio::test]
async fn a_process_of_a_tenth_of_a_second_leaves_its_peak_and_its_time() {
    let (report, _kept) =
        finished(&shell("i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"), "").await;
    let usage = report.usage.unwrap();
    assert!(usage.peak_rss_bytes.unwrap() > 100_000, "{usage:?}");
    assert!(usage.cpu_user + usage.cpu_system > Duration::ZERO, "{usage:?}");
}

#[tokio::test]
async fn a_command_that_replaces_itself_keeps_its_highest_peak() {
    let script = "x=$(head -c 4000000 /dev/zero | tr '\\0' a); sleep 0.2; exec sleep 0.2";
    let usage = finished(&shell(script), "").await.0.usage.unwrap();
    assert!(usage.peak_rss_bytes.unwrap() > 4_000_000, "{usage:?}");
}

#[tokio::test]
async fn a_record_says_whether_children_count() {
    let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let (report, kept) = finished(&shell(&format!("sh -c '{busy}'; exit 0")), "").await;
    let usage = report.usage.unwrap();
    assert_eq!(Some(usage.process.pid), kept.pid);
    let last = TelemetryRecord::last("t", 1, &usage);
    assert_eq!((last.children, last.is_last, last.rss_bytes), (Children::WaitedFor, true, None));
    assert!(last.cpu_time > Duration::ZERO, "the work of the child: {last:?}");
}

#[test]
fn a_record_of_a_running_command_counts_no_children() {
    let sample = Probe::new(std::process::id()).sample(start()).unwrap();
    let record = TelemetryRecord::running("t", 1, &sample);
    assert_eq!((record.children, record.is_last), (Children::NotCounted, false));
    assert!(record.peak_rss_bytes >= record.rss_bytes, "{record:?}");
}

#[test]
fn two_busy_threads_are_two_cores() {
    if !is_again() {
        return again_with("telemetry::two_busy_threads_are_two_cores", []);
    }
    let (mut probe, begin) = (Probe::new(std::process::id()), start());
    probe.sample(begin).unwrap();
    let workers = [thread::spawn(half_a_second), thread::spawn(half_a_second)];
    let _ended = workers.map(|worker| worker.join().unwrap());
    // However long that took here, the clock of the probe is the caller's.
    let sample = probe.sample(begin + Duration::from_millis(500)).unwrap();
    assert!((1.9..2.4).contains(&sample.cpu_rate.unwrap()), "{sample:?}");
}

/// Uses half a second of processor time.
fn half_a_second() {
    let used = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
    };
    let until = used() + Duration::from_millis(500);
    while used() < until {
        (0..10_000).for_each(|round| _ = black_box(round));
    }
}

#[expect(clippy::disallowed_methods, reason = "a test needs one instant to count from")]
fn start() -> Instant {
    Instant::now()
}
