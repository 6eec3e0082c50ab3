//! The output of a run, by two pipes or one terminal: raw chunks to a sink, counted and hashed.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

use crate::group::Ends;
use crate::pty::Pty;
use crate::reading::read;
use crate::terminal::TerminalSize;

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

    /// Hears the size of the command's terminal, before its first chunk and after each change.
    /// What follows was not necessarily written for it: the command hears of it at the same time.
    ///
    /// As [`OutputSink::chunk`] it is waited for, and may be dropped unfinished.
    fn resized(&mut self, size: TerminalSize) -> impl Future<Output = ()> + Send {
        let _heard_by_nobody = size;
        std::future::ready(())
    }
}

/// A stream that a command writes: two with pipes, one with a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputStream {
    /// File descriptor 1.
    Stdout,
    /// File descriptor 2.
    Stderr,
    /// The terminal, which takes both. It ends lines with `\r\n`, as terminals do.
    Terminal,
}

/// The most bytes in one chunk.
pub const CHUNK_BYTES_MAX: usize = 64 * 1024;

/// The most bytes kept of the end of stderr, or of a terminal.
pub const STDERR_TAIL_BYTES_MAX: usize = 4 * 1024;

/// The output of a running command.
#[derive(Debug)]
pub(crate) struct Output {
    /// The terminal, or stdout.
    main: Channel,
    stderr: Channel,
    sizes: Option<watch::Receiver<TerminalSize>>,
    tail: Vec<u8>,
}

/// What happened to the output.
#[derive(Debug)]
pub(crate) enum Event {
    Chunk(OutputStream, Bytes),
    Resized(TerminalSize),
}

impl Output {
    pub(crate) fn new(ends: Ends) -> Self {
        let (main, stderr, sizes) = match ends {
            Ends::Pipes { stdout, stderr } => {
                (Some(Source::Pipe(stdout)), Some(Source::Pipe(stderr)), None)
            }
            Ends::Terminal { pty, sizes } => (Some(Source::Terminal(pty)), None, Some(sizes)),
        };
        Self { main: Channel::new(main), stderr: Channel::new(stderr), sizes, tail: Vec::new() }
    }

    /// Returns the size that the terminal has had so far; none with pipes.
    pub(crate) fn size(&self) -> Option<TerminalSize> {
        self.sizes.as_ref().map(|sizes| *sizes.borrow())
    }

    /// Waits for the next event; `None` when all streams have ended. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        while self.is_open() {
            let (stream, bytes) = tokio::select! {
                size = changed(&mut self.sizes) => {
                    self.resize(size);
                    return Some(Event::Resized(size));
                }
                bytes = self.main.next(), if self.main.is_open() => {
                    (self.main_stream(), bytes)
                }
                bytes = self.stderr.next(), if self.stderr.is_open() => {
                    (OutputStream::Stderr, bytes)
                }
            };
            let Some(bytes) = bytes else { continue };
            if stream != OutputStream::Stdout {
                keep_tail(&mut self.tail, &bytes);
            }
            return Some(Event::Chunk(stream, bytes));
        }
        None
    }

    /// Says that the command has ended: its terminal ends when nobody else writes to it.
    pub(crate) fn hang_up(&mut self) {
        if let Some(Source::Terminal(pty)) = &mut self.main.source {
            pty.hang_up();
        }
    }

    fn resize(&self, size: TerminalSize) {
        if let Some(Source::Terminal(pty)) = &self.main.source {
            pty.resize(size);
        }
    }

    fn main_stream(&self) -> OutputStream {
        match self.sizes {
            Some(_) => OutputStream::Terminal,
            None => OutputStream::Stdout,
        }
    }

    /// Takes an event that is there already; `None` when there is none at this moment.
    pub(crate) async fn next_ready(&mut self) -> Option<Event> {
        // Unconstrained: an exhausted budget of the task must not look like an empty pipe.
        tokio::task::unconstrained(async {
            tokio::select! {
                biased;
                event = self.next() => event,
                () = std::future::ready(()) => None,
            }
        })
        .await
    }

    /// Tells whether a stream has not ended yet.
    pub(crate) fn is_open(&self) -> bool {
        self.main.is_open() || self.stderr.is_open()
    }

    /// Closes all streams and returns what is known about them.
    pub(crate) fn finish(self) -> OutputSummary {
        let complete = !self.is_open() && !self.main.failed && !self.stderr.failed;
        OutputSummary {
            stdout_bytes: self.main.bytes,
            stderr_bytes: self.stderr.bytes,
            stdout_hash: self.main.digest.finalize().into(),
            stderr_hash: self.stderr.digest.finalize().into(),
            stderr_tail: self.tail,
            complete,
        }
    }
}

/// What is known of the output when it has ended.
#[derive(Debug)]
pub(crate) struct OutputSummary {
    pub(crate) stdout_bytes: u64,
    pub(crate) stderr_bytes: u64,
    pub(crate) stdout_hash: [u8; 32],
    pub(crate) stderr_hash: [u8; 32],
    pub(crate) stderr_tail: Vec<u8>,
    pub(crate) complete: bool,
}

impl OutputSummary {
    /// The summary of a command that never wrote anything.
    pub(crate) fn empty() -> Self {
        let nothing: [u8; 32] = Sha256::digest([]).into();
        Self {
            stdout_bytes: 0,
            stderr_bytes: 0,
            stdout_hash: nothing,
            stderr_hash: nothing,
            stderr_tail: Vec::new(),
            complete: true,
        }
    }

    /// SHA-256 over the SHA-256 of stdout followed by the SHA-256 of stderr.
    pub(crate) fn hash(&self) -> [u8; 32] {
        let both = Sha256::new().chain_update(self.stdout_hash).chain_update(self.stderr_hash);
        both.finalize().into()
    }
}

/// One stream: counted and hashed.
#[derive(Debug)]
struct Channel {
    source: Option<Source>,
    digest: Sha256,
    bytes: u64,
    failed: bool,
}

#[derive(Debug)]
enum Source {
    Pipe(AsyncFd<OwnedFd>),
    Terminal(Pty),
}

impl Source {
    async fn read(&self) -> io::Result<Vec<u8>> {
        match self {
            Self::Pipe(pipe) => read(pipe).await,
            Self::Terminal(pty) => pty.read().await,
        }
    }
}

impl Channel {
    fn new(source: Option<Source>) -> Self {
        Self { source, digest: Sha256::new(), bytes: 0, failed: false }
    }

    /// Waits for bytes; `None` once, at the end. Cancel safe.
    async fn next(&mut self) -> Option<Bytes> {
        let read = self.source.as_ref()?.read().await;
        let bytes = match read {
            Ok(bytes) if !bytes.is_empty() => bytes,
            ended => {
                self.failed = ended.is_err();
                self.source = None;
                return None;
            }
        };
        self.digest.update(&bytes);
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        match bytes.len() < HAND_OVER_BYTES_MIN {
            true => Some(Bytes::copy_from_slice(&bytes)),
            false => Some(Bytes::from(bytes)),
        }
    }

    fn is_open(&self) -> bool {
        self.source.is_some()
    }
}

/// Waits for another size than the last one. Cancel safe.
async fn changed(sizes: &mut Option<watch::Receiver<TerminalSize>>) -> TerminalSize {
    if let Some(sizes) = sizes {
        // The command holds the sender for as long as it runs.
        if sizes.changed().await.is_ok() {
            return *sizes.borrow_and_update();
        }
    }
    std::future::pending().await
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
        assert_eq!(OutputSummary::empty().hash(), both);
    }
}
