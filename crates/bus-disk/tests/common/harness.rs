//! The harness of the engine on disk: a directory of its own, on the machine's clock.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bus_conformance::{Harness, wait_out};
use bus_core::{BoxFuture, Durability, Engine, Error, ErrorKind, Promises, Result};
use bus_disk::{DiskBus, DiskOptions};
use tempfile::TempDir;

use crate::copy::copy;

/// A broker that begins with the first connection.
pub(crate) struct Disk {
    dir: TempDir,
    /// It ends at once before it is started again: the next one finds what is in the files then.
    is_killed: bool,
    lives: Mutex<Lives>,
}

#[derive(Default)]
struct Lives {
    bus: Option<DiskBus>,
    number: u32,
}

impl Disk {
    #[expect(clippy::expect_used, reason = "without a directory there is no test")]
    pub(crate) fn new(is_killed: bool) -> Self {
        let dir = tempfile::tempdir().expect("there is a place for temporary files");
        Self { dir, is_killed, lives: Mutex::default() }
    }

    fn home(&self, number: u32) -> PathBuf {
        self.dir.path().join(number.to_string())
    }

    fn lives(&self) -> MutexGuard<'_, Lives> {
        self.lives.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> Result<DiskBus> {
        let mut lives = self.lives();
        if let Some(bus) = &lives.bus {
            return Ok(bus.connect());
        }
        let bus = DiskBus::open(DiskOptions::new(self.home(lives.number)))?;
        Ok(lives.bus.insert(bus).connect())
    }
}

impl Harness for Disk {
    fn name(&self) -> &'static str {
        "disk"
    }

    fn promises(&self) -> Promises {
        Promises { engine: "disk", durability: Durability::Synced, shared: false }
    }

    fn connect<'a>(&'a self, _who: &'a str) -> BoxFuture<'a, Result<Arc<dyn Engine>>> {
        Box::pin(async {
            let connection: Arc<dyn Engine> = Arc::new(self.open()?);
            Ok(connection)
        })
    }

    fn restart(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            let bus = self.lives().bus.take();
            let Some(bus) = bus else { return Ok(()) };
            if !self.is_killed {
                return bus.shut_down().await;
            }
            let mut lives = self.lives();
            let (from, to) = (self.home(lives.number), self.home(lives.number + 1));
            lives.number += 1;
            copy(&from, &to).map_err(|error| {
                Error::new(ErrorKind::Unavailable, "copy", error.to_string()).because(error)
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
