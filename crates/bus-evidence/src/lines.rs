//! Splits a byte stream into lines of bounded length and keeps every byte of them.

use std::io::{BufRead, Read};

/// The longest line of a log, in bytes, without its line feed.
pub const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// One line as it stands in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawLine {
    /// Its number, from 1.
    pub(crate) number: u64,
    /// Its bytes without the line feed.
    pub(crate) bytes: Vec<u8>,
    /// Whether a line feed ends it; only the last line of a file can lack one.
    pub(crate) ended: bool,
}

/// Reads lines one after the other.
#[derive(Debug)]
pub(crate) struct LineReader<R> {
    input: R,
    number: u64,
}

/// Why no line could be read.
#[derive(Debug)]
pub(crate) enum LineError {
    /// The file could not be read.
    Io(std::io::Error),
    /// The line with this number is longer than [`LINE_BYTES_MAX`].
    TooLong(u64),
}

impl<R: BufRead> LineReader<R> {
    pub(crate) const fn new(input: R) -> Self {
        Self { input, number: 0 }
    }

    /// The next line, or `None` at the end of the file.
    pub(crate) fn next_line(&mut self) -> Result<Option<RawLine>, LineError> {
        let mut bytes = Vec::new();
        let limit = LINE_BYTES_MAX as u64 + 1;
        (&mut self.input).take(limit).read_until(b'\n', &mut bytes).map_err(LineError::Io)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        let ended = bytes.last() == Some(&b'\n');
        if ended {
            bytes.pop();
        } else if bytes.len() > LINE_BYTES_MAX {
            return Err(LineError::TooLong(self.number));
        }
        Ok(Some(RawLine { number: self.number, bytes, ended }))
    }
}
