//! The server's log: each line goes to `tracing`, the last ones are kept for errors.

use std::collections::VecDeque;

use super::error::LastLines;

/// The last lines of a log, and how many there were in all.
#[derive(Debug, Default)]
pub(super) struct Tail {
    lines: VecDeque<String>,
    seen: u64,
}

impl Tail {
    pub(super) fn push(&mut self, line: String) {
        if self.lines.len() == KEPT {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
        self.seen += 1;
    }

    /// How many lines there were.
    pub(super) fn seen(&self) -> u64 {
        self.seen
    }

    /// The kept lines that came after the first `seen`.
    pub(super) fn since(&self, seen: u64) -> impl Iterator<Item = &str> {
        let fresh = usize::try_from(self.seen.saturating_sub(seen)).unwrap_or(usize::MAX);
        self.lines.iter().skip(self.lines.len().saturating_sub(fresh)).map(String::as_str)
    }

    /// The last few lines, for an error's text.
    pub(super) fn last(&self) -> LastLines {
        let skipped = self.lines.len().saturating_sub(SHOWN);
        LastLines(self.lines.iter().skip(skipped).cloned().collect())
    }
}

/// Splits `[pid] [INF] text` into level and text; a line of another form is the server's last word
/// (a panic) and counts as an error.
pub(super) fn parse(line: &str) -> (Level, &str) {
    let rest = line.strip_prefix('[').and_then(|rest| rest.split_once("] [")).map(|(_, rest)| rest);
    let Some((level, text)) = rest.and_then(|rest| rest.split_once(']')) else {
        return (Level::Error, line);
    };
    let level = match level {
        "TRC" | "DBG" => Level::Trace,
        // A server says where it stores what on every start: of use to who asks for more.
        "INF" => Level::Debug,
        "WRN" => Level::Warn,
        _ => Level::Error,
    };
    (level, text.strip_prefix(' ').unwrap_or(text))
}

/// How loud a line is for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Trace,
    Debug,
    Warn,
    Error,
}

/// Hands a line on to whoever listens to this process.
pub(super) fn forward(pid: u32, line: &str) {
    let (level, text) = parse(line);
    match level {
        Level::Trace => tracing::trace!(target: "nats_server", pid, "{text}"),
        Level::Debug => tracing::debug!(target: "nats_server", pid, "{text}"),
        Level::Warn => tracing::warn!(target: "nats_server", pid, "{text}"),
        Level::Error => tracing::error!(target: "nats_server", pid, "{text}"),
    }
}

const KEPT: usize = 64;
const SHOWN: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_into_level_and_text() {
        let cases = [
            ("[7] [INF] Server is ready", (Level::Debug, "Server is ready")),
            ("[7] [WRN] slow] [down", (Level::Warn, "slow] [down")),
            ("[7] [FTL] no room", (Level::Error, "no room")),
            ("[7] [DBG] x", (Level::Trace, "x")),
        ];
        for (line, expected) in cases {
            assert_eq!(parse(line), expected, "{line}");
        }
    }

    #[test]
    fn a_line_of_another_form_is_an_error_and_kept_whole() {
        for line in ["panic: out of memory", "[7]", "[7] text", ""] {
            assert_eq!(parse(line), (Level::Error, line));
        }
    }

    #[test]
    fn lines_since_a_mark_are_those_that_came_after_it() {
        let mut tail = Tail::default();
        (0..100).for_each(|n| tail.push(n.to_string()));
        let mark = tail.seen();
        ["a", "b"].into_iter().for_each(|line| tail.push(line.to_owned()));
        assert_eq!(tail.since(mark).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(tail.since(0).count(), KEPT);
        assert_eq!(tail.last().0, ["96", "97", "98", "99", "a", "b"]);
    }
}
