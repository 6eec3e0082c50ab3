//! Runs the simulation over many seeds, and the load of thousands of agents in one process.

use std::process::Command;

use anyhow::{Context as _, Result};

use crate::args::{Args, UsageError};
use crate::repo::{self, Repo, name_of};
use crate::steps::Outcome;

/// A program of `tests/src/bin` and what it is told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    program: &'static str,
    release: bool,
    words: Vec<String>,
}

impl Options {
    /// Reads the command line of `cargo xtask sim`.
    ///
    /// # Errors
    /// A usage error, also when a number is none.
    pub(crate) fn sim(mut args: Args) -> Result<Self> {
        let release = args.flag("--release");
        let words = take(args, &["--seeds", "--seed", "--agents", "--steps"], &["--sabotage"])?;
        Ok(Self { program: "bus-sim", release, words })
    }

    /// Reads the command line of `cargo xtask load`.
    ///
    /// # Errors
    /// A usage error, also when a number is none.
    pub(crate) fn load(args: Args) -> Result<Self> {
        let words = take(args, &["--agents", "--tasks"], &[])?;
        Ok(Self { program: "bus-load", release: true, words })
    }
}

/// Builds the program and runs it; `false` when it found something wrong.
///
/// # Errors
/// When cargo cannot be started; a usage error for a fault that nobody knows.
pub(crate) fn run(repo: &Repo, options: &Options) -> Result<bool> {
    let mut build = repo.cargo(["build", "--quiet", "-p", "bus-stories", "--bin", options.program]);
    if options.release {
        build.arg("--release");
    }
    if !repo::succeeds(&mut build)? {
        return Ok(false);
    }
    let profile = if options.release { "release" } else { "debug" };
    let program = repo.target_dir()?.join(profile).join(options.program);
    let mut command = Command::new(program);
    let status = command.args(&options.words).status().with_context(|| name_of(&command))?;
    if status.code() == Some(2) {
        return Err(UsageError::new(format!("{} does not know what to do", options.program)));
    }
    Ok(status.success())
}

/// The part that every test run does: a hundred seeds, always the same.
///
/// # Errors
/// When cargo cannot be started.
pub(crate) fn step(repo: &Repo) -> Result<Outcome> {
    let words = STEP.split_whitespace().map(str::to_owned).collect();
    let options = Options { program: "bus-sim", release: false, words };
    run(repo, &options).map(Outcome::from)
}

/// Takes `--json`, the options with a number and those with a name, and nothing else.
fn take(mut args: Args, numbers: &[&str], names: &[&str]) -> Result<Vec<String>> {
    let mut words = Vec::new();
    if args.flag("--json") {
        words.push("--json".to_owned());
    }
    for name in numbers.iter().chain(names) {
        let Some(value) = args.options(name)?.pop() else { continue };
        if numbers.contains(name) && value.parse::<u64>().is_err() {
            return Err(UsageError::new(format!("{name} wants a number, not `{value}`")));
        }
        words.extend([(*name).to_owned(), value]);
    }
    args.end()?;
    Ok(words)
}

/// Small enough for an unoptimised program, large enough to meet every rule in most seeds.
const STEP: &str = "--seed 1 --seeds 100 --agents 200 --steps 6000";

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Args {
        Args::new(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn what_the_simulation_is_told_is_passed_on() {
        let options = Options::sim(args("--seeds=3 --seed 7 --release --sabotage forgets-ack"));
        let Options { program, release, words } = options.unwrap();
        assert_eq!((program, release), ("bus-sim", true));
        assert_eq!(words, ["--seeds", "3", "--seed", "7", "--sabotage", "forgets-ack"]);
    }

    #[test]
    fn seeds_that_are_no_number_are_a_usage_error() {
        let error = Options::sim(args("--seeds many")).unwrap_err();
        assert!(error.is::<UsageError>());
    }

    #[test]
    fn an_option_of_the_simulation_is_none_of_the_load() {
        let error = Options::load(args("--steps 5")).unwrap_err();
        assert!(error.is::<UsageError>());
    }

    #[test]
    fn the_load_is_always_measured_on_an_optimised_program() {
        assert!(Options::load(args("--agents 10 --json")).unwrap().release);
    }
}
