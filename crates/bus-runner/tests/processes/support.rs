//! What the tests with real processes share: a sink that keeps everything, and bounded waits.

use std::future::Future;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

use bus_runner::{
    CommandSpec, ExitKind, OutputSink, OutputStream, RunReport, StopSignal, Terminal, TerminalSize,
    run,
};

/// Keeps all output in memory and tells who asks about each chunk of stdout, or of a terminal.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) pid: Option<u32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) sizes: Vec<TerminalSize>,
    pub(crate) chunk_bytes_max: usize,
    heard: Option<mpsc::UnboundedSender<Bytes>>,
}

impl Kept {
    /// A sink whose chunks of stdout are also heard elsewhere.
    pub(crate) fn heard() -> (Self, mpsc::UnboundedReceiver<Bytes>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self { heard: Some(sender), ..Self::default() }, receiver)
    }
}

impl OutputSink for Kept {
    fn started(&mut self, pid: u32) {
        self.pid = Some(pid);
    }

    async fn chunk(&mut self, stream: OutputStream, bytes: Bytes) {
        self.chunk_bytes_max = self.chunk_bytes_max.max(bytes.len());
        match stream {
            OutputStream::Stdout | OutputStream::Terminal => self.stdout.extend_from_slice(&bytes),
            OutputStream::Stderr => return self.stderr.extend_from_slice(&bytes),
        }
        if let Some(heard) = &self.heard {
            let _ignored = heard.send(bytes); // nobody has to listen
        }
    }

    async fn resized(&mut self, size: TerminalSize) {
        self.sizes.push(size);
    }
}

/// What a command writes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Ends {
    Pipes,
    Terminal,
}

impl Ends {
    pub(crate) fn of(self, mut spec: CommandSpec) -> CommandSpec {
        spec.terminal = (self == Self::Terminal).then(|| Terminal::new(TerminalSize::default()));
        spec
    }

    /// A shell script as a command with these ends, and with a short grace.
    pub(crate) fn shell(self, script: &str) -> CommandSpec {
        self.of(shell(script))
    }
}

/// Runs each of these cases twice: with pipes, and with a terminal.
macro_rules! with_both_ends {
    ($($case:ident)*) => {
        mod pipes {
            $(#[tokio::test]
            async fn $case() {
                super::$case(crate::support::Ends::Pipes).await;
            })*
        }
        mod terminal {
            $(#[tokio::test]
            async fn $case() {
                super::$case(crate::support::Ends::Terminal).await;
            })*
        }
    };
}
pub(crate) use with_both_ends;

/// A shell script as a command, with a short grace.
pub(crate) fn shell(script: &str) -> CommandSpec {
    let mut spec = CommandSpec::new("sh", ["-c", script]);
    spec.grace = Duration::from_millis(300);
    spec
}

/// Runs a command to its end, within the limit of every wait.
pub(crate) async fn finished(spec: &CommandSpec, stdin: impl Into<Bytes>) -> (RunReport, Kept) {
    let mut kept = Kept::default();
    let command = spec.for_text("text").unwrap();
    let running = run(&command, stdin.into(), &mut kept, StopSignal::new());
    let report = within(running).await;
    (report, kept)
}

/// Runs a command to its end and returns how that was.
pub(crate) async fn exit_of(spec: &CommandSpec) -> ExitKind {
    finished(spec, "").await.0.exit
}

/// Waits for `event`, at most a minute.
pub(crate) async fn within<F: Future>(event: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(60), event).await.expect("within a minute")
}

/// Waits for the first whole line of stdout.
pub(crate) async fn first_line(heard: &mut mpsc::UnboundedReceiver<Bytes>) -> String {
    let mut line = Vec::new();
    while !line.contains(&b'\n') {
        line.extend_from_slice(&within(heard.recv()).await.expect("a line of output"));
    }
    String::from_utf8(line).unwrap().trim().to_owned()
}

/// Runs one test again, alone in a process of its own whose environment holds `variables`.
pub(crate) fn again_with<'a>(test: &str, variables: impl IntoIterator<Item = (&'a str, &'a str)>) {
    let program = std::env::current_exe().unwrap();
    let mut command = std::process::Command::new(program);
    command.args(["--exact", test]).env(AGAIN, "1").envs(variables);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// Whether this process is the one that [`again_with`] started.
pub(crate) fn is_again() -> bool {
    std::env::var_os(AGAIN).is_some()
}

/// The variable that [`again_with`] sets.
pub(crate) const AGAIN: &str = "RUN_AGAIN_IN_OWN_PROCESS";

/// One process, held by a descriptor: its pid cannot be mixed up with a later one.
pub(crate) struct Held(AsyncFd<OwnedFd>);

impl Held {
    /// Takes hold of a process that runs now.
    pub(crate) fn new(pid: &str) -> Self {
        Self::try_new(pid.parse().unwrap()).expect("the process runs")
    }

    #[expect(deprecated, reason = "its successor is unsafe")]
    fn try_new(pid: i32) -> Option<Self> {
        let descriptor = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::NONBLOCK).ok()?;
        Some(Self(AsyncFd::with_interest(descriptor, Interest::READABLE).unwrap()))
    }

    /// Waits until the process has ended.
    pub(crate) async fn ended(self) {
        let _guard = within(self.0.readable()).await.unwrap();
    }
}

/// A number of seconds, about 1,000, that no other process of this machine sleeps for.
pub(crate) fn seconds() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let own = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("1000.{:09}{own:03}", std::process::id())
}

/// Waits until no process is left whose arguments hold `mark`.
pub(crate) async fn all_gone(mark: &str) {
    for pid in running_with(mark) {
        if let Some(process) = Held::try_new(pid) {
            process.ended().await;
        }
    }
    let left = running_with(mark);
    assert!(left.is_empty(), "{left:?} still run");
}

/// Processes whose arguments hold `mark` and that still run.
pub(crate) fn running_with(mark: &str) -> Vec<i32> {
    let all = procfs::process::all_processes().unwrap().filter_map(Result::ok);
    let marked = all.filter(|process| {
        let args = process.cmdline().unwrap_or_default();
        let is_running = || process.stat().is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X'));
        args.iter().any(|arg| arg.contains(mark)) && is_running()
    });
    marked.map(|process| process.pid).collect()
}
