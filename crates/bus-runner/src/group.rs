//! One process group: the command as its leader, and everything it started that stayed in it.
//!
//! The leader is not waited for before the group has been killed. An ended leader that nobody has
//! waited for keeps its pid, so a signal to the group can never reach strangers.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use crate::command::PreparedCommand;

/// A running process group. Dropping it kills the group.
#[derive(Debug)]
pub(crate) struct Group {
    child: Child,
    leader: Pid,
    watch: Watch,
    waited: bool,
}

/// How the end of the leader is noticed.
#[derive(Debug)]
enum Watch {
    /// Without waiting for it: a pidfd becomes readable (Linux 5.3).
    #[cfg(target_os = "linux")]
    Pidfd(tokio::io::unix::AsyncFd<OwnedFd>),
    /// By waiting for it. Its pid is free from then on; a later signal to the group relies on
    /// systems not handing out a pid again at once.
    Wait,
}

/// The parent's ends of the pipes.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
}

/// Why a command did not start.
#[derive(Debug)]
pub(crate) struct NotStarted {
    pub(crate) reason: String,
    /// Whether the machine was short of something: the same command may start another time.
    pub(crate) is_transient: bool,
}

impl Group {
    /// Starts the command as the leader of a group of its own.
    ///
    /// Nothing that needs code between fork and exec is used, so that the standard library takes
    /// `posix_spawn`, whose cost does not depend on the size of this process.
    pub(crate) fn start(
        command: &PreparedCommand,
        with_stdin: bool,
    ) -> Result<(Self, Pipes), NotStarted> {
        let mut builder = Command::new(command.program());
        builder.args(command.args()).process_group(0);
        builder.stdin(if with_stdin { Stdio::piped() } else { Stdio::null() });
        builder.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env_removed().for_each(|name| {
            builder.env_remove(name);
        });
        builder.envs(command.env().iter().map(|(name, value)| (name, value)));
        if let Some(cwd) = command.cwd() {
            builder.current_dir(cwd);
        }
        let mut child = builder.spawn().map_err(|error| NotStarted {
            reason: reason(command, &error),
            is_transient: is_transient(&error),
        })?;
        let pipes = Pipes {
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
        };
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let leader = pid.ok_or_else(|| NotStarted {
            reason: "the system gave the command no usable id".to_owned(),
            is_transient: true,
        })?;
        Ok((Self { child, leader, watch: watch(leader), waited: false }, pipes))
    }

    /// Returns the leader's id, which is the group's id too.
    pub(crate) fn id(&self) -> u32 {
        self.leader.as_raw_nonzero().get().unsigned_abs()
    }

    /// Waits until the leader has ended. Cancel safe.
    pub(crate) async fn leader_ended(&mut self) {
        match &self.watch {
            #[cfg(target_os = "linux")]
            Watch::Pidfd(pidfd) => {
                if pidfd.readable().await.is_ok() {
                    return;
                }
            }
            Watch::Wait => {}
        }
        let _status = self.child.wait().await; // kept by the child for `wait`
        self.waited = true;
    }

    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Kills what is left of the group, then waits for the leader.
    pub(crate) async fn wait(mut self) -> io::Result<ExitStatus> {
        self.kill();
        let status = self.child.wait().await;
        self.waited = true;
        status
    }

    fn signal(&self, signal: Signal) {
        // The only failure that can happen is that nobody is left, which is what is wanted.
        let _ignored = kill_process_group(self.leader, signal);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.waited {
            self.kill(); // tokio waits for the dropped child in the background
        }
    }
}

#[cfg(target_os = "linux")]
#[expect(deprecated, reason = "its successor is unsafe; an OwnedFd keeps what that one asks for")]
fn watch(leader: Pid) -> Watch {
    use rustix::process::{PidfdFlags, pidfd_open};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    let pidfd = pidfd_open(leader, PidfdFlags::NONBLOCK).map_err(io::Error::from);
    match pidfd.and_then(|pidfd| AsyncFd::with_interest(pidfd, Interest::READABLE)) {
        Ok(pidfd) => Watch::Pidfd(pidfd),
        Err(_old_kernel_or_no_descriptor_left) => Watch::Wait,
    }
}

#[cfg(not(target_os = "linux"))]
fn watch(_leader: Pid) -> Watch {
    Watch::Wait
}

/// Whether the machine is short of processes, memory or files, or the program is being written.
fn is_transient(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errno = Errno::from_io_error(error);
    let short = [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE, Errno::TXTBSY];
    errno.is_some_and(|errno| short.contains(&errno))
}

/// Says why the command did not start, in words that name the thing to mend.
fn reason(command: &PreparedCommand, error: &io::Error) -> String {
    use io::ErrorKind::{ArgumentListTooLong, NotADirectory, NotFound, PermissionDenied};

    let program = std::path::Path::new(command.program());
    let shown = program.display();
    if let Some(cwd) = command.cwd().filter(|cwd| !cwd.is_dir()) {
        return format!("working directory not found: {}", cwd.display());
    }
    match error.kind() {
        NotFound if program.components().count() > 1 && program.exists() => {
            format!("interpreter of the command not found: {shown}")
        }
        NotFound | NotADirectory => format!("command not found: {shown}"),
        PermissionDenied => format!("command not executable: {shown}"),
        ArgumentListTooLong => format!("arguments too long for this system: {shown}"),
        _ => format!("command cannot be started: {shown}: {error}"),
    }
}
