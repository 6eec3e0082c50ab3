//! The harness of the NATS engine on a cluster of three, on the machine's clock.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bus_conformance::{Harness, wait_out};
use bus_core::{BoxFuture, Durability, Engine, Error, ErrorKind, Promises, Result};
use bus_nats::{NatsBus, NatsOptions, Profile};
use bus_testserver::TestCluster;
use tokio::sync::OwnedMutexGuard;

/// Three servers with their stores; a clone is the same cluster.
#[derive(Clone)]
pub(crate) struct NatsCluster {
    servers: Arc<Mutex<TestCluster>>,
    /// Held by a cluster that restarts: two cores are too few for several of them.
    _turn: Option<Arc<OwnedMutexGuard<()>>>,
}

impl NatsCluster {
    pub(crate) fn start() -> Self {
        Self { servers: Arc::new(Mutex::new(TestCluster::start())), _turn: None }
    }

    /// Waits until the cluster before is gone. Outside of any runtime, as harnesses are made.
    pub(crate) fn start_in_turn(turn: &Arc<tokio::sync::Mutex<()>>) -> Self {
        let turn = Arc::clone(turn).blocking_lock_owned();
        Self { _turn: Some(Arc::new(turn)), ..Self::start() }
    }

    async fn open(&self, who: &str) -> Result<Arc<dyn Engine>> {
        let servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner).urls();
        let first = servers.first().cloned().unwrap_or_default();
        let options = NatsOptions {
            name: who.to_owned(),
            servers,
            profile: Profile::Replicated,
            ..NatsOptions::new(first)
        };
        Ok(Arc::new(NatsBus::open(options).await?))
    }
}

impl Harness for NatsCluster {
    fn name(&self) -> &'static str {
        "nats-cluster"
    }

    fn promises(&self) -> Promises {
        Promises { engine: "nats", durability: Durability::Synced, shared: true }
    }

    fn connect<'a>(&'a self, who: &'a str) -> BoxFuture<'a, Result<Arc<dyn Engine>>> {
        Box::pin(self.open(who))
    }

    fn restart(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
            servers.restart_all().map_err(|error| {
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
