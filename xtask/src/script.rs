//! The commands of a page, and what it says that they print.

use std::ops::Range;

use anyhow::{Context, Result, bail};

use crate::shell::Ended;

/// What a page tells its reader to run, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Script {
    pub(crate) commands: Vec<Command>,
    pub(crate) shown: Vec<Shown>,
}

/// A command of a `sh` block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Command {
    /// Where it stands in its page, counted from 1.
    pub(crate) line: usize,
    pub(crate) text: String,
    /// The exit code that the comment before it announces, else 0.
    pub(crate) expected: u8,
}

/// A `text` block right after a `sh` block: what its commands print.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Which commands, by their places in [`Script::commands`].
    pub(crate) commands: Range<usize>,
    /// Each line, and where it stands in its page.
    pub(crate) lines: Vec<(usize, String)>,
}

impl Script {
    /// Reads the `sh` blocks of `page`, each line of which is a command. A `\` at its end joins a
    /// line with the next, and `<<WORD` with all up to the line that is WORD.
    ///
    /// # Errors
    /// When an announced exit code is none, nothing follows it, or a text that begins with `<<`
    /// does not end.
    pub(crate) fn parse(page: &str, markdown: &str) -> Result<Self> {
        let mut reader = Reader { page, ..Reader::default() };
        for (number, line) in (1..).zip(markdown.lines()) {
            reader.take(number, line)?;
        }
        Ok(reader.script)
    }
}

impl Command {
    /// Prints how it ended; `false` when that is not what `page` says.
    pub(crate) fn tell(&self, page: &str, ended: &Ended) -> bool {
        let Self { line, text, expected } = self;
        if ended.code == Some(i32::from(*expected)) {
            println!("{page}:{line}: ok: {}", text.lines().next().unwrap_or_default());
            return true;
        }
        let code = match ended.code {
            Some(code) => format!("exit code {code}, expected {expected}"),
            None => ended.trouble.clone(),
        };
        println!("{page}:{line}: FAILED: {text}\n  {code}; it printed:");
        ended.printed.lines().for_each(|printed| println!("  | {printed}"));
        false
    }
}

/// What stands between the lines.
#[derive(Debug, Default)]
struct Reader<'a> {
    page: &'a str,
    script: Script,
    fence: Option<Fence<'a>>,
    /// The exit code that was announced for the next command.
    expected: Option<u8>,
    joins: Joins,
    /// The commands of a `sh` block after which nothing came yet.
    before: Option<Range<usize>>,
}

/// A block that is open.
#[derive(Debug, Clone, Copy)]
struct Fence<'a> {
    ticks: &'a str,
    holds: Holds,
}

/// What the lines of a block are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// Commands; how many there were before.
    Commands(usize),
    /// What the commands right before it print.
    Shown,
    Other,
}

/// Whether the next line is part of the last command.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
enum Joins {
    #[default]
    No,
    /// By a `\`.
    Next,
    /// Up to the line that is this word.
    UpTo(String),
}

impl<'a> Reader<'a> {
    fn take(&mut self, number: usize, line: &'a str) -> Result<()> {
        let trimmed = line.trim();
        let Some(fence) = self.fence else {
            self.outside(trimmed);
            return Ok(());
        };
        let is_end = trimmed.starts_with(fence.ticks)
            && trimmed.chars().all(|character| fence.ticks.starts_with(character));
        match fence.holds {
            Holds::Commands(_) if matches!(self.joins, Joins::UpTo(_)) && !is_end => {
                self.join(line);
            }
            Holds::Commands(first) if is_end => {
                self.close(number)?;
                self.before = Some(first..self.script.commands.len());
            }
            _ if is_end => self.fence = None,
            Holds::Commands(_) => self.command(number, line)?,
            Holds::Shown => {
                if let Some(shown) = self.script.shown.last_mut() {
                    shown.lines.push((number, line.trim_end().to_owned()));
                }
            }
            Holds::Other => {}
        }
        Ok(())
    }

    fn outside(&mut self, trimmed: &'a str) {
        if let Some((ticks, language)) = opening(trimmed) {
            let holds = match (language, self.before.take()) {
                ("sh", _) => Holds::Commands(self.script.commands.len()),
                ("text", Some(commands)) => {
                    self.script.shown.push(Shown { commands, lines: Vec::new() });
                    Holds::Shown
                }
                _ => Holds::Other,
            };
            self.fence = Some(Fence { ticks, holds });
        } else if !trimmed.is_empty() {
            self.before = None;
        }
    }

    fn command(&mut self, number: usize, line: &str) -> Result<()> {
        let trimmed = line.trim();
        if self.joins != Joins::No {
            self.join(line);
        } else if let Some(comment) = trimmed.strip_prefix('#') {
            if let Some(code) = comment.trim().strip_prefix("exits with ") {
                let code = code.parse();
                let what = || format!("{}:{number}: `{trimmed}` names no exit code", self.page);
                self.expected = Some(code.with_context(what)?);
            }
        } else if !trimmed.is_empty() {
            let expected = self.expected.take().unwrap_or(0);
            self.joins = joins(trimmed);
            let text = trimmed.to_owned();
            self.script.commands.push(Command { line: number, text, expected });
        }
        Ok(())
    }

    fn join(&mut self, line: &str) {
        let Some(command) = self.script.commands.last_mut() else { return };
        command.text.push('\n');
        command.text.push_str(line);
        match &self.joins {
            Joins::UpTo(word) if line.trim() == word => self.joins = Joins::No,
            Joins::UpTo(_) => {}
            _ => self.joins = joins(line),
        }
    }

    fn close(&mut self, number: usize) -> Result<()> {
        let Self { page, .. } = self;
        if self.expected.is_some() {
            bail!("{page}:{number}: an exit code is announced for no command");
        }
        if let Joins::UpTo(word) = &self.joins {
            bail!("{page}:{number}: the block ends before the line `{word}`");
        }
        (self.fence, self.joins) = (None, Joins::No);
        Ok(())
    }
}

/// How a line of a command goes on.
fn joins(line: &str) -> Joins {
    if let Some(word) = line.match_indices("<<").find_map(|(at, _)| here(line, at)) {
        Joins::UpTo(word.to_owned())
    } else if line.ends_with('\\') {
        Joins::Next
    } else {
        Joins::No
    }
}

/// The word up to which the `<<` at `at` takes lines; `<<<` takes none.
fn here(line: &str, at: usize) -> Option<&str> {
    let (before, after) = line.split_at_checked(at)?;
    let after = after.strip_prefix("<<")?;
    if before.ends_with('<') || after.starts_with('<') {
        return None;
    }
    let after = after.trim_start_matches(['-', ' ', '\'', '"']);
    let word = after.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
    (!word.is_empty()).then_some(word)
}

/// Reads the opening of a fenced block: its ticks, and the language of what is in it.
fn opening(line: &str) -> Option<(&str, &str)> {
    let info = line.trim_start_matches('`');
    let ticks = line.get(..line.len() - info.len())?;
    (ticks.len() >= 3).then(|| (ticks, info.split_whitespace().next().unwrap_or_default()))
}

#[cfg(test)]
mod tests;
