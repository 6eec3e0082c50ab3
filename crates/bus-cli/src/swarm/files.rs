//! How many files a fleet may have open at one time.

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::error::CliError;

/// Raises the soft limit of open files when so many workers need more, never beyond the hard one.
///
/// Without it a command would fail to start in the middle of the run. The commands inherit the
/// limit, so it is raised only as far as it must be.
///
/// # Errors
/// When the hard limit is too low; nothing has been started.
pub(super) fn allow(workers: usize) -> Result<(), CliError> {
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = needed(workers);
    // No number means no limit.
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    if let Some(most) = limit.maximum.filter(|most| *most < wanted) {
        let what = format!("{workers} workers need {wanted} open files; {most} are allowed here");
        let next = format!("--workers {}, or a higher `ulimit -Hn`", workers_within(most));
        return Err(CliError::usage(what).next(next));
    }
    limit.current = Some(wanted);
    setrlimit(Resource::Nofile, limit)
        .map_err(|error| CliError::usage(format!("cannot open {wanted} files: {error}")))
}

/// A worker holds the three pipes of its command, or one and both ends of a terminal, and a
/// descriptor of the process; one more is for the moment of starting it.
const FILES_PER_WORKER: u64 = 5;

/// The process's own files, and the other ends of the pipes of commands that are just starting.
const FILES_BESIDE: u64 = 64;

fn needed(workers: usize) -> u64 {
    u64::try_from(workers)
        .unwrap_or(u64::MAX)
        .saturating_mul(FILES_PER_WORKER)
        .saturating_add(FILES_BESIDE)
}

fn workers_within(files: u64) -> u64 {
    (files.saturating_sub(FILES_BESIDE) / FILES_PER_WORKER).max(1)
}
