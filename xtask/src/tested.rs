//! All tests, once; what failed is run once more, to tell a fault from a test that is unsteady.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::nats;
use crate::repo::Repo;
use crate::steps::Outcome;

/// Runs every test of the workspace; a target that fails is run once more.
///
/// A law that failed leaves the seed it failed with, which the second run begins with: no fault
/// that a law found passes for unsteadiness.
///
/// # Errors
/// When cargo cannot be started.
pub(crate) fn run(repo: &Repo) -> Result<Outcome> {
    let (passed, failed) = run_once(repo, &["--workspace", "--no-fail-fast"])?;
    if passed {
        return Ok(Outcome::Passed);
    }
    // A build that failed names no target.
    if failed.is_empty() || failed.len() > AGAIN_MAX {
        return Ok(Outcome::Failed);
    }
    for target in &failed {
        println!("once more: cargo test {target}");
        let words: Vec<&str> = target.split(' ').collect();
        if !run_once(repo, &words)?.0 {
            return Ok(Outcome::Failed);
        }
    }
    Ok(Outcome::Unsteady(failed.join(", ")))
}

/// Whether the tests passed, and which targets did not, as cargo takes them.
fn run_once(repo: &Repo, words: &[&str]) -> Result<(bool, Vec<String>)> {
    let mut command = repo.cargo(["test"]);
    command.args(words);
    nats::lend(repo, &mut command);
    if env::var_os("CI").is_some() && env::var_os(SEED).is_none() {
        command.env(SEED, GATE_SEED);
    }
    told(&mut command, io::stderr())
}

/// Runs a command whose errors go to `shown` and are read.
fn told(command: &mut Command, mut shown: impl Write) -> Result<(bool, Vec<String>)> {
    let mut child = command.stderr(Stdio::piped()).spawn().context("cargo test")?;
    let mut failed = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr).split(b'\n') {
            let line = line.context("what cargo test says")?;
            shown.write_all(&line)?;
            shown.write_all(b"\n")?;
            failed.extend(target_of(&String::from_utf8_lossy(&line)));
        }
    }
    Ok((child.wait().context("cargo test")?.success(), failed))
}

/// The target in a line of cargo's closing list, which are alone in being set in and quoted.
fn target_of(line: &str) -> Option<String> {
    let target = line.strip_prefix("    `")?.strip_suffix('`')?;
    target.starts_with("-p ").then(|| target.to_owned())
}

/// Beyond so many something is broken.
const AGAIN_MAX: usize = 3;

/// What proptest takes its seed from.
const SEED: &str = "PROPTEST_RNG_SEED";

/// Every gate tries the same cases, so that a change is judged by what it changed; every other run
/// tries new ones.
const GATE_SEED: &str = "20261130";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_targets_that_failed_are_read_from_the_closing_list() {
        let of = |line| target_of(line);
        assert_eq!(
            of("    `-p bus-stories --test outbox`").unwrap(),
            "-p bus-stories --test outbox"
        );
        assert_eq!(of("    `-p bus-core --doc`").unwrap(), "-p bus-core --doc");
        assert_eq!(of("error: 1 target failed:"), None);
        assert_eq!(of("    `cargo fix`"), None);
    }

    #[test]
    fn what_a_command_says_is_read_and_its_end_told() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo '    `-p x --lib`' >&2; exit 101"]);
        let mut shown = Vec::new();
        let told = told(&mut command, &mut shown).unwrap();
        assert_eq!(told, (false, vec!["-p x --lib".to_owned()]));
        assert_eq!(shown, b"    `-p x --lib`\n");
    }
}
