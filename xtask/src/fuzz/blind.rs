//! Seeded changes without coverage, for machines where libFuzzer cannot be built.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::{Round, tool};
use crate::repo::{Repo, name_of};

/// The loop that the replay uses, run by the clock.
pub(super) struct Blind<'a> {
    repo: &'a Repo,
    crashes: PathBuf,
}

impl<'a> Blind<'a> {
    /// # Errors
    /// When cargo fails.
    pub(super) fn new(repo: &'a Repo) -> Result<Self> {
        let crashes = repo.target_dir()?.join("fuzz-crashes");
        Ok(Self { repo, crashes })
    }

    /// Mutates the seeds and the kept inputs of one target; every run tries other changes.
    ///
    /// # Errors
    /// When the program cannot be run or does not say what it did.
    pub(super) fn run(&self, target: &str, seconds: u32) -> Result<Round> {
        let crashes = self.crashes.join(target);
        let crashes = crashes.to_str().context("the target folder's name is UTF-8")?;
        let (seconds, seed) = (seconds.to_string(), std::process::id().to_string());
        let mut command = tool(self.repo, &["mutate", target, &seconds, &seed, crashes]);
        command.stderr(std::process::Stdio::inherit());
        let output = command.output().with_context(|| name_of(&command))?;
        read_output(&String::from_utf8_lossy(&output.stdout))
            .with_context(|| format!("{}: {}", name_of(&command), output.status))
    }
}

fn read_output(text: &str) -> Option<Round> {
    let last = text.lines().last()?;
    if let Some(executions) = last.strip_prefix("executions ") {
        return Some(Round { executions: executions.parse().ok()?, crash: None });
    }
    let crash = Some(PathBuf::from(last.strip_prefix("crash ")?));
    Some(Round { executions: 0, crash })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_says_executions_or_the_path_of_a_crash() {
        let round = read_output("executions 12\n");
        assert_eq!(round, Some(Round { executions: 12, crash: None }));
        let crash = Some(PathBuf::from("a b/crash-1"));
        let round = read_output("crash a b/crash-1\n");
        assert_eq!(round, Some(Round { executions: 0, crash }));
    }

    #[test]
    fn silence_is_no_round() {
        assert_eq!(read_output(""), None);
    }
}
