//! Runs what README.md tells a newcomer to run, exactly as written, in a fresh clone.

use anyhow::{Context, Result, bail};

use crate::repo::Repo;
use crate::script::Script;

use sandbox::Sandbox;

mod sandbox;

/// Prints how each command went; `false` when one did not end as README.md says.
///
/// # Errors
/// When README.md has no command, or the clone cannot be made.
pub(crate) fn run(repo: &Repo) -> Result<bool> {
    let text = std::fs::read_to_string(repo.root().join(PAGE)).context("read README.md")?;
    let commands = Script::parse(PAGE, &text)?.commands;
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
            good &= command.tell(PAGE, &ended);
        }
        true
    })?;
    for command in results {
        good = false;
        println!("README.md:{}: NOT RUN: {}", command.line, command.text);
    }
    Ok(good)
}

const PAGE: &str = "README.md";

/// Commands that run this task themselves.
const RUNNING: [&str; 4] = ["cargo xtask test", "cargo xtask readme", ".ci/run", "./.ci/run"];

#[cfg(test)]
mod tests;
