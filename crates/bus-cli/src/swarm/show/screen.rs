//! Folds the chunks of many tasks to lines.

use std::{collections::HashMap, io, num::NonZeroUsize};

use bus_runner::{Fold, FoldLimits, Line};
use bytes::Bytes;

use crate::print;

/// Prints whole lines, each with the task it is from.
///
/// Carriage returns, cursor moves and erasures are followed, colours stay; every other control is
/// dropped, so nothing that a task writes steers the terminal.
pub(super) struct Screen<P> {
    /// What is unfinished of each stream of each task.
    open: HashMap<(String, String), Open>,
    open_max: NonZeroUsize,
    /// How many chunks came.
    chunks: u64,
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

/// A stream with an unfinished line, or with a colour or a sequence that is open.
struct Open {
    fold: Fold,
    /// Where in its stream it goes on.
    next: Option<u64>,
    /// Which of all chunks was its last.
    last: u64,
}

/// How many streams may be unfinished; of a task whose end was not heard they stay so.
const OPEN_MAX: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// A line wider than this is shown in pieces.
const COLUMNS_MAX: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

impl<P: FnMut(&str) -> io::Result<()>> Screen<P> {
    /// An empty screen whose lines go to `print`; once that says that the reader is gone, nothing
    /// goes there any more.
    pub(super) fn new(print: P) -> Self {
        Self { open: HashMap::new(), open_max: OPEN_MAX, chunks: 0, print, gone: false }
    }

    /// Shows the lines that `chunk` ends.
    pub(super) fn chunk(&mut self, chunk: Chunk) {
        if self.gone {
            return;
        }
        let Chunk { task, stream, offset, bytes } = chunk;
        let key = (task, stream);
        let mut fold = match self.open.remove(&key) {
            Some(open) if open.next == offset => open.fold,
            // Another try begins, or something between is missing.
            Some(open) => {
                self.finish_one(&key.0, open);
                new_fold()
            }
            None => new_fold(),
        };
        self.print_each(&key.0, |mut print| fold.push(&bytes, &mut print));
        self.chunks = self.chunks.saturating_add(1);
        if !fold.is_idle() {
            let next = offset.and_then(|offset| offset.checked_add(bytes.len() as u64));
            self.make_room();
            self.open.insert(key, Open { fold, next, last: self.chunks });
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

    /// Lets the stream go that was silent the longest, when there are too many.
    fn make_room(&mut self) {
        if self.open.len() < self.open_max.get() {
            return;
        }
        let oldest = self.open.iter().min_by_key(|(_, open)| open.last);
        let oldest = oldest.map(|(key, _)| key.clone());
        if let Some((key, open)) = oldest.and_then(|key| self.open.remove_entry(&key)) {
            self.finish_one(&key.0, open);
        }
    }

    fn show_open(&mut self, is_meant: impl Fn(&(String, String)) -> bool) {
        let mut open: Vec<_> = self.open.extract_if(|key, _| is_meant(key)).collect();
        open.sort_by(|(one, _), (other, _)| one.cmp(other));
        for ((task, _), open) in open {
            self.finish_one(&task, open);
        }
    }

    fn finish_one(&mut self, task: &str, open: Open) {
        self.print_each(task, |mut print| open.fold.finish(&mut print));
    }

    /// Prints each line that `fold` finishes.
    fn print_each(&mut self, task: &str, fold: impl FnOnce(&mut dyn FnMut(Line<'_>))) {
        let task = print::harmless(task);
        let Self { print, gone, .. } = self;
        fold(&mut |line| {
            if *gone {
                return;
            }
            match print(&format!("[{task}] {}", line.styled)) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => *gone = true,
                // Showing is best effort; the run goes on.
                _ => {}
            }
        });
    }
}

fn new_fold() -> Fold {
    Fold::new(FoldLimits { columns_max: COLUMNS_MAX, ..FoldLimits::one_row() })
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
        assert_eq!(shown(&[(0, "one "), (100, "other\n")]), ["[t] one", "[t] other"]);
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

    #[test]
    fn a_bar_that_is_drawn_again_and_again_is_shown_as_it_was_left() {
        assert_eq!(shown(&[(0, "10%\r50%"), (7, "\r\u{1b}[K100%\n")]), ["[t] 100%"]);
    }

    #[test]
    fn what_could_steer_the_terminal_is_not_shown() {
        let output = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[31mred\u{1b}[0m\u{9b}5n\n";
        assert_eq!(shown(&[(0, output)]), ["[t] \u{1b}[0;31mred\u{1b}[0m"]);
    }

    #[test]
    fn a_colour_goes_on_in_the_next_line_and_not_in_what_stands_before_it() {
        let red = |text| format!("[t] \u{1b}[0;31m{text}\u{1b}[0m");
        assert_eq!(shown(&[(0, "\u{1b}[31mone\n"), (9, "two\n")]), [red("one"), red("two")]);
    }

    #[test]
    fn a_stream_in_which_nothing_is_open_is_not_remembered() {
        let mut screen = Screen::new(|_: &str| Ok(()));
        screen.chunk(chunk(0, "a line\n"));
        assert!(screen.open.is_empty());
    }

    #[test]
    fn of_too_many_unfinished_lines_the_oldest_is_shown_and_let_go() {
        let lines = RefCell::new(Vec::new());
        let mut screen = Screen::new(|line: &str| {
            lines.borrow_mut().push(line.to_owned());
            Ok(())
        });
        screen.open_max = NonZeroUsize::new(2).unwrap();
        for (task, offset) in [("a", 0), ("b", 0), ("a", 4), ("c", 0)] {
            let task = task.to_owned();
            screen.chunk(Chunk { task, ..chunk(offset, "half") });
        }
        assert_eq!((*lines.borrow()).clone(), ["[b] half"]);
        assert_eq!(screen.open.len(), 2);
    }
}
