//! A folder of records with a file for each day, written by one process at a time.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use bus_envelope::Timestamp;

use crate::{
    AuditError, JsonlBatchError, JsonlWriter, TailReport,
    audit::{day_of, file_of, hold, make, newest_day},
};

/// Writes records into the file of the day on which they are written, in UTC.
///
/// A clock that goes back does not reopen an earlier file. The fragment that an interrupted write
/// left is closed off when the file is opened, and after every write that failed.
#[derive(Debug)]
pub struct DayLog {
    dir: PathBuf,
    day: Option<String>,
    file: Option<JsonlWriter>,
    mended: Vec<(PathBuf, TailReport)>,
    /// Held as long as this is there.
    _turn: File,
}

/// Why not all records of a batch are in the log.
#[derive(Debug, thiserror::Error)]
#[error("not all records were written")]
pub struct DayLogError {
    /// How many of the first records are in the log for certain.
    pub written: usize,
    /// Why it ended there.
    #[source]
    pub source: AuditError,
}

impl DayLog {
    /// Opens the log in `dir`, which is made for its owner alone.
    ///
    /// # Errors
    /// [`AuditError::Held`] while another one writes it; [`AuditError::Io`] when it cannot be made
    /// or read.
    pub fn open(dir: &Path) -> Result<Self, AuditError> {
        make(dir)?;
        let turn = hold(dir)?;
        let day = newest_day(dir)?;
        Ok(Self { dir: dir.to_owned(), day, file: None, mended: Vec::new(), _turn: turn })
    }

    /// The file of the log in `dir` that a record of the time `now` stands in, whether or not it is
    /// there yet.
    #[must_use]
    pub fn path_at(dir: &Path, now: Timestamp) -> PathBuf {
        dir.join(file_of(&day_of(now)))
    }

    /// Opens and mends the file of the day, so that the next append only writes.
    ///
    /// # Errors
    /// [`AuditError::Log`] when it cannot be opened or mended.
    pub fn ready(&mut self, now: Timestamp) -> Result<(), AuditError> {
        self.turn_to(day_of(now)).map(drop)
    }

    /// Appends records to the file of the day `now`, with one write for all of them.
    ///
    /// # Errors
    /// [`DayLogError`] says how many of the first are in the log for certain.
    pub fn append_all(&mut self, records: &[&[u8]], now: Timestamp) -> Result<(), DayLogError> {
        let file = match self.turn_to(day_of(now)) {
            Ok(file) => file,
            Err(source) => return Err(DayLogError { written: 0, source }),
        };
        let Err(JsonlBatchError { written, source }) = file.append_all(records) else {
            return Ok(());
        };
        let path = self.path();
        // What is at its end is looked at when the file is opened again.
        self.file = None;
        Err(DayLogError { written, source: AuditError::Log { path, source } })
    }

    /// Waits until everything that was written is on the disk.
    ///
    /// # Errors
    /// [`AuditError::Log`]: whether it will survive a power cut is not known.
    pub fn sync(&mut self) -> Result<(), AuditError> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let Err(source) = file.sync() else { return Ok(()) };
        self.file = None;
        Err(AuditError::Log { path: self.path(), source })
    }

    /// What was mended at the ends of files since the last call, each told once.
    pub fn take_mended(&mut self) -> Vec<(PathBuf, TailReport)> {
        std::mem::take(&mut self.mended)
    }

    fn turn_to(&mut self, day: String) -> Result<&mut JsonlWriter, AuditError> {
        if self.day.as_ref().is_none_or(|newest| *newest < day) {
            // What is in the file before has to be there when the next one begins.
            self.sync()?;
            (self.day, self.file) = (Some(day), None);
        }
        let path = self.path();
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let opened = JsonlWriter::open(&path);
                let failed = |source| AuditError::Log { path: path.clone(), source };
                let mut file = opened.map_err(failed)?;
                self.mended.extend(file.take_tail_report().map(|report| (path, report)));
                file
            }
        };
        Ok(self.file.insert(file))
    }

    fn path(&self) -> PathBuf {
        self.dir.join(file_of(self.day.as_deref().unwrap_or_default()))
    }
}
