//! A command as an agent on the bus: its output, its figures and its receipt go over the bus.

mod figures;
mod keep;
mod stream;

use std::{ffi::OsString, time::Duration};

use bus_core::{Endpoint, Failure, Handled, Handler, Job, Recorded};
use bus_envelope::{Draft, EventHash, Timestamp};
use bus_evidence::{RECEIPT_COMPLETED, RECEIPT_CONTENT_TYPE, WorkReceipt};
use bus_subjects::{Address, SessionId};
use bytes::Bytes;
use tokio::sync::oneshot;

use self::{
    figures::Figures,
    keep::{Keeping, Kept},
    stream::TerminalStream,
};
use crate::{CommandSpec, ExitKind, PreparedCommand, RunReport, StopSignal, run};

pub use self::stream::{TERMINAL_STDERR, TERMINAL_STDOUT};

/// The event type of a telemetry record.
pub const TELEMETRY: &str = "vak.telemetry.process";

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
/// `TRACEPARENT`, and none of the bus's secrets.
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
}

impl Handler for CommandAgent {
    async fn handle(&self, job: Job<'_>) -> Result<Handled, Failure> {
        let command = self.prepare(&job)?;
        let stop = StopSignal::new();
        let started = job.endpoint.clock().now();
        let (report, kept) = {
            let work = self.run(&job, &command, &stop);
            tokio::pin!(work);
            tokio::select! {
                done = &mut work => done,
                () = job.cancel.cancelled() => {
                    stop.kill_now();
                    work.await
                }
            }
        };
        let finished = job.endpoint.clock().now();
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
    fn prepare(&self, job: &Job<'_>) -> Result<PreparedCommand, Failure> {
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
        command.for_text(text).map_err(|error| hopeless(error.to_string()))
    }

    /// Runs the command while its output and figures go out.
    async fn run(
        &self,
        job: &Job<'_>,
        command: &PreparedCommand,
        stop: &StopSignal,
    ) -> (RunReport, Option<Kept>) {
        let (probe, started) = oneshot::channel();
        let stream = TerminalStream::new(job, &self.session, probe);
        let subject = stream.subject().clone();
        let mut sink = Keeping::new(stream, job, self.keeps_results);
        let figures = Figures::new(job, &self.session);
        let report = {
            let work = run(command, job.message.payload.clone(), &mut sink, stop.clone());
            tokio::pin!(work);
            tokio::select! {
                report = &mut work => report,
                // Never ready, both: they look on until the command has ended.
                () = figures.watch(started) => work.await,
                () = job.endpoint.keep_vouching() => work.await,
            }
        };
        if let Some(usage) = &report.usage {
            figures.last(usage).await;
        }
        // Live output is best effort, and so is the word for it.
        if let Err(error) = job.endpoint.finish_live(&subject).await {
            let task = &job.message.envelope.id;
            tracing::warn!(%task, %error, "a checkpoint of the output was not published");
        }
        let kept = if report.is_success() { sink.finish().await } else { None };
        (report, kept)
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

/// Why a run failed, in one line: how it ended and the last line it wrote to stderr.
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
    let tail = String::from_utf8_lossy(&report.stderr_tail);
    match tail.lines().map(str::trim).rfind(|line| !line.is_empty()) {
        Some(line) => format!("{how}: {}", line.chars().take(200).collect::<String>()),
        None => how,
    }
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
}
