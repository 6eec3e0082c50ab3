//! All tests, once; what failed is run once more, to tell a fault from a test that is unsteady.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::nats;
use crate::repo::Repo;
use crate::steps::Outcome;

/// Runs every test of the workspace; those that fail are run once more, one at a time.
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
    if failed.is_empty()
        || failed.iter().map(|target| target.tests.len()).sum::<usize>() > AGAIN_MAX
    {
        return Ok(Outcome::Failed);
    }
    for target in &failed {
        println!("once more: {target}");
        let words: Vec<&str> = target.words().collect();
        if !run_once(repo, &words)?.0 {
            return Ok(Outcome::Failed);
        }
    }
    let named: Vec<String> = failed.iter().map(ToString::to_string).collect();
    Ok(Outcome::Unsteady(named.join("; ")))
}

/// Whether the tests passed, and what did not.
fn run_once(repo: &Repo, words: &[&str]) -> Result<(bool, Vec<Failed>)> {
    let mut command = repo.cargo(["test"]);
    // It is read.
    command.args(words).env("CARGO_TERM_COLOR", "never");
    nats::lend(repo, &mut command);
    if env::var_os("CI").is_some() && env::var_os(SEED).is_none() {
        command.env(SEED, GATE_SEED);
    }
    told(&mut command, io::stdout())
}

/// Runs a command that says everything to `shown`, in its order, and is read.
fn told(command: &mut Command, mut shown: impl Write) -> Result<(bool, Vec<Failed>)> {
    let (said, says) = io::pipe().context("a pipe")?;
    command.stdout(says.try_clone().context("a pipe")?).stderr(says);
    let child = command.spawn();
    // Who is told would wait for what it holds open itself.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = child.context("cargo test")?;
    let mut reading = Reading::default();
    for line in BufReader::new(said).split(b'\n') {
        let line = line.context("what cargo test says")?;
        shown.write_all(&line)?;
        shown.write_all(b"\n")?;
        reading.line(&String::from_utf8_lossy(&line));
    }
    Ok((child.wait().context("cargo test")?.success(), reading.failed))
}

/// A target whose tests failed.
#[derive(Debug, PartialEq, Eq)]
struct Failed {
    /// As cargo takes it.
    target: String,
    /// Its tests that failed; empty when it did not come to tell them all.
    tests: Vec<String>,
}

impl Failed {
    /// What to run again. Alone, because some fail for want of time beside others.
    fn words(&self) -> impl Iterator<Item = &str> {
        let alone = (!self.tests.is_empty()).then_some(["--", "--exact", "--test-threads=1"]);
        let names = self.tests.iter().map(String::as_str);
        self.target.split(' ').chain(alone.into_iter().flatten()).chain(names)
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.target)?;
        match self.tests.as_slice() {
            [] => Ok(()),
            tests => write!(f, " ({})", tests.join(", ")),
        }
    }
}

/// What has been read so far of what cargo and its targets say.
#[derive(Default)]
struct Reading {
    failed: Vec<Failed>,
    /// Of the target that runs.
    tests: Vec<String>,
    /// How many failed by its closing line.
    count: Option<usize>,
}

impl Reading {
    fn line(&mut self, line: &str) {
        if let Some(test) = test_of(line) {
            self.tests.push(test.to_owned());
        } else if let Some(count) = count_of(line) {
            self.count = Some(count);
        } else if line.trim_start().starts_with("Running ") {
            (self.tests, self.count) = (Vec::new(), None);
        } else if let Some(target) = target_of(line) {
            let (tests, count) = (std::mem::take(&mut self.tests), self.count.take());
            let tests = if count == Some(tests.len()) { tests } else { Vec::new() };
            self.failed.push(Failed { target: target.to_owned(), tests });
        }
    }
}

/// The test in `test NAME ... FAILED`; a document's is named with spaces and is not taken.
fn test_of(line: &str) -> Option<&str> {
    let name = line.strip_prefix("test ")?.strip_suffix("... FAILED")?.trim_end();
    (!name.is_empty() && !name.contains(' ')).then_some(name)
}

/// The count in `test result: FAILED. 15 passed; 1 failed; …`.
fn count_of(line: &str) -> Option<usize> {
    let (_, rest) = line.strip_prefix("test result: FAILED.")?.split_once("; ")?;
    rest.split(' ').next()?.parse().ok()
}

/// The target in what cargo says right after it failed.
fn target_of(line: &str) -> Option<&str> {
    let (_, rest) = line.strip_prefix("error: ")?.split_once("to rerun pass `")?;
    rest.strip_suffix('`')
}

/// Beyond so many something is broken.
const AGAIN_MAX: usize = 6;

/// What proptest takes its seed from.
const SEED: &str = "PROPTEST_RNG_SEED";

/// Every gate tries the same cases, so that a change is judged by what it changed; every other run
/// tries new ones.
const GATE_SEED: &str = "20261130";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(said: &str) -> Vec<Failed> {
        let mut reading = Reading::default();
        said.lines().for_each(|line| reading.line(line));
        reading.failed
    }

    const TWO: &str = "\
     Running tests/claims/main.rs (target/debug/deps/claims-5e15)
test push::one ... ok
test push::two ... FAILED
test a_name_that_is_padded          ... FAILED
test result: FAILED. 15 passed; 2 failed; 0 ignored
error: test failed, to rerun pass `-p bus-nats --test claims`
     Running tests/live/main.rs (target/debug/deps/live-5e15)
error: test failed, to rerun pass `-p bus-nats --test live`
error: doctest failed, to rerun pass `-p bus-core --doc`
error: 3 targets failed:
    `-p bus-nats --test claims`
";

    #[test]
    fn the_tests_that_failed_are_read_with_their_target() {
        let failed = read(TWO);
        let words: Vec<&str> = failed[0].words().collect();
        let alone = "-p bus-nats --test claims -- --exact --test-threads=1 push::two \
                     a_name_that_is_padded";
        assert_eq!(words.join(" "), alone);
        assert_eq!(failed.len(), 3);
    }

    #[test]
    fn a_target_that_ended_before_it_told_is_run_again_as_a_whole() {
        let failed = read(TWO);
        assert_eq!(failed[1].words().collect::<Vec<_>>().join(" "), "-p bus-nats --test live");
        assert_eq!(failed[2].words().collect::<Vec<_>>().join(" "), "-p bus-core --doc");
        let lost = TWO.replace("2 failed", "3 failed");
        assert!(read(&lost)[0].tests.is_empty());
    }

    #[test]
    fn what_a_command_says_is_read_and_its_end_told() {
        let mut command = Command::new("sh");
        let script = "echo 'test a ... FAILED'; echo 'test result: FAILED. 0 passed; 1 failed;' >&2
            echo 'error: test failed, to rerun pass `-p x --lib`' >&2; exit 101";
        command.args(["-c", script]).stdin(Stdio::null());
        let mut shown = Vec::new();
        let (passed, failed) = told(&mut command, &mut shown).unwrap();
        let only = Failed { target: "-p x --lib".to_owned(), tests: vec!["a".to_owned()] };
        assert_eq!((passed, failed), (false, vec![only]));
        assert_eq!(shown.split(|byte| *byte == b'\n').count(), 4);
    }
}
