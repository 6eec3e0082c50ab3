//! Looks at an audit log without writing it, also while somebody does.

use std::path::{Path, PathBuf};

use bus_envelope::Timestamp;

use super::{AuditError, AuditLog, AuditMark, AuditStream, days::Days, record::mark_in};
use crate::{JsonlItem, JsonlReader};

/// What the newest file of one stream in an audit log holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditLook {
    /// The file; none when there is none.
    pub file: Option<PathBuf>,
    /// How many records are in it.
    pub records: u64,
    /// The first of them.
    pub first: Option<AuditMark>,
    /// The last record of the stream, whatever file it is in.
    pub last: Option<AuditMark>,
    /// When the last record of the file was stored in the stream.
    pub stored: Option<Timestamp>,
    /// Whether the file ends in the middle of a line.
    pub is_torn: bool,
}

impl AuditLog {
    /// Reads the newest file of `stream` in the log at `dir`. Nothing is made or mended.
    ///
    /// # Errors
    /// [`AuditError::Log`] when it is damaged or cannot be read; [`AuditError::Io`] when its folder
    /// cannot be.
    pub fn examine(dir: &Path, stream: AuditStream) -> Result<AuditLook, AuditError> {
        let dir = dir.join(stream.name());
        if !dir.exists() {
            return Ok(AuditLook::default());
        }
        let days = Days::open(dir)?;
        let mut look = AuditLook { last: days.last(), ..AuditLook::default() };
        let Some(path) = days.newest() else { return Ok(look) };
        let failed = |source| AuditError::Log { path: path.clone(), source };
        for item in JsonlReader::open(&path).map_err(failed)? {
            match item.map_err(failed)? {
                JsonlItem::Record { bytes, .. } => {
                    let mark = mark_in(&bytes);
                    look.records = look.records.saturating_add(u64::from(mark.is_some()));
                    look.first = look.first.or(mark);
                    look.stored = stored_in(&bytes).or(look.stored);
                    look.is_torn = false;
                }
                JsonlItem::Torn { .. } => look.is_torn = true,
            }
        }
        look.file = Some(path);
        Ok(look)
    }
}

fn stored_in(line: &[u8]) -> Option<Timestamp> {
    #[derive(serde::Deserialize)]
    struct Line {
        stored: String,
    }
    let read: Line = serde_json::from_slice(line).ok()?;
    Timestamp::parse(&read.stored).ok()
}
