//! Holds a bus with a journal to the suite: what is safe only a moment later is promised likewise.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]
#![expect(dead_code, reason = "the tests of the shell use what the suite does not")]

use std::process::ExitCode;

use bus_conformance::Suite;
use bus_core::Durability;

#[path = "common/journal.rs"]
mod journal;
#[path = "common/journaled.rs"]
mod journaled;

mod common {
    pub(crate) use crate::journal;
}

fn main() -> ExitCode {
    Suite::new(|| journaled::Journaled::promising(Durability::Memory)).run()
}
