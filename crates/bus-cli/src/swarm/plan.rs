//! What a swarm is to do, checked before anything starts.

use std::{
    fs::{self, File},
    io::{self, BufReader, IsTerminal},
    net::SocketAddr,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    thread,
};

use bus_core::{Endpoint, RetryPolicy};
use bus_envelope::TraceContext;
use bus_mem::Limits;
use bus_runner::{CommandSpec, OUTPUT_BYTES_MAX, RecordingPolicy, TaskLine, parse_tasks};
use bus_subjects::RoleName;
use rustix::fs::{Access, access};

use super::ground::Site;
use crate::{args::SwarmArgs, config::Config, error::CliError, terminal::CommandTerminal};

/// A checked swarm.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) role: RoleName,
    pub(super) workers: usize,
    pub(super) tasks: Vec<TaskLine>,
    pub(super) retry: RetryPolicy,
    pub(super) limits: Limits,
    pub(super) command: CommandSpec,
    pub(super) terminal: Option<CommandTerminal>,
    pub(super) evidence: Option<PathBuf>,
    pub(super) follow: bool,
    /// How many bytes of each output are kept.
    pub(super) output_bytes_max: u64,
    /// How the run's session is recorded, if it is.
    pub(super) recording: Option<RecordingPolicy>,
    /// Where it answers HTTP.
    pub(super) metrics_listen: Option<SocketAddr>,
    /// The trace that this run was started in.
    pub(super) trace: Option<TraceContext>,
}

impl Plan {
    /// Reads the tasks and checks everything that can be checked now.
    pub(super) fn new(args: SwarmArgs, config: &Config) -> Result<Self, CliError> {
        let mut words = args.command.into_iter();
        let Some(program) = words.next() else {
            return Err(CliError::usage("no command is given").next("vakbus swarm --help"));
        };
        let mut command = CommandSpec::new(program, words);
        command.timeout = args.timeout;
        let terminal = CommandTerminal::wanted(&args.terminal);
        command.terminal = terminal.as_ref().map(CommandTerminal::terminal);
        if let Some(dir) = &args.evidence {
            check_evidence(dir)?;
        }
        let tasks = read_tasks(&args.tasks)?;
        let workers = match args.workers {
            Some(workers) => usize::from(workers),
            None => thread::available_parallelism().map_or(1, NonZeroUsize::get),
        };
        Ok(Self {
            role: args.role,
            workers: workers.min(tasks.len()).max(1),
            tasks,
            retry: config.retry(args.max_retries, args.backoff),
            limits: config.limits(),
            command,
            terminal,
            evidence: args.evidence,
            follow: args.follow,
            output_bytes_max: args.output_max.unwrap_or(OUTPUT_BYTES_MAX),
            recording: args.recording.policy(),
            metrics_listen: args.metrics_listen,
            trace: surrounding_trace(),
        })
    }

    /// Refuses to record what nobody can see later.
    pub(super) fn check_recording(&self, site: &Site) -> Result<(), CliError> {
        match (self.recording, site) {
            (Some(_), Site::Own) => {
                let what = "no daemon runs, so nobody could see later what is recorded";
                Err(CliError::usage(what).next("start one: vakbus up; or leave out --record"))
            }
            _ => Ok(()),
        }
    }

    /// Makes the directory for the evidence: whether that works is known before any work is done.
    pub(super) fn make_evidence_dir(&self) -> Result<(), CliError> {
        let Some(dir) = &self.evidence else { return Ok(()) };
        let made = fs::create_dir_all(dir)
            .and_then(|()| Ok(access(dir, Access::WRITE_OK | Access::EXEC_OK)?));
        made.map_err(|error| cannot_use(dir, &error))
    }
}

/// The trace of the caller, by the names that W3C's draft for environment variables gives them.
pub(crate) fn surrounding_trace() -> Option<TraceContext> {
    let parent = std::env::var("TRACEPARENT").ok()?;
    TraceContext::parse(&parent, std::env::var("TRACESTATE").ok().as_deref()).ok()
}

fn read_tasks(path: &Path) -> Result<Vec<TaskLine>, CliError> {
    let shown = if path == Path::new("-") { "stdin".into() } else { path.display().to_string() };
    let parsed = if path == Path::new("-") {
        if io::stdin().is_terminal() {
            return Err(CliError::usage("no tasks are given")
                .next("use --tasks FILE, or pipe one task a line into the command"));
        }
        parse_tasks(io::stdin().lock())
    } else {
        let file = File::open(path)
            .map_err(|error| CliError::usage(format!("cannot read {shown}: {error}")))?;
        parse_tasks(BufReader::new(file))
    };
    let tasks = parsed.map_err(|error| CliError::usage(format!("{shown}: {error}")))?;
    for task in &tasks {
        let (bytes, bytes_max) = (task.text.len(), Endpoint::PAYLOAD_BYTES_MAX);
        if bytes > bytes_max {
            let line = task.line;
            let what = format!("{shown}: line {line}: the payload has {bytes} bytes");
            return Err(CliError::usage(what)
                .next(format!("at most {bytes_max} are allowed: pass a file's name instead")));
        }
    }
    Ok(tasks)
}

/// Refuses a directory that holds something, before the work is done and not after it.
fn check_evidence(dir: &Path) -> Result<(), CliError> {
    let shown = dir.display();
    match fs::read_dir(dir) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(CliError::usage(format!("{shown} is not empty"))
                .next("name a new directory for --evidence: nothing is overwritten")),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(cannot_use(dir, &error)),
    }
}

fn cannot_use(dir: &Path, error: &io::Error) -> CliError {
    CliError::usage(format!("cannot use {} for evidence: {error}", dir.display()))
        .next("name a directory of yours for --evidence")
}
