//! Runs the engine suite on each engine and holds what did not apply against the lock file.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use cargo_metadata::Message;
use cargo_metadata::camino::{Utf8Path, Utf8PathBuf};

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
    /// In another way than the usual one, where an engine has one.
    variant: Option<&'static Variant>,
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
        let mut asked: Vec<_> = VARIANTS.iter().filter(|variant| args.flag(variant.flag)).collect();
        let variant = asked.pop();
        if let (Some(one), Some(other)) = (variant, asked.pop()) {
            let text = format!("{} and {} are runs of their own", other.flag, one.flag);
            return Err(UsageError::new(text));
        }
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
        if let Some(Variant { flag, .. }) = variant
            && engines.iter().any(|name| name != VARIANTS_OF)
        {
            let text = format!("{flag} is for --engine {VARIANTS_OF} alone");
            return Err(UsageError::new(text));
        }
        let options = Self { engines, json, variant, filter: args.last_word()?, write_docs };
        if write_docs && !options.is_whole() && !options.is_whole_cluster() {
            let text = "--write-docs wants a whole run: no engine but with --cluster, no filter";
            let text = text.to_owned();
            return Err(UsageError::new(text));
        }
        Ok(options)
    }
}

impl Options {
    /// Whether every case runs on every engine.
    fn is_whole(&self) -> bool {
        self.engines.is_empty() && self.variant.is_none() && self.filter.is_none()
    }

    /// Whether every case runs on the cluster.
    fn is_whole_cluster(&self) -> bool {
        self.variant.is_some_and(|variant| variant.flag == CLUSTER_FLAG) && self.filter.is_none()
    }

    fn wants(&self, engine: &Engine) -> bool {
        let is_variant = VARIANTS.iter().any(|variant| variant.engine.name == engine.name);
        if self.variant.is_some() || is_variant {
            return self.variant.is_some_and(|variant| variant.engine.name == engine.name);
        }
        self.engines.is_empty() || self.engines.iter().any(|name| name == engine.name)
    }
}

/// An engine and the test target that mounts the suite on it.
#[derive(Debug)]
struct Engine {
    name: &'static str,
    package: &'static str,
}

/// A suite that was built.
struct Program {
    path: Utf8PathBuf,
    /// Where its package is.
    folder: Utf8PathBuf,
}

/// A new engine is a row here, and one `tests/conformance.rs` in its crate.
const ENGINES: &[Engine] = &[
    Engine { name: "mem", package: "bus-mem" },
    Engine { name: "disk", package: "bus-disk" },
    Engine { name: "link", package: "bus-link" },
    Engine { name: "nats", package: "bus-nats" },
];

/// The name of the test target that mounts the suite.
const TARGET: &str = "conformance";

/// An engine in another way than the usual one, which is run when it is asked for.
#[derive(Debug)]
struct Variant {
    /// What asks for it.
    flag: &'static str,
    engine: Engine,
    /// What tells its suite.
    variable: &'static str,
    arguments: &'static [&'static str],
}

/// On three servers that keep copies, which takes minutes instead of seconds; and with the rights
/// of agents, for whom another account keeps everything.
const VARIANTS: [Variant; 2] = [
    Variant {
        flag: CLUSTER_FLAG,
        engine: Engine { name: "nats-cluster", package: "bus-nats" },
        variable: "VAKBUS_CLUSTER",
        // Three servers that sync everything: more cases at once would measure the machine.
        arguments: &["--test-threads", "8"],
    },
    Variant {
        flag: "--least-privilege",
        engine: Engine { name: "nats-least-privilege", package: "bus-nats" },
        variable: "VAKBUS_LEAST_PRIVILEGE",
        arguments: &[],
    },
];

/// The variant whose results stand in the page, too.
const CLUSTER_FLAG: &str = "--cluster";

/// The engine that has variants.
const VARIANTS_OF: &str = "nats";

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
    let variants = VARIANTS.iter().map(|variant| &variant.engine);
    let known: Vec<_> =
        engines.iter().copied().chain(variants.clone().map(|engine| engine.name)).collect();
    let lock = Lock::parse(&text, &known)?;
    let mut rows = Vec::new();
    // For all of them the workspace is built once, as everything else builds it; for some, less.
    let built = if options.engines.is_empty() { Some(build_all(repo)?) } else { None };
    for engine in ENGINES.iter().chain(variants).filter(|engine| options.wants(engine)) {
        let command = engine.command(repo, built.as_deref())?;
        let ran = run_engine(repo, engine, command, options.filter.as_deref())?;
        rows.extend(lock.judge(engine.name, ran, options.filter.is_none()));
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
    let is_documented = if options.is_whole_cluster() {
        docs::settle_cluster(repo, &docs::render_cluster(&rows), options.write_docs)?
    } else if options.is_whole() {
        docs::settle(repo, &docs::render(&rows, &engines), options.write_docs)?
    } else {
        true
    };
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(tally.is_good() && is_documented)
}

/// Builds the suite of every engine; the programs with the folders of their packages.
fn build_all(repo: &Repo) -> Result<Vec<Program>> {
    let words = ["test", "--workspace", "--test", TARGET, "--no-run", "--message-format", "json"];
    let mut command = repo.cargo(words);
    let output = command.arg("--quiet").stderr(Stdio::inherit()).output();
    let output = output.with_context(|| name_of(&command))?;
    if !output.status.success() {
        bail!("{} ended with {}", name_of(&command), output.status);
    }
    let mut programs = Vec::new();
    for message in Message::parse_stream(output.stdout.as_slice()) {
        if let Message::CompilerArtifact(artifact) = message?
            && artifact.target.name == TARGET
            && let (Some(path), Some(folder)) =
                (artifact.executable, artifact.manifest_path.parent().map(Utf8Path::to_owned))
        {
            programs.push(Program { path, folder });
        }
    }
    Ok(programs)
}

impl Engine {
    fn command(&self, repo: &Repo, built: Option<&[Program]>) -> Result<Command> {
        let Some(built) = built else {
            let words = ["test", "--quiet", "-p", self.package, "--test", TARGET, "--"];
            return Ok(repo.cargo(words));
        };
        let program = built.iter().find(|program| program.folder.file_name() == Some(self.package));
        let program = program.with_context(|| format!("no {TARGET} of {}", self.package))?;
        let mut command = Command::new(&program.path);
        command.current_dir(&program.folder);
        Ok(command)
    }
}

fn run_engine(
    repo: &Repo,
    engine: &Engine,
    mut command: Command,
    filter: Option<&str>,
) -> Result<Vec<Row>> {
    let Engine { name, package } = engine;
    command.args(filter).env("VAKBUS_CONFORMANCE_JSON", "1").stderr(Stdio::inherit());
    if *package == "bus-nats" {
        nats::lend(repo, &mut command);
    }
    if let Some(variant) = VARIANTS.iter().find(|variant| variant.engine.name == *name) {
        command.env(variant.variable, "1").args(variant.arguments);
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
