//! The figures of the system itself: procfs on Linux, none elsewhere.

use std::time::Duration;

/// What the system says of one process at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    pub(crate) start_ticks: u64,
    pub(crate) is_alive: bool,
    pub(crate) rss_bytes: u64,
    pub(crate) cpu_user: Duration,
    pub(crate) cpu_system: Duration,
    pub(crate) children_user: Duration,
    pub(crate) children_system: Duration,
}

pub(crate) use self::linux_or_none::{boot_id, group_is_alive, peak_rss_bytes, read};

#[cfg(target_os = "linux")]
mod linux_or_none {
    use std::sync::OnceLock;
    use std::time::Duration;

    use procfs::process::{Process, Stat, all_processes};
    use uuid::Uuid;

    use super::Figures;

    pub(crate) fn boot_id() -> Option<Uuid> {
        static BOOT_ID: OnceLock<Option<Uuid>> = OnceLock::new();
        // Kept: the machine is not started again while this process runs.
        *BOOT_ID.get_or_init(|| {
            let text = procfs::sys::kernel::random::boot_id().ok()?;
            Uuid::parse_str(text.trim()).ok()
        })
    }

    pub(crate) fn read(pid: u32) -> Option<Figures> {
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

    pub(crate) fn peak_rss_bytes(pid: u32) -> Option<u64> {
        process(pid)?.status().ok()?.vmhwm.map(|kib| kib.saturating_mul(1024))
    }

    pub(crate) fn group_is_alive(leader: u32) -> Option<bool> {
        let leader = i32::try_from(leader).ok()?;
        let stats = all_processes().ok()?.filter_map(|process| process.ok()?.stat().ok());
        let is_member = |stat: &Stat| stat.pgrp == leader || stat.session == leader;
        Some(stats.into_iter().any(|stat| is_member(&stat) && is_alive(&stat)))
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
mod linux_or_none {
    use uuid::Uuid;

    use super::Figures;

    pub(crate) fn boot_id() -> Option<Uuid> {
        None
    }

    pub(crate) fn read(_pid: u32) -> Option<Figures> {
        None
    }

    pub(crate) fn peak_rss_bytes(_pid: u32) -> Option<u64> {
        None
    }

    pub(crate) fn group_is_alive(_leader: u32) -> Option<bool> {
        None
    }
}
