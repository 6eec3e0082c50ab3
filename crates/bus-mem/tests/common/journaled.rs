//! The harness of a bus with a journal in memory, under a stopped clock.

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use bus_conformance::{Harness, advance};
use bus_core::{BoxFuture, Clock, Durability, Engine, Promises, Result, TokioClock};
use bus_envelope::Timestamp;
use bus_mem::{InMemoryBus, Limits};

use crate::common::journal::{MemoryJournal, image_of};

/// A bus that begins with the first connection, when the stopped clock is there.
pub(crate) struct Journaled {
    durability: Durability,
    clock: OnceLock<Arc<dyn Clock>>,
    life: Mutex<Option<Life>>,
}

struct Life {
    bus: InMemoryBus,
    journal: Arc<MemoryJournal>,
    epoch: u64,
}

impl Journaled {
    /// A bus that promises `durability`.
    pub(crate) fn promising(durability: Durability) -> Self {
        Self { durability, clock: OnceLock::new(), life: Mutex::new(None) }
    }

    /// The bus of a journal that holds what was safe in `last`.
    fn begin(&self, last: Option<Life>) -> Life {
        let origin = Timestamp::from_unix_ns(1_800_000_000_000_000_000);
        let clock = self.clock.get_or_init(|| Arc::new(TokioClock::starting_at(origin)));
        let changes = last.as_ref().map_or_else(Vec::new, |last| last.journal.safe_changes());
        let epoch = last.map_or(1, |last| last.epoch + 1);
        let image = image_of(&changes);
        let journal = MemoryJournal::holding(changes, self.durability);
        journal.settle_later();
        let (clock, kept) = (Arc::clone(clock), Arc::clone(&journal));
        let bus = InMemoryBus::journaled(clock, Limits::default(), kept, image, epoch);
        Life { bus, journal, epoch }
    }
}

impl Harness for Journaled {
    fn name(&self) -> &'static str {
        "journaled"
    }

    fn promises(&self) -> Promises {
        Promises { engine: "mem", durability: self.durability, shared: false }
    }

    fn connect<'a>(&'a self, _who: &'a str) -> BoxFuture<'a, Result<Arc<dyn Engine>>> {
        let mut life = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        let life = life.get_or_insert_with(|| self.begin(None));
        let connection: Arc<dyn Engine> = Arc::new(life.bus.connect());
        Box::pin(async { Ok(connection) })
    }

    fn restart(&self) -> BoxFuture<'_, Result<()>> {
        let mut life = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        *life = Some(self.begin(life.take()));
        Box::pin(async { Ok(()) })
    }

    fn virtual_time(&self) -> bool {
        true
    }

    fn elapse(&self, by: Duration) -> BoxFuture<'_, ()> {
        Box::pin(advance(by))
    }
}
