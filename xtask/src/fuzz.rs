//! Fuzzes what reads strangers' bytes: guided by coverage where that can be built, else blindly.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::args::{Args, UsageError};
use crate::repo::{self, Repo};
use crate::steps::{Outcome, Stopwatch};

use blind::Blind;
use guided::Guided;

mod blind;
mod guided;

/// What to fuzz and for how long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// For each target.
    seconds: u32,
    /// All of them when none is named.
    targets: Vec<String>,
}

impl Options {
    /// Reads the command line.
    ///
    /// # Errors
    /// A usage error, also when the seconds are no number or zero.
    pub(crate) fn parse(mut args: Args) -> Result<Self> {
        let seconds = match args.options("--seconds")?.last() {
            Some(text) => text.parse().ok().filter(|seconds| *seconds > 0).ok_or_else(|| {
                UsageError::new(format!("--seconds wants a number above 0, not `{text}`"))
            })?,
            None => SECONDS,
        };
        Ok(Self { seconds, targets: args.rest()? })
    }
}

/// Fuzzes every target named; the paths of inputs that break something are printed. `false` when
/// there is one.
///
/// # Errors
/// A usage error for an unknown target; a build that fails; a loop that misses the planted fault.
pub(crate) fn run(repo: &Repo, options: &Options) -> Result<bool> {
    let known = repo::text_of(&mut tool(repo, &["list"]))?;
    let known: Vec<&str> = known.lines().collect();
    if let Some(other) = options.targets.iter().find(|name| !known.contains(&name.as_str())) {
        let known = known.join(", ");
        return Err(UsageError::new(format!("no target is called `{other}`: there are {known}")));
    }
    let chosen = |name: &&&str| {
        options.targets.is_empty() || options.targets.iter().any(|target| target == **name)
    };
    let fuzzer = Fuzzer::prepare(repo)?;
    check_canary(&fuzzer)?;
    let mut crashes = 0;
    for target in known.iter().filter(chosen) {
        let watch = Stopwatch::start();
        let round = fuzzer.run(target, options.seconds)?;
        let seconds = watch.read().as_secs_f64();
        let rate = round.executions as f64 / seconds.max(0.001);
        print!("{target:<12} {:>12} executions {rate:>10.0}/s", round.executions);
        match &round.crash {
            None => println!("   no crash"),
            Some(input) => {
                crashes += 1;
                println!("   CRASH {}", input.display());
            }
        }
    }
    println!("{crashes} crashes");
    Ok(crashes == 0)
}

/// The part of fuzzing that every test run does: what is kept, the seeds, and some changes of both,
/// on the compiler that builds the product.
///
/// # Errors
/// When cargo fails.
pub(crate) fn replay(repo: &Repo) -> Result<Outcome> {
    let target_dir = repo.target_dir()?;
    let run = |words: &[&str]| {
        let mut command = repo.cargo(words.iter().copied());
        command.env("CARGO_TARGET_DIR", &target_dir);
        repo::succeeds(&mut command)
    };
    let lints = ["clippy", "--locked", "--manifest-path", MANIFEST, "--lib", "--tests", "--bins"];
    let linted = run(&[&lints[..], &["--", "-D", "warnings"]].concat())?;
    let holds = run(&["test", "--locked", "--manifest-path", MANIFEST, "--no-fail-fast"])?;
    Ok((linted && holds).into())
}

/// What one target's run came to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Round {
    executions: u64,
    /// The input that broke something.
    crash: Option<PathBuf>,
}

enum Fuzzer<'a> {
    Guided(Guided),
    Blind(Blind<'a>),
}

impl<'a> Fuzzer<'a> {
    /// Builds the best loop that there is for this machine and says which.
    fn prepare(repo: &'a Repo) -> Result<Self> {
        if let Some(why) = guided::obstacle(repo)? {
            println!("blind mutation, without coverage: {why}");
            return Ok(Self::Blind(Blind::new(repo)?));
        }
        println!("guided by coverage (libFuzzer)");
        let guided = Guided::build(repo)?;
        let seeds = guided.corpus().to_str().context("the target folder's name is UTF-8")?;
        if !repo::succeeds(&mut tool(repo, &["seeds", seeds]))? {
            bail!("the seeds cannot be written");
        }
        Ok(Self::Guided(guided))
    }

    fn run(&self, target: &str, seconds: u32) -> Result<Round> {
        match self {
            Self::Guided(guided) => guided.run(target, seconds),
            Self::Blind(blind) => blind.run(target, seconds),
        }
    }
}

/// A loop that is dead finds nothing and looks like success, so it must find the planted fault.
fn check_canary(fuzzer: &Fuzzer<'_>) -> Result<()> {
    let watch = Stopwatch::start();
    let round = match fuzzer {
        Fuzzer::Guided(guided) => guided.run_from_nothing(CANARY, CANARY_SECONDS)?,
        Fuzzer::Blind(blind) => blind.run(CANARY, CANARY_SECONDS)?,
    };
    if round.crash.is_none() {
        bail!("the planted fault was not found in {CANARY_SECONDS} s: the loop is dead");
    }
    println!("{CANARY:<12} planted fault found in {:.1} s", watch.read().as_secs_f64());
    Ok(())
}

/// The program that knows the targets: the product's compiler, nothing instrumented.
fn tool(repo: &Repo, words: &[&str]) -> std::process::Command {
    let cargo = ["run", "--quiet", "--locked", "--manifest-path", MANIFEST, "--bin", "bus-fuzz"];
    let mut command = repo.cargo(cargo);
    if let Ok(folder) = repo.target_dir() {
        command.env("CARGO_TARGET_DIR", folder);
    }
    command.arg("--").args(words);
    command
}

pub(crate) const MANIFEST: &str = "fuzz/Cargo.toml";
const SECONDS: u32 = 30;
const CANARY: &str = "canary";
/// It takes about one on a quiet machine.
const CANARY_SECONDS: u32 = 90;

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Result<Options> {
        Options::parse(Args::new(line.split_whitespace().map(str::to_owned)))
    }

    #[test]
    fn targets_and_seconds_may_stand_in_any_order() {
        let targets = vec!["json".to_owned(), "jwt".to_owned()];
        let wanted = Options { seconds: 5, targets };
        assert_eq!(options("json --seconds 5 jwt").unwrap(), wanted);
    }

    #[test]
    fn no_target_means_all_of_them_for_the_default_time() {
        assert_eq!(options("").unwrap(), Options { seconds: SECONDS, targets: Vec::new() });
    }

    #[test]
    fn no_time_at_all_is_a_usage_error() {
        assert!(options("--seconds 0").unwrap_err().is::<UsageError>());
    }

    #[test]
    fn an_unknown_option_is_a_usage_error() {
        assert!(options("json --second 5").unwrap_err().is::<UsageError>());
    }
}
