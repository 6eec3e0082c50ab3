//! One process group: the command as its leader, and everything it started that stayed in it.
//!
//! The leader is not waited for before the group has been killed. An ended leader that nobody has
//! waited for keeps its pid, so a signal to the group can never reach strangers.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::command::PreparedCommand;
use crate::pty::{Pty, into_io, is_used_up, no_terminal_opens};
use crate::reading::readable;
use crate::session;
use crate::terminal::TerminalSize;

/// A running process group, and with a terminal its whole session. Dropping it kills them.
#[derive(Debug)]
pub(crate) struct Group {
    child: Child,
    leader: Pid,
    leads_session: bool,
    watch: Watch,
    /// Signals on their way to the session: who is in it takes a look at all processes.
    signalling: JoinSet<()>,
    waited: bool,
}

/// How the end of the leader is noticed.
#[derive(Debug)]
enum Watch {
    /// Without waiting for it: a pidfd becomes readable (Linux 5.3).
    #[cfg(target_os = "linux")]
    Pidfd(AsyncFd<OwnedFd>),
    /// By waiting for it. Its pid is free from then on; a later signal to the group relies on
    /// systems not handing out a pid again at once.
    Wait,
}

/// A command that was just started.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) group: Group,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) ends: Ends,
}

/// Where the output of a command arrives.
#[derive(Debug)]
pub(crate) enum Ends {
    Pipes { stdout: AsyncFd<OwnedFd>, stderr: AsyncFd<OwnedFd> },
    Terminal { pty: Pty, sizes: watch::Receiver<TerminalSize> },
}

/// Why a command did not start.
#[derive(Debug)]
pub(crate) struct NotStarted {
    pub(crate) reason: String,
    /// Whether the machine was short of something: the same command may start another time.
    pub(crate) is_transient: bool,
}

impl Group {
    /// Starts the command as the leader of a group of its own, with a terminal of a session.
    ///
    /// With pipes nothing is used that needs code between fork and exec, so that the standard
    /// library takes `posix_spawn`, whose cost does not depend on the size of this process.
    pub(crate) fn start(
        command: &PreparedCommand,
        with_stdin: bool,
    ) -> Result<Started, NotStarted> {
        let mut builder = Command::new(command.program());
        builder.args(command.args());
        let stdin = Input::open(with_stdin).map_err(|error| not_started(command, &error))?;
        command.env_removed().for_each(|name| {
            builder.env_remove(name);
        });
        builder.envs(command.term());
        builder.envs(command.env().iter().map(|(name, value)| (name, value)));
        if let Some(cwd) = command.cwd() {
            builder.current_dir(cwd);
        }
        let Input { its, ours } = stdin;
        let started = match command.terminal() {
            None => with_pipes(builder, its),
            Some(terminal) => {
                let mut sizes = terminal.sizes();
                let size = *sizes.borrow_and_update();
                let (pty, pts) = Pty::open(size).map_err(|error| no_terminal(&error))?;
                with_terminal(builder, its, pts).map(|child| (child, Ends::Terminal { pty, sizes }))
            }
        };
        let (child, ends) = started.map_err(|error| not_started(command, &error))?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let leader = pid.ok_or_else(|| NotStarted {
            reason: "the system gave the command no usable id".to_owned(),
            is_transient: true,
        })?;
        let leads_session = matches!(ends, Ends::Terminal { .. });
        let (watch, signalling) = (watch(leader), JoinSet::new());
        let group = Self { child, leader, leads_session, watch, signalling, waited: false };
        Ok(Started { group, stdin: ours, ends })
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

    pub(crate) fn terminate(&mut self) {
        self.signal(Signal::TERM);
        if self.leads_session {
            self.signalling.spawn(session::terminate(self.leader));
        }
    }

    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
        if self.leads_session {
            self.signalling.spawn(session::kill(self.leader));
        }
    }

    /// Kills what is left of the group, then waits for the leader.
    pub(crate) async fn wait(mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        if self.leads_session {
            while self.signalling.join_next().await.is_some() {}
            session::kill(self.leader).await;
        }
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
            self.signal(Signal::KILL);
            if self.leads_session {
                session::kill_now(self.leader); // nobody would wait for it
            }
            // tokio waits for the dropped child in the background
        }
    }
}

/// Both ends of a command's stdin. Ours is ready before the command starts: whatever can fail
/// later would leave a command that runs and is said not to.
struct Input {
    its: Stdio,
    ours: Option<ChildStdin>,
}

impl Input {
    fn open(is_wanted: bool) -> io::Result<Self> {
        if !is_wanted {
            return Ok(Self { its: Stdio::null(), ours: None });
        }
        let (its, ours) = io::pipe()?;
        let ours = std::process::ChildStdin::from(OwnedFd::from(ours));
        Ok(Self { its: its.into(), ours: Some(ChildStdin::from_std(ours)?) })
    }
}

fn with_pipes(mut builder: Command, stdin: Stdio) -> io::Result<(Child, Ends)> {
    let ((stdout, its_stdout), (stderr, its_stderr)) = (io::pipe()?, io::pipe()?);
    let ends = Ends::Pipes { stdout: readable(stdout.into())?, stderr: readable(stderr.into())? };
    builder.process_group(0).stdin(stdin).stdout(its_stdout).stderr(its_stderr);
    builder.kill_on_drop(true);
    let _no_inheritance = no_terminal_opens();
    Ok((builder.spawn()?, ends))
}

/// Starts the leader of a session whose terminal this is. Its stdin is none: a payload is neither
/// echoed nor cut into lines, and no byte of it is a key.
fn with_terminal(builder: Command, stdin: Stdio, pts: pty_process::Pts) -> io::Result<Child> {
    let builder = pty_process::Command::from(builder).stdin(stdin).kill_on_drop(true);
    let _no_inheritance = no_terminal_opens();
    builder.spawn(pts).map_err(into_io)
}

fn not_started(command: &PreparedCommand, error: &io::Error) -> NotStarted {
    NotStarted { reason: reason(command, error), is_transient: is_transient(error) }
}

fn no_terminal(error: &io::Error) -> NotStarted {
    let reason = format!("no terminal for the command: {error}");
    NotStarted { reason, is_transient: is_used_up(error) }
}

#[cfg(target_os = "linux")]
#[expect(deprecated, reason = "its successor is unsafe; an OwnedFd keeps what that one asks for")]
fn watch(leader: Pid) -> Watch {
    use rustix::process::{PidfdFlags, pidfd_open};

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
