//! One telemetry record: what one process used, and over which time.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{EventError, read, written};
use crate::identity::ProcessIdentity;
use crate::telemetry::{Sample, Usage};

/// The figures of one command at one moment, or in all when it has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TelemetryRecord {
    /// The task.
    pub task: String,
    /// Which attempt of it.
    pub attempt: u32,
    /// Whose figures these are.
    pub process: ProcessIdentity,
    /// Whether the command has ended: no other record of this attempt follows.
    pub is_last: bool,
    /// Resident memory in bytes; `None` when the command has ended.
    pub rss_bytes: Option<u64>,
    /// The highest resident memory that was seen, in bytes; `None` when nobody looked in time.
    pub peak_rss_bytes: Option<u64>,
    /// Processor time in all, in whole milliseconds.
    pub cpu_time: Duration,
    /// Processor seconds a second of `interval`, finite and never negative; `None`: no rate yet.
    pub cpu_rate: Option<f64>,
    /// What `cpu_rate` was measured over, in whole milliseconds.
    pub interval: Duration,
    /// Whether `cpu_time` counts children too. Memory never does.
    pub children: Children,
}

/// Whether figures hold those of child processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Children {
    /// They hold the process alone, with all its threads.
    NotCounted,
    /// They hold the children that the process waited for, too.
    WaitedFor,
}

impl TelemetryRecord {
    /// The figures of a command that runs.
    #[must_use]
    pub fn running(task: &str, attempt: u32, sample: &Sample) -> Self {
        Self {
            task: task.to_owned(),
            attempt,
            process: sample.process,
            is_last: false,
            rss_bytes: Some(sample.rss_bytes),
            peak_rss_bytes: sample.peak_rss_bytes,
            cpu_time: sample.cpu_time,
            cpu_rate: sample.cpu_rate,
            interval: sample.interval,
            children: Children::NotCounted,
        }
    }

    /// What a command used that has ended.
    #[must_use]
    pub fn last(task: &str, attempt: u32, usage: &Usage) -> Self {
        Self {
            task: task.to_owned(),
            attempt,
            process: usage.process,
            is_last: true,
            rss_bytes: None,
            peak_rss_bytes: usage.peak_rss_bytes,
            cpu_time: usage.cpu_user.saturating_add(usage.cpu_system),
            cpu_rate: None,
            interval: Duration::ZERO,
            children: Children::WaitedFor,
        }
    }

    /// Writes the payload.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let ProcessIdentity { boot_id, pid, start_ticks } = self.process;
        written(&WireRecord {
            task: self.task.clone(),
            attempt: self.attempt,
            process: WireProcess { boot: boot_id.to_string(), pid, start_ticks },
            last: self.is_last,
            rss_bytes: self.rss_bytes,
            peak_rss_bytes: self.peak_rss_bytes,
            cpu_ms: millis(self.cpu_time),
            cpu_rate: self.cpu_rate,
            interval_ms: millis(self.interval),
            children: self.children,
        })
    }

    /// Reads the payload.
    ///
    /// # Errors
    /// [`EventError`] when it is no such object, the task has no id of 1 to 128 bytes, the attempt
    /// or the pid is 0, the boot id is no UUID in lower case, or the rate is negative.
    pub fn parse(payload: &[u8]) -> Result<Self, EventError> {
        let wire: WireRecord = read(TELEMETRY, payload)?;
        let field = |field, expected| EventError::Field { event: TELEMETRY, field, expected };
        if !(1..=TASK_BYTES_MAX).contains(&wire.task.len()) {
            return Err(field("task", "an id of 1 to 128 bytes"));
        }
        if wire.attempt == 0 {
            return Err(field("attempt", "1 or more"));
        }
        let boot_id = Uuid::parse_str(&wire.process.boot).ok();
        let boot_id = boot_id.filter(|boot| boot.to_string() == wire.process.boot);
        if wire.process.pid == 0 {
            return Err(field("process", "a process with a pid"));
        }
        if wire.cpu_rate.is_some_and(|rate| !rate.is_finite() || rate < 0.0) {
            return Err(field("cpu_rate", "a number that is not negative, or null"));
        }
        Ok(Self {
            process: ProcessIdentity {
                boot_id: boot_id.ok_or_else(|| field("process", "of a boot with a UUID"))?,
                pid: wire.process.pid,
                start_ticks: wire.process.start_ticks,
            },
            task: wire.task,
            attempt: wire.attempt,
            is_last: wire.last,
            rss_bytes: wire.rss_bytes,
            peak_rss_bytes: wire.peak_rss_bytes,
            cpu_time: Duration::from_millis(wire.cpu_ms),
            cpu_rate: wire.cpu_rate,
            interval: Duration::from_millis(wire.interval_ms),
            children: wire.children,
        })
    }
}

/// The event type of a telemetry record.
pub const TELEMETRY: &str = "vak.telemetry.process";

/// The most bytes of a task's id.
const TASK_BYTES_MAX: usize = 128;

#[derive(Serialize, Deserialize)]
struct WireRecord {
    task: String,
    attempt: u32,
    process: WireProcess,
    last: bool,
    rss_bytes: Option<u64>,
    peak_rss_bytes: Option<u64>,
    cpu_ms: u64,
    cpu_rate: Option<f64>,
    interval_ms: u64,
    children: Children,
}

#[derive(Serialize, Deserialize)]
struct WireProcess {
    boot: String,
    pid: u32,
    start_ticks: u64,
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
