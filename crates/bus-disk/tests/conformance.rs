//! Holds the engine on disk to the suite; restarts are orderly ends.

use std::process::ExitCode;

use bus_conformance::Suite;

#[path = "common/copy.rs"]
mod copy;
#[path = "common/harness.rs"]
mod harness;

use harness::Disk;

fn main() -> ExitCode {
    let make = || Disk::new(false);
    Suite::new(make).declared(include_str!("../../../tests/conformance.lock")).run()
}
