//! What these tests share: a place of its own for each, bounded waits, pipes as signs of life.

use std::{
    fs::{self, File, OpenOptions},
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// The longest wait of these tests.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A directory of its own, with a data home in it; commands run in it.
pub(crate) struct Place(TempDir);

/// How a command ended and what it said.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The directory of the workspace that is used when none is named.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.path("data/workspaces/default")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Makes a named pipe.
    pub(crate) fn pipe(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        path
    }

    /// `vakbus`, ready to run in this place.
    pub(crate) fn command(&self) -> std::process::Command {
        self.prepared(env!("CARGO_BIN_EXE_vakbus"))
    }

    /// A shell script with `vakbus` as its `$0`, ready to run in this place.
    pub(crate) fn shell(&self, script: &str) -> std::process::Command {
        let mut command = self.prepared("sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_vakbus")]);
        command
    }

    /// A bash script with `vakbus` as its `$0`, ready to run in this place.
    pub(crate) fn bash(&self, script: &str) -> std::process::Command {
        let mut command = self.prepared("bash");
        command.args(["--norc", "-c", script, env!("CARGO_BIN_EXE_vakbus")]);
        command
    }

    fn prepared(&self, program: &str) -> std::process::Command {
        let mut command = std::process::Command::new(program);
        command.current_dir(self.0.path()).env("VAKBUS_DATA_DIR", self.path("data"));
        // The settings of whoever runs the tests are not read.
        command.env("XDG_CONFIG_HOME", self.path("config"));
        for name in SETTINGS {
            command.env_remove(name);
        }
        command
    }

    /// Runs `vakbus` to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Outcome {
        let mut command = self.command();
        command.args(args);
        run(command, "")
    }

    /// Runs `vakbus swarm --json` over the tasks in `tasks` and returns its summary too.
    pub(crate) fn swarm(&self, tasks: &str, args: &[&str]) -> (Outcome, Value) {
        let mut command = self.command();
        command.args(["swarm", "--json"]).args(args);
        let outcome = run(command, tasks);
        let summary = outcome.json();
        adds_up(&summary);
        (outcome, summary)
    }

    /// Starts `vakbus`; its stdin is empty.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        let mut command = self.command();
        command.args(args);
        Running::start(command)
    }
}

/// What changes how `vakbus` behaves and must not come from whoever runs the tests.
const SETTINGS: [&str; 49] = [
    "TRACEPARENT",
    "TRACESTATE",
    "VAKBUS_WORKSPACE",
    "VAKBUS_WORKSPACE_SECRET",
    "VAKBUS_LOG",
    "VAKBUS_RUN_ID",
    "VAKBUS_SESSION",
    "NO_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "VAKBUS_CONFIG",
    "VAKBUS_SECRETS_FILE",
    "VAKBUS_COLOR",
    "VAKBUS_NATS_URL",
    "VAK_BUS_NATS_URL",
    "VAKBUS_NATS_PROFILE",
    "VAKBUS_NATS_CREDS",
    "VAKBUS_NATS_TLS",
    "VAKBUS_NATS_TLS_CA",
    "VAKBUS_NATS_TLS_CERT",
    "VAKBUS_NATS_TLS_KEY",
    "VAKBUS_WORKSPACE_SECRET_ENV",
    "VAKBUS_SYNC",
    "VAKBUS_SOCKET",
    "VAKBUS_MAX_RETRIES",
    "VAKBUS_BACKOFF",
    "VAK_BUS_NATS_CREDENTIALS_JWT",
    "VAK_BUS_NATS_NKEY_SEED",
    "VAKBUS_EMIT",
    "VAKBUS_EMIT_TOKEN",
    "VAKBUS_TASK_ID",
    "VAKBUS_ATTEMPT",
    "VAKBUS_ON_DEAD_LETTER",
    "VAKBUS_ON_APPROVAL",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "VAKBUS_OTEL",
    "OTEL_EXPORTER_OTLP_CERTIFICATE",
    "OTEL_SERVICE_NAME",
    "OTEL_RESOURCE_ATTRIBUTES",
    "OTEL_SDK_DISABLED",
    "OTEL_TRACES_EXPORTER",
    "VAKBUS_OTEL_EXIT_WAIT",
    "OTEL_TRACES_SAMPLER",
];

/// Runs a command to its end.
pub(crate) fn run(command: std::process::Command, stdin: &str) -> Outcome {
    let mut command = assert_cmd::Command::from_std(command);
    let output = command.write_stdin(stdin).timeout(LIMIT).output().unwrap();
    Outcome {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Outcome {
    /// The one JSON object on stdout.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts that the call was refused, with a next step or a usage line, and before any output.
    pub(crate) fn is_wrong_call(&self, what: &str) {
        assert_eq!((self.code, self.stdout.as_str()), (Some(2), ""), "{self:?}");
        assert!(self.stderr.starts_with("error: ") && self.stderr.contains(what), "{self:?}");
    }

    /// Asserts that it failed and says what to do next.
    pub(crate) fn failed_with(&self, what: &str, next: &str) {
        assert_eq!((self.code, self.stdout.as_str()), (Some(1), ""), "{self:?}");
        let (said, then) = self.stderr.split_once("\n  next: ").unwrap_or_default();
        assert!(said.starts_with("error: ") && said.contains(what), "{self:?}");
        assert!(then.contains(next), "{self:?}");
    }
}

/// Asserts that the counts of a summary are all there and agree with each other.
pub(crate) fn adds_up(summary: &Value) {
    let count = |name: &str| summary[name].as_u64().unwrap_or_else(|| panic!("{name}: {summary}"));
    let sum = count("completed") + count("dead_lettered") + count("not_run");
    assert_eq!(count("tasks"), sum, "{summary}");
    assert_eq!(count("receipts"), count("completed"), "{summary}");
    assert_eq!(summary["dead_letters"].as_array().unwrap().len() as u64, count("dead_lettered"));
    assert_eq!(count("chains_broken") + count("live_refused"), 0, "{summary}");
    assert!(count("chains_verified") > 0 || count("tasks") == count("not_run"), "{summary}");
    assert!(summary["seconds"].as_f64().unwrap() >= 0.0);
}

/// A running `vakbus`.
pub(crate) struct Running {
    child: Kept,
    stdout: Option<Lines>,
    stderr: Lines,
    heard: Vec<String>,
}

impl Running {
    pub(crate) fn start(mut command: std::process::Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = Lines::of(child.stderr.take().unwrap());
        let child = Kept(Some(child));
        Self { child, stdout: None, stderr, heard: Vec::new() }
    }

    /// Takes its stdout away.
    pub(crate) fn take_stdout(&mut self) -> ChildStdout {
        self.child.0.as_mut().unwrap().stdout.take().unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.child.0.as_ref().unwrap()), signal).unwrap();
    }

    /// The most memory that it had at once so far, in MiB.
    pub(crate) fn peak_mib(&self) -> u64 {
        let pid = Pid::from_child(self.child.0.as_ref().unwrap()).as_raw_nonzero();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
    }

    /// Waits until it listens for `signal`.
    pub(crate) fn catches(&self, signal: Signal) {
        let pid = Pid::from_child(self.child.0.as_ref().unwrap()).as_raw_nonzero();
        let bit = 1_u64 << (signal.as_raw() - 1);
        let listens = |_| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
            thread::yield_now();
            u64::from_str_radix(mask.trim(), 16).unwrap() & bit != 0
        };
        assert!((0..10_000_000).any(listens), "it never listens");
    }

    /// Waits until it says `what` on stderr.
    pub(crate) fn says(&mut self, what: &str) {
        self.hears_after(what);
    }

    /// Waits until it says `what` on stderr, and returns the word that follows in that line.
    pub(crate) fn hears_after(&mut self, what: &str) -> String {
        while let Some(line) = self.stderr.next() {
            let rest = line.split_once(what).map(|(_, rest)| rest);
            let word = rest.map(|rest| rest.split(' ').next().unwrap_or_default().to_owned());
            self.heard.push(line);
            if let Some(word) = word {
                return word;
            }
        }
        panic!("never said {what:?}: {:?}", self.heard);
    }

    /// Waits until it ends.
    pub(crate) fn ended(mut self) -> Outcome {
        let mut child = self.child.0.take().unwrap();
        if let Some(stdout) = child.stdout.take() {
            self.stdout = Some(Lines::of(stdout));
        }
        let pid = Pid::from_child(&child);
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || sender.send(child.wait()));
        let Ok(status) = receiver.recv_timeout(LIMIT) else {
            kill_process(pid, Signal::KILL).unwrap();
            panic!("still running: {:?}", self.heard);
        };
        let mut stderr = self.heard;
        stderr.extend(std::iter::from_fn(|| self.stderr.next()));
        let stdout = self.stdout.iter().flat_map(|lines| std::iter::from_fn(|| lines.next()));
        Outcome {
            code: status.unwrap().code(),
            stdout: stdout.collect::<Vec<_>>().join("\n"),
            stderr: stderr.join("\n"),
        }
    }
}

/// A child that ends with who has it: a test that fails leaves no process behind.
struct Kept(Option<Child>);

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _gone = child.kill();
            let _reaped = child.wait();
        }
    }
}

/// The lines of a stream, as they come.
pub(crate) struct Lines(Receiver<String>);

impl Lines {
    pub(crate) fn of(stream: impl Read + Send + 'static) -> Self {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stream).lines() {
                if sender.send(line.unwrap()).is_err() {
                    return;
                }
            }
        });
        Self(receiver)
    }

    /// The lines that commands write into a named pipe, of which there is never an end.
    pub(crate) fn through(pipe: &Path) -> Self {
        Self::of(both_ways(pipe))
    }

    /// Waits for the next line; none at the end.
    pub(crate) fn next(&self) -> Option<String> {
        match self.0.recv_timeout(LIMIT) {
            Ok(line) => Some(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("no line for {LIMIT:?}"),
        }
    }
}

/// Commands wait here with `read x <gate`.
pub(crate) struct Gate(File);

impl Gate {
    pub(crate) fn at(pipe: &Path) -> Self {
        Self(both_ways(pipe))
    }

    /// Lets `count` commands pass, those that wait and those that will.
    pub(crate) fn open_for(&mut self, count: usize) {
        // One byte a command: what one reads, no other can lose a part of.
        self.0.write_all("\n".repeat(count).as_bytes()).unwrap();
    }
}

/// Hears when the last process that holds a named pipe open for writing is gone.
pub(crate) struct Held(Receiver<()>);

impl Held {
    pub(crate) fn through(pipe: &Path) -> Self {
        let (sender, receiver) = mpsc::channel();
        let pipe = pipe.to_owned();
        thread::spawn(move || {
            let mut rest = Vec::new();
            File::open(pipe).unwrap().read_to_end(&mut rest).unwrap();
            sender.send(())
        });
        Self(receiver)
    }

    pub(crate) fn released(self) {
        self.0.recv_timeout(LIMIT).expect("somebody still holds the pipe");
    }
}

/// Opened both ways a pipe neither blocks nor ends.
fn both_ways(pipe: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(pipe).unwrap()
}
