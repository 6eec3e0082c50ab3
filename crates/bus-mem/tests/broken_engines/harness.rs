//! The harness of an engine with one fault.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bus_conformance::{Harness, advance, wait_out};
use bus_core::{
    BoxFuture, Clock, Durability, Engine, Error, ErrorKind, Promises, Result, SystemClock,
    TokioClock,
};
use bus_envelope::Timestamp;
use bus_mem::InMemoryBus;

use crate::{
    engine::{Broken, Memory, promises},
    fault::Fault,
};

pub(crate) struct BrokenHarness {
    fault: Fault,
    time: Time,
    broker: Mutex<Option<Broker>>,
}

/// How time passes for the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Time {
    /// It stands still unless a case moves it; one thread.
    Stopped,
    /// As on the wall; several threads.
    Real,
}

/// What all connections of a broken engine share.
#[derive(Clone)]
struct Broker {
    bus: InMemoryBus,
    memory: Arc<Mutex<Memory>>,
}

impl BrokenHarness {
    pub(crate) fn with(fault: Fault, time: Time) -> Self {
        Self { fault, time, broker: Mutex::default() }
    }

    fn broker(&self) -> MutexGuard<'_, Option<Broker>> {
        self.broker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Harness for BrokenHarness {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn promises(&self) -> Promises {
        let promises = promises(self.fault);
        match self.fault {
            Fault::PromisesTooMuch => Promises { durability: Durability::Synced, ..promises },
            _ => promises,
        }
    }

    fn connect<'a>(&'a self, _who: &'a str) -> BoxFuture<'a, Result<Arc<dyn Engine>>> {
        if self.fault == Fault::Unreachable {
            let error = Error::new(ErrorKind::Unavailable, "connect", "nobody is there");
            return Box::pin(async { Err(error) });
        }
        let mut broker = self.broker();
        let broker = broker.get_or_insert_with(|| {
            let clock: Arc<dyn Clock> = match self.time {
                Time::Stopped => Arc::new(TokioClock::starting_at(Timestamp::from_unix_ns(0))),
                Time::Real => Arc::new(SystemClock::new()),
            };
            Broker { bus: InMemoryBus::with_clock(clock), memory: Arc::default() }
        });
        let memory = Arc::clone(&broker.memory);
        let inner = Arc::new(broker.bus.connect());
        let broken: Arc<dyn Engine> = Arc::new(Broken { inner, fault: self.fault, memory });
        Box::pin(async { Ok(broken) })
    }

    fn restart(&self) -> BoxFuture<'_, Result<()>> {
        let restarted = match self.fault {
            Fault::ForgetsNothing => Ok(()),
            Fault::ForgetsEverything => {
                *self.broker() = None;
                Ok(())
            }
            _ => Err(Error::new(ErrorKind::Unsupported, "restart", "memory outlives no process")),
        };
        Box::pin(async { restarted })
    }

    fn virtual_time(&self) -> bool {
        self.time == Time::Stopped
    }

    fn elapse(&self, by: Duration) -> BoxFuture<'_, ()> {
        match self.time {
            Time::Stopped => Box::pin(advance(by)),
            Time::Real => Box::pin(wait_out(by)),
        }
    }
}
