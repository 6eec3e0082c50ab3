//! Reads a log of records back and says where it is torn or damaged (case C18).

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
};

use crate::{
    JsonlError,
    jsonl::torn::{TORN_LINES_MAX, Torn, is_mark, is_object, mark},
    lines::{LineError, LineReader, RawLine},
};

/// Reads the records of a log one after the other.
///
/// A marked fragment, and one at the very end, is an item of its own. Any other line that is no
/// record is an error, after which the reader ends.
///
/// # Examples
/// ```
/// use bus_evidence::{JsonlItem, JsonlReader};
///
/// let log = b"{\"n\":1}\n{\"n\":2}\n{\"n".as_slice();
/// let items: Vec<JsonlItem> = JsonlReader::new(log).collect::<Result<_, _>>()?;
/// assert!(matches!(items[1], JsonlItem::Record { line: 2, .. }));
/// assert!(matches!(items[2], JsonlItem::Torn { line: 3, .. }));
/// # Ok::<(), bus_evidence::JsonlError>(())
/// ```
#[derive(Debug)]
pub struct JsonlReader<R> {
    lines: LineReader<R>,
    offset: u64,
    ended: bool,
}

/// What stands in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsonlItem {
    /// A record.
    Record {
        /// The number of its line, from 1.
        line: u64,
        /// The JSON object, without the line feed.
        bytes: Vec<u8>,
    },
    /// A fragment that an interrupted write left behind.
    Torn {
        /// The number of its first line, from 1.
        line: u64,
        /// Its extent.
        torn: Torn,
    },
}

impl JsonlReader<BufReader<File>> {
    /// Opens the log at `path` for reading only.
    ///
    /// # Errors
    /// [`JsonlError::Io`] when the file cannot be opened.
    pub fn open(path: &Path) -> Result<Self, JsonlError> {
        File::open(path).map(BufReader::new).map(Self::new).map_err(JsonlError::io("open"))
    }
}

impl<R: BufRead> JsonlReader<R> {
    /// Reads the log that `input` gives.
    pub const fn new(input: R) -> Self {
        Self { lines: LineReader::new(input), offset: 0, ended: false }
    }

    fn read(&mut self) -> Result<Option<JsonlItem>, JsonlError> {
        let mut fragment: Option<Fragment> = None;
        while let Some(line) = self.line()? {
            let offset = self.offset;
            self.offset += line.bytes.len() as u64 + u64::from(line.ended);
            if is_object(&line.bytes) {
                return match fragment {
                    Some(fragment) if fragment.is_marked_by(&line.bytes) => {
                        Ok(Some(fragment.item()))
                    }
                    Some(fragment) => Err(JsonlError::Damaged { line: fragment.line }),
                    None if is_mark(&line.bytes) => Err(JsonlError::Damaged { line: line.number }),
                    None => Ok(Some(JsonlItem::Record { line: line.number, bytes: line.bytes })),
                };
            }
            match &mut fragment {
                Some(fragment) if fragment.lines == TORN_LINES_MAX => {
                    return Err(JsonlError::Damaged { line: fragment.line });
                }
                Some(fragment) => fragment.add(&line),
                none => *none = Some(Fragment::new(line, offset)),
            }
        }
        Ok(fragment.map(|fragment| fragment.item()))
    }

    fn line(&mut self) -> Result<Option<RawLine>, JsonlError> {
        self.lines.next_line().map_err(|error| match error {
            LineError::Io(source) => JsonlError::Io { op: "read", source },
            LineError::TooLong(line) => JsonlError::LineTooLong { line },
        })
    }
}

impl<R: BufRead> Iterator for JsonlReader<R> {
    type Item = Result<JsonlItem, JsonlError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = self.read().transpose();
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}

/// Lines in a row that are no records.
struct Fragment {
    line: u64,
    offset: u64,
    lines: u64,
    bytes: Vec<u8>,
}

impl Fragment {
    fn new(line: RawLine, offset: u64) -> Self {
        Self { line: line.number, offset, lines: 1, bytes: line.bytes }
    }

    fn add(&mut self, line: &RawLine) {
        self.bytes.push(b'\n');
        self.bytes.extend_from_slice(&line.bytes);
        self.lines += 1;
    }

    fn is_marked_by(&self, record: &[u8]) -> bool {
        record == mark(&self.bytes, self.lines).as_bytes()
    }

    fn item(&self) -> JsonlItem {
        let bytes = self.bytes.len() as u64;
        let torn = Torn { offset: self.offset, lines: self.lines, bytes };
        JsonlItem::Torn { line: self.line, torn }
    }
}
