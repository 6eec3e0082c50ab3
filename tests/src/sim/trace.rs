//! What happened, line by line: a digest of all of it, and the last lines as text.

use std::{collections::VecDeque, fmt::Write as _};

/// The story of a run.
///
/// The digest says whether two runs are the same to the byte; it guards against chance, not
/// against forgers.
#[derive(Debug)]
pub(super) struct Trace {
    digest: u64,
    last: VecDeque<String>,
    lines_kept: usize,
}

impl Trace {
    /// An empty story that keeps the text of its last `lines_kept` lines.
    pub(super) fn new(lines_kept: usize) -> Self {
        // FNV-1a, 64 bits.
        Self { digest: 0xcbf2_9ce4_8422_2325, last: VecDeque::new(), lines_kept }
    }

    /// Adds a line.
    pub(super) fn add(&mut self, line: std::fmt::Arguments<'_>) {
        let mut text = match self.last.len() >= self.lines_kept {
            true => self.last.pop_front().unwrap_or_default(),
            false => String::new(),
        };
        text.clear();
        // Writing into a string cannot fail.
        let _always = text.write_fmt(line);
        for byte in text.bytes().chain([b'\n']) {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.last.push_back(text);
    }

    /// The digest of all lines.
    pub(super) const fn digest(&self) -> u64 {
        self.digest
    }

    /// The last lines, oldest first.
    pub(super) fn into_last(self) -> Vec<String> {
        self.last.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(lines: &[&str], kept: usize) -> Trace {
        let mut trace = Trace::new(kept);
        lines.iter().for_each(|line| trace.add(format_args!("{line}")));
        trace
    }

    #[test]
    fn the_digest_covers_lines_that_are_no_longer_kept() {
        assert_eq!(told(&["a", "b"], 1).digest(), told(&["a", "b"], 9).digest());
        assert_ne!(told(&["a", "b"], 1).digest(), told(&["x", "b"], 1).digest());
    }

    #[test]
    fn lines_do_not_run_into_each_other() {
        assert_ne!(told(&["ab", "c"], 9).digest(), told(&["a", "bc"], 9).digest());
    }

    #[test]
    fn the_last_lines_are_kept_in_order() {
        assert_eq!(told(&["a", "b", "c"], 2).into_last(), ["b", "c"]);
    }
}
