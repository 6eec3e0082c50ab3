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
pub use command::{
    BUS_NATS_JWT_VAR, BUS_NATS_NKEY_SEED_VAR, CommandError, CommandSpec, GRACE_DEFAULT,
    NATS_SECRET_VARIABLES, PreparedCommand, SECRET_VARIABLES, WORKSPACE_SECRET_VAR,
};
pub use output::{CHUNK_BYTES_MAX, OutputSink, OutputStream, STDERR_TAIL_BYTES_MAX};
pub use process::{ExitKind, RunReport, run};
pub use stop::StopSignal;
pub use tasks::{
    ID_CHARACTERS_MAX, LINE_BYTES_MAX, TASKS_MAX, TaskLine, TasksError, parse as parse_tasks,
};
pub use telemetry::{Probe, RATE_INTERVAL_MIN, Sample, Usage};
