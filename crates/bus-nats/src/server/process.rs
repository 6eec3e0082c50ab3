//! One run of a server program: its process, its log, its end.
//!
//! A thread of its own reads the log until the server closes it, because it must be read also while
//! no runtime turns: a server that cannot write its log stands still. The same thread waits for the
//! end. Until it has said so, the process number is ours and signals cannot reach a stranger.

use std::{
    io::{BufRead, BufReader, Read},
    os::unix::process::CommandExt,
    process::{Child, ChildStderr, Command, Stdio},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::{
    error::{LastLines, ServerError},
    guard::Guard,
    home::Home,
    limit::Limit,
    log::{self, Tail},
};

/// A started server. Dropping it kills the server and waits for its end.
#[derive(Debug)]
pub(super) struct Process {
    pid: u32,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Somebody should look at the state again.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    tail: Tail,
    /// How the server ended; its number may belong to somebody else from then on.
    ended: Option<String>,
}

/// Called once, from the thread that noticed the end.
pub(super) type OnEnd = Box<dyn FnOnce() + Send>;

impl Process {
    /// Starts the program with the configuration of `home`.
    pub(super) fn start(
        program: &std::path::Path,
        home: &Home,
        on_end: OnEnd,
    ) -> Result<Self, ServerError> {
        let mut command = Command::new(program);
        command.arg("-c").arg(home.config()).current_dir(home.dir());
        // Secrets in our environment are not the server's business (D10).
        command.env_clear();
        command.envs(
            KEPT_VARIABLES.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))),
        );
        // In a group of its own: Ctrl-C at a terminal is ours to handle.
        command.process_group(0);
        command.stdin(home.as_stdin()?).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(ServerError::io("start", program))?;
        let pid = child.id();
        let log = child.stderr.take();
        let guard = Guard::over(pid).inspect_err(|error| {
            tracing::warn!(pid, %error, "nobody ends the server if this process is killed");
        });
        let shared = Arc::new(Shared::default());
        let reader = Reader { child, guard: guard.ok(), shared: Arc::clone(&shared), on_end };
        let process = Self { pid, shared };
        let name = format!("nats-server-{pid}");
        let started = thread::Builder::new().name(name).spawn(move || reader.run(log));
        match started {
            Ok(_detached) => Ok(process),
            Err(error) => {
                // Without its reader it would stand still. Nobody waits for it any more, so its
                // number stays taken until this process ends.
                process.shared.end("killed: its log could not be read".to_owned());
                if let Some(pid) = pid_of(pid) {
                    let _ignored = kill_process(pid, Signal::KILL);
                }
                Err(ServerError::io("read the log of", program)(error))
            }
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// How it ended, when it has.
    pub(super) fn ended(&self) -> Option<String> {
        self.shared.lock().ended.clone()
    }

    /// The last lines of its log.
    pub(super) fn last_lines(&self) -> LastLines {
        self.shared.lock().tail.last()
    }

    /// How many lines its log has.
    pub(super) fn lines_seen(&self) -> u64 {
        self.shared.lock().tail.seen()
    }

    /// Sends a signal, unless the server has ended.
    pub(super) fn signal(&self, signal: Signal) -> Result<(), ServerError> {
        // Under the lock, so that the number cannot be given to a stranger in between.
        let state = self.shared.lock();
        if let Some(status) = state.ended.clone() {
            return Err(ServerError::Ended { status, log: state.tail.last() });
        }
        let sent = pid_of(self.pid).map_or(Ok(()), |pid| kill_process(pid, signal));
        let program = std::path::PathBuf::from(format!("process {}", self.pid));
        sent.map_err(|error| ServerError::io("signal", &program)(error.into()))
    }

    /// Stops its clock and waits until it stands still: the signal alone is on its way for a while.
    pub(super) fn freeze(&self) -> Result<(), ServerError> {
        self.signal(Signal::STOP)?;
        if let Some(pid) = pid_of(self.pid) {
            // It can only have ended meanwhile, and then it does nothing either.
            let _ignored = waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED);
        }
        Ok(())
    }

    /// Waits for the end, but not longer than `limit`; says whether it came.
    pub(super) fn wait(&self, limit: Duration) -> bool {
        let state = self.shared.lock();
        let waited = self.shared.changed.wait_timeout_while(state, limit, |s| s.ended.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.ended.is_some()
    }

    /// Waits until `pick` finds what it looks for in a line after the first `seen`.
    ///
    /// `None` when it does not come within `limit`, or the server ends.
    pub(super) fn find_line<T>(
        &self,
        seen: u64,
        limit: Duration,
        pick: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let limit = Limit::new(limit);
        let mut state = self.shared.lock();
        loop {
            let found = state.tail.since(seen).find_map(&pick);
            if found.is_some() || state.ended.is_some() || limit.is_over() {
                return found;
            }
            let waited = self.shared.changed.wait_timeout(state, limit.left());
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Asks for an orderly end and returns at once.
    pub(super) fn ask_to_end(&self) {
        // An error says that it has ended, or will not hear us: whoever asks waits, then kills.
        let _ignored = self.signal(Signal::INT);
        // One that was stopped must go on to hear it.
        let _ignored = self.signal(Signal::CONT);
    }

    /// Asks for an orderly end; kills what has not ended after `limit`.
    pub(super) fn stop(&self, limit: Duration) {
        self.ask_to_end();
        if !self.wait(limit) {
            tracing::warn!(pid = self.pid, ?limit, "nats-server did not stop and is killed");
            self.kill();
        }
    }

    /// Ends it at once and waits for that.
    pub(super) fn kill(&self) {
        let _ignored = self.signal(Signal::KILL);
        if !self.wait(KILLED_WITHIN) {
            tracing::error!(pid = self.pid, "a killed nats-server has not ended");
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, status: String) {
        self.lock().ended = Some(status);
        self.changed.notify_all();
    }
}

/// What the thread of a process has.
struct Reader {
    child: Child,
    guard: Option<Guard>,
    shared: Arc<Shared>,
    on_end: OnEnd,
}

impl Reader {
    fn run(mut self, log: Option<ChildStderr>) {
        let pid = self.child.id();
        if let Some(log) = log {
            self.read(pid, log);
        }
        // Waits without freeing the number, which the guard and `signal` still rely on.
        if let Some(pid) = pid_of(pid) {
            let _ignored = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        }
        drop(self.guard.take());
        {
            let mut state = self.shared.lock();
            let status = self.child.wait();
            state.ended = Some(status.map_or_else(|e| e.to_string(), |status| status.to_string()));
        }
        self.shared.changed.notify_all();
        (self.on_end)();
    }

    fn read(&self, pid: u32, log: ChildStderr) {
        let mut log = BufReader::new(log);
        loop {
            let mut line = Vec::new();
            match log.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end();
            log::forward(pid, line);
            self.shared.lock().tail.push(line.to_owned());
            self.shared.changed.notify_all();
        }
    }
}

fn pid_of(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// What tunes Go's runtime and nothing else.
const KEPT_VARIABLES: [&str; 3] = ["GOMAXPROCS", "GOMEMLIMIT", "TZ"];
/// A longer line comes as several.
const LINE_BYTES_MAX: u64 = 8 * 1024;
/// How long the system may take to end a killed process; a disk that hangs can hold it.
const KILLED_WITHIN: Duration = Duration::from_secs(10);
