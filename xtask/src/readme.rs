//! Runs what README.md tells a newcomer to run, exactly as written, in a fresh clone.

use anyhow::{Context, Result, bail};

use crate::repo::Repo;

use sandbox::Sandbox;
use shell::Ended;

mod sandbox;
mod shell;

/// Prints how each command went; `false` when one did not end as README.md says.
///
/// # Errors
/// When README.md has no command, or the clone cannot be made.
pub(crate) fn run(repo: &Repo) -> Result<bool> {
    let text = std::fs::read_to_string(repo.root().join("README.md")).context("read README.md")?;
    let commands = commands(&text)?;
    if commands.is_empty() {
        bail!("README.md has no `sh` block, so it tells a newcomer nothing to run");
    }
    let (skipped, run): (Vec<_>, Vec<_>) =
        commands.into_iter().partition(|command| RUNNING.contains(&command.text.as_str()));
    for command in skipped {
        println!("README.md:{}: not run again: `{}` runs us", command.line, command.text);
    }
    let sandbox = Sandbox::new(repo)?;
    let texts: Vec<&str> = run.iter().map(|command| command.text.as_str()).collect();
    let mut good = true;
    let mut results = run.iter();
    sandbox.run(&texts, |ended| {
        if let Some(command) = results.next() {
            good &= tell(command, &ended);
        }
    })?;
    for command in results {
        good = false;
        println!("README.md:{}: NOT RUN: {}", command.line, command.text);
    }
    Ok(good)
}

/// A line of a `sh` block.
#[derive(Debug, PartialEq, Eq)]
struct Command {
    /// Where it stands in README.md, counted from 1.
    line: usize,
    text: String,
    /// The exit code that the comment before it announces, else 0.
    expected: u8,
}

/// Prints one result; `false` when it is not the expected one.
fn tell(command: &Command, ended: &Ended) -> bool {
    let Command { line, text, expected } = command;
    if ended.code == Some(i32::from(*expected)) {
        println!("README.md:{line}: ok: {text}");
        return true;
    }
    let code = match ended.code {
        Some(code) => format!("exit code {code}, expected {expected}"),
        None => ended.trouble.clone(),
    };
    println!("README.md:{line}: FAILED: {text}\n  {code}; it printed:");
    ended.printed.lines().for_each(|printed| println!("  | {printed}"));
    false
}

/// Finds the commands of all `sh` blocks; a `\` at the end joins a line with the next.
///
/// # Errors
/// When an announced exit code is none, or nothing follows it.
fn commands(markdown: &str) -> Result<Vec<Command>> {
    let mut found: Vec<Command> = Vec::new();
    let mut fence: Option<(&str, bool)> = None;
    let mut expected = None;
    let mut joins = false;
    for (number, line) in (1..).zip(markdown.lines()) {
        let trimmed = line.trim();
        let Some((ticks, is_shell)) = fence else {
            fence = opening(trimmed);
            continue;
        };
        if trimmed.starts_with(ticks) && trimmed.chars().all(|c| ticks.starts_with(c)) {
            if expected.is_some() {
                bail!("README.md:{number}: an exit code is announced for no command");
            }
            (fence, joins) = (None, false);
        } else if !is_shell || (trimmed.is_empty() && !joins) {
            // Not for us.
        } else if let (true, Some(before)) = (joins, found.last_mut()) {
            before.text.push('\n');
            before.text.push_str(line);
            joins = line.ends_with('\\');
        } else if let Some(comment) = trimmed.strip_prefix('#') {
            if let Some(code) = comment.trim().strip_prefix("exits with ") {
                let code = code
                    .parse()
                    .with_context(|| format!("README.md:{number}: `{code}` is no exit code"))?;
                expected = Some(code);
            }
        } else {
            let expected = expected.take().unwrap_or(0);
            found.push(Command { line: number, text: trimmed.to_owned(), expected });
            joins = trimmed.ends_with('\\');
        }
    }
    Ok(found)
}

/// Reads the opening of a fenced block: its ticks, and whether it is for the shell.
fn opening(line: &str) -> Option<(&str, bool)> {
    let info = line.trim_start_matches('`');
    let ticks = line.get(..line.len() - info.len())?;
    (ticks.len() >= 3).then(|| (ticks, info.split_whitespace().next() == Some("sh")))
}

/// Commands that run this task themselves.
const RUNNING: [&str; 4] = ["cargo xtask test", "cargo xtask readme", ".ci/run", "./.ci/run"];

#[cfg(test)]
mod tests;
