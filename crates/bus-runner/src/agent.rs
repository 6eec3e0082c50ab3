//! A command as an agent on the bus: its output, its figures and its receipt go over the bus.

mod figures;
mod keep;
mod lane;
mod lanes;
pub(crate) mod shown;
pub(crate) mod stream;

use std::{ffi::OsString, sync::Arc, time::Duration};

use bus_core::{Endpoint, Failure, Handled, Handler, Job, Recorded};
use bus_envelope::{Draft, EventHash, Timestamp};
use bus_evidence::{RECEIPT_COMPLETED, RECEIPT_CONTENT_TYPE, WorkReceipt};
use bus_subjects::{Address, SessionId};
use bytes::Bytes;
use tokio::{sync::oneshot, time::timeout};

use self::{figures::Figures, keep::Kept, lanes::Lanes};
use crate::{
    CommandSpec, EMIT_TOKEN_VAR, EMIT_VAR, EmitSocket, EventPlace, ExitKind, Fold, FoldLimits,
    Line, PreparedCommand, Probe, RunReport, StopSignal, TerminalEnd, emit::Admitted, run,
};

pub use self::{keep::OUTPUT_BYTES_MAX, lane::TerminalLane, stream::TerminalStream};

/// How often a running command is looked at.
pub const TELEMETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Runs one command for every task.
///
/// The task's payload arrives on stdin and, as text, in place of `{}`. Exit code 0 completes the
/// task, and its signed receipt is stored before the task is acknowledged; anything else is a
/// failure. A command that cannot be started, or a payload that cannot be an argument, is
/// hopeless: it is not tried again.
///
/// The command gets `VAKBUS_TASK_ID`, `VAKBUS_ATTEMPT`, `VAKBUS_SESSION`, `VAKBUS_RUN_ID` and
/// `TRACEPARENT`, and none of the bus's secrets; with an [`EmitSocket`] also `VAKBUS_EMIT` and
/// `VAKBUS_EMIT_TOKEN`, by which `vakbus emit` finds this runner.
#[derive(Debug, Clone)]
pub struct CommandAgent {
    /// What is run.
    pub command: CommandSpec,
    /// The session whose events and receipts these are.
    pub session: SessionId,
    /// The run that all tasks of it have in common.
    pub run_id: String,
    /// Whether the output of a task that succeeds is kept as its result ([`bus_core::Results`]).
    pub keeps_results: bool,
    /// How many bytes of that output are kept; beyond that its beginning and its end. 0: none.
    /// Default [`OUTPUT_BYTES_MAX`].
    pub output_bytes_max: u64,
    /// The socket through which its commands emit tokens and more; without one they cannot.
    pub emit: Option<EmitSocket>,
}

impl Handler for CommandAgent {
    async fn handle(&self, job: Job<'_>) -> Result<Handled, Failure> {
        let place = EventPlace::of_attempt(&job, &self.session);
        let (probe, started_as) = oneshot::channel();
        let kept_max = self.keeps_results.then_some(self.output_bytes_max);
        let lanes = Lanes::start(&job, place.clone(), probe, kept_max);
        let emitter = self.admit(&job, place, &lanes);
        let command = self.prepare(&job, emitter.as_ref())?;
        let stop = StopSignal::new();
        let started = job.endpoint.clock().now();
        let (report, kept, finished) = {
            let sinks = (lanes, emitter, started_as);
            let work = self.run(&job, &command, &stop, sinks);
            tokio::pin!(work);
            tokio::select! {
                done = &mut work => done,
                () = job.cancel.cancelled() => {
                    stop.end();
                    work.await
                }
            }
        };
        warn_about(&job.message.envelope.id, &report);
        match &report.exit {
            ExitKind::Exited { code: 0 } => {
                let recorded = self.record(&job, &report, started, finished).await?;
                if let Some(kept) = kept {
                    keep::keep(&job, &self.session, &recorded, kept).await;
                }
                Ok(Handled)
            }
            ExitKind::Killed => Err(Failure::Interrupted),
            ExitKind::NotStarted { reason, is_transient: false } => {
                Err(Failure::Hopeless { reason: reason.clone() })
            }
            _ => Err(Failure::Failed { reason: reason(&report, &self.command) }),
        }
    }
}

impl CommandAgent {
    /// An agent that keeps no results.
    #[must_use]
    pub const fn new(command: CommandSpec, session: SessionId, run_id: String) -> Self {
        let output_bytes_max = OUTPUT_BYTES_MAX;
        Self { command, session, run_id, keeps_results: false, output_bytes_max, emit: None }
    }

    /// Lets the command emit. One that cannot runs all the same.
    fn admit(&self, job: &Job<'_>, place: EventPlace, lanes: &Lanes) -> Option<Admitted> {
        let socket = self.emit.as_ref()?;
        match socket.admit(job.endpoint, place, Arc::clone(lanes.shown())) {
            Ok(admitted) => Some(admitted),
            Err(error) => {
                let task = &job.message.envelope.id;
                tracing::warn!(%task, %error, "the command cannot emit");
                None
            }
        }
    }

    fn prepare(
        &self,
        job: &Job<'_>,
        emitter: Option<&Admitted>,
    ) -> Result<PreparedCommand, Failure> {
        let hopeless = |reason: String| Failure::Hopeless { reason };
        let text = if self.command.takes_text() {
            std::str::from_utf8(&job.message.payload)
                .map_err(|_| hopeless("the payload is not text, so it cannot replace {}".into()))?
        } else {
            ""
        };
        let envelope = &job.message.envelope;
        let mut command = self.command.clone();
        let attempt = job.attempt.to_string();
        let trace = envelope.trace.traceparent();
        let variables = [
            ("VAKBUS_TASK_ID", envelope.id.as_str()),
            ("VAKBUS_ATTEMPT", &attempt),
            ("VAKBUS_SESSION", self.session.as_str()),
            ("VAKBUS_RUN_ID", &self.run_id),
            ("TRACEPARENT", &trace),
        ];
        for (name, value) in variables {
            command.env.push((OsString::from(name), OsString::from(value)));
        }
        // Those of a run around this one are not this command's.
        command.env_removed.extend([EMIT_VAR, EMIT_TOKEN_VAR].map(OsString::from));
        if let Some(emitter) = emitter {
            let variables = emitter.variables();
            command.env.extend(variables.map(|(name, value)| (OsString::from(name), value)));
        }
        command.for_text(text).map_err(|error| hopeless(error.to_string()))
    }

    /// Runs the command while its output and figures go out.
    async fn run(
        &self,
        job: &Job<'_>,
        command: &PreparedCommand,
        stop: &StopSignal,
        (mut lanes, emitter, started): (Lanes, Option<Admitted>, oneshot::Receiver<Probe>),
    ) -> (RunReport, Option<Kept>, Timestamp) {
        let place = EventPlace::of_attempt(job, &self.session);
        let stream = TerminalStream::new(job.endpoint.clone(), place);
        let figures = Figures::new(job, &self.session);
        let report = {
            let work = run(command, job.message.payload.clone(), &mut lanes, stop.clone());
            tokio::pin!(work);
            tokio::select! {
                report = &mut work => report,
                // Never ready, both: they look on until the command has ended.
                () = figures.watch(started) => work.await,
                () = job.endpoint.keep_vouching() => work.await,
            }
        };
        // The command has ended; what it left may take longer.
        let finished = job.endpoint.clock().now();
        if let Some(emitter) = emitter {
            emitter.finish(lanes::late(job)).await;
        }
        let (kept, lost_bytes) = lanes.finish(job, &report).await;
        let words = last_words(&stream, &figures, (&report, lost_bytes));
        if timeout(lanes::late(job), words).await.is_err() {
            let task = &job.message.envelope.id;
            tracing::warn!(%task, "the end of the output was not published in time");
        }
        (report, kept, finished)
    }

    async fn record(
        &self,
        job: &Job<'_>,
        report: &RunReport,
        started: Timestamp,
        finished: Timestamp,
    ) -> Result<Recorded, Failure> {
        let failed = |reason: String| Failure::Failed { reason };
        let envelope = &job.message.envelope;
        let Ok(Address::Task { role, workspace }) = Address::parse(&envelope.subject) else {
            return Err(failed(format!("{} is no work queue", envelope.subject)));
        };
        let receipt = WorkReceipt {
            task_id: envelope.id.clone(),
            role,
            worker: job.endpoint.agent().clone(),
            attempt: job.attempt,
            exit_code: 0,
            output_hash: EventHash::from_bytes(report.output_hash),
            stdout_bytes: report.stdout_bytes,
            stderr_bytes: report.stderr_bytes,
            started,
            finished,
        };
        let subject = Address::Receipt { workspace, session: self.session.clone() }.subject();
        let draft = about(job, &self.session, subject, RECEIPT_COMPLETED, receipt.to_json())
            .content_type(RECEIPT_CONTENT_TYPE)
            .id(receipt_id(&job.message.hash));
        let recorded = job.endpoint.record(draft).await;
        recorded.map_err(|error| failed(format!("the receipt was not stored: {error}")))
    }
}

/// Says how a run ended. Live events are best effort, so who awaits this waits for so long only.
async fn last_words(
    stream: &TerminalStream,
    figures: &Figures<'_>,
    (report, lost_bytes): (&RunReport, u64),
) {
    let task = stream.task();
    // After all output: it says that there is no more.
    if let Err(error) = stream.end(&TerminalEnd::new(report, lost_bytes)).await {
        tracing::warn!(%task, %error, "the end of the output was not published");
    }
    if let Some(usage) = &report.usage {
        figures.last(usage).await;
    }
    if let Err(error) = stream.vouch().await {
        tracing::warn!(%task, %error, "a checkpoint of the output was not published");
    }
}

/// The id of a task's receipt: one a task, however often it is tried.
///
/// Made from the task's leaf hash (`<64 hex digits>.receipt`), which binds workspace, session and
/// sender: receipts of all workspaces and sessions lie in one stream, and a task id that is used
/// again elsewhere must not make the engine take its receipt for a second copy of this one. A
/// redriven task keeps its envelope, so it keeps its receipt.
fn receipt_id(task: &EventHash) -> String {
    format!("{task}.receipt")
}

/// Says what the receipt does not: that the output was cut, or that somebody was killed for it.
fn warn_about(task: &str, report: &RunReport) {
    if report.leftovers_killed {
        tracing::warn!(task, "the command left processes that held its output open: killed");
    }
    // A run that was stopped is cut on purpose.
    if !report.output_complete && report.exit != ExitKind::Killed {
        let (stdout, stderr) = (report.stdout_bytes, report.stderr_bytes);
        tracing::warn!(task, stdout, stderr, "the output was not read to its end");
    }
}

/// A draft that the task led to: in its trace, with its hash as the cause.
fn about(
    job: &Job<'_>,
    session: &SessionId,
    subject: bus_subjects::Subject,
    event_type: &str,
    payload: impl Into<Bytes>,
) -> Draft {
    Draft::new(subject, event_type, payload)
        .session(session.clone())
        .cause(job.message.hash)
        .trace(job.message.envelope.trace.clone())
}

/// Where the live events of a session go.
fn live(endpoint: &Endpoint, session: &SessionId) -> (bus_subjects::WorkspaceId, SessionId) {
    (endpoint.workspace().clone(), session.clone())
}

/// Why a run failed, in one line: how it ended and the last line that it showed on stderr or its
/// terminal, without what steers one.
fn reason(report: &RunReport, command: &CommandSpec) -> String {
    let how = match &report.exit {
        ExitKind::Exited { code } => format!("exit code {code}"),
        ExitKind::Signaled { signal } => format!("ended by signal {signal}"),
        ExitKind::TimedOut => {
            format!("time limit of {:?} reached", command.timeout.unwrap_or_default())
        }
        ExitKind::Killed => "killed".to_owned(),
        ExitKind::NotStarted { reason, .. } => reason.clone(),
    };
    match last_line(&report.stderr_tail) {
        Some(line) => format!("{how}: {}", line.chars().take(200).collect::<String>()),
        None => how,
    }
}

fn last_line(output: &[u8]) -> Option<String> {
    let mut last = None;
    let mut note = |line: Line<'_>| {
        let text = line.text.trim();
        if !text.is_empty() {
            last = Some(text.to_owned());
        }
    };
    let mut fold = Fold::new(FoldLimits::text());
    fold.push(output, &mut note);
    fold.finish(&mut note);
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_task_ids_of_two_tasks_have_two_receipts() {
        let (one, other) = (EventHash::of(b"t-1 of one session"), EventHash::of(b"t-1 of another"));
        assert_ne!(receipt_id(&one), receipt_id(&other));
        assert_eq!(receipt_id(&one), format!("{one}.receipt"));
    }

    #[test]
    fn a_reason_is_the_last_line_that_was_seen() {
        let seen = |output: &[u8]| last_line(output);
        assert_eq!(seen(b"first\r\n 10 %\r\x1b[31m 20 %: no\x1b[0m\r\n\r\n").unwrap(), "20 %: no");
        assert_eq!(seen(b"the reason\n").unwrap(), "the reason");
        assert_eq!(seen(b"\r\n \x1b[2J"), None);
    }
}
