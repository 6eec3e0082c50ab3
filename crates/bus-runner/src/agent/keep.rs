//! The lane of kept output: the beginning and the end of standard output, as the task's result.

use std::sync::Arc;

use bus_core::{Endpoint, Job, LeftOut, Recorded, ResultOutput, ResultWriter, Results, TaskResult};
use bus_envelope::EventHash;
use bus_subjects::SessionId;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    task::JoinSet,
};

use crate::HeadTail;

/// Keeps standard output, from a task of its own; its end takes the task along.
///
/// The store is always polled, so that it holds up nobody else. What waits for it is bounded:
/// beyond that the command waits.
pub(super) struct KeptLane {
    pieces: mpsc::UnboundedSender<Piece>,
    room: Arc<Semaphore>,
    keeping: JoinSet<(ResultOutput, Option<LeftOut>)>,
    stderr: Sha256,
}

/// What an attempt left to be kept.
pub(super) struct Kept {
    output: ResultOutput,
    left_out: Option<LeftOut>,
    stderr_hash: EventHash,
}

/// Bytes on their way, and the room that they take until they are stored.
struct Piece {
    bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

/// How much of an output is kept when nothing else is said: 64 MiB.
pub const OUTPUT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The most of an output's end that is kept of one that is too long, in bytes.
const TAIL_BYTES_MAX: u64 = 64 * 1024;

/// Why nothing is kept where nobody wants it.
const NOT_WANTED: &str = "its worker keeps no output";

/// How many bytes may wait for the store.
const WAITING_MAX: u32 = 128 * 1024;

/// What a piece takes at least, so that the number of tiny ones is bounded.
const PIECE_COST_MIN: u32 = 256;

impl KeptLane {
    /// Begins to keep up to `bytes_max` bytes of the output of `job`.
    pub(super) fn start(job: &Job<'_>, bytes_max: u64) -> Self {
        let (pieces, coming) = mpsc::unbounded_channel();
        let results = Results::new(job.endpoint.clone());
        let writer = results.writer(&job.message.envelope.id).map_err(|error| error.to_string());
        let mut keeping = JoinSet::new();
        keeping.spawn(keep_all(coming, writer, bytes_max));
        let room = Arc::new(Semaphore::new(WAITING_MAX as usize));
        Self { pieces, room, keeping, stderr: Sha256::new() }
    }

    /// Takes what was written to standard error, of which only the hash is kept.
    pub(super) fn stderr(&mut self, bytes: &[u8]) {
        self.stderr.update(bytes);
    }

    /// Takes what was written to standard output; waits while too much waits for the store.
    pub(super) async fn stdout(&self, bytes: Bytes) {
        let cost = u32::try_from(bytes.len()).unwrap_or(WAITING_MAX);
        let cost = cost.clamp(PIECE_COST_MIN, WAITING_MAX);
        // The semaphore is never closed, and whoever keeps ends after this lane.
        if let Ok(room) = Arc::clone(&self.room).acquire_many_owned(cost).await {
            let _ended = self.pieces.send(Piece { bytes, _room: room });
        }
    }

    /// Ends the output.
    pub(super) async fn finish(self) -> Kept {
        let Self { pieces, mut keeping, stderr, .. } = self;
        drop(pieces);
        let (output, left_out) = match keeping.join_next().await {
            Some(Ok(kept)) => kept,
            Some(Err(error)) => (ResultOutput::NotKept { reason: error.to_string() }, None),
            None => (ResultOutput::NotKept { reason: "nothing was kept".to_owned() }, None),
        };
        Kept { output, left_out, stderr_hash: EventHash::from_bytes(stderr.finalize().into()) }
    }
}

/// Keeps what comes until its end. What cannot be kept is taken all the same: the work itself is
/// not undone by it, and the receipt has the hash.
async fn keep_all(
    mut coming: mpsc::UnboundedReceiver<Piece>,
    writer: Result<ResultWriter, String>,
    bytes_max: u64,
) -> (ResultOutput, Option<LeftOut>) {
    let kept = match writer {
        Ok(_) if bytes_max == 0 => Err(NOT_WANTED.to_owned()),
        Ok(writer) => bounded(&mut coming, writer, bytes_max).await.map_err(|e| e.to_string()),
        Err(reason) => Err(reason),
    };
    while coming.recv().await.is_some() {}
    kept.unwrap_or_else(|reason| (ResultOutput::NotKept { reason }, None))
}

async fn bounded(
    coming: &mut mpsc::UnboundedReceiver<Piece>,
    mut writer: ResultWriter,
    bytes_max: u64,
) -> bus_core::Result<(ResultOutput, Option<LeftOut>)> {
    let tail_max = TAIL_BYTES_MAX.min(bytes_max / 2);
    // At most 64 KiB.
    let tail_bytes = usize::try_from(tail_max).unwrap_or(0);
    let mut output = HeadTail::new(bytes_max.saturating_sub(tail_max), tail_bytes);
    while let Some(piece) = coming.recv().await {
        writer.write(output.push(&piece.bytes)).await?;
    }
    let end = output.finish();
    writer.write(&end.tail).await?;
    let left_out = end.left_out.map(|left_out| LeftOut {
        at: left_out.at,
        bytes: left_out.bytes,
        stdout_hash: EventHash::from_bytes(end.hash),
    });
    Ok((writer.finish().await?, left_out))
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
        left_out: kept.left_out,
    };
    if let ResultOutput::NotKept { reason } = &result.output
        && reason != NOT_WANTED
    {
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
