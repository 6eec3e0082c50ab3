//! Holds the engine behind a counter to the suite: that it is counted changes nothing.

use std::{process::ExitCode, sync::Arc, time::Duration};

use bus_conformance::{Harness, Suite};
use bus_core::{BoxFuture, Engine, Metered, Promises, Result, Traffic};

mod common;

use common::Mem;

#[derive(Default)]
struct Counted {
    mem: Mem,
    traffic: Arc<Traffic>,
}

impl Harness for Counted {
    fn name(&self) -> &'static str {
        self.mem.name()
    }

    fn promises(&self) -> Promises {
        self.mem.promises()
    }

    fn connect<'a>(&'a self, who: &'a str) -> BoxFuture<'a, Result<Arc<dyn Engine>>> {
        Box::pin(async move {
            let counted = Metered::new(self.mem.connect(who).await?, Arc::clone(&self.traffic));
            let counted: Arc<dyn Engine> = Arc::new(counted);
            Ok(counted)
        })
    }

    fn restart(&self) -> BoxFuture<'_, Result<()>> {
        self.mem.restart()
    }

    fn virtual_time(&self) -> bool {
        self.mem.virtual_time()
    }

    fn elapse(&self, by: Duration) -> BoxFuture<'_, ()> {
        self.mem.elapse(by)
    }
}

fn main() -> ExitCode {
    Suite::new(Counted::default).run()
}
