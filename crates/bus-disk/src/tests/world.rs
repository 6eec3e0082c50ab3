//! A whole bus on a disk that fails, and all that it ever said to its journal.

use std::sync::{MutexGuard, OnceLock};

use bus_core::{BoxFuture, Clock, Durability};
use bus_envelope::Timestamp;
use bus_mem::{InMemoryBus, Limits, PictureCursor, core::Image, journal::Statement};

use super::*;
use crate::{DiskBus, DiskOptions, bus::open::open_on, journal::DiskJournal};

/// A clock that stands still: what a state amounts to does not depend on when it is looked at.
pub(crate) struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ns(1_800_000_000_000_000_000)
    }

    fn coarse(&self) -> Timestamp {
        self.now()
    }
}

/// The journal of a bus, which remembers what it took down and where.
pub(crate) struct Said {
    journal: DiskJournal,
    /// The last position that the disk held when it was opened.
    pub(crate) begun: u64,
    said: Mutex<Vec<(u64, Statement)>>,
}

impl Said {
    fn new(journal: DiskJournal) -> Self {
        // The last one says that it was opened.
        let begun = journal.last().0 - 1;
        Self { journal, begun, said: Mutex::default() }
    }

    /// Everything so far, with its positions.
    pub(crate) fn all(&self) -> MutexGuard<'_, Vec<(u64, Statement)>> {
        self.said.lock().unwrap()
    }
}

impl Journal for Said {
    fn admit(&self, op: &'static str, bytes: usize, frees: bool) -> Result<()> {
        self.journal.admit(op, bytes, frees)
    }

    fn record(&self, change: Change<'_>) -> Position {
        let mut said = self.all();
        let position = self.journal.record(change.clone());
        said.push((position.0, change.into()));
        position
    }

    fn record_all(&self, changes: &[Change<'_>]) -> Position {
        let mut said = self.all();
        let last = self.journal.record_all(changes);
        let positions = last.0 + 1 - changes.len() as u64..;
        said.extend(positions.zip(changes.iter().cloned().map(Statement::from)));
        last
    }

    fn last(&self) -> Position {
        self.journal.last()
    }

    fn is_safe(&self, position: Position) -> bool {
        self.journal.is_safe(position)
    }

    fn safe(&self, position: Position) -> BoxFuture<'static, Result<()>> {
        self.journal.safe(position)
    }

    fn observe(&self, observer: Arc<dyn Fn(Position) + Send + std::marker::Sync>) {
        self.journal.observe(observer);
    }

    fn durability(&self) -> Durability {
        self.journal.durability()
    }
}

/// A bus on `files`, and what it says from now on.
pub(crate) fn bus_on(files: &FaultyFiles, sizes: Sizes) -> Result<(DiskBus, Arc<Said>)> {
    bus_in(files, DIR, sizes)
}

/// The same, in another directory.
pub(crate) fn bus_in(files: &FaultyFiles, dir: &str, sizes: Sizes) -> Result<(DiskBus, Arc<Said>)> {
    bus_with(files, DiskOptions::new(dir), sizes)
}

/// The same, as the options say but for the clock.
pub(crate) fn bus_with(
    files: &FaultyFiles,
    options: DiskOptions,
    sizes: Sizes,
) -> Result<(DiskBus, Arc<Said>)> {
    let place = (Arc::new(files.clone()) as Arc<dyn Files>, Home::layout(&options.dir));
    let options = DiskOptions { clock: Arc::new(Still), ..options };
    let said = OnceLock::new();
    let bus = open_on(place, options, sizes, |journal| {
        Arc::clone(said.get_or_init(|| Arc::new(Said::new(journal))))
    })?;
    Ok((bus, said.into_inner().unwrap()))
}

/// What a broker that never had a disk knows after `statements`.
pub(crate) fn model_of<'a>(statements: impl Iterator<Item = &'a Statement>) -> Vec<String> {
    let mut image = Image::new(Limits::default());
    for statement in statements {
        image.apply(statement.change()).unwrap();
    }
    let (limits, journal) = (Limits::default(), Arc::new(NoJournal));
    state_of(&InMemoryBus::journaled(Arc::new(Still), limits, journal, image, 1))
}

/// All that a bus knows, in a form that does not depend on how it was told.
pub(crate) fn state_of(bus: &InMemoryBus) -> Vec<String> {
    let (mut cursor, mut statements) = (PictureCursor::default(), Vec::new());
    while bus.picture(&mut cursor, &mut statements) {}
    let mut state = Vec::new();
    for statement in statements {
        match statement {
            Statement::StreamAt { stream, last, ids } => {
                state.push(format!("stream {stream} at {last}"));
                state.extend(ids.iter().map(|id| format!("stream {stream} knows {id:?}")));
            }
            // The last token is that of the epoch.
            Statement::ConsumerAt { consumer, from, fresh, .. } => {
                state.push(format!("consumer {consumer} from {from}"));
                state.extend(fresh.iter().map(|seq| format!("consumer {consumer} fresh {seq}")));
            }
            other => state.push(format!("{other:?}")),
        }
    }
    state.sort_unstable();
    state.dedup();
    state
}

/// Keeps nothing, and says that it is safe.
struct NoJournal;

impl Journal for NoJournal {
    fn admit(&self, _op: &'static str, _bytes: usize, _frees: bool) -> Result<()> {
        Ok(())
    }

    fn record(&self, _change: Change<'_>) -> Position {
        Position(0)
    }

    fn record_all(&self, _changes: &[Change<'_>]) -> Position {
        Position(0)
    }

    fn last(&self) -> Position {
        Position(0)
    }

    fn is_safe(&self, _position: Position) -> bool {
        true
    }

    fn safe(&self, _position: Position) -> BoxFuture<'static, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn observe(&self, _observer: Arc<dyn Fn(Position) + Send + std::marker::Sync>) {}

    fn durability(&self) -> Durability {
        Durability::Synced
    }
}
