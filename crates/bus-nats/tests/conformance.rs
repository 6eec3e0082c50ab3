//! Holds the NATS engine to the suite, on a server that the test starts.

use std::{process::ExitCode, time::Duration};

use bus_conformance::Suite;

#[path = "common/harness.rs"]
mod harness;

use harness::Nats;

fn main() -> ExitCode {
    let shared = Nats::start();
    // What restarts does so on a server of its own.
    Suite::new(move || shared.clone())
        .restarts(Nats::start)
        .declared(include_str!("../../../tests/conformance.lock"))
        .limit(Duration::from_secs(60))
        .run()
}
