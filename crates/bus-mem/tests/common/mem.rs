//! The harness of the in-memory engine: a broker under a stopped clock.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use bus_conformance::{Harness, advance};
use bus_core::{BoxFuture, Durability, Engine, Error, ErrorKind, Promises, Result, TokioClock};
use bus_envelope::Timestamp;
use bus_mem::{InMemoryBus, Limits};

/// A broker that begins with the first connection, when the stopped clock is there.
#[derive(Default)]
pub(crate) struct Mem {
    pub(crate) bus: OnceLock<InMemoryBus>,
    pub(crate) limits: Limits,
}

impl Harness for Mem {
    fn name(&self) -> &'static str {
        "mem"
    }

    fn promises(&self) -> Promises {
        Promises { engine: "mem", durability: Durability::Memory, shared: false }
    }

    fn connect<'a>(&'a self, _who: &'a str) -> BoxFuture<'a, Result<Arc<dyn Engine>>> {
        let bus = self.bus.get_or_init(|| {
            let origin = Timestamp::from_unix_ns(1_800_000_000_000_000_000);
            InMemoryBus::with_limits(Arc::new(TokioClock::starting_at(origin)), self.limits)
        });
        let connection: Arc<dyn Engine> = Arc::new(bus.connect());
        Box::pin(async { Ok(connection) })
    }

    fn restart(&self) -> BoxFuture<'_, Result<()>> {
        let error = Error::new(ErrorKind::Unsupported, "restart", "memory outlives no process");
        Box::pin(async { Err(error) })
    }

    fn virtual_time(&self) -> bool {
        true
    }

    fn elapse(&self, by: Duration) -> BoxFuture<'_, ()> {
        Box::pin(advance(by))
    }
}
