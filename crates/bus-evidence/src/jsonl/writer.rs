//! Appends records to a log and mends its end after an interrupted write (case C18).

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
};

use crate::{
    JsonlBatchError, JsonlError, LINE_BYTES_MAX,
    jsonl::torn::{Tail, TailReport, Torn, examine, is_mark, is_object, mark},
};

/// Appends records, one JSON object a line, to a log with one writer.
///
/// A fragment that an interrupted write left at the end is closed off with a line feed and marked
/// by a record of its own; its bytes stay as evidence. A record that lacks only its line feed is
/// completed. Both are reported once, by [`take_tail_report`](Self::take_tail_report).
#[derive(Debug)]
pub struct JsonlWriter {
    inner: Appender<File>,
}

impl JsonlWriter {
    /// Opens the log at `path`, or creates it readable by its owner alone, and mends its end.
    ///
    /// # Errors
    /// [`JsonlError::Io`] when the file cannot be opened, read or mended, and
    /// [`JsonlError::DamagedTail`] when its end is no log.
    pub fn open(path: &Path) -> Result<Self, JsonlError> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        Self::with(path, options, 0o600)
    }

    /// Creates the log at `path`, readable by everybody as far as the umask allows.
    ///
    /// # Errors
    /// [`JsonlError::Io`] when the file exists or cannot be created.
    pub fn create_new(path: &Path) -> Result<Self, JsonlError> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create_new(true);
        Self::with(path, options, 0o644)
    }

    /// Appends one record; the line feed is added here.
    ///
    /// It has reached the operating system when this returns, and the disk after
    /// [`sync`](Self::sync).
    ///
    /// # Errors
    /// [`JsonlError::NotRecord`] or [`JsonlError::RecordTooLong`] when `record` is no JSON
    /// object of one line; nothing is written then. [`JsonlError::Io`] when it could not be
    /// written: the next append mends the end first.
    pub fn append(&mut self, record: &[u8]) -> Result<(), JsonlError> {
        self.inner.append(record)
    }

    /// Appends records with one write for all of them; the line feeds are added here.
    ///
    /// # Errors
    /// [`JsonlBatchError`]: as many of the first records as it says are in the log for certain. Of
    /// the next one nobody knows, and those after it are not there.
    pub fn append_all(&mut self, records: &[&[u8]]) -> Result<(), JsonlBatchError> {
        self.inner.append_all(records)
    }

    /// Waits until every appended record is on the disk.
    ///
    /// # Errors
    /// [`JsonlError::Io`]: whether the records will survive a power cut is not known.
    pub fn sync(&mut self) -> Result<(), JsonlError> {
        self.inner.file.sync_data().map_err(JsonlError::io("sync"))
    }

    /// What the last check of the log's end mended; `None` when nothing, or when it was taken.
    pub fn take_tail_report(&mut self) -> Option<TailReport> {
        self.inner.report.take()
    }

    fn with(path: &Path, mut options: OpenOptions, mode: u32) -> Result<Self, JsonlError> {
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
        #[cfg(not(unix))]
        let _ignored = mode; // only Unix has modes
        let file = options.open(path).map_err(JsonlError::io("open"))?;
        if let Some(dir) = path.parent() {
            // So that a new file's name survives a power cut; not every system can do it.
            let _ignored = File::open(dir).and_then(|dir| dir.sync_all());
        }
        Ok(Self { inner: Appender::new(file)? })
    }
}

/// The writer over anything that appends, so that a full disk can be played in tests.
#[derive(Debug)]
pub(super) struct Appender<F> {
    pub(super) file: F,
    unsure: bool,
    pub(super) report: Option<TailReport>,
}

impl<F: Read + Write + Seek> Appender<F> {
    pub(super) fn new(file: F) -> Result<Self, JsonlError> {
        let mut appender = Self { file, unsure: true, report: None };
        appender.mend()?;
        Ok(appender)
    }

    pub(super) fn append(&mut self, record: &[u8]) -> Result<(), JsonlError> {
        self.append_all(&[record]).map_err(|failed| failed.source)
    }

    pub(super) fn append_all(&mut self, records: &[&[u8]]) -> Result<(), JsonlBatchError> {
        let none = |source| JsonlBatchError { written: 0, source };
        for record in records {
            check(record).map_err(none)?;
        }
        if self.unsure {
            self.mend().map_err(none)?;
        }
        let bytes = records.iter().map(|record| record.len() + 1).sum();
        let mut lines = Vec::with_capacity(bytes);
        for record in records {
            lines.extend_from_slice(record);
            lines.push(b'\n');
        }
        self.write(&lines).map_err(|(bytes, source)| {
            let whole = lines.get(..bytes).unwrap_or_default();
            let written = whole.iter().filter(|byte| **byte == b'\n').count();
            JsonlBatchError { written, source }
        })
    }

    /// Writes all the bytes; when that failed, says how many were written.
    fn write(&mut self, bytes: &[u8]) -> Result<(), (usize, JsonlError)> {
        self.unsure = true;
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            let error = match self.file.write(rest) {
                Ok(0) => io::Error::from(io::ErrorKind::WriteZero),
                Ok(written) => {
                    done += written;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            return Err((done, JsonlError::io("append")(error)));
        }
        self.file.flush().map_err(|error| (0, JsonlError::io("append")(error)))?;
        self.unsure = false;
        Ok(())
    }

    /// Makes the log end with a whole record or a mark.
    fn mend(&mut self) -> Result<(), JsonlError> {
        let (offset, bytes, tail) = self.find_tail()?;
        match tail {
            Tail::Clean => self.unsure = false,
            Tail::Damaged => return Err(JsonlError::DamagedTail { offset }),
            Tail::NoLineFeed => {
                self.write(b"\n").map_err(|(_, error)| error)?;
                self.report = Some(TailReport::Recovered);
            }
            Tail::Torn { start, lines } => {
                let fragment = bytes.get(start..).unwrap_or_default();
                let ended = fragment.last() == Some(&b'\n');
                let fragment = fragment.strip_suffix(b"\n").unwrap_or(fragment);
                let line_feed = if ended { "" } else { "\n" };
                let closing = format!("{line_feed}{}\n", mark(fragment, lines));
                let (offset, bytes) = (offset + start as u64, fragment.len() as u64);
                self.write(closing.as_bytes()).map_err(|(_, error)| error)?;
                self.report = Some(TailReport::ClosedOff(Torn { offset, lines, bytes }));
            }
        }
        Ok(())
    }

    /// Reads back from the end until a record is found: where those bytes begin, they, the verdict.
    fn find_tail(&mut self) -> Result<(u64, Vec<u8>, Tail), JsonlError> {
        let seek = JsonlError::io("seek");
        let len = self.file.seek(SeekFrom::End(0)).map_err(seek)?;
        let mut window = WINDOW_BYTES;
        loop {
            let from = len.saturating_sub(window);
            self.file.seek(SeekFrom::Start(from)).map_err(JsonlError::io("seek"))?;
            let mut bytes = Vec::new();
            (&mut self.file)
                .take(len - from)
                .read_to_end(&mut bytes)
                .map_err(JsonlError::io("read"))?;
            let skip = match bytes.iter().position(|byte| *byte == b'\n') {
                _ if from == 0 => 0,
                Some(at) => at + 1,
                None => bytes.len(),
            };
            let bytes = bytes.split_off(skip);
            let tail = examine(&bytes);
            let unseen = bytes.is_empty() || matches!(tail, Tail::Torn { start: 0, .. });
            if from == 0 || !unseen {
                return Ok((from + skip as u64, bytes, tail));
            }
            if window > WINDOW_BYTES_MAX {
                return Ok((from + skip as u64, bytes, Tail::Damaged));
            }
            window = window.saturating_mul(8);
        }
    }
}

/// Whether these bytes may stand in a log as a record.
fn check(record: &[u8]) -> Result<(), JsonlError> {
    if record.len() > LINE_BYTES_MAX {
        return Err(JsonlError::RecordTooLong { bytes: record.len() });
    }
    if record.contains(&b'\n') || !is_object(record) {
        return Err(JsonlError::NotRecord("one JSON object without line feeds"));
    }
    if is_mark(record) {
        return Err(JsonlError::NotRecord("another member than the one that marks fragments"));
    }
    Ok(())
}

const WINDOW_BYTES: u64 = 16 * 1024;
const WINDOW_BYTES_MAX: u64 = 4 * LINE_BYTES_MAX as u64;
