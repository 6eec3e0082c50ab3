//! A swarm of two thousand empty tasks beside `xargs`: what our books cost over bare processes.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::repo::{Repo, name_of, succeeds};
use crate::scratch::Scratch;
use crate::steps::Stopwatch;

use super::Options;
use super::measure::{Measured, alternate};

/// Measures wall time in seconds: `xargs -P N -n 1 true` and `vakbus swarm … -- true`.
///
/// # Errors
/// When the build or a run fails, or the swarm did not complete every task.
pub(super) fn measure(repo: &Repo, options: &Options) -> Result<Measured> {
    if !succeeds(&mut repo.cargo(["build", "--quiet", "--release", "-p", "bus-cli"]))? {
        bail!("bus-cli does not build");
    }
    let program = repo.target_dir()?.join("release").join("vakbus");
    let scratch = Scratch::new("bench")?;
    let tasks = scratch.path().join("tasks");
    let lines: String = (1..=TASKS).map(|number| format!("{number}\n")).collect();
    std::fs::write(&tasks, lines).context("write the tasks")?;
    let workers = options.workers.to_string();
    let mut homes = 0_u32;
    alternate(
        RUNS,
        || {
            let mut command = Command::new("xargs");
            command.args(["-P", &workers, "-n", "1", "true"]);
            command.stdin(File::open(&tasks).context("open the tasks")?);
            Ok(timed(&mut command)?.0)
        },
        || {
            // A data home of its own, so that no run carries the records of those before it.
            homes += 1;
            let home = scratch.folder(&format!("home-{homes}"))?;
            let mut command = swarm(&program, &workers, &tasks, &home);
            let (seconds, output) = timed(&mut command)?;
            check(&String::from_utf8_lossy(&output.stdout))?;
            Ok(seconds)
        },
    )
}

fn swarm(program: &Path, workers: &str, tasks: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["swarm", "--workers", workers, "--tasks"]).arg(tasks);
    command.args(["--json", "--", "true"]).env("VAKBUS_DATA_DIR", home).stdin(Stdio::null());
    command
}

/// Runs to the end and returns the seconds it took; a run that failed has no time.
fn timed(command: &mut Command) -> Result<(f64, Output)> {
    let watch = Stopwatch::start();
    let output = command.output().with_context(|| name_of(command))?;
    let seconds = watch.read().as_secs_f64();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {}: {}", name_of(command), output.status, said.trim_end());
    }
    Ok((seconds, output))
}

/// Looks in the summary, the last object with a `completed`, whether all was done.
fn check(printed: &str) -> Result<()> {
    let completed = printed
        .lines()
        .rev()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|value| value.get("completed").and_then(Value::as_u64))
        .context("the swarm printed no summary with `completed`")?;
    if completed != TASKS {
        bail!("the swarm completed {completed} tasks of {TASKS}");
    }
    Ok(())
}

const TASKS: u64 = 2_000;
const RUNS: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swarm_counts_when_it_completed_every_task() {
        let printed = "{\"task\":\"1\"}\n{\"completed\":2000,\"dead_lettered\":0}\n";
        assert!(check(printed).is_ok());
    }

    #[test]
    fn a_swarm_that_left_a_task_undone_does_not_count() {
        assert!(check("{\"completed\":1999}\n").is_err());
    }

    #[test]
    fn a_swarm_without_a_summary_does_not_count() {
        assert!(check("2000 completed\n{}\n").is_err());
    }

    #[test]
    fn a_run_that_failed_has_no_time() {
        assert!(timed(&mut Command::new("false")).is_err());
        assert!(timed(&mut Command::new("true")).is_ok());
    }
}
