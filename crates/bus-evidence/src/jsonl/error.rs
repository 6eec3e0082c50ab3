//! Why a log of records could not be read or written.

/// What is wrong with a log of records, or with a record for it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JsonlError {
    /// The file system refused.
    ///
    /// After an append that failed so, the record may or may not be in the log.
    #[error("{op} of the log failed")]
    Io {
        /// The operation.
        op: &'static str,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// A line in the middle of the log is no record.
    #[error("line {line} is damaged: expected one JSON object")]
    Damaged {
        /// The number of the line, from 1.
        line: u64,
    },
    /// The end of the log is damaged beyond what an interrupted write leaves behind.
    #[error("the log is damaged before byte {offset}: expected records of one line each")]
    DamagedTail {
        /// Up to which byte.
        offset: u64,
    },
    /// A line is longer than [`LINE_BYTES_MAX`](crate::LINE_BYTES_MAX).
    #[error("line {line} is longer than {} bytes", crate::LINE_BYTES_MAX)]
    LineTooLong {
        /// The number of the line, from 1.
        line: u64,
    },
    /// What should be appended is longer than [`LINE_BYTES_MAX`](crate::LINE_BYTES_MAX); nothing
    /// was written.
    #[error("the record has {bytes} bytes: at most {} are allowed", crate::LINE_BYTES_MAX)]
    RecordTooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// What should be appended is no record; nothing was written.
    #[error("not a record: expected {0}")]
    NotRecord(&'static str),
}

/// Why not all records of a batch could be appended.
#[derive(Debug, thiserror::Error)]
#[error("the first {written} records were written, the next was not")]
pub struct JsonlBatchError {
    /// How many of the first records are in the log for certain.
    pub written: usize,
    /// Why it ended there.
    #[source]
    pub source: JsonlError,
}

impl JsonlError {
    pub(crate) fn io(op: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { op, source }
    }
}
