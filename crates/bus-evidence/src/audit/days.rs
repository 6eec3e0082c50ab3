//! The files of one stream in the audit log, a file a day.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use bus_envelope::{EventHash, Timestamp};

use super::{AuditError, AuditMark, failed, record::mark_in};
use crate::{JsonlError, JsonlItem, JsonlReader, JsonlWriter, LINE_BYTES_MAX, TailReport};

/// A folder with a file for each day, of which the newest is written to.
#[derive(Debug)]
pub(super) struct Days {
    dir: PathBuf,
    /// The newest day.
    day: Option<String>,
    file: Option<JsonlWriter>,
    last: Option<AuditMark>,
    mended: Vec<(PathBuf, TailReport)>,
}

impl Days {
    /// Opens the folder `dir`, and looks where its log ends.
    pub(super) fn open(dir: PathBuf) -> Result<Self, AuditError> {
        let mut days = Self { dir, day: None, file: None, last: None, mended: Vec::new() };
        days.day = days.list()?.pop();
        days.last = days.find_last()?;
        Ok(days)
    }

    pub(super) const fn last(&self) -> Option<AuditMark> {
        self.last
    }

    /// The newest file, if there is one.
    pub(super) fn newest(&self) -> Option<PathBuf> {
        self.day.as_ref().map(|_| self.path())
    }

    /// Appends a line to the file of the day; one whose mark the log ends with is there already.
    pub(super) fn append(
        &mut self,
        line: &[u8],
        mark: Option<AuditMark>,
        now: Timestamp,
    ) -> Result<(), AuditError> {
        self.turn_to(day_of(now))?;
        if mark.is_some() && mark == self.last {
            return Ok(());
        }
        let path = self.path();
        let Some(file) = &mut self.file else { return Ok(()) };
        match file.append(line) {
            Ok(()) => {
                self.last = mark.or(self.last);
                Ok(())
            }
            Err(source) => {
                // Whether it is there, and whole, is looked at when the file is opened again.
                self.file = None;
                Err(AuditError::Log { path, source })
            }
        }
    }

    pub(super) fn sync(&mut self) -> Result<(), AuditError> {
        let path = self.path();
        let Some(file) = &mut self.file else { return Ok(()) };
        file.sync().map_err(|source| {
            self.file = None;
            AuditError::Log { path, source }
        })
    }

    /// What was mended since the last call.
    pub(super) fn take_mended(&mut self) -> Vec<(PathBuf, TailReport)> {
        std::mem::take(&mut self.mended)
    }

    /// The hashes of all records, whatever file they are in.
    pub(super) fn hashes(&self) -> Result<HashSet<EventHash>, AuditError> {
        let mut hashes = HashSet::new();
        for day in self.list()? {
            let path = self.dir.join(file_of(&day));
            let failed = |source| AuditError::Log { path: path.clone(), source };
            for item in JsonlReader::open(&path).map_err(failed)? {
                if let JsonlItem::Record { bytes, .. } = item.map_err(failed)? {
                    hashes.extend(mark_in(&bytes).map(|mark| mark.hash));
                }
            }
        }
        Ok(hashes)
    }

    /// Has the file of `day` be the open one, or that of the newest day when it is later.
    fn turn_to(&mut self, day: String) -> Result<(), AuditError> {
        if self.day.as_ref().is_none_or(|newest| *newest < day) {
            // What is in the file before has to be there when the next one begins.
            self.sync()?;
            (self.day, self.file) = (Some(day), None);
        }
        if self.file.is_some() {
            return Ok(());
        }
        let path = self.path();
        let opened = JsonlWriter::open(&path);
        let mut file = opened.map_err(|source| AuditError::Log { path: path.clone(), source })?;
        self.mended.extend(file.take_tail_report().map(|report| (path, report)));
        self.file = Some(file);
        self.last = self.find_last()?;
        Ok(())
    }

    fn path(&self) -> PathBuf {
        self.dir.join(file_of(self.day.as_deref().unwrap_or_default()))
    }

    /// The days that have a file, in order.
    fn list(&self) -> Result<Vec<String>, AuditError> {
        list(&self.dir)
    }

    /// The last whole record, in the newest file that has one.
    fn find_last(&self) -> Result<Option<AuditMark>, AuditError> {
        for day in self.list()?.iter().rev() {
            if let Some(mark) = last_in(&self.dir.join(file_of(day)))? {
                return Ok(Some(mark));
            }
        }
        Ok(None)
    }
}

/// The last whole record of a file, looked for from its end.
fn last_in(path: &Path) -> Result<Option<AuditMark>, AuditError> {
    let unread = |source| AuditError::Log {
        path: path.to_owned(),
        source: JsonlError::Io { op: "read", source },
    };
    let mut file = File::open(path).map_err(unread)?;
    let len = file.metadata().map_err(unread)?.len();
    let mut window = WINDOW_BYTES;
    loop {
        let from = len.saturating_sub(window);
        file.seek(SeekFrom::Start(from)).map_err(unread)?;
        let mut bytes = Vec::new();
        (&mut file).take(len - from).read_to_end(&mut bytes).map_err(unread)?;
        let mut lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        if from > 0 && !lines.is_empty() {
            // It may have begun before the window.
            lines.remove(0);
        }
        let whole = |line: &&[u8]| line.strip_suffix(b"\n").and_then(mark_in);
        let found = lines.iter().rev().find_map(whole);
        if found.is_some() || from == 0 || window > WINDOW_BYTES_MAX {
            return Ok(found);
        }
        window = window.saturating_mul(8);
    }
}

/// The newest day that has a file in `dir`.
pub(crate) fn newest_day(dir: &Path) -> Result<Option<String>, AuditError> {
    Ok(list(dir)?.pop())
}

fn list(dir: &Path) -> Result<Vec<String>, AuditError> {
    let mut days = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed("reading", dir))? {
        let name = entry.map_err(failed("reading", dir))?.file_name();
        let name = name.to_string_lossy();
        days.extend(name.strip_suffix(ENDING).filter(|day| is_day(day)).map(str::to_owned));
    }
    days.sort();
    Ok(days)
}

/// The day of a time, as `2026-01-31`.
pub(crate) fn day_of(time: Timestamp) -> String {
    time.to_string().chars().take(DAY_CHARS).collect()
}

fn is_day(text: &str) -> bool {
    text.len() == DAY_CHARS
        && text.char_indices().all(|(at, c)| match at {
            4 | 7 => c == '-',
            _ => c.is_ascii_digit(),
        })
}

/// The name of the file of a day.
pub(crate) fn file_of(day: &str) -> String {
    format!("{day}{ENDING}")
}

const ENDING: &str = ".jsonl";
const DAY_CHARS: usize = 10;

/// How much of the end of a file is read at first; more when no record is in it.
const WINDOW_BYTES: u64 = 64 * 1024;
const WINDOW_BYTES_MAX: u64 = 4 * LINE_BYTES_MAX as u64;
