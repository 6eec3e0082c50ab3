//! Shows what the tasks write: whole lines, each with the task it is from.

use std::{collections::HashMap, io};

use crate::print;

/// Puts chunks together to lines and prints them.
///
/// A reader of stdout that goes away ends the showing, not the run.
pub(super) struct Show {
    /// The unfinished line of each stream of each task.
    open: HashMap<(String, String), Vec<u8>>,
    gone: bool,
}

/// An unfinished line longer than this is shown in pieces, in bytes.
const LINE_BYTES_MAX: usize = 64 * 1024;

impl Show {
    pub(super) fn new() -> Self {
        Self { open: HashMap::new(), gone: false }
    }

    /// Takes the next chunk of `stream` of `task`.
    pub(super) fn chunk(&mut self, task: &str, stream: &str, bytes: &[u8]) {
        if self.gone {
            return;
        }
        let key = (task.to_owned(), stream.to_owned());
        let mut line = self.open.remove(&key).unwrap_or_default();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(piece);
            if piece.ends_with(b"\n") || line.len() >= LINE_BYTES_MAX {
                self.print(task, &line);
                line.clear();
            }
        }
        if !line.is_empty() {
            self.open.insert(key, line);
        }
    }

    /// Shows the lines that never ended.
    pub(super) fn finish(mut self) {
        let mut open: Vec<_> = std::mem::take(&mut self.open).into_iter().collect();
        open.sort();
        for ((task, _), line) in open {
            self.print(&task, &line);
        }
    }

    fn print(&mut self, task: &str, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let shown = format!("[{task}] {}", text.trim_end_matches(['\r', '\n']));
        match print::data(&shown) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.gone = true,
            // Showing is best effort; the run goes on.
            _ => {}
        }
    }
}
