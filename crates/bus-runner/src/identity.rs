//! Which process it is: its pid, when it started, and since which start of the machine (C28).

use rustix::process::Pid;
use uuid::Uuid;

use crate::telemetry::system;

/// One process, told from every other one that ever has its pid.
///
/// Pids are given out again, and after a new start of the machine start times repeat too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessIdentity {
    /// What the kernel calls this start of the machine.
    pub boot_id: Uuid,
    /// Its pid, as this process sees it.
    pub pid: u32,
    /// When it started, in the kernel's ticks since the machine's start.
    pub start_ticks: u64,
}

impl ProcessIdentity {
    /// Reads who has this pid now. Its name, whatever stands in it, moves no other figure.
    ///
    /// `None` when nobody has it, when something cannot be read, and on systems without procfs.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let start_ticks = system::read(pid)?.start_ticks;
        Some(Self { boot_id: system::boot_id()?, pid, start_ticks })
    }

    /// Tells whether this very process still runs; one that is only not waited for does not.
    ///
    /// What cannot be read is not taken for running.
    #[must_use]
    pub fn is_running(&self) -> bool {
        let is_known = Pid::from_raw(self.pid.cast_signed()).is_some();
        let is_this = |figures: &system::Figures| figures.start_ticks == self.start_ticks;
        is_known
            && system::boot_id() == Some(self.boot_id)
            && system::read(self.pid).filter(is_this).is_some_and(|figures| figures.is_alive)
    }
}
