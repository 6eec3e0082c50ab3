//! The lane of kept output: the beginning and the end of standard output, as the task's result.

use std::sync::Arc;

use bus_core::{Endpoint, Job, LeftOut, Recorded, ResultOutput, ResultWriter, Results, TaskResult};
use bus_envelope::EventHash;
use bus_subjects::SessionId;
use bytes::Bytes;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    task::JoinSet,
};

use crate::{HeadTail, RunReport};

/// Keeps standard output, from a task of its own; its end takes the task along.
///
/// The store is always polled, so that it holds up nobody else. What waits for it is bounded:
/// beyond that the command waits.
pub(super) struct KeptLane {
    pieces: mpsc::UnboundedSender<Piece>,
    room: Arc<Semaphore>,
    keeping: JoinSet<Taken>,
}

/// What an attempt left to be kept.
pub(super) struct Kept {
    output: ResultOutput,
    left_out: Option<LeftOut>,
    stderr_hash: EventHash,
}

/// What the store took.
struct Taken {
    output: ResultOutput,
    left_out: Option<crate::LeftOut>,
    /// How many bytes came; unknown when not all were waited for.
    bytes: Option<u64>,
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

/// Why nothing is kept of what did not come whole.
const NOT_WHOLE: &str = "not all of the output was taken in";

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
        Self { pieces, room, keeping }
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

    /// Ends the output, whose hashes are those of the run: nothing is hashed here once more.
    pub(super) async fn finish(self, report: &RunReport) -> Kept {
        let Self { pieces, mut keeping, .. } = self;
        drop(pieces);
        let taken = match keeping.join_next().await {
            Some(Ok(taken)) => taken,
            Some(Err(error)) => Taken::nothing(error.to_string()),
            None => Taken::nothing("nothing was kept".to_owned()),
        };
        taken.of(report)
    }
}

impl Taken {
    fn nothing(reason: String) -> Self {
        Self { output: ResultOutput::NotKept { reason }, left_out: None, bytes: None }
    }

    /// What is kept of this run. Parts of another length are not of what its hashes are of.
    fn of(self, report: &RunReport) -> Kept {
        let is_whole = self.bytes.is_none_or(|bytes| bytes == report.stdout_bytes);
        let Self { output, left_out, .. } =
            if is_whole { self } else { Self::nothing(NOT_WHOLE.to_owned()) };
        let left_out = left_out.map(|left_out| LeftOut {
            at: left_out.at,
            bytes: left_out.bytes,
            stdout_hash: EventHash::from_bytes(report.stdout_hash),
        });
        Kept { output, left_out, stderr_hash: EventHash::from_bytes(report.stderr_hash) }
    }
}

/// Keeps what comes until its end. What cannot be kept is taken all the same: the work itself is
/// not undone by it, and the receipt has the hash.
async fn keep_all(
    mut coming: mpsc::UnboundedReceiver<Piece>,
    writer: Result<ResultWriter, String>,
    bytes_max: u64,
) -> Taken {
    let taken = match writer {
        Ok(_) if bytes_max == 0 => Err(NOT_WANTED.to_owned()),
        Ok(writer) => bounded(&mut coming, writer, bytes_max).await.map_err(|e| e.to_string()),
        Err(reason) => Err(reason),
    };
    while coming.recv().await.is_some() {}
    taken.unwrap_or_else(Taken::nothing)
}

async fn bounded(
    coming: &mut mpsc::UnboundedReceiver<Piece>,
    mut writer: ResultWriter,
    bytes_max: u64,
) -> bus_core::Result<Taken> {
    let tail_max = TAIL_BYTES_MAX.min(bytes_max / 2);
    // At most 64 KiB.
    let tail_bytes = usize::try_from(tail_max).unwrap_or(0);
    let mut output = HeadTail::new(bytes_max.saturating_sub(tail_max), tail_bytes);
    while let Some(piece) = coming.recv().await {
        writer.write(output.push(&piece.bytes)).await?;
    }
    let end = output.finish();
    writer.write(&end.tail).await?;
    let (left_out, bytes) = (end.left_out, Some(end.bytes));
    Ok(Taken { output: writer.finish().await?, left_out, bytes })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ExitKind;

    fn report(stdout_bytes: u64) -> RunReport {
        RunReport {
            exit: ExitKind::Exited { code: 0 },
            stdout_bytes,
            stderr_bytes: 0,
            output_hash: [1; 32],
            stdout_hash: [2; 32],
            stderr_hash: [3; 32],
            stderr_tail: Vec::new(),
            leftovers_killed: false,
            output_complete: true,
            usage: None,
        }
    }

    fn taken(bytes: u64) -> Taken {
        let left_out = Some(crate::LeftOut { at: 1, bytes: bytes - 2 });
        Taken { output: ResultOutput::Inline("ab".into()), left_out, bytes: Some(bytes) }
    }

    #[test]
    fn the_hashes_of_what_is_kept_are_those_of_the_run() {
        let kept = taken(9).of(&report(9));
        let left_out = kept.left_out.unwrap();
        assert_eq!(left_out.stdout_hash, EventHash::from_bytes([2; 32]));
        assert_eq!((left_out.at, left_out.bytes), (1, 7));
        assert_eq!(kept.stderr_hash, EventHash::from_bytes([3; 32]));
    }

    #[test]
    fn output_of_another_length_than_the_runs_is_not_kept() {
        let kept = taken(9).of(&report(10));
        assert_eq!(kept.output, ResultOutput::NotKept { reason: NOT_WHOLE.to_owned() });
        assert!(kept.left_out.is_none());
    }
}
