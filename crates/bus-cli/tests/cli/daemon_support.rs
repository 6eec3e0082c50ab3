//! A daemon in a place of its own, and what commands print about tasks.

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Lines, Outcome, Place, Running};

/// A running `vakbus up`.
pub(crate) struct Daemon {
    pub(crate) running: Running,
    /// What it said when it was ready.
    pub(crate) ready: Value,
    _stdout: Lines,
}

impl Daemon {
    /// Starts one and waits until it is ready.
    pub(crate) fn start(place: &Place) -> Self {
        Self::with(place, &[])
    }

    /// As [`Daemon::start`], with more arguments.
    pub(crate) fn with(place: &Place, args: &[&str]) -> Self {
        let mut command = place.command();
        command.args(["up", "--json"]).args(args);
        Self::of(command)
    }

    /// Starts `command`, which is a `vakbus up --json`, and waits until it is ready.
    pub(crate) fn of(command: std::process::Command) -> Self {
        Self::try_of(command).unwrap_or_else(|ended| panic!("never ready: {ended:?}"))
    }

    /// As [`Daemon::of`]; how it ended when it did so before it was ready.
    pub(crate) fn try_of(command: std::process::Command) -> Result<Self, Outcome> {
        let mut running = Running::start(command);
        let stdout = Lines::of(running.take_stdout());
        let Some(line) = stdout.next() else { return Err(running.ended()) };
        let ready = serde_json::from_str(&line).unwrap();
        Ok(Self { running, ready, _stdout: stdout })
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) fn stop(self) -> Outcome {
        self.running.signal(Signal::TERM);
        self.running.ended()
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(self) {
        self.running.signal(Signal::KILL);
        assert_eq!(self.running.ended().code, None);
    }
}

/// The JSON lines that a command printed.
pub(crate) fn lines(outcome: &Outcome) -> Vec<Value> {
    let parse = |line: &str| {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {outcome:?}"))
    };
    outcome.stdout.lines().map(parse).collect()
}

/// The ids of the tasks that a command listed.
pub(crate) fn ids(outcome: &Outcome) -> Vec<String> {
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let id = |line: &Value| line["task"].as_str().unwrap().to_owned();
    lines(outcome).iter().map(id).collect()
}
