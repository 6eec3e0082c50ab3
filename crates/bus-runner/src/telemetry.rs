//! Memory and processor time of one running process, read from procfs (C28, C30).
//!
//! Identity is pid, start time and boot id: figures of another process that got the same pid are
//! never given. Systems without procfs give no figures at all.

pub(crate) mod system;
mod window;

use std::time::{Duration, Instant};

use crate::identity::ProcessIdentity;

pub use self::window::{
    HeardRecord, TelemetryKey, TelemetryWindow, WINDOW_AGE_MAX, WINDOW_ENTRIES_MAX,
};

/// Looks at one process; its children are not included, its threads are.
///
/// The process is the one that has the pid when the probe is made. Make it while the pid cannot be
/// reused: in [`OutputSink::started`](crate::OutputSink::started), or for one's own child.
#[derive(Debug)]
pub struct Probe {
    process: Option<ProcessIdentity>,
    baseline: Option<Baseline>,
}

impl Probe {
    /// Creates a probe for the process that has this pid now.
    ///
    /// A pid that nobody has gives a probe whose samples are all `None`.
    #[must_use]
    pub fn new(pid: u32) -> Self {
        Self { process: ProcessIdentity::of(pid), baseline: None }
    }

    /// Returns which process is looked at; `None` when it has been seen to end.
    #[must_use]
    pub fn process(&self) -> Option<ProcessIdentity> {
        self.process
    }

    /// Reads the figures of this moment; `now` is the caller's monotonic time.
    ///
    /// `None` when the process has ended (also when it is only not waited for yet), when its pid
    /// belongs to another process, and on systems without procfs.
    pub fn sample(&mut self, now: Instant) -> Option<Sample> {
        let process = self.process?;
        let is_it = |figures: &system::Figures| {
            figures.start_ticks == process.start_ticks && figures.is_alive
        };
        let Some(figures) = system::read(process.pid).filter(is_it) else {
            self.process = None; // it never comes back
            return None;
        };
        let peak_rss_bytes = system::peak_rss_bytes(process.pid);
        let cpu_time = figures.cpu_user.saturating_add(figures.cpu_system);
        let (cpu_rate, interval) = self.rate(cpu_time, now);
        Some(Sample {
            process,
            rss_bytes: figures.rss_bytes,
            peak_rss_bytes,
            cpu_time,
            cpu_rate,
            interval,
        })
    }

    fn rate(&mut self, cpu_time: Duration, now: Instant) -> (Option<f64>, Duration) {
        let Some(last) = self.baseline else {
            self.baseline = Some(Baseline { cpu_time, at: now });
            return (None, Duration::ZERO);
        };
        let interval = now.saturating_duration_since(last.at);
        if interval < RATE_INTERVAL_MIN {
            return (None, interval); // the baseline stays: the next sample covers this time too
        }
        self.baseline = Some(Baseline { cpu_time, at: now });
        let used = cpu_time.saturating_sub(last.cpu_time);
        (Some(used.as_secs_f64() / interval.as_secs_f64()), interval)
    }
}

/// The figures of one process at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Whose figures these are.
    pub process: ProcessIdentity,
    /// Resident memory in bytes.
    pub rss_bytes: u64,
    /// The kernel's high-water mark of it, in bytes; `None` when the process ended at that moment.
    pub peak_rss_bytes: Option<u64>,
    /// Processor time used since the process started, all threads, user and system.
    pub cpu_time: Duration,
    /// Processor seconds used per second of `interval`: 1.0 is one core at full load. Finite and
    /// never negative. `None` means "no rate yet": the first sample, or an `interval` below
    /// [`RATE_INTERVAL_MIN`].
    pub cpu_rate: Option<f64>,
    /// The time since the sample that `cpu_rate` is measured from; zero at the first sample.
    pub interval: Duration,
}

/// What a command has used, known when it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Which process it was.
    pub process: ProcessIdentity,
    /// Processor time in user mode: the command and the children it waited for.
    pub cpu_user: Duration,
    /// Processor time in the kernel: the command and the children it waited for.
    pub cpu_system: Duration,
    /// The kernel's high-water mark of the command's resident memory (children not included), as
    /// last seen while it ran: at its start, after 1 ms, 3 ms, 7 ms and so on, then every 500 ms.
    /// `None` for a command that ended before the first look.
    pub peak_rss_bytes: Option<u64>,
}

/// The shortest time that a rate is computed for: the kernel counts in steps of 10 ms.
pub const RATE_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Returns what a process has used that has ended and is not waited for yet.
pub(crate) fn usage(pid: u32, peak_rss_bytes: Option<u64>) -> Option<Usage> {
    let figures = system::read(pid)?;
    let process =
        ProcessIdentity { boot_id: system::boot_id()?, pid, start_ticks: figures.start_ticks };
    Some(Usage {
        process,
        cpu_user: figures.cpu_user.saturating_add(figures.children_user),
        cpu_system: figures.cpu_system.saturating_add(figures.children_system),
        peak_rss_bytes,
    })
}

/// Returns the high-water mark of the resident memory of a running process.
pub(crate) fn peak_rss_bytes(pid: u32) -> Option<u64> {
    system::peak_rss_bytes(pid)
}

/// Tells whether the process group, or the session of its leader, has a member that still runs;
/// `None` where nobody can tell.
pub(crate) fn group_is_alive(group: u32) -> Option<bool> {
    system::group_is_alive(group)
}

#[derive(Clone, Copy, Debug)]
struct Baseline {
    cpu_time: Duration,
    at: Instant,
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
