//! Holds an engine to the suite and to the model, as a crate outside of this repository would.
//!
//! The engine is the in-memory one as if it were somebody else's: one server for the whole run,
//! several connections, a clock that nobody can move. Put your own `Server` in its place.
//! `cargo run -p bus-mem --example hold_an_engine -- lease` runs the cases with `lease` in their
//! names; without a word it runs all of them, which takes a few minutes of real time.
#![expect(clippy::print_stdout, reason = "the results are what the example is for")]

use std::{process::ExitCode, sync::Arc, time::Duration};

use bus_conformance::{CaseOutcome, Harness, ModelTest, Suite, wait_out};
use bus_core::{BoxFuture, Durability, Engine, Error, ErrorKind, Promises, Result};
use bus_mem::InMemoryBus;

/// One server that all cases share: their workspaces keep them apart.
#[derive(Clone)]
struct Mine(Arc<InMemoryBus>);

impl Harness for Mine {
    fn name(&self) -> &'static str {
        "mine"
    }

    fn promises(&self) -> Promises {
        Promises { engine: "mem", durability: Durability::Memory, shared: false }
    }

    fn connect<'a>(&'a self, _who: &'a str) -> BoxFuture<'a, Result<Arc<dyn Engine>>> {
        let connection: Arc<dyn Engine> = Arc::new(self.0.connect());
        Box::pin(async { Ok(connection) })
    }

    /// Never asked of an engine that promises memory only; a durable one starts its server again.
    fn restart(&self) -> BoxFuture<'_, Result<()>> {
        let error = Error::new(ErrorKind::Unsupported, "restart", "memory outlives no process");
        Box::pin(async { Err(error) })
    }

    fn virtual_time(&self) -> bool {
        false
    }

    fn elapse(&self, by: Duration) -> BoxFuture<'_, ()> {
        Box::pin(wait_out(by))
    }
}

fn main() -> ExitCode {
    let part = std::env::args().nth(1).unwrap_or_default();
    let mine = Mine(Arc::new(InMemoryBus::new()));
    let server = mine.clone();
    let suite = Suite::new(move || server.clone()).limit(Duration::from_secs(60));
    let mut failures = 0;
    for report in suite.outcomes(|case| case.contains(&part)) {
        match &report.outcome {
            CaseOutcome::Passed => println!("kept    {}", report.case),
            CaseOutcome::NotApplicable { reason } => println!("n/a     {}: {reason}", report.case),
            CaseOutcome::Failed { reason } => {
                failures += 1;
                println!("BROKEN  {}: {reason}", report.case);
            }
        }
    }
    // Few steps, because every look at what must not come takes a moment of real time.
    for test in ModelTest::seeds(2, 60) {
        println!("model, seed {}", test.seed());
        if let Err(failure) = test.run(|| mine.clone()) {
            failures += 1;
            println!("{failure}");
        }
    }
    ExitCode::from(u8::from(failures > 0))
}
