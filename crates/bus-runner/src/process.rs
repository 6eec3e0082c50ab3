//! Runs a command once: spawn, feed, stream, watch, end the whole process group, report.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use bytes::Bytes;

use crate::command::PreparedCommand;
use crate::group::{Group, NotStarted, Started};
use crate::output::{Event, Output, OutputSink, OutputSummary};
use crate::stop::StopSignal;
use crate::supervisor::Supervisor;
use crate::telemetry::Usage;

/// Runs `command` in a process group of its own and streams its output to `sink`.
///
/// `stdin` is written while the output is read; a command that does not read it is fine. Memory
/// does not grow with the output.
///
/// The run owns its group and ends all of it:
/// - the time limit sends `SIGTERM` to the group, and `SIGKILL` after the grace;
/// - [`StopSignal::end`] does the same within [`END_GRACE_MAX`](crate::END_GRACE_MAX), and
///   [`StopSignal::kill_now`] sends `SIGKILL` at once;
/// - when the command itself has ended, its output may stay open (held by a background child) for
///   at most the grace; then the rest of the group is killed and `leftovers_killed` is set;
/// - at the end every member that is still there gets `SIGKILL`. A process that wants to outlive
///   the run leaves the group (`setsid`). If such a process holds the output open it is not waited
///   for, and `output_complete` is false.
///
/// With a terminal the run owns the command's whole session: job control makes groups of its own,
/// and they end with it. When the command has ended the system sends `SIGHUP` to the foreground
/// group, so a background child is heard for the rest of the grace only if it ignores that.
///
/// Not cancel safe: dropping the future kills the group and the output is lost. If this process
/// itself is killed by `SIGKILL`, nobody is left to end the group.
pub async fn run<S: OutputSink>(
    command: &PreparedCommand,
    stdin: Bytes,
    sink: &mut S,
    stop: StopSignal,
) -> RunReport {
    if stop.is_given() {
        return RunReport::without_process(ExitKind::Killed);
    }
    let Started { group, stdin: pipe, ends } = match Group::start(command, !stdin.is_empty()) {
        Ok(started) => started,
        Err(NotStarted { reason, is_transient }) => {
            return RunReport::without_process(ExitKind::NotStarted { reason, is_transient });
        }
    };
    sink.started(group.id());
    let input = pipe.map(|pipe| (pipe, stdin));
    let limits = (command.timeout(), command.grace());
    let mut supervisor = Supervisor::new(group, input, stop, limits);
    let mut output = Output::new(ends);

    pump(&mut output, sink, &mut supervisor).await;
    let output = output.finish();
    while !supervisor.leader_has_ended() {
        supervisor.step().await;
    }
    let (exit, leftovers_killed, usage) = supervisor.finish().await;
    RunReport::new(exit, output, leftovers_killed, usage)
}

/// How a run ended, and what is known about what it wrote and used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunReport {
    /// How the command ended.
    pub exit: ExitKind,
    /// Bytes that the command wrote to stdout or its terminal and the sink was given.
    pub stdout_bytes: u64,
    /// Bytes that the command wrote to stderr and the sink was given.
    pub stderr_bytes: u64,
    /// SHA-256 over the SHA-256 of stdout followed by the SHA-256 of stderr (64 bytes in all), so
    /// that the hash does not depend on how the two streams were interleaved. A terminal counts as
    /// stdout, beside a stderr without a byte.
    pub output_hash: [u8; 32],
    /// SHA-256 of what was written to stdout or the terminal, as far as it is counted.
    pub stdout_hash: [u8; 32],
    /// SHA-256 of what was written to stderr, as far as it is counted.
    pub stderr_hash: [u8; 32],
    /// The last bytes of stderr or the terminal, at most
    /// [`STDERR_TAIL_BYTES_MAX`](crate::STDERR_TAIL_BYTES_MAX);
    /// may begin inside a character.
    pub stderr_tail: Vec<u8>,
    /// Whether members of the group kept the output open after the command had ended, for longer
    /// than the grace, and were killed.
    pub leftovers_killed: bool,
    /// Whether all streams were read to their end. False when a process outside the group holds
    /// one open, or when the sink was abandoned because of a stop.
    pub output_complete: bool,
    /// What the command used; `None` where the system does not tell.
    pub usage: Option<Usage>,
}

impl RunReport {
    /// Tells whether the command ended by itself with exit code 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.exit == ExitKind::Exited { code: 0 }
    }

    fn new(
        exit: ExitKind,
        output: OutputSummary,
        leftovers_killed: bool,
        usage: Option<Usage>,
    ) -> Self {
        Self {
            exit,
            stdout_bytes: output.stdout_bytes,
            stderr_bytes: output.stderr_bytes,
            output_hash: output.hash(),
            stdout_hash: output.stdout_hash,
            stderr_hash: output.stderr_hash,
            stderr_tail: output.stderr_tail,
            leftovers_killed,
            output_complete: output.complete,
            usage,
        }
    }

    fn without_process(exit: ExitKind) -> Self {
        Self::new(exit, OutputSummary::empty(), false, None)
    }
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExitKind {
    /// It ended by itself.
    Exited {
        /// Its exit code, 0 to 255.
        code: i32,
    },
    /// A signal ended it that the run did not send.
    Signaled {
        /// The signal's number.
        signal: i32,
    },
    /// The time limit was over, however the command ended then.
    TimedOut,
    /// The stop signal was given; also when that was before the start.
    Killed,
    /// It never ran.
    NotStarted {
        /// What is missing, in words for a person.
        reason: String,
        /// Whether the machine was short of processes, memory or files, or the program was just
        /// being written: the same command may start another time.
        is_transient: bool,
    },
}

impl ExitKind {
    pub(crate) fn from_status(status: io::Result<ExitStatus>) -> Self {
        match status {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => Self::Exited { code },
                (None, signal) => Self::Signaled { signal: signal.unwrap_or(0) },
            },
            // Only a process that takes our children away from us leads here.
            Err(_not_our_child) => Self::Signaled { signal: 0 },
        }
    }
}

/// Carries events to the sink until all streams have ended or are given up.
async fn pump<S: OutputSink>(output: &mut Output, sink: &mut S, supervisor: &mut Supervisor) {
    if let Some(size) = output.size()
        && !deliver(sink, Event::Resized(size), supervisor).await
    {
        return;
    }
    while output.is_open() && !supervisor.is_overdue() {
        if supervisor.leader_has_ended() {
            output.hang_up();
        }
        let event = tokio::select! {
            biased;
            () = supervisor.step() => continue,
            event = output.next() => event,
        };
        let Some(event) = event else { return };
        if !deliver(sink, event, supervisor).await {
            return;
        }
    }
    let mut left = PIPES_BYTES_MAX;
    while let Some(event) = output.next_ready().await {
        if let Event::Chunk(_, bytes) = &event {
            left = left.saturating_sub(bytes.len());
        }
        if !deliver(sink, event, supervisor).await || left == 0 {
            return;
        }
    }
}

/// Gives one event to the sink while the run is watched; false when the sink is given up.
async fn deliver<S: OutputSink>(sink: &mut S, event: Event, supervisor: &mut Supervisor) -> bool {
    let delivery = async {
        match event {
            Event::Chunk(stream, bytes) => sink.chunk(stream, bytes).await,
            Event::Resized(size) => sink.resized(size).await,
        }
    };
    let mut delivery = std::pin::pin!(delivery);
    while !supervisor.sink_is_overdue() {
        tokio::select! {
            biased;
            () = &mut delivery => return true,
            () = supervisor.step() => {}
        }
    }
    false
}

/// What two pipes can hold when their writers are gone: a flood beyond it has a living source.
const PIPES_BYTES_MAX: usize = 2 * 1024 * 1024;
