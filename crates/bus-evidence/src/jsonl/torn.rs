//! What an interrupted write leaves at the end of a log, and the record that marks it.

use std::fmt::Write as _;

use serde::{Serialize, de::IgnoredAny};
use sha2::{Digest, Sha256};

/// A fragment of a record: an interrupted write left it, and its bytes stay where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Torn {
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// How many lines it takes up; more than one when closing it off was interrupted too.
    pub lines: u64,
    /// How many bytes it has, without the line feed that ends it.
    pub bytes: u64,
}

/// What the check of a log's end found and mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TailReport {
    /// The last record lacked only its line feed, which was added: the record counts.
    Recovered,
    /// A fragment was closed off and marked: its record is lost.
    ClosedOff(Torn),
}

/// The state of the end of a log, found from its last bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tail {
    Clean,
    NoLineFeed,
    /// Bytes from `start` (within the bytes examined) on are no records.
    Torn {
        start: usize,
        lines: u64,
    },
    /// More lines than an interrupted write leaves are no records.
    Damaged,
}

/// Looks at the last bytes of a log, which begin at the start of a line.
pub(super) fn examine(bytes: &[u8]) -> Tail {
    let ended = bytes.last().is_none_or(|byte| *byte == b'\n');
    let (mut end, mut lines) = (bytes.len(), 0);
    while end > 0 {
        let line_end = if lines > 0 || ended { end - 1 } else { end };
        let head = bytes.get(..line_end).unwrap_or_default();
        let start = head.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if is_object(head.get(start..).unwrap_or_default()) {
            break;
        }
        (end, lines) = (start, lines + 1);
        if lines > TORN_LINES_MAX {
            return Tail::Damaged;
        }
    }
    match (lines, ended) {
        (0, true) => Tail::Clean,
        (0, false) => Tail::NoLineFeed,
        _ => Tail::Torn { start: end, lines },
    }
}

/// Whether a line is one JSON object, as every record is.
pub(super) fn is_object(line: &[u8]) -> bool {
    line.first() == Some(&b'{') && serde_json::from_slice::<IgnoredAny>(line).is_ok()
}

/// Whether a line has the form that is kept for marks.
pub(super) fn is_mark(line: &[u8]) -> bool {
    line.starts_with(MARK.as_bytes())
}

/// The record that follows `fragment` once it is closed off, without its line feed.
pub(super) fn mark(fragment: &[u8], lines: u64) -> String {
    let digest: [u8; 32] = Sha256::digest(fragment).into();
    let mut sha256 = String::with_capacity(64);
    for byte in digest {
        let _ignored = write!(sha256, "{byte:02x}"); // writing to a string cannot fail
    }
    let wire = WireMark { torn: WireTorn { lines, bytes: fragment.len() as u64, sha256 } };
    serde_json::to_string(&wire).unwrap_or_default()
}

/// How many lines in a row may be no records for them to count as one interrupted write.
pub(super) const TORN_LINES_MAX: u64 = 16;

#[derive(Serialize)]
struct WireMark {
    #[serde(rename = "vakbus_torn")]
    torn: WireTorn,
}

#[derive(Serialize)]
struct WireTorn {
    lines: u64,
    bytes: u64,
    sha256: String,
}

const MARK: &str = "{\"vakbus_torn\":";
