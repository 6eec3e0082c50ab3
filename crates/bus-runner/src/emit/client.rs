//! The side of a command that emits: plain blocking calls, for it has nothing else to do.

use std::{
    io::{self, Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use bytes::BytesMut;

use super::frames::{Done, FRAME_BYTES_MAX, Frame, Hello, Kind, VERSION};
use crate::EndReason;

/// A connection to the runner of the run that this process is part of.
#[derive(Debug)]
pub struct EmitClient {
    stream: UnixStream,
    came: BytesMut,
}

/// What can be emitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmitPiece<'a> {
    /// Text of the stream of tokens.
    Text(&'a str),
    /// What a model thinks, in the same stream.
    Thinking(&'a str),
    /// Output, as if the command had written it to stdout.
    Stdout(&'a [u8]),
    /// Output, as if the command had written it to stderr.
    Stderr(&'a [u8]),
    /// The end of the stream of tokens.
    End(EndReason),
}

/// Why something was not emitted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmitError {
    /// There is no runner (any more).
    #[error("the runner cannot be reached: {0}")]
    Unreachable(#[source] io::Error),
    /// The runner takes nothing (more).
    #[error("the runner refused: {reason}")]
    Refused {
        /// Why, in its words.
        reason: String,
    },
    /// All was taken, but some of it was not published.
    #[error("not all of it was published: {reason}")]
    NotPublished {
        /// Why.
        reason: String,
    },
}

/// How long the runner has for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

impl EmitClient {
    /// Connects to the socket at `path` with the token of the run; tokens are of `stream`.
    ///
    /// # Errors
    /// [`EmitError::Unreachable`], and [`EmitError::Refused`] when the run has ended.
    pub fn connect(path: &Path, token: &str, stream: &str) -> Result<Self, EmitError> {
        let socket = UnixStream::connect(path).map_err(EmitError::Unreachable)?;
        socket.set_read_timeout(Some(ANSWER_WITHIN)).map_err(EmitError::Unreachable)?;
        let mut client = Self { stream: socket, came: BytesMut::new() };
        let hello = Hello { v: VERSION, token: token.to_owned(), stream: stream.to_owned() };
        let hello = serde_json::to_vec(&hello)
            .map_err(|error| EmitError::Unreachable(io::Error::other(error)))?;
        client.write(&Frame::new(Kind::Hello, hello))?;
        match client.answer()? {
            Frame { kind: Kind::Accepted, .. } => Ok(client),
            other => Err(unexpected(&other)),
        }
    }

    /// Sends one piece. Waits while the runner is slower.
    ///
    /// # Errors
    /// As [`EmitClient::connect`].
    pub fn send(&mut self, piece: EmitPiece<'_>) -> Result<(), EmitError> {
        let (kind, bytes) = match piece {
            EmitPiece::Text(text) => (Kind::Text, text.as_bytes()),
            EmitPiece::Thinking(text) => (Kind::Thinking, text.as_bytes()),
            EmitPiece::Stdout(bytes) => (Kind::Stdout, bytes),
            EmitPiece::Stderr(bytes) => (Kind::Stderr, bytes),
            EmitPiece::End(reason) => (Kind::End, reason.as_str().as_bytes()),
        };
        let mut rest = bytes;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(border(kind, rest));
            self.write(&Frame::new(kind, now.to_vec()))?;
            rest = later;
        }
        Ok(())
    }

    /// Says that this was all, and waits until it is published; how many bytes that were.
    ///
    /// # Errors
    /// As [`EmitClient::connect`], and [`EmitError::NotPublished`].
    pub fn finish(mut self) -> Result<u64, EmitError> {
        self.stream.shutdown(Shutdown::Write).map_err(EmitError::Unreachable)?;
        let answer = self.answer()?;
        if answer.kind != Kind::Done {
            return Err(unexpected(&answer));
        }
        let done: Done = serde_json::from_slice(&answer.bytes)
            .map_err(|error| EmitError::Unreachable(io::Error::other(error)))?;
        match done.error {
            None => Ok(done.bytes),
            Some(reason) => Err(EmitError::NotPublished { reason }),
        }
    }

    fn write(&mut self, frame: &Frame) -> Result<(), EmitError> {
        match self.stream.write_all(&frame.encode()) {
            Ok(()) => Ok(()),
            // It said why before it hung up.
            Err(error) => match self.answer() {
                Err(refused @ EmitError::Refused { .. }) => Err(refused),
                _ => Err(EmitError::Unreachable(error)),
            },
        }
    }

    fn answer(&mut self) -> Result<Frame, EmitError> {
        loop {
            let found = Frame::decode(&mut self.came);
            match found.map_err(|error| EmitError::Unreachable(io::Error::other(error)))? {
                Some(Frame { kind: Kind::Refused, bytes }) => {
                    let reason = String::from_utf8_lossy(&bytes).into_owned();
                    return Err(EmitError::Refused { reason });
                }
                Some(frame) => return Ok(frame),
                None => {}
            }
            let mut part = [0; 1024];
            let count = self.stream.read(&mut part).map_err(EmitError::Unreachable)?;
            if count == 0 {
                let ended = io::Error::from(io::ErrorKind::UnexpectedEof);
                return Err(EmitError::Unreachable(ended));
            }
            self.came.extend_from_slice(part.get(..count).unwrap_or_default());
        }
    }
}

/// Where `bytes` are cut for a message; text only between characters.
fn border(kind: Kind, bytes: &[u8]) -> usize {
    let most = bytes.len().min(FRAME_BYTES_MAX);
    if most == bytes.len() || !matches!(kind, Kind::Text | Kind::Thinking) {
        return most;
    }
    let begins = |at: &usize| bytes.get(*at).is_some_and(|byte| byte & 0xc0 != 0x80);
    (most.saturating_sub(3)..=most).rev().find(begins).unwrap_or(most)
}

fn unexpected(frame: &Frame) -> EmitError {
    let what = format!("it answered with an unexpected message ({:?})", frame.kind);
    EmitError::Unreachable(io::Error::other(what))
}
