//! A command's output as live events: raw bytes, cut anywhere, never decoded.

use bus_core::{Endpoint, Result};
use bus_subjects::Subject;
use bytes::Bytes;

use crate::{
    CHUNK_BYTES_MAX, EventPlace, OutputStream, TERMINAL_END, TERMINAL_PTY, TERMINAL_SIZE,
    TERMINAL_STDERR, TERMINAL_STDOUT, TerminalEnd, TerminalSize, place::invalid,
};

/// Publishes chunks on the session's terminal subject.
///
/// Every event says of which task (`task`) and attempt (`attempt`) it is and where in the stream of
/// that attempt it begins (`offset`), so that a reader who lost some knows where.
#[derive(Debug)]
pub struct TerminalStream {
    endpoint: Endpoint,
    place: EventPlace,
    subject: Subject,
    stdout_bytes: u64,
    stderr_bytes: u64,
}

/// A piece of one of the streams.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) stream: OutputStream,
    /// Where in its stream it begins.
    pub(crate) offset: u64,
    pub(crate) piece: Piece,
}

/// What a piece is.
#[derive(Debug)]
pub(crate) enum Piece {
    Bytes(Bytes),
    /// The size of the terminal from here on.
    Size(TerminalSize),
}

impl Piece {
    /// How many bytes of output it holds.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Size(_) => 0,
        }
    }
}

impl TerminalStream {
    /// Begins both streams; their offsets count from 0.
    #[must_use]
    pub fn new(endpoint: Endpoint, place: EventPlace) -> Self {
        let subject = place.terminal(&endpoint);
        Self { endpoint, place, subject, stdout_bytes: 0, stderr_bytes: 0 }
    }

    /// Publishes bytes of one of the streams, in as many events as they need.
    ///
    /// # Errors
    /// Those of [`Endpoint::publish`]. What was not published counts as written: readers see that
    /// it is missing.
    pub async fn write(&mut self, stream: OutputStream, mut bytes: Bytes) -> Result<()> {
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(CHUNK_BYTES_MAX));
            let count = match stream {
                OutputStream::Stdout | OutputStream::Terminal => &mut self.stdout_bytes,
                OutputStream::Stderr => &mut self.stderr_bytes,
            };
            let offset = *count;
            *count = count.saturating_add(piece.len() as u64);
            self.publish(&Chunk { stream, offset, piece: Piece::Bytes(piece) }).await?;
        }
        Ok(())
    }

    /// Publishes one chunk.
    pub(crate) async fn publish(&self, chunk: &Chunk) -> Result<()> {
        let (event_type, content_type, payload) = match (&chunk.piece, chunk.stream) {
            (Piece::Size(size), _) => (TERMINAL_SIZE, JSON, size.to_json().into()),
            (Piece::Bytes(bytes), OutputStream::Stdout) => (TERMINAL_STDOUT, RAW, bytes.clone()),
            (Piece::Bytes(bytes), OutputStream::Stderr) => (TERMINAL_STDERR, RAW, bytes.clone()),
            (Piece::Bytes(bytes), OutputStream::Terminal) => (TERMINAL_PTY, RAW, bytes.clone()),
        };
        let draft = self
            .place
            .draft(self.subject.clone(), event_type, payload)?
            .content_type(content_type)
            .extension("offset", chunk.offset.to_string())
            .map_err(invalid)?;
        self.endpoint.publish(draft).await.map(drop)
    }

    /// Publishes that nothing follows.
    pub(crate) async fn end(&self, end: &TerminalEnd) -> Result<()> {
        let draft = self.place.draft(self.subject.clone(), TERMINAL_END, end.to_json())?;
        self.endpoint.publish(draft.content_type(JSON)).await.map(drop)
    }

    /// Publishes what vouches for the events so far.
    ///
    /// # Errors
    /// Those of [`Endpoint::finish_live`].
    pub async fn vouch(&self) -> Result<()> {
        self.endpoint.finish_live(&self.subject).await.map(drop)
    }

    /// The task, for the log.
    pub(crate) fn task(&self) -> &str {
        self.place.task.as_deref().unwrap_or("-")
    }
}

const RAW: &str = "application/octet-stream";
const JSON: &str = "application/json";
