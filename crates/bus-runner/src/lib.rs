#![doc = include_str!("../README.md")]

mod agent;
mod command;
mod group;
mod output;
mod process;
mod stop;
mod supervisor;
mod tasks;
mod telemetry;

pub use agent::{CommandAgent, TELEMETRY, TELEMETRY_INTERVAL, TERMINAL_STDERR, TERMINAL_STDOUT};
pub use command::{CommandError, CommandSpec, GRACE_DEFAULT, PreparedCommand, SECRET_VARIABLES};
pub use output::{CHUNK_BYTES_MAX, OutputSink, OutputStream, STDERR_TAIL_BYTES_MAX};
pub use process::{ExitKind, RunReport, run};
pub use stop::StopSignal;
pub use tasks::{
    ID_CHARACTERS_MAX, LINE_BYTES_MAX, TASKS_MAX, TaskLine, TasksError, parse as parse_tasks,
};
pub use telemetry::{Probe, RATE_INTERVAL_MIN, Sample, Usage};
