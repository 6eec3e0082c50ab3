//! Holds the in-memory engine to the suite, under a stopped clock.

use std::process::ExitCode;

use bus_conformance::Suite;

mod common;

use common::Mem;

fn main() -> ExitCode {
    Suite::new(Mem::default).declared(include_str!("../../../tests/conformance.lock")).run()
}
