//! The harness of the NATS engine: a server of the test's own, on the machine's clock.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bus_conformance::{Harness, wait_out};
use bus_core::{BoxFuture, Durability, Engine, Error, ErrorKind, Promises, Result};
use bus_nats::{NatsBus, NatsOptions, Profile};
use bus_testserver::TestServer;

/// A server with its store; a clone is the same one.
#[derive(Clone)]
pub(crate) struct Nats(Arc<Mutex<TestServer>>);

impl Nats {
    pub(crate) fn start() -> Self {
        Self(Arc::new(Mutex::new(TestServer::start())))
    }

    async fn open(&self, who: &str) -> Result<Arc<dyn Engine>> {
        let url = self.0.lock().unwrap_or_else(PoisonError::into_inner).url().to_owned();
        let options = NatsOptions {
            name: who.to_owned(),
            // The servers of the tests sync every write.
            profile: Profile::Synced,
            ..NatsOptions::new(url)
        };
        Ok(Arc::new(NatsBus::open(options).await?))
    }
}

impl Harness for Nats {
    fn name(&self) -> &'static str {
        "nats"
    }

    fn promises(&self) -> Promises {
        Promises { engine: "nats", durability: Durability::Synced, shared: true }
    }

    fn connect<'a>(&'a self, who: &'a str) -> BoxFuture<'a, Result<Arc<dyn Engine>>> {
        Box::pin(self.open(who))
    }

    fn restart(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            let mut server = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            server.kill();
            server.restart().map_err(|error| {
                Error::new(ErrorKind::Unavailable, "restart", error.to_string()).because(error)
            })
        })
    }

    fn virtual_time(&self) -> bool {
        false
    }

    fn elapse(&self, by: Duration) -> BoxFuture<'_, ()> {
        Box::pin(wait_out(by))
    }
}
