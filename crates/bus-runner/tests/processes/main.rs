//! Runs real processes and looks at what is left of them.
#![cfg(test)]
#![cfg(target_os = "linux")]

mod ending;
mod environment;
mod output;
mod pty;
mod sessions;
mod starting;
mod stopping;
mod support;
mod telemetry;
