//! A server on a real socket over the engine on disk, which can be stopped and started anew.

use std::{sync::Arc, time::Duration};

use bus_conformance::{Harness, wait_out};
use bus_core::{BoxFuture, Durability, Engine, Error, ErrorKind, Promises, Result, SystemClock};
use bus_disk::{DiskBus, DiskOptions};
use bus_link::{LinkBus, LinkLimits, LinkOptions, LinkServer};
use bus_subjects::Role;
use tokio::{
    sync::{Mutex, oneshot},
    task::JoinHandle,
};

use super::{home::Home, people::People};

/// A server and a data directory of its own; both begin with the first connection.
///
/// After a restart nobody connects anew: what is handed out is the first client, which has to
/// find the next server by itself.
pub(crate) struct OnDisk {
    people: People,
    home: Home,
    end: End,
    state: Mutex<State>,
}

/// How a server ends before the next one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It is closed: what was accepted is answered first.
    Closed,
    /// It is dropped with its connections in the middle of whatever they do.
    Dropped,
}

#[derive(Default)]
struct State {
    life: Option<Life>,
    first: Option<Arc<dyn Engine>>,
    is_restarted: bool,
}

/// A server that runs, on the data directory that it has open.
struct Life {
    disk: DiskBus,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl OnDisk {
    pub(crate) fn new(end: End) -> Self {
        let (people, home) = (People::new(Arc::new(SystemClock::new())), Home::new());
        Self { people, home, end, state: Mutex::default() }
    }

    async fn start(&self) -> Result<Life> {
        let disk = DiskBus::open(DiskOptions::new(self.home.path().join("data")))?;
        let (admission, limits) = (self.people.open_admission(), LinkLimits::default());
        let engine = Arc::new(disk.connect());
        let server = LinkServer::bind(&self.home.socket(), engine, admission, limits).await?;
        let (stop, stopped) = oneshot::channel();
        let serving = spawn(async move {
            // A sender that is gone stops it as well.
            server.serve(async { drop(stopped.await) }).await;
            server.close().await;
        });
        Ok(Life { disk, stop, serving })
    }

    async fn stop(&self, life: Life) -> Result<()> {
        let Life { disk, stop, serving } = life;
        match self.end {
            End::Closed => drop(stop.send(())),
            End::Dropped => serving.abort(),
        }
        match serving.await {
            Err(error) if error.is_panic() => {
                return Err(Error::new(ErrorKind::Unavailable, "restart", error.to_string()));
            }
            _ended => {}
        }
        disk.shut_down().await
    }

    async fn client(&self, who: &str) -> Result<Arc<dyn Engine>> {
        let identity = self.people.identity(who, vec![Role::Operator]);
        let path = self.home.socket();
        Ok(Arc::new(LinkBus::connect(&path, identity, LinkOptions::default()).await?))
    }
}

#[expect(clippy::disallowed_methods, reason = "the server goes on while the case goes on")]
fn spawn(server: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(server)
}

impl Harness for OnDisk {
    fn name(&self) -> &'static str {
        "link"
    }

    fn promises(&self) -> Promises {
        Promises { engine: "link", durability: Durability::Synced, shared: true }
    }

    fn connect<'a>(&'a self, who: &'a str) -> BoxFuture<'a, Result<Arc<dyn Engine>>> {
        Box::pin(async move {
            let mut state = self.state.lock().await;
            if let Some(first) = state.first.as_ref().filter(|_| state.is_restarted) {
                return Ok(Arc::clone(first));
            }
            if state.life.is_none() {
                state.life = Some(self.start().await?);
            }
            let client = self.client(who).await?;
            state.first.get_or_insert_with(|| Arc::clone(&client));
            Ok(client)
        })
    }

    fn restart(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            let mut state = self.state.lock().await;
            if let Some(life) = state.life.take() {
                self.stop(life).await?;
            }
            state.life = Some(self.start().await?);
            state.is_restarted = true;
            Ok(())
        })
    }

    fn virtual_time(&self) -> bool {
        false
    }

    fn elapse(&self, by: Duration) -> BoxFuture<'_, ()> {
        Box::pin(wait_out(by))
    }
}
