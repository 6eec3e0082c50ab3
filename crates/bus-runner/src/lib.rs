#![doc = include_str!("../README.md")]

mod agent;
mod command;
mod emit;
mod events;
mod group;
mod identity;
mod output;
mod place;
mod process;
mod pty;
mod reading;
mod recording;
mod session;
mod stop;
mod supervisor;
mod tasks;
mod telemetry;
mod terminal;
mod text;
mod tokens;

pub use agent::{CommandAgent, OUTPUT_BYTES_MAX, TELEMETRY_INTERVAL, TerminalLane, TerminalStream};
pub use command::{
    BUS_NATS_JWT_VAR, BUS_NATS_NKEY_SEED_VAR, CommandError, CommandSpec, GRACE_DEFAULT,
    NATS_SECRET_VARIABLES, OTEL_HEADERS_VAR, OTEL_TRACES_HEADERS_VAR, PreparedCommand,
    SECRET_VARIABLES, WORKSPACE_SECRET_VAR,
};
pub use emit::{EMIT_TOKEN_VAR, EMIT_VAR, EmitClient, EmitError, EmitPiece, EmitSocket};
pub use events::{
    Children, EventError, TELEMETRY, TERMINAL_END, TERMINAL_PTY, TERMINAL_SIZE, TERMINAL_STDERR,
    TERMINAL_STDOUT, TelemetryRecord, TerminalEnd, TerminalExit,
};
pub use identity::ProcessIdentity;
pub use output::{CHUNK_BYTES_MAX, OutputSink, OutputStream, STDERR_TAIL_BYTES_MAX};
pub use place::EventPlace;
pub use process::{ExitKind, RunReport, run};
pub use recording::{
    Batch, BatchError, BatchItem, History, Past, PastItem, Pushed, Recorded, Recorder,
    RecordingKind, RecordingKinds, RecordingPolicy, Splice, Spliced, Viewed, Viewer, Window,
};
pub use stop::StopSignal;
pub use supervisor::END_GRACE_MAX;
pub use tasks::{
    ID_CHARACTERS_MAX, LINE_BYTES_MAX, TASKS_MAX, TaskLine, TasksError, parse as parse_tasks,
};
pub use telemetry::{
    HeardRecord, Probe, RATE_INTERVAL_MIN, Sample, TelemetryKey, TelemetryWindow, Usage,
    WINDOW_AGE_MAX, WINDOW_ENTRIES_MAX,
};
pub use terminal::{Terminal, TerminalSize, TerminalSizeError};
pub use text::{Fold, FoldLimits, HeadTail, HeadTailEnd, LeftOut, Line, Sanitize, Utf8View};
pub use tokens::{
    EndReason, TOKEN_STREAM_DEFAULT, TOKENS_BYTES_MAX, TOKENS_END, TOKENS_TEXT, TOKENS_THINKING,
    TokenKind, TokenStream,
};
