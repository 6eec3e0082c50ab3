//! Puts the chunks of many tasks together to lines.

use std::{collections::HashMap, io};

use bytes::Bytes;

/// Prints whole lines, each with the task it is from.
pub(super) struct Screen<P> {
    /// The unfinished line of each stream of each task.
    open: HashMap<(String, String), Line>,
    print: P,
    gone: bool,
}

/// The next piece of what a task writes.
#[derive(Debug)]
pub(in crate::swarm) struct Chunk {
    /// The task.
    pub(in crate::swarm) task: String,
    /// Which of its streams.
    pub(in crate::swarm) stream: String,
    /// Where in the stream of this try it begins; none when nobody knows.
    pub(in crate::swarm) offset: Option<u64>,
    /// What was written.
    pub(in crate::swarm) bytes: Bytes,
}

/// An unfinished line.
struct Line {
    bytes: Vec<u8>,
    /// Where in its stream it goes on.
    next: Option<u64>,
}

/// An unfinished line longer than this is shown in pieces, in bytes.
const LINE_BYTES_MAX: usize = 64 * 1024;

impl<P: FnMut(&str) -> io::Result<()>> Screen<P> {
    /// An empty screen whose lines go to `print`; once that says that the reader is gone, nothing
    /// goes there any more.
    pub(super) fn new(print: P) -> Self {
        Self { open: HashMap::new(), print, gone: false }
    }

    /// Shows the lines that `chunk` ends.
    pub(super) fn chunk(&mut self, chunk: Chunk) {
        if self.gone {
            return;
        }
        let Chunk { task, stream, offset, bytes } = chunk;
        let key = (task, stream);
        let mut line = match self.open.remove(&key) {
            Some(open) if open.next == offset => open.bytes,
            // Another try begins, or something between is missing.
            Some(open) => {
                self.print(&key.0, &open.bytes);
                Vec::new()
            }
            None => Vec::new(),
        };
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(piece);
            if piece.ends_with(b"\n") || line.len() >= LINE_BYTES_MAX {
                self.print(&key.0, &line);
                line.clear();
            }
        }
        if !line.is_empty() {
            let next = offset.and_then(|offset| offset.checked_add(bytes.len() as u64));
            self.open.insert(key, Line { bytes: line, next });
        }
    }

    /// Shows the unfinished lines of `task`.
    pub(super) fn ended(&mut self, task: &str) {
        self.show_open(|(owner, _)| owner == task);
    }

    /// Shows the lines that never ended.
    pub(super) fn finish(mut self) {
        self.show_open(|_| true);
    }

    fn show_open(&mut self, is_meant: impl Fn(&(String, String)) -> bool) {
        let mut open: Vec<_> = self.open.extract_if(|key, _| is_meant(key)).collect();
        open.sort_by(|(one, _), (other, _)| one.cmp(other));
        for ((task, _), line) in open {
            self.print(&task, &line.bytes);
        }
    }

    fn print(&mut self, task: &str, line: &[u8]) {
        if self.gone {
            return;
        }
        let text = String::from_utf8_lossy(line);
        let shown = format!("[{task}] {}", text.trim_end_matches(['\r', '\n']));
        match (self.print)(&shown) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.gone = true,
            // Showing is best effort; the run goes on.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// What is shown of chunks of one stream of task `t` until the run ends.
    fn shown(chunks: &[(u64, &str)]) -> Vec<String> {
        let mut lines = Vec::new();
        let mut screen = Screen::new(|line: &str| {
            lines.push(line.to_owned());
            Ok(())
        });
        for (offset, text) in chunks {
            screen.chunk(chunk(*offset, text));
        }
        screen.finish();
        lines
    }

    fn chunk(offset: u64, text: &str) -> Chunk {
        Chunk {
            task: "t".to_owned(),
            stream: "out".to_owned(),
            offset: Some(offset),
            bytes: Bytes::copy_from_slice(text.as_bytes()),
        }
    }

    #[test]
    fn a_line_that_comes_in_pieces_is_shown_whole() {
        assert_eq!(shown(&[(0, "ha"), (2, "lf\nne"), (7, "xt")]), ["[t] half", "[t] next"]);
    }

    #[test]
    fn another_try_begins_a_line_of_its_own() {
        assert_eq!(shown(&[(0, "half"), (0, "done\n")]), ["[t] half", "[t] done"]);
    }

    #[test]
    fn what_stands_before_and_after_missing_output_is_no_one_line() {
        assert_eq!(shown(&[(0, "one "), (100, "other\n")]), ["[t] one ", "[t] other"]);
    }

    #[test]
    fn an_unfinished_line_is_shown_when_its_try_is_over() {
        let lines = RefCell::new(Vec::new());
        let mut screen = Screen::new(|line: &str| {
            lines.borrow_mut().push(line.to_owned());
            Ok(())
        });
        screen.chunk(chunk(0, "half"));
        screen.ended("other");
        assert!(lines.borrow().is_empty());
        screen.ended("t");
        assert_eq!((*lines.borrow()).clone(), ["[t] half"]);
        assert!(screen.open.is_empty());
    }
}
