//! A journal that keeps what it is told, and is safe when it is told to be.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use bus_core::{BoxFuture, Durability, Result};

use crate::{
    core::Image,
    journal::{Change, Journal, Position, Statement},
};

/// All changes of one broker.
#[derive(Default)]
pub(super) struct Kept {
    changes: Mutex<Vec<Statement>>,
    safe: AtomicU64,
}

impl Kept {
    pub(super) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// All changes behind the first `from`.
    pub(super) fn since(&self, from: usize) -> Vec<Statement> {
        self.changes.lock().unwrap()[from..].to_vec()
    }

    pub(super) fn len(&self) -> usize {
        self.changes.lock().unwrap().len()
    }

    /// Everything up to now is safe.
    pub(super) fn settle(&self) -> Position {
        let last = self.last();
        self.safe.store(last.0, Ordering::SeqCst);
        last
    }
}

impl Journal for Kept {
    fn admit(&self, _: &'static str, _: usize, _: bool) -> Result<()> {
        Ok(())
    }

    fn record(&self, change: Change<'_>) -> Position {
        let mut changes = self.changes.lock().unwrap();
        changes.push(Statement::from(change));
        Position(changes.len() as u64)
    }

    fn record_all(&self, changes: &[Change<'_>]) -> Position {
        changes.iter().map(|change| self.record(change.clone())).last().unwrap_or_default()
    }

    fn last(&self) -> Position {
        Position(self.len() as u64)
    }

    fn is_safe(&self, position: Position) -> bool {
        position.0 <= self.safe.load(Ordering::SeqCst)
    }

    fn safe(&self, _: Position) -> BoxFuture<'static, Result<()>> {
        Box::pin(std::future::pending())
    }

    fn observe(&self, _: Arc<dyn Fn(Position) + Send + Sync>) {}

    fn durability(&self) -> Durability {
        Durability::Synced
    }
}

/// The image of `statements`.
pub(super) fn image(statements: &[Statement]) -> Image {
    let mut image = Image::default();
    statements.iter().for_each(|statement| image.apply(statement.change()).unwrap());
    image
}
