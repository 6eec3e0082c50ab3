//! The two output streams of a run: raw chunks to a sink, counted and hashed on the way.

use std::future::Future;

use bytes::{Bytes, BytesMut};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{ChildStderr, ChildStdout};

/// Takes what a command writes, chunk by chunk.
///
/// The chunks of one stream, put together, are exactly the bytes that the command wrote to it;
/// they are cut anywhere, also inside a character. Between the two streams no order is promised.
pub trait OutputSink: Send {
    /// Hears the id of the leader as soon as it runs. The id is not reused before the run ends, so
    /// a [`Probe`](crate::Probe) made here looks at the right process.
    fn started(&mut self, pid: u32);

    /// Takes one chunk of 1 to [`CHUNK_BYTES_MAX`] bytes.
    ///
    /// Until it is done no further output is read, so a slow sink slows the command down instead
    /// of filling memory. It is dropped unfinished when the run is stopped or its future dropped.
    fn chunk(&mut self, stream: OutputStream, bytes: Bytes) -> impl Future<Output = ()> + Send;
}

/// One of the two streams that a command writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputStream {
    /// File descriptor 1.
    Stdout,
    /// File descriptor 2.
    Stderr,
}

/// The most bytes in one chunk.
pub const CHUNK_BYTES_MAX: usize = 64 * 1024;

/// The most bytes kept of the end of stderr.
pub const STDERR_TAIL_BYTES_MAX: usize = 4 * 1024;

/// Both pipes of a running command.
#[derive(Debug)]
pub(crate) struct Output {
    stdout: Pipe<ChildStdout>,
    stderr: Pipe<ChildStderr>,
    stderr_tail: Vec<u8>,
}

impl Output {
    pub(crate) fn new(stdout: Option<ChildStdout>, stderr: Option<ChildStderr>) -> Self {
        Self { stdout: Pipe::new(stdout), stderr: Pipe::new(stderr), stderr_tail: Vec::new() }
    }

    /// Waits for the next chunk; `None` when both streams have ended. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<(OutputStream, Bytes)> {
        while self.is_open() {
            let (stream, bytes) = tokio::select! {
                bytes = self.stdout.next(), if self.stdout.is_open() => {
                    (OutputStream::Stdout, bytes)
                }
                bytes = self.stderr.next(), if self.stderr.is_open() => {
                    (OutputStream::Stderr, bytes)
                }
            };
            let Some(bytes) = bytes else { continue };
            if stream == OutputStream::Stderr {
                keep_tail(&mut self.stderr_tail, &bytes);
            }
            return Some((stream, bytes));
        }
        None
    }

    /// Takes a chunk that is there already; `None` when there is none at this moment.
    pub(crate) async fn next_ready(&mut self) -> Option<(OutputStream, Bytes)> {
        // Unconstrained: an exhausted budget of the task must not look like an empty pipe.
        tokio::task::unconstrained(async {
            tokio::select! {
                biased;
                chunk = self.next() => chunk,
                () = std::future::ready(()) => None,
            }
        })
        .await
    }

    /// Tells whether a stream has not ended yet.
    pub(crate) fn is_open(&self) -> bool {
        self.stdout.is_open() || self.stderr.is_open()
    }

    /// Closes both streams and returns what is known about them.
    pub(crate) fn finish(self) -> OutputSummary {
        let complete = !self.is_open() && !self.stdout.failed && !self.stderr.failed;
        OutputSummary {
            stdout_bytes: self.stdout.bytes,
            stderr_bytes: self.stderr.bytes,
            hash: combined(self.stdout.digest, self.stderr.digest),
            stderr_tail: self.stderr_tail,
            complete,
        }
    }
}

/// What is known of the output when it has ended.
#[derive(Debug)]
pub(crate) struct OutputSummary {
    pub(crate) stdout_bytes: u64,
    pub(crate) stderr_bytes: u64,
    pub(crate) hash: [u8; 32],
    pub(crate) stderr_tail: Vec<u8>,
    pub(crate) complete: bool,
}

impl OutputSummary {
    /// The summary of a command that never wrote anything.
    pub(crate) fn empty() -> Self {
        Output::new(None, None).finish()
    }
}

#[derive(Debug)]
struct Pipe<R> {
    reader: Option<R>,
    buffer: BytesMut,
    digest: Sha256,
    bytes: u64,
    failed: bool,
}

impl<R: AsyncRead + Unpin> Pipe<R> {
    fn new(reader: Option<R>) -> Self {
        let (buffer, digest) = (BytesMut::new(), Sha256::new());
        Self { reader, buffer, digest, bytes: 0, failed: false }
    }

    /// Waits for bytes; `None` once, at the end. Cancel safe.
    async fn next(&mut self) -> Option<Bytes> {
        let reader = self.reader.as_mut()?;
        self.buffer.reserve(CHUNK_BYTES_MAX);
        let mut window = bytes::BufMut::limit(&mut self.buffer, CHUNK_BYTES_MAX);
        let read = reader.read_buf(&mut window).await;
        let Ok(1..) = read else {
            self.failed = read.is_err();
            self.reader = None;
            self.buffer = BytesMut::new();
            return None;
        };
        self.digest.update(&self.buffer);
        self.bytes = self.bytes.saturating_add(self.buffer.len() as u64);
        if self.buffer.len() >= HAND_OVER_BYTES_MIN {
            return Some(self.buffer.split().freeze());
        }
        let small = Bytes::copy_from_slice(&self.buffer);
        self.buffer.clear();
        Some(small)
    }
}

impl<R> Pipe<R> {
    fn is_open(&self) -> bool {
        self.reader.is_some()
    }
}

/// SHA-256 over the SHA-256 of stdout followed by the SHA-256 of stderr.
fn combined(stdout: Sha256, stderr: Sha256) -> [u8; 32] {
    let mut both = Sha256::new();
    both.update(stdout.finalize());
    both.update(stderr.finalize());
    both.finalize().into()
}

/// Appends `bytes` and drops from the front what is over the limit.
fn keep_tail(tail: &mut Vec<u8>, bytes: &[u8]) {
    let start = bytes.len().saturating_sub(STDERR_TAIL_BYTES_MAX);
    let new = bytes.get(start..).unwrap_or_default();
    let over = (tail.len() + new.len()).saturating_sub(STDERR_TAIL_BYTES_MAX);
    tail.drain(..over);
    tail.extend_from_slice(new);
}

/// Smaller chunks are copied, so that one that waits in a queue does not hold 64 KiB.
const HAND_OVER_BYTES_MIN: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_tail_is_the_end_of_everything(parts in prop::collection::vec(0usize..9_000, 0..6)) {
            let all: Vec<u8> = (0..parts.iter().sum()).map(|at: usize| (at % 251) as u8).collect();
            let (mut tail, mut rest) = (Vec::new(), all.as_slice());
            for part in parts {
                let (now, later) = rest.split_at(part);
                keep_tail(&mut tail, now);
                rest = later;
            }
            let start = all.len().saturating_sub(STDERR_TAIL_BYTES_MAX);
            prop_assert_eq!(tail, all[start..].to_vec());
        }
    }

    #[test]
    fn the_hash_of_no_output_is_that_of_two_empty_streams() {
        let empty = Sha256::digest(b"");
        let both: [u8; 32] = Sha256::digest([empty, empty].concat()).into();
        assert_eq!(OutputSummary::empty().hash, both);
    }
}
