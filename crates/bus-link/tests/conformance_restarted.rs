//! Holds the client of a server over the engine on disk to the suite, on real sockets.
//!
//! Where a case restarts the broker, the server ends suddenly here: the orderly end is part of
//! `tests/conformance.rs`. Cases that need minutes do not apply, for time is real.

use std::{process::ExitCode, time::Duration};

use bus_conformance::Suite;

#[cfg(test)]
mod common;

use common::{End, OnDisk};

fn main() -> ExitCode {
    let make = || OnDisk::new(End::Dropped);
    Suite::new(make).restarts(make).limit(LIMIT).run()
}

const LIMIT: Duration = Duration::from_secs(60);
