//! The session of a command with a terminal: job control makes process groups beside the leader's.
//!
//! A signal to the leader's group does not reach them, so they are looked up. The leader is not
//! waited for before its session was ended, so the session's id can be nobody else's.

use rustix::process::{Pid, Signal};

/// Sends `SIGTERM` to every member of the session that is in another group than its leader.
pub(crate) fn terminate(leader: Pid) {
    for member in system::members(leader) {
        system::signal(member, leader, Signal::TERM);
    }
}

/// Sends `SIGKILL` to every member of the session in another group than its leader, until no new
/// one is found.
pub(crate) fn kill(leader: Pid) {
    let mut killed = Vec::new();
    // A process that has the signal starts no other one; who was just being started is found next.
    for _round in 0..ROUNDS_MAX {
        let mut members = system::members(leader);
        members.retain(|member| !killed.contains(member));
        if members.is_empty() {
            return;
        }
        for member in members {
            system::signal(member, leader, Signal::KILL);
            killed.push(member);
        }
    }
}

/// A session that starts processes faster than they are found is given up.
const ROUNDS_MAX: usize = 8;

#[cfg(target_os = "linux")]
mod system {
    use std::collections::HashMap;
    use std::fs::read_dir;
    use std::os::unix::fs::DirEntryExt;
    use std::sync::{LazyLock, Mutex, PoisonError};

    use procfs::process::{Process, Stat};
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    /// Everybody in the session but its leader.
    pub(super) fn members(leader: Pid) -> Vec<Pid> {
        let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(entries) = read_dir("/proc") else { return Vec::new() };
        let (mut now, mut members) = (HashMap::with_capacity(seen.len()), Vec::new());
        for entry in entries.filter_map(Result::ok) {
            let pid = entry.file_name().to_str().and_then(|name| Pid::from_raw(name.parse().ok()?));
            let Some(pid) = pid else { continue };
            let known = seen.get(&entry.ino()).filter(|known| known.pid == pid).copied();
            let Some(process) = known.or_else(|| SeenProcess::read(pid)) else { continue };
            now.insert(entry.ino(), process);
            if pid != leader && process.session == leader.as_raw_pid() {
                members.push(pid);
            }
        }
        *seen = now;
        members
    }

    /// Sends a signal to a member that is not reached by one to the leader's group.
    ///
    /// It is held first and asked for its session then: a stranger that has got its pid meanwhile
    /// is left alone.
    pub(super) fn signal(member: Pid, leader: Pid, signal: Signal) {
        let Ok(held) = pidfd_open(member, PidfdFlags::empty()) else { return };
        let leader = leader.as_raw_pid();
        if stat(member).is_some_and(|stat| stat.session == leader && stat.pgrp != leader) {
            // It may have ended by itself, which is what is wanted.
            let _ignored = pidfd_send_signal(held, signal);
        }
    }

    /// A process can leave its session for one of its own, but enters nobody's.
    #[derive(Clone, Copy)]
    struct SeenProcess {
        pid: Pid,
        session: i32,
    }

    impl SeenProcess {
        fn read(pid: Pid) -> Option<Self> {
            Some(Self { pid, session: stat(pid)?.session })
        }
    }

    fn stat(pid: Pid) -> Option<Stat> {
        Process::new(pid.as_raw_pid()).ok()?.stat().ok()
    }

    /// The processes of the last look, by the number of their entry in procfs, which no later
    /// process with the same pid has. A thousand runs that end at once read each process once.
    static SEEN: LazyLock<Mutex<HashMap<u64, SeenProcess>>> = LazyLock::new(Mutex::default);
}

#[cfg(not(target_os = "linux"))]
mod system {
    use rustix::process::{Pid, Signal};

    pub(super) fn members(_leader: Pid) -> Vec<Pid> {
        Vec::new()
    }

    pub(super) fn signal(_member: Pid, _leader: Pid, _signal: Signal) {}
}
