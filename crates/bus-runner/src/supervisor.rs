//! Watches over one process group: time limit, stop signal, end of the leader, what outlives it.

use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::group::Group;
use crate::process::ExitKind;
use crate::stop::StopSignal;
use crate::telemetry::{self, Usage};

/// The state of a run beside its output.
#[derive(Debug)]
pub(crate) struct Supervisor {
    group: Group,
    input: Option<(ChildStdin, Bytes)>,
    stop: StopSignal,
    grace: Duration,
    phase: Phase,
    ended_by: Option<EndedBy>,
    leader_ended: bool,
    stopped: Option<Stopped>,
    leftovers_killed: bool,
    /// Somebody finds out whether members of the group still run.
    judging: Option<JoinHandle<Option<bool>>>,
    usage: Option<Usage>,
    peak_rss_bytes: Option<u64>,
    look_at: Instant,
    look_after: Duration,
}

/// Where a run stands. The arrows go down only.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The leader runs, perhaps with a time limit.
    Running { until: Option<Instant> },
    /// The time is over, or the run was stopped: the group has `SIGTERM`; `SIGKILL` comes at
    /// `until`.
    Terminating { until: Instant },
    /// The group has `SIGKILL`; the leader has not been seen to end yet.
    Killing,
    /// The leader has ended; its output may stay open until `until`.
    Draining { until: Instant },
    /// That took too long: whoever still runs is found out, and killed then.
    Judging,
    /// What was left of the group has `SIGKILL`; the output ought to end before `until`.
    Cut { until: Instant },
    /// Somebody outside the group holds the output open: it is not waited for any longer.
    Overdue,
}

#[derive(Clone, Copy, Debug)]
enum EndedBy {
    Timeout,
    Stop,
}

/// How far the run was stopped from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopped {
    /// It was asked to end, and has a moment for it.
    Ended,
    /// It was killed.
    Killed,
}

impl Supervisor {
    pub(crate) fn new(
        group: Group,
        input: Option<(ChildStdin, Bytes)>,
        stop: StopSignal,
        (timeout, grace): (Option<Duration>, Duration),
    ) -> Self {
        let now = Instant::now();
        let mut supervisor = Self {
            group,
            input,
            stop,
            grace,
            phase: Phase::Running { until: timeout.and_then(|timeout| now.checked_add(timeout)) },
            ended_by: None,
            leader_ended: false,
            stopped: None,
            leftovers_killed: false,
            judging: None,
            usage: None,
            peak_rss_bytes: None,
            look_at: now,
            look_after: LOOK_AFTER_MIN,
        };
        supervisor.look(); // a short command may be gone before anybody else looks
        supervisor
    }

    /// Waits for the next event of the run and acts on it. Cancel safe.
    pub(crate) async fn step(&mut self) {
        let until = self.phase.until();
        tokio::select! {
            biased;
            () = self.stop.killed(), if self.stopped != Some(Stopped::Killed) => self.on_kill(),
            () = self.stop.given(), if self.stopped.is_none() => self.on_end(),
            () = self.group.leader_ended(), if !self.leader_ended => self.on_leader_ended(),
            is_alive = judged(&mut self.judging) => self.on_judged(is_alive),
            () = sleep_until(until.unwrap_or(self.look_at)), if until.is_some() => {
                self.on_deadline();
            }
            () = feed(&mut self.input), if self.input.is_some() => {}
            () = sleep_until(self.look_at), if !self.leader_ended => self.look(),
            else => std::future::pending().await,
        }
    }

    pub(crate) fn leader_has_ended(&self) -> bool {
        self.leader_ended
    }

    /// The output is to be taken as far as it is there, and not waited for.
    pub(crate) fn is_overdue(&self) -> bool {
        matches!(self.phase, Phase::Overdue)
    }

    /// The run was stopped and even its sink has had its time.
    pub(crate) fn sink_is_overdue(&self) -> bool {
        self.stopped.is_some() && self.is_overdue()
    }

    /// Ends the group and returns how the leader ended.
    pub(crate) async fn finish(self) -> (ExitKind, bool, Option<Usage>) {
        let status = self.group.wait().await;
        let exit = match self.ended_by {
            Some(EndedBy::Timeout) => ExitKind::TimedOut,
            Some(EndedBy::Stop) => ExitKind::Killed,
            None => ExitKind::from_status(status),
        };
        (exit, self.leftovers_killed, self.usage)
    }

    fn on_end(&mut self) {
        self.stopped = Some(Stopped::Ended);
        let until = later(Instant::now(), self.grace.min(END_GRACE_MAX));
        self.phase = match self.phase {
            Phase::Running { .. } => {
                self.ended_by = Some(EndedBy::Stop);
                self.group.terminate();
                Phase::Terminating { until }
            }
            Phase::Draining { until: sooner } => {
                self.group.terminate();
                Phase::Draining { until: sooner.min(until) }
            }
            Phase::Terminating { until: sooner } => Phase::Terminating { until: sooner.min(until) },
            ending @ (Phase::Killing | Phase::Judging | Phase::Cut { .. } | Phase::Overdue) => {
                ending
            }
        };
    }

    fn on_kill(&mut self) {
        self.stopped = Some(Stopped::Killed);
        self.group.kill();
        if self.leader_ended {
            self.phase = Phase::Cut { until: Instant::now() + AFTER_KILL };
        } else {
            self.ended_by = self.ended_by.or(Some(EndedBy::Stop));
            self.phase = Phase::Killing;
        }
    }

    fn on_leader_ended(&mut self) {
        self.leader_ended = true;
        self.usage = telemetry::usage(self.group.id(), self.peak_rss_bytes);
        let now = Instant::now();
        self.phase = match self.phase {
            Phase::Running { .. } => Phase::Draining { until: later(now, self.grace) },
            Phase::Terminating { until } => Phase::Draining { until },
            _ => Phase::Cut { until: now + AFTER_KILL },
        };
    }

    fn on_deadline(&mut self) {
        let now = Instant::now();
        self.phase = match self.phase {
            Phase::Running { .. } => {
                self.ended_by = Some(EndedBy::Timeout);
                self.group.terminate();
                Phase::Terminating { until: later(now, self.grace) }
            }
            Phase::Terminating { .. } => {
                self.group.kill();
                Phase::Killing
            }
            Phase::Draining { .. } => {
                self.judging = Some(judge(self.group.id()));
                Phase::Judging
            }
            Phase::Cut { .. } | Phase::Overdue => Phase::Overdue,
            same @ (Phase::Killing | Phase::Judging) => same,
        };
    }

    fn on_judged(&mut self, is_alive: Option<bool>) {
        if matches!(self.phase, Phase::Judging) {
            // A sink may just be slow: only living members are leftovers. Where nobody can tell,
            // the open output speaks against them.
            self.leftovers_killed = is_alive.unwrap_or(true);
            self.group.kill();
            self.phase = Phase::Cut { until: Instant::now() + AFTER_KILL };
        }
    }

    fn look(&mut self) {
        // The highest of all looks: a command that replaces itself begins a new mark.
        self.peak_rss_bytes = telemetry::peak_rss_bytes(self.group.id()).max(self.peak_rss_bytes);
        self.look_at = Instant::now() + self.look_after;
        self.look_after = (self.look_after * 2).min(LOOK_AFTER_MAX);
    }
}

impl Phase {
    fn until(self) -> Option<Instant> {
        match self {
            Self::Running { until } => until,
            Self::Terminating { until } | Self::Draining { until } | Self::Cut { until } => {
                Some(until)
            }
            Self::Killing | Self::Judging | Self::Overdue => None,
        }
    }
}

/// Finds out whether members of the group still run, on a thread for such: it reads all processes.
#[expect(clippy::disallowed_methods, reason = "the runner is one of the places that spawn")]
fn judge(group: u32) -> JoinHandle<Option<bool>> {
    tokio::task::spawn_blocking(move || telemetry::group_is_alive(group))
}

/// Waits until that is known; for ever, when nobody finds it out. Cancel safe.
async fn judged(judging: &mut Option<JoinHandle<Option<bool>>>) -> Option<bool> {
    let Some(found) = judging else { return std::future::pending().await };
    let is_alive = found.await.ok().flatten();
    *judging = None;
    is_alive
}

/// Writes some of the input; closes it at the end, and when nobody reads it. Cancel safe.
async fn feed(input: &mut Option<(ChildStdin, Bytes)>) {
    let Some((stdin, rest)) = input else { return };
    let written = stdin.write_buf(rest).await;
    if written.is_err() || rest.is_empty() {
        *input = None; // a command that does not read its input is no failure of ours
    }
}

/// `now + wait`, and a very long time where that is out of range.
fn later(now: Instant, wait: Duration) -> Instant {
    now.checked_add(wait).unwrap_or(now + Duration::from_secs(365 * 86_400))
}

/// How long the output of a killed group may take to end.
const AFTER_KILL: Duration = Duration::from_secs(1);

/// The most time that a stopped command has between `SIGTERM` and `SIGKILL`.
pub const END_GRACE_MAX: Duration = Duration::from_secs(3);

/// Looks come after 0, 1, 3, 7, 15 ms and so on.
const LOOK_AFTER_MIN: Duration = Duration::from_millis(1);
const LOOK_AFTER_MAX: Duration = Duration::from_millis(500);
