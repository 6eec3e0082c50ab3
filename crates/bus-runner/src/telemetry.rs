//! Memory and processor time of one running process, read from procfs (C28, C30).
//!
//! Identity is pid and start time: figures of another process that got the same pid are never
//! given. Systems without procfs give no figures at all.

use std::time::{Duration, Instant};

/// Looks at one process; its children are not included, its threads are.
///
/// The process is the one that has the pid when the probe is made. Make it while the pid cannot be
/// reused: in [`OutputSink::started`](crate::OutputSink::started), or for one's own child.
#[derive(Debug)]
pub struct Probe {
    pid: u32,
    start_ticks: Option<u64>,
    baseline: Option<Baseline>,
}

impl Probe {
    /// Creates a probe for the process that has this pid now.
    ///
    /// A pid that nobody has gives a probe whose samples are all `None`.
    #[must_use]
    pub fn new(pid: u32) -> Self {
        let start_ticks = system::read(pid).map(|figures| figures.start_ticks);
        Self { pid, start_ticks, baseline: None }
    }

    /// Reads the figures of this moment; `now` is the caller's monotonic time.
    ///
    /// `None` when the process has ended (also when it is only not waited for yet), when its pid
    /// belongs to another process, and on systems without procfs.
    pub fn sample(&mut self, now: Instant) -> Option<Sample> {
        let start_ticks = self.start_ticks?;
        let figures = system::read(self.pid).filter(|figures| figures.start_ticks == start_ticks);
        let Some(figures) = figures.filter(|figures| figures.is_alive) else {
            self.start_ticks = None; // it never comes back
            return None;
        };
        let cpu_time = figures.cpu_user.saturating_add(figures.cpu_system);
        let (cpu_rate, interval) = self.rate(cpu_time, now);
        Some(Sample { rss_bytes: figures.rss_bytes, cpu_time, cpu_rate, interval })
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
    /// Resident memory in bytes.
    pub rss_bytes: u64,
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
    /// Processor time in user mode: the command and the children it waited for.
    pub cpu_user: Duration,
    /// Processor time in the kernel: the command and the children it waited for.
    pub cpu_system: Duration,
    /// The kernel's high-water mark of the command's resident memory (children not included), as
    /// last seen while it ran: after 10 ms, 20 ms, 40 ms and so on, then every 500 ms. `None` for
    /// a command that ended before the first look.
    pub peak_rss_bytes: Option<u64>,
}

/// The shortest time that a rate is computed for: the kernel counts in steps of 10 ms.
pub const RATE_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Returns the processor times of a process that runs or is not waited for yet: user and system,
/// with the children it waited for.
pub(crate) fn cpu_times(pid: u32) -> Option<(Duration, Duration)> {
    let figures = system::read(pid)?;
    let user = figures.cpu_user.saturating_add(figures.children_user);
    Some((user, figures.cpu_system.saturating_add(figures.children_system)))
}

/// Returns the high-water mark of the resident memory of a running process.
pub(crate) fn peak_rss_bytes(pid: u32) -> Option<u64> {
    system::peak_rss_bytes(pid)
}

/// Tells whether the process group has a member that still runs; `None` where nobody can tell.
pub(crate) fn group_is_alive(group: u32) -> Option<bool> {
    system::group_is_alive(group)
}

#[derive(Clone, Copy, Debug)]
struct Baseline {
    cpu_time: Duration,
    at: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Figures {
    start_ticks: u64,
    is_alive: bool,
    rss_bytes: u64,
    cpu_user: Duration,
    cpu_system: Duration,
    children_user: Duration,
    children_system: Duration,
}

#[cfg(target_os = "linux")]
mod system {
    use std::time::Duration;

    use procfs::process::{Process, Stat, all_processes};

    use super::Figures;

    pub(super) fn read(pid: u32) -> Option<Figures> {
        let process = process(pid)?;
        let stat = process.stat().ok()?;
        // Not the figure in `stat`: that one is off by pages per core, and 0 for a young process.
        let resident_pages = process.statm().ok()?.resident;
        Some(Figures {
            start_ticks: stat.starttime,
            is_alive: is_alive(&stat),
            rss_bytes: resident_pages.saturating_mul(procfs::page_size()),
            cpu_user: ticks(stat.utime),
            cpu_system: ticks(stat.stime),
            children_user: ticks(u64::try_from(stat.cutime).unwrap_or(0)),
            children_system: ticks(u64::try_from(stat.cstime).unwrap_or(0)),
        })
    }

    pub(super) fn peak_rss_bytes(pid: u32) -> Option<u64> {
        process(pid)?.status().ok()?.vmhwm.map(|kib| kib.saturating_mul(1024))
    }

    pub(super) fn group_is_alive(group: u32) -> Option<bool> {
        let group = i32::try_from(group).ok()?;
        let stats = all_processes().ok()?.filter_map(|process| process.ok()?.stat().ok());
        Some(stats.into_iter().any(|stat| stat.pgrp == group && is_alive(&stat)))
    }

    fn process(pid: u32) -> Option<Process> {
        Process::new(i32::try_from(pid).ok()?).ok()
    }

    /// A zombie (Z) and a process being removed (X) run no more.
    fn is_alive(stat: &Stat) -> bool {
        !matches!(stat.state, 'Z' | 'X' | 'x')
    }

    fn ticks(count: u64) -> Duration {
        let per_second = procfs::ticks_per_second().max(1);
        let nanos = (count % per_second).saturating_mul(1_000_000_000) / per_second;
        Duration::from_secs(count / per_second).saturating_add(Duration::from_nanos(nanos))
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::Figures;

    pub(super) fn read(_pid: u32) -> Option<Figures> {
        None
    }

    pub(super) fn peak_rss_bytes(_pid: u32) -> Option<u64> {
        None
    }

    pub(super) fn group_is_alive(_group: u32) -> Option<bool> {
        None
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
