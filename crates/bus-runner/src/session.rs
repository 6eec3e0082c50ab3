//! The session of a command with a terminal: job control makes process groups beside the leader's.
//!
//! A signal to the leader's group does not reach them, so they are looked up. The leader is not
//! waited for before its session was ended, so the session's id can be nobody else's.

use rustix::process::{Pid, Signal};

/// Sends `SIGTERM` to every member of the session that is in another group than its leader.
pub(crate) async fn terminate(leader: Pid) {
    let look = system::look().await;
    for member in look.members(leader) {
        system::signal(member, leader, Signal::TERM);
    }
}

/// Sends `SIGKILL` to every member of the session in another group than its leader, until no new
/// one is found.
pub(crate) async fn kill(leader: Pid) {
    let mut killed = Vec::new();
    for _round in 0..ROUNDS_MAX {
        let look = system::look().await;
        if !kill_new(&look, leader, &mut killed) {
            return;
        }
    }
}

/// As [`kill`], at once, on this thread: for who cannot wait.
pub(crate) fn kill_now(leader: Pid) {
    let mut killed = Vec::new();
    for _round in 0..ROUNDS_MAX {
        let look = system::look_now();
        if !kill_new(&look, leader, &mut killed) {
            return;
        }
    }
}

/// Kills the members that were not found before, and says whether there were any.
///
/// A process that has the signal starts no other one; who was just being started is found next.
fn kill_new(look: &system::Look, leader: Pid, killed: &mut Vec<Pid>) -> bool {
    let mut members = look.members(leader);
    members.retain(|member| !killed.contains(member));
    for member in &members {
        system::signal(*member, leader, Signal::KILL);
    }
    killed.extend_from_slice(&members);
    !members.is_empty()
}

/// A session that starts processes faster than they are found is given up.
const ROUNDS_MAX: usize = 8;

#[cfg(target_os = "linux")]
mod system {
    use std::{
        collections::HashMap,
        fs::read_dir,
        os::unix::fs::DirEntryExt,
        sync::{
            Arc, LazyLock, Mutex, PoisonError,
            atomic::{AtomicU64, Ordering},
        },
    };

    use procfs::process::{Process, Stat};
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    /// All processes, as they were at one moment.
    #[derive(Default)]
    pub(super) struct Look {
        /// Which of all looks it is.
        number: u64,
        /// By the number of their entry in procfs, which no later process with the same pid has.
        processes: HashMap<u64, SeenProcess>,
        /// On which thread it was.
        #[cfg(test)]
        pub(super) thread: Option<std::thread::ThreadId>,
    }

    impl Look {
        /// Everybody in the session but its leader.
        pub(super) fn members(&self, leader: Pid) -> Vec<Pid> {
            let session = leader.as_raw_pid();
            let is_member = |seen: &&SeenProcess| seen.session == session && seen.pid != leader;
            self.processes.values().filter(is_member).map(|seen| seen.pid).collect()
        }
    }

    /// Looks at all processes, on a thread for such. A look that another run began after this was
    /// called is as good: a thousand runs that end at once need few.
    #[expect(clippy::disallowed_methods, reason = "the runner is one of the places that spawn")]
    pub(super) async fn look() -> Arc<Look> {
        let asked = BEGUN.load(Ordering::SeqCst);
        let _turn = TURN.lock().await;
        let last = last();
        if last.number > asked {
            return last;
        }
        let looked = tokio::task::spawn_blocking(look_now).await;
        // The runtime ends, and with it all that it runs.
        looked.unwrap_or_default()
    }

    /// Looks at all processes. Only those that the last look did not show are read.
    pub(super) fn look_now() -> Arc<Look> {
        let number = BEGUN.fetch_add(1, Ordering::SeqCst) + 1;
        let known = last();
        let mut processes = HashMap::with_capacity(known.processes.len());
        for entry in read_dir("/proc").into_iter().flatten().filter_map(Result::ok) {
            let pid = entry.file_name().to_str().and_then(|name| Pid::from_raw(name.parse().ok()?));
            let Some(pid) = pid else { continue };
            let seen = known.processes.get(&entry.ino()).filter(|seen| seen.pid == pid).copied();
            let Some(process) = seen.or_else(|| SeenProcess::read(pid)) else { continue };
            processes.insert(entry.ino(), process);
        }
        let look = Arc::new(Look {
            number,
            processes,
            #[cfg(test)]
            thread: Some(std::thread::current().id()),
        });
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        if last.number < number {
            *last = Arc::clone(&look);
        }
        look
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

    fn last() -> Arc<Look> {
        Arc::clone(&LAST.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The last look; nobody looks while it is locked.
    static LAST: LazyLock<Mutex<Arc<Look>>> = LazyLock::new(Mutex::default);

    /// How many looks have begun.
    static BEGUN: AtomicU64 = AtomicU64::new(0);

    /// Whose turn it is to look.
    static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

    #[cfg(test)]
    mod tests {
        use super::*;

        #[tokio::test]
        async fn many_who_look_at_once_look_once_and_on_no_thread_of_the_runtime() {
            let mut looking = tokio::task::JoinSet::new();
            for _ in 0..64 {
                looking.spawn(look());
            }
            let looks = looking.join_all().await;
            assert!(looks.iter().all(|look| look.number == looks[0].number));
            assert_ne!(looks[0].thread, Some(std::thread::current().id()));
        }

        #[tokio::test]
        async fn a_look_shows_who_was_there_when_it_was_asked_for() {
            let before = look().await.number;
            assert!(look().await.number > before);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::sync::Arc;

    use rustix::process::{Pid, Signal};

    pub(super) struct Look;

    impl Look {
        pub(super) fn members(&self, _leader: Pid) -> Vec<Pid> {
            Vec::new()
        }
    }

    pub(super) async fn look() -> Arc<Look> {
        Arc::new(Look)
    }

    pub(super) fn look_now() -> Arc<Look> {
        Arc::new(Look)
    }

    pub(super) fn signal(_member: Pid, _leader: Pid, _signal: Signal) {}
}
