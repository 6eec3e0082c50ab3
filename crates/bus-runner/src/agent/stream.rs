//! A command's output as live events: raw bytes, cut anywhere, never decoded.

use bus_core::Job;
use bus_subjects::{Address, SessionId, Subject};
use bytes::Bytes;
use tokio::sync::oneshot;

use super::{about, live};
use crate::{OutputSink, OutputStream, Probe};

/// The event type of a chunk of stdout.
pub const TERMINAL_STDOUT: &str = "vak.terminal.stdout";

/// The event type of a chunk of stderr.
pub const TERMINAL_STDERR: &str = "vak.terminal.stderr";

/// Publishes each chunk on the session's terminal subject.
///
/// Every event says of which task (`task`) it is and where in the stream it begins (`offset`), so
/// that a reader who lost some knows where.
pub(super) struct TerminalStream<'a> {
    job: &'a Job<'a>,
    session: &'a SessionId,
    subject: Subject,
    probe: Option<oneshot::Sender<Probe>>,
    stdout_bytes: u64,
    stderr_bytes: u64,
}

impl<'a> TerminalStream<'a> {
    pub(super) fn new(
        job: &'a Job<'a>,
        session: &'a SessionId,
        probe: oneshot::Sender<Probe>,
    ) -> Self {
        let (workspace, session_id) = live(job.endpoint, session);
        let subject = Address::Terminal { workspace, session: session_id }.subject();
        Self { job, session, subject, probe: Some(probe), stdout_bytes: 0, stderr_bytes: 0 }
    }

    /// Where the chunks go.
    pub(super) fn subject(&self) -> &Subject {
        &self.subject
    }
}

impl OutputSink for TerminalStream<'_> {
    fn started(&mut self, pid: u32) {
        if let Some(probe) = self.probe.take() {
            // Nobody watches any more: then nobody needs the figures.
            let _unwatched = probe.send(Probe::new(pid));
        }
    }

    async fn chunk(&mut self, stream: OutputStream, bytes: Bytes) {
        let (event_type, count) = match stream {
            OutputStream::Stdout => (TERMINAL_STDOUT, &mut self.stdout_bytes),
            OutputStream::Stderr => (TERMINAL_STDERR, &mut self.stderr_bytes),
        };
        let offset = *count;
        *count += bytes.len() as u64;
        let task_id = &self.job.message.envelope.id;
        let draft = about(self.job, self.session, self.subject.clone(), event_type, bytes)
            .content_type("application/octet-stream")
            .extension("task", task_id)
            .and_then(|draft| draft.extension("offset", offset.to_string()));
        let published = match draft {
            Ok(draft) => self.job.endpoint.publish(draft).await.map_err(|e| e.to_string()),
            Err(error) => Err(error.to_string()),
        };
        // Live output is best effort: the run and its receipt do not depend on it.
        if let Err(error) = published {
            tracing::warn!(task = %task_id, %error, "a chunk of output was not published");
        }
    }
}
