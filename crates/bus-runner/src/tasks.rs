//! Reads a tasks file: one task a line, as plain text or as `{"id": …, "payload": …}`.

use std::collections::HashMap;
use std::io::{self, BufRead, Read};

use serde::Deserialize;
use serde_json::value::RawValue;

/// One task of a tasks file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskLine {
    /// The line it stands on, counted from 1; blank lines count.
    pub line: usize,
    /// The id that the file gives; `None` for a plain line.
    pub id: Option<String>,
    /// The text: the line itself, or the payload. A payload that is a JSON string is the text of
    /// that string; any other payload is its JSON exactly as it stands in the file.
    pub text: String,
}

/// Reads all tasks of a file, in the order of their lines.
///
/// A line that begins with `{` is a JSON object with the members `id` and `payload` and no others;
/// any other line is its own text, blanks included. Lines of white space alone are skipped. Lines
/// end with LF or CRLF; a byte order mark at the start is skipped. Ids are 1 to
/// [`ID_CHARACTERS_MAX`] characters of `[A-Za-z0-9_~-]` and differ from each other. A line has at
/// most [`LINE_BYTES_MAX`] bytes, a file at most [`TASKS_MAX`] tasks.
///
/// # Errors
/// The first line that breaks one of these rules, or the failure of `reader`. No task is returned
/// then: a file is taken whole or not at all.
///
/// # Examples
/// ```
/// let file = "echo this\n{\"id\": \"t-1\", \"payload\": \"do that\"}\n";
/// let tasks = bus_runner::parse_tasks(file.as_bytes())?;
/// assert_eq!(tasks[0].text, "echo this");
/// assert_eq!((tasks[1].id.as_deref(), tasks[1].text.as_str()), (Some("t-1"), "do that"));
/// # Ok::<(), bus_runner::TasksError>(())
/// ```
pub fn parse(mut reader: impl BufRead) -> Result<Vec<TaskLine>, TasksError> {
    let mut tasks = Vec::new();
    let mut ids: HashMap<String, usize> = HashMap::new();
    let mut bytes = Vec::new();
    let mut line = 0;
    loop {
        line += 1;
        if !read_line(&mut reader, &mut bytes, line)? {
            return Ok(tasks);
        }
        let start: &[u8] = if line == 1 { BYTE_ORDER_MARK } else { b"" };
        let content = bytes.strip_prefix(start).unwrap_or(&bytes);
        let text = std::str::from_utf8(content).map_err(|_| TasksError::NotUtf8 { line })?;
        if text.trim().is_empty() {
            continue;
        }
        if tasks.len() == TASKS_MAX {
            return Err(TasksError::TooMany { line });
        }
        let task = if text.starts_with('{') { object(text, line)? } else { plain(text, line) };
        if task.text.contains('\0') {
            return Err(TasksError::Nul { line });
        }
        if let Some(id) = &task.id
            && let Some(first_line) = ids.insert(id.clone(), line)
        {
            return Err(TasksError::DuplicateId { line, id: id.clone(), first_line });
        }
        tasks.push(task);
    }
}

/// Why a tasks file is refused. Every text names the line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TasksError {
    /// The reader failed.
    #[error("line {line}: cannot be read: {source}")]
    Read {
        /// The line that was being read.
        line: usize,
        /// What the reader said.
        source: io::Error,
    },
    /// A line is too long.
    #[error("line {line}: longer than {LINE_BYTES_MAX} bytes")]
    TooLong {
        /// The line.
        line: usize,
    },
    /// A line is not UTF-8.
    #[error("line {line}: not valid UTF-8")]
    NotUtf8 {
        /// The line.
        line: usize,
    },
    /// A task's text holds a NUL, which no command's argument can carry.
    #[error("line {line}: holds a NUL character")]
    Nul {
        /// The line.
        line: usize,
    },
    /// A line begins with `{` and is not a task.
    #[error(
        "line {line}: a line that begins with {{ must be a JSON object with \"id\" and \
         \"payload\" only: {reason}"
    )]
    Json {
        /// The line.
        line: usize,
        /// What is wrong, and at which column.
        reason: String,
    },
    /// An id has the wrong length or alphabet.
    #[error("line {line}: the id must be 1 to {ID_CHARACTERS_MAX} characters of [A-Za-z0-9_~-]")]
    BadId {
        /// The line.
        line: usize,
    },
    /// Two lines give the same id.
    #[error("line {line}: the id {id} is already used on line {first_line}")]
    DuplicateId {
        /// The second line.
        line: usize,
        /// The id.
        id: String,
        /// The first line.
        first_line: usize,
    },
    /// The file holds too many tasks.
    #[error("line {line}: more than {TASKS_MAX} tasks")]
    TooMany {
        /// The line of the first task over the limit.
        line: usize,
    },
}

impl TasksError {
    /// Returns the line that is refused, counted from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        match self {
            Self::Read { line, .. }
            | Self::TooLong { line }
            | Self::NotUtf8 { line }
            | Self::Nul { line }
            | Self::Json { line, .. }
            | Self::BadId { line }
            | Self::DuplicateId { line, .. }
            | Self::TooMany { line } => *line,
        }
    }
}

/// The most bytes of a line, without its end.
pub const LINE_BYTES_MAX: usize = 1024 * 1024;

/// The most tasks of a file.
pub const TASKS_MAX: usize = 1_000_000;

/// The most characters of an id.
pub const ID_CHARACTERS_MAX: usize = 64;

/// The JSON form of a line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ObjectLine<'a> {
    id: String,
    #[serde(borrow)]
    payload: &'a RawValue,
}

fn plain(text: &str, line: usize) -> TaskLine {
    TaskLine { line, id: None, text: text.to_owned() }
}

fn object(json: &str, line: usize) -> Result<TaskLine, TasksError> {
    let refused = |error: serde_json::Error| TasksError::Json { line, reason: reason(&error) };
    let object: ObjectLine<'_> = serde_json::from_str(json).map_err(refused)?;
    let is_id =
        object.id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_~-".contains(&byte))
            && (1..=ID_CHARACTERS_MAX).contains(&object.id.len());
    if !is_id {
        return Err(TasksError::BadId { line });
    }
    let raw = object.payload.get();
    let text = if raw.starts_with('"') {
        serde_json::from_str(raw).map_err(refused)?
    } else {
        raw.to_owned()
    };
    Ok(TaskLine { line, id: Some(object.id), text })
}

/// The error without "at line 1", which would be read as a line of the file. It may quote the file,
/// so it is cut, and escaped where it would not print as it is.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let (what, is_placed) = match text.rsplit_once(" at line ") {
        Some((what, _where)) => (what, true),
        None => (text.as_str(), false),
    };
    let mut reason = String::new();
    for c in what.chars() {
        if reason.len() >= REASON_BYTES_MAX {
            reason.push('…');
            break;
        }
        match c {
            '"' | '\'' | '\\' => reason.push(c),
            _ => reason.extend(c.escape_debug()),
        }
    }
    if is_placed {
        reason.push_str(&format!(" at column {}", error.column()));
    }
    reason
}

/// Reads a line into `bytes` without its end; false at the end of the file.
fn read_line(
    reader: &mut impl BufRead,
    bytes: &mut Vec<u8>,
    line: usize,
) -> Result<bool, TasksError> {
    bytes.clear();
    let most = LINE_BYTES_MAX + BYTE_ORDER_MARK.len() + "\r\n".len();
    let read = reader.by_ref().take(most as u64).read_until(b'\n', bytes);
    if read.map_err(|source| TasksError::Read { line, source })? == 0 {
        return Ok(false);
    }
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
    }
    if bytes.len() > LINE_BYTES_MAX {
        return Err(TasksError::TooLong { line });
    }
    Ok(true)
}

/// Cut behind the character that reaches it.
const REASON_BYTES_MAX: usize = 200;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[cfg(test)]
mod tests;
