//! One request's command: what it is given, what it wrote, what is answered.

use std::{ffi::OsString, time::Duration};

use bus_core::{Endpoint, Heard};
use bus_runner::{
    CommandSpec, ExitKind, OutputSink, OutputStream, PreparedCommand, RunReport, StopSignal, run,
};
use bytes::{Bytes, BytesMut};

use crate::{args::Target, print as out};

/// Runs `command` for a request; what came of it is the answer, or why there is none.
pub(super) async fn answer_of(
    command: &CommandSpec,
    target: &Target,
    heard: &Heard,
    stop: StopSignal,
) -> Result<Bytes, String> {
    let command = prepare(command, target, heard)?;
    let mut written = Written::new(stop.child());
    let stopped = written.stop.clone();
    let report = run(&command, heard.opened.payload.clone(), &mut written, stopped).await;
    if written.is_too_long {
        let bytes_max = Endpoint::PAYLOAD_BYTES_MAX;
        return Err(format!("the answer has more than {bytes_max} bytes"));
    }
    match report.is_success() {
        true => Ok(written.bytes.freeze()),
        false => Err(reason(&report, command.timeout())),
    }
}

fn prepare(
    command: &CommandSpec,
    target: &Target,
    heard: &Heard,
) -> Result<PreparedCommand, String> {
    let text = match command.takes_text() {
        true => std::str::from_utf8(&heard.opened.payload)
            .map_err(|_| "the payload is not text, so it cannot replace {}".to_owned())?,
        false => "",
    };
    let envelope = &heard.opened.envelope;
    let mut command = command.clone();
    let variables = [
        ("VAKBUS_CALL", target.to_string()),
        ("VAKBUS_REQUEST_ID", envelope.id.clone()),
        ("VAKBUS_FROM", envelope.lineage.agent.to_string()),
        ("TRACEPARENT", envelope.trace.traceparent()),
    ];
    for (name, value) in variables {
        command.env.push((OsString::from(name), OsString::from(value)));
    }
    command.for_text(text).map_err(|error| error.to_string())
}

/// Why a command gave no answer, for the asker.
fn reason(report: &RunReport, timeout: Option<Duration>) -> String {
    let how = match &report.exit {
        ExitKind::Exited { code } => format!("the command ended with exit code {code}"),
        ExitKind::Signaled { signal } => format!("signal {signal} ended the command"),
        ExitKind::TimedOut => {
            let limit = timeout.map(|limit| humantime::format_duration(limit).to_string());
            format!("the command took longer than {}", limit.unwrap_or_default())
        }
        ExitKind::Killed => "the command was stopped".to_owned(),
        ExitKind::NotStarted { reason, .. } => reason.clone(),
    };
    let tail = String::from_utf8_lossy(&report.stderr_tail);
    match out::harmless(tail.trim()) {
        tail if tail.is_empty() => how,
        tail => format!("{how}: {tail}"),
    }
}

/// What a command wrote to stdout, as far as it fits into an answer.
struct Written {
    bytes: BytesMut,
    is_too_long: bool,
    /// Ends a command that writes more than can be answered.
    stop: StopSignal,
}

impl Written {
    fn new(stop: StopSignal) -> Self {
        Self { bytes: BytesMut::new(), is_too_long: false, stop }
    }
}

impl OutputSink for Written {
    fn started(&mut self, _pid: u32) {}

    async fn chunk(&mut self, stream: OutputStream, bytes: Bytes) {
        if stream == OutputStream::Stderr || self.is_too_long {
            return;
        }
        if self.bytes.len() + bytes.len() > Endpoint::PAYLOAD_BYTES_MAX {
            self.is_too_long = true;
            self.bytes = BytesMut::new();
            return self.stop.kill_now();
        }
        self.bytes.extend_from_slice(&bytes);
    }
}
