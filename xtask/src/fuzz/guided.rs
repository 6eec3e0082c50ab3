//! libFuzzer, guided by coverage that the pinned stable compiler instruments.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::{MANIFEST, Round};
use crate::repo::{self, Repo};
use crate::scratch::Scratch;

/// The instrumented programs, one a target, and the folders they work in.
#[derive(Debug)]
pub(super) struct Guided {
    programs: PathBuf,
    /// Seeds, and what proved worth keeping: a folder a target, never committed.
    corpus: PathBuf,
    /// The committed inputs, which are only read.
    kept: PathBuf,
    crashes: PathBuf,
    logs: PathBuf,
}

impl Guided {
    /// Builds the programs.
    ///
    /// # Errors
    /// When the build fails.
    pub(super) fn build(repo: &Repo) -> Result<Self> {
        let (host, target_dir) = (host(repo)?, repo.target_dir()?);
        let mut build = repo.cargo(["build", "--locked", "--release", "--manifest-path", MANIFEST]);
        // Named, so that the flags go to the programs and not to build scripts.
        build.args(["--features", "libfuzzer", "--target", &host]);
        for name in targets(repo)? {
            build.args(["--bin", &name]);
        }
        let programs = target_dir.join("fuzz");
        build.env("CARGO_TARGET_DIR", &programs).env("RUSTFLAGS", FLAGS.join(" "));
        // Set by somebody else they would win over our flags.
        build.env_remove("CARGO_ENCODED_RUSTFLAGS");
        if !repo::succeeds(&mut build)? {
            bail!("the instrumented programs cannot be built");
        }
        Ok(Self {
            programs: programs.join(host).join("release"),
            corpus: target_dir.join("fuzz-corpus"),
            kept: repo.root().join("fuzz/corpus"),
            crashes: target_dir.join("fuzz-crashes"),
            logs: target_dir.join("fuzz-logs"),
        })
    }

    pub(super) fn corpus(&self) -> &Path {
        &self.corpus
    }

    /// Fuzzes one target from its corpus.
    ///
    /// # Errors
    /// When the program cannot be run or ends in a way that is neither success nor a crash.
    pub(super) fn run(&self, target: &str, seconds: u32) -> Result<Round> {
        let corpora = [self.corpus.join(target), self.kept.join(target)];
        self.start(target, seconds, &corpora, &self.crashes.join(target))
    }

    /// As [`run`](Self::run), without any input to start from.
    pub(super) fn run_from_nothing(&self, target: &str, seconds: u32) -> Result<Round> {
        let scratch = Scratch::new("fuzz")?;
        let corpus = scratch.folder("corpus")?;
        self.start(target, seconds, &[corpus], &scratch.folder("crashes")?)
    }

    fn start(
        &self,
        target: &str,
        seconds: u32,
        corpora: &[PathBuf],
        crashes: &Path,
    ) -> Result<Round> {
        let log = self.logs.join(format!("{target}.log"));
        for folder in [crashes, self.logs.as_path()] {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("make {}", folder.display()))?;
        }
        let file = File::create(&log).with_context(|| format!("make {}", log.display()))?;
        let mut program = Command::new(self.programs.join(target));
        program.args(corpora).args(LIMITS);
        program.arg(format!("-max_total_time={seconds}"));
        program.arg(format!("-artifact_prefix={}/", crashes.display()));
        program.stdout(Stdio::null()).stderr(file);
        let is_good = repo::succeeds(&mut program)?;
        let said = std::fs::read(&log).with_context(|| format!("read {}", log.display()))?;
        read_log(&String::from_utf8_lossy(&said), is_good)
            .with_context(|| format!("{target} ended without a crash; see {}", log.display()))
    }
}

/// Why coverage cannot be had on this machine; `None` when it can.
///
/// # Errors
/// When cargo fails.
pub(super) fn obstacle(repo: &Repo) -> Result<Option<String>> {
    let host = host(repo)?;
    if !host.ends_with("-linux-gnu") {
        return Ok(Some(format!("libFuzzer's hooks are used on Linux only, this is {host}")));
    }
    let named = std::env::var("CXX").ok();
    let compilers = named.as_deref().map_or_else(|| vec!["c++", "g++", "clang++"], |cxx| vec![cxx]);
    let works = |compiler: &&str| {
        let mut ask = Command::new(compiler);
        ask.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        ask.status().is_ok_and(|status| status.success())
    };
    Ok((!compilers.iter().any(works)).then(|| "libFuzzer needs a C++ compiler".to_owned()))
}

fn host(repo: &Repo) -> Result<String> {
    let said = repo::text_of(&mut repo.cargo(["-vV"]))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("cargo does not name its host")?.to_owned())
}

fn targets(repo: &Repo) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(repo.root().join("fuzz/fuzz_targets"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(".rs").map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// Reads what libFuzzer says at its end; `None` when it ended badly and named no input.
fn read_log(log: &str, is_good: bool) -> Option<Round> {
    let behind = |mark: &str| {
        let (_, tail) = log.rsplit_once(mark)?;
        tail.lines().next().map(str::trim)
    };
    let executions = behind("stat::number_of_executed_units:");
    let executions = executions.and_then(|text| text.parse().ok()).unwrap_or_default();
    let crash = behind("Test unit written to ").map(PathBuf::from);
    (is_good == crash.is_none()).then_some(Round { executions, crash })
}

const FLAGS: [&str; 9] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    // Short comparisons stay calls, which libFuzzer watches: else it never learns a magic word.
    "-Cllvm-args=-max-loads-per-memcmp=0",
    // One object a crate, so that counters and their table stay together.
    "-Ccodegen-units=1",
    "-Cforce-frame-pointers=yes",
];

const LIMITS: [&str; 4] =
    ["-print_final_stats=1", "-max_len=32768", "-timeout=20", "-rss_limit_mb=1024"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_ended_well_has_its_executions() {
        let log = "Done 7 runs in 1 second(s)\nstat::number_of_executed_units: 1234567\n";
        assert_eq!(read_log(log, true), Some(Round { executions: 1_234_567, crash: None }));
    }

    #[test]
    fn a_crash_has_the_path_of_its_input() {
        let log = "panicked\nartifact_prefix='a/'; Test unit written to a/crash-1\nBase64: eA==\n\
                   stat::number_of_executed_units: 9\n";
        let crash = Some(PathBuf::from("a/crash-1"));
        assert_eq!(read_log(log, false), Some(Round { executions: 9, crash }));
    }

    #[test]
    fn a_bad_end_without_an_input_is_no_round() {
        assert_eq!(read_log("cannot open the corpus\n", false), None);
    }
}
