//! Keeps what a command writes to standard output, beside showing it.

use bus_core::{Endpoint, Job, Recorded, ResultOutput, ResultWriter, Results, TaskResult};
use bus_envelope::EventHash;
use bus_subjects::SessionId;
use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::stream::TerminalStream;
use crate::{OutputSink, OutputStream};

/// Shows the output of one attempt, and keeps it if that is wanted.
pub(super) struct Keeping<'a> {
    stream: TerminalStream<'a>,
    writer: Option<ResultWriter>,
    /// Why the output cannot be kept.
    lost: Option<String>,
    stderr: Sha256,
}

/// What an attempt left to be kept.
pub(super) struct Kept {
    output: ResultOutput,
    stderr_hash: EventHash,
}

impl<'a> Keeping<'a> {
    pub(super) fn new(stream: TerminalStream<'a>, job: &Job<'_>, is_kept: bool) -> Self {
        let results = Results::new(job.endpoint.clone());
        let writer = is_kept.then(|| results.writer(&job.message.envelope.id)).transpose();
        let (writer, lost) = match writer {
            Ok(writer) => (writer, None),
            Err(error) => (None, Some(error.to_string())),
        };
        Self { stream, writer, lost, stderr: Sha256::new() }
    }

    /// Ends the output; none when it was not to be kept.
    pub(super) async fn finish(self) -> Option<Kept> {
        let output = match (self.writer, self.lost) {
            (None, None) => return None,
            (_, Some(reason)) => ResultOutput::NotKept { reason },
            (Some(writer), None) => match writer.finish().await {
                Ok(output) => output,
                Err(error) => ResultOutput::NotKept { reason: error.to_string() },
            },
        };
        Some(Kept { output, stderr_hash: EventHash::from_bytes(self.stderr.finalize().into()) })
    }
}

impl OutputSink for Keeping<'_> {
    fn started(&mut self, pid: u32) {
        self.stream.started(pid);
    }

    async fn chunk(&mut self, stream: OutputStream, bytes: Bytes) {
        match (stream, &mut self.writer) {
            (OutputStream::Stderr, _) => self.stderr.update(&bytes),
            (OutputStream::Stdout, None) => {}
            (OutputStream::Stdout, Some(writer)) => {
                if let Err(error) = writer.write(&bytes).await {
                    // The work itself is not undone by it, and the receipt has the hash.
                    (self.writer, self.lost) = (None, Some(error.to_string()));
                }
            }
        }
        self.stream.chunk(stream, bytes).await;
    }
}

/// Keeps the output of a finished task, whose receipt is stored by now. What cannot be kept is told
/// in the log: the work is done all the same, and must not be done again for it.
pub(super) async fn keep(job: &Job<'_>, session: &SessionId, recorded: &Recorded, kept: Kept) {
    let envelope = &job.message.envelope;
    let results = Results::new(job.endpoint.clone());
    let receipt = match recorded {
        Recorded::Stored(sent) => Some(sent.receipt.seq),
        Recorded::AlreadyThere => None,
    };
    // The receipt is of an earlier attempt: so is the output that it vouches for.
    if receipt.is_none() && is_there(&results, job).await {
        return;
    }
    let result = TaskResult {
        task_id: envelope.id.clone(),
        task: job.message.hash,
        attempt: job.attempt,
        worker: Endpoint::agent(job.endpoint).clone(),
        session: session.clone(),
        receipt,
        stderr_hash: kept.stderr_hash,
        output: kept.output,
    };
    if let ResultOutput::NotKept { reason } = &result.output {
        tracing::warn!(task = %envelope.id, reason, "the output was not kept");
    }
    if let Err(error) = results.put(&result).await {
        tracing::warn!(task = %envelope.id, %error, "the result was not kept");
    }
}

async fn is_there(results: &Results, job: &Job<'_>) -> bool {
    let found = results.get(&job.message.envelope.id).await;
    found.is_ok_and(|found| found.is_some_and(|result| result.task == job.message.hash))
}
