//! The audit log: what the evidence streams hold, once more, as lines of files (S0.42, S1.3).

mod days;
mod look;
mod record;

use std::{
    collections::HashSet,
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
};

use bus_envelope::{EventHash, Timestamp};

pub(crate) use self::days::{day_of, file_of, newest_day};
use self::{days::Days, record::checkpoint_line};
pub use self::{look::AuditLook, record::AuditRecord};
use crate::{Checkpoint, JsonlError, TailReport};

/// Writes the audit log of one workspace: a folder for each stream, a file for each day.
///
/// A record stands on one whole line of its own; the fragment that an interrupted write left is
/// closed off, and its record written again. The day is that of the writing, in UTC; a clock that
/// goes back does not reopen an earlier file. There is one writer at a time.
#[derive(Debug)]
pub struct AuditLog {
    dir: PathBuf,
    receipts: Days,
    approvals: Days,
    checkpoints: Days,
    /// Held as long as this is there.
    _turn: File,
}

/// Which stream a record is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AuditStream {
    /// Receipts, and other evidence of what was executed.
    Receipts,
    /// Requests for approval, and their verdicts.
    Approvals,
}

/// The last record of a stream that is in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditMark {
    /// Its position in the stream.
    pub seq: u64,
    /// What tells it from another one at that position: [`AuditRecord::hash`].
    pub hash: EventHash,
}

/// Why the audit log could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// Another process writes it.
    #[error("{} is written by another process", .dir.display())]
    Held {
        /// The directory of the log.
        dir: PathBuf,
    },
    /// A directory or the lock could not be made or read.
    #[error("{op} of {} failed", .path.display())]
    Io {
        /// The operation.
        op: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// A file of the log could not be written or mended; what it lacks is written the next time.
    #[error("{} could not be written", .path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: JsonlError,
    },
}

impl AuditLog {
    /// Opens the log in `dir`, which is made for its owner alone, and looks where it ends.
    ///
    /// # Errors
    /// [`AuditError::Held`] while another process writes it; [`AuditError::Io`] when it cannot be
    /// made or read.
    pub fn open(dir: &Path) -> Result<Self, AuditError> {
        make(dir)?;
        let turn = hold(dir)?;
        let days = |name: &str| {
            let dir = dir.join(name);
            make(&dir)?;
            Days::open(dir)
        };
        Ok(Self {
            receipts: days(AuditStream::Receipts.name())?,
            approvals: days(AuditStream::Approvals.name())?,
            checkpoints: days("checkpoints")?,
            dir: dir.to_owned(),
            _turn: turn,
        })
    }

    /// Its directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The last record of `stream` that is in the log; none when there is none.
    #[must_use]
    pub const fn last(&self, stream: AuditStream) -> Option<AuditMark> {
        match stream {
            AuditStream::Receipts => self.receipts.last(),
            AuditStream::Approvals => self.approvals.last(),
        }
    }

    /// The hashes of all records of `stream` in the log, for who has to find out where a stream
    /// that is not the same any more goes on.
    ///
    /// # Errors
    /// [`AuditError::Log`] when a file is damaged or cannot be read.
    pub fn hashes(&self, stream: AuditStream) -> Result<HashSet<EventHash>, AuditError> {
        match stream {
            AuditStream::Receipts => self.receipts.hashes(),
            AuditStream::Approvals => self.approvals.hashes(),
        }
    }

    /// Writes one record into the file of the day `now`. One that the log ends with already, which
    /// is so after a write that was not known to have worked, is not written again.
    ///
    /// # Errors
    /// [`AuditError::Log`] and [`AuditError::Io`]: the record is not in the log for certain, and
    /// may be written again.
    pub fn append(&mut self, record: &AuditRecord, now: Timestamp) -> Result<(), AuditError> {
        let days = match record.stream() {
            AuditStream::Receipts => &mut self.receipts,
            AuditStream::Approvals => &mut self.approvals,
        };
        days.append(record.line(), Some(record.mark()), now)
    }

    /// Writes a checkpoint into the file of the day `now`.
    ///
    /// # Errors
    /// As [`AuditLog::append`].
    pub fn checkpoint(
        &mut self,
        checkpoint: &Checkpoint,
        now: Timestamp,
    ) -> Result<(), AuditError> {
        self.checkpoints.append(&checkpoint_line(checkpoint), None, now)
    }

    /// Waits until everything that was written is on the disk.
    ///
    /// # Errors
    /// [`AuditError::Log`]: whether it will survive a power cut is not known.
    pub fn sync(&mut self) -> Result<(), AuditError> {
        self.receipts.sync()?;
        self.approvals.sync()?;
        self.checkpoints.sync()
    }

    /// What was mended at the ends of files since the last call, each told once.
    pub fn take_mended(&mut self) -> Vec<(PathBuf, TailReport)> {
        let days = [&mut self.receipts, &mut self.approvals, &mut self.checkpoints];
        days.into_iter().flat_map(Days::take_mended).collect()
    }
}

impl AuditStream {
    /// The name of its folder.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Receipts => "receipts",
            Self::Approvals => "approvals",
        }
    }
}

/// Takes the one turn of writing in a directory, held as long as the file is.
pub(crate) fn hold(dir: &Path) -> Result<File, AuditError> {
    let lock = dir.join(LOCK);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let turn = options.open(&lock).map_err(failed("opening", &lock))?;
    match turn.try_lock() {
        Ok(()) => Ok(turn),
        Err(TryLockError::WouldBlock) => Err(AuditError::Held { dir: dir.to_owned() }),
        Err(TryLockError::Error(source)) => Err(failed("locking", &lock)(source)),
    }
}

/// Makes a directory that only its owner may look into.
pub(crate) fn make(dir: &Path) -> Result<(), AuditError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir).map_err(failed("creation", dir))
}

fn failed(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> AuditError {
    move |source| AuditError::Io { op, path: path.to_owned(), source }
}

const LOCK: &str = ".lock";
