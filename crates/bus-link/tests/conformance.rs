//! Holds the client of a server over the in-memory engine to the suite, under a stopped clock.
//!
//! A stopped clock does not wait for sockets, so the bytes go through pipes here; everything above
//! the socket is what it is in use. The cases run on sockets in `tests/sockets.rs`. What outlives a
//! server is asked of one over the engine on disk, on a real socket and in real time.

use std::{
    process::ExitCode,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bus_conformance::{Harness, Suite, advance};
use bus_core::{
    BoxFuture, Clock, Durability, Engine, Error, ErrorKind, Promises, Result, TokioClock,
};
use bus_envelope::Timestamp;
use bus_link::{LinkBus, LinkLimits, LinkOptions, LinkServer};
use bus_mem::InMemoryBus;
use bus_subjects::Role;

#[cfg(test)]
mod common;

use common::{End, OnDisk, People, Pipes};

fn main() -> ExitCode {
    Suite::new(Linked::default)
        .restarts(|| OnDisk::new(End::Closed))
        .declared(include_str!("../../../tests/conformance.lock"))
        .run()
}

/// A server that begins with the first connection, when the stopped clock is there.
#[derive(Default)]
struct Linked(OnceLock<Begun>);

struct Begun {
    people: People,
    pipes: Pipes,
}

impl Linked {
    fn begun(&self) -> Result<&Begun> {
        if let Some(begun) = self.0.get() {
            return Ok(begun);
        }
        let origin = Timestamp::from_unix_ns(1_800_000_000_000_000_000);
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(origin));
        let people = People::new(Arc::clone(&clock));
        let engine = InMemoryBus::with_limits(Arc::clone(&clock), bus_mem::Limits::default());
        let (admission, limits) = (people.open_admission(), LinkLimits::default());
        let pipes = Pipes::default();
        pipes.lead_to(Some(LinkServer::unbound(Arc::new(engine), admission, limits)?));
        Ok(self.0.get_or_init(|| Begun { people, pipes }))
    }
}

impl Harness for Linked {
    fn name(&self) -> &'static str {
        "link"
    }

    fn promises(&self) -> Promises {
        Promises { engine: "link", durability: Durability::Memory, shared: true }
    }

    fn connect<'a>(&'a self, who: &'a str) -> BoxFuture<'a, Result<Arc<dyn Engine>>> {
        Box::pin(async move {
            let begun = self.begun()?;
            let identity = begun.people.identity(who, vec![Role::Operator]);
            let dial = Arc::new(begun.pipes.clone());
            let bus = LinkBus::dial(dial, identity, LinkOptions::default()).await?;
            Ok(Arc::new(bus) as Arc<dyn Engine>)
        })
    }

    fn restart(&self) -> BoxFuture<'_, Result<()>> {
        let error = Error::new(ErrorKind::Unsupported, "restart", "memory outlives no process");
        Box::pin(async { Err(error) })
    }

    fn virtual_time(&self) -> bool {
        true
    }

    fn elapse(&self, by: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // What is on its way arrives before the clock moves.
            advance(Duration::ZERO).await;
            advance(by).await;
        })
    }
}
