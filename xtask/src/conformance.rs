//! Runs the engine suite on each engine and holds what did not apply against the lock file.

use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::args::{Args, UsageError};
use crate::nats;
use crate::repo::{Repo, name_of};

use lock::Lock;
use row::{Outcome, Row};

pub(crate) use docs::{lists_every_case, sentence};

mod docs;
mod lock;
mod row;

/// What to run and how to show it.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// Names of engines; none means all.
    engines: Vec<String>,
    json: bool,
    /// Part of a case's name.
    filter: Option<String>,
    /// Writes the page of results instead of comparing it.
    write_docs: bool,
}

impl Options {
    /// Reads the command line.
    ///
    /// # Errors
    /// A usage error, also for an engine that nobody knows.
    pub(crate) fn parse(mut args: Args) -> Result<Self> {
        let (json, write_docs) = (args.flag("--json"), args.flag("--write-docs"));
        let mut engines = args.options("--engine")?;
        for name in engines.iter().filter(|name| *name != ALL) {
            if !ENGINES.iter().any(|engine| engine.name == name) {
                let known: Vec<&str> = ENGINES.iter().map(|engine| engine.name).collect();
                let known = known.join(", ");
                let text = format!("no engine is called `{name}`; there are {known} and {ALL}");
                return Err(UsageError::new(text));
            }
        }
        if engines.iter().any(|name| name == ALL) {
            engines.clear();
        }
        let options = Self { engines, json, filter: args.last_word()?, write_docs };
        if write_docs && !options.is_whole() {
            let text = "--write-docs wants a whole run: no engine and no filter".to_owned();
            return Err(UsageError::new(text));
        }
        Ok(options)
    }
}

impl Options {
    /// Whether every case runs on every engine.
    fn is_whole(&self) -> bool {
        self.engines.is_empty() && self.filter.is_none()
    }
}

/// An engine and the test target that mounts the suite on it.
struct Engine {
    name: &'static str,
    package: &'static str,
    target: &'static str,
}

/// A new engine is a row here, and one `tests/conformance.rs` in its crate.
const ENGINES: &[Engine] = &[
    Engine { name: "mem", package: "bus-mem", target: "conformance" },
    Engine { name: "disk", package: "bus-disk", target: "conformance" },
    Engine { name: "link", package: "bus-link", target: "conformance" },
    Engine { name: "nats", package: "bus-nats", target: "conformance" },
];

/// Means what no name means, for scripts that always give one.
const ALL: &str = "all";

/// Runs the suite; the last line is `N passed, N failed`. `false` when a case failed or none ran,
/// and when a whole run says something else than its page.
///
/// # Errors
/// When a suite cannot be built or does not speak the format, or the lock file cannot be read.
pub(crate) fn run(repo: &Repo, options: &Options) -> Result<bool> {
    let place = repo.root().join(lock::PATH);
    let text = std::fs::read_to_string(place).with_context(|| format!("read {}", lock::PATH))?;
    let engines: Vec<_> = ENGINES.iter().map(|engine| engine.name).collect();
    let lock = Lock::parse(&text, &engines)?;
    let mut rows = Vec::new();
    for engine in ENGINES {
        if options.engines.is_empty() || options.engines.iter().any(|name| name == engine.name) {
            let ran = run_engine(repo, engine, options.filter.as_deref())?;
            rows.extend(lock.judge(engine.name, ran, options.filter.is_none()));
        }
    }
    let tally = Tally::of(&rows);
    if options.json {
        rows.iter().for_each(|row| println!("{}", row.to_json()));
    } else {
        rows.iter().for_each(|row| println!("{row}"));
    }
    if tally.ran() == 0 {
        eprintln!("conformance: no case ran");
    }
    let is_documented = !options.is_whole()
        || docs::settle(repo, &docs::render(&rows, &engines), options.write_docs)?;
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(tally.is_good() && is_documented)
}

fn run_engine(repo: &Repo, engine: &Engine, filter: Option<&str>) -> Result<Vec<Row>> {
    let Engine { name, package, target } = engine;
    let mut command = repo.cargo(["test", "--quiet", "-p", package, "--test", target, "--"]);
    command.args(filter).env("VAKBUS_CONFORMANCE_JSON", "1").stderr(Stdio::inherit());
    if *name == "nats" {
        nats::lend(repo, &mut command);
    }
    let output = command.output().with_context(|| name_of(&command))?;
    let text = String::from_utf8(output.stdout).context("the suite prints UTF-8")?;
    let (rows, talk) = row::read(name, &text)?;
    talk.iter().for_each(|line| eprintln!("{name}: {line}"));
    let failed = rows.iter().any(|row| row.outcome == Outcome::Failed);
    if !output.status.success() && !failed {
        bail!("{} ended with {} though no case failed", name_of(&command), output.status);
    }
    Ok(rows)
}

/// How many cases went how.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: usize,
    failed: usize,
}

impl Tally {
    fn of(rows: &[Row]) -> Self {
        let count = |outcome| rows.iter().filter(|row| row.outcome == outcome).count();
        Self { passed: count(Outcome::Passed), failed: count(Outcome::Failed) }
    }

    fn ran(&self) -> usize {
        self.passed + self.failed
    }

    /// A run without a single case proves nothing.
    fn is_good(&self) -> bool {
        self.failed == 0 && self.passed > 0
    }
}

#[cfg(test)]
mod tests;
