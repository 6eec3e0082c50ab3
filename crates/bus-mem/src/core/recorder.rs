//! Where a plane says what it changed, when somebody keeps that.

use std::sync::Arc;

use crate::journal::{Change, Journal, Position};

/// The way to the journal of a plane, if it has one.
#[derive(Default)]
pub(crate) struct Recorder {
    journal: Option<Arc<dyn Journal>>,
    position: Position,
}

impl Recorder {
    /// The way to `journal`.
    pub(crate) fn to(journal: Arc<dyn Journal>) -> Self {
        Self { journal: Some(journal), position: Position::default() }
    }

    /// Whether anybody keeps changes.
    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        self.journal.is_some()
    }

    /// Takes down what others may see only when it is safe.
    pub(crate) fn record(&mut self, change: Change<'_>) -> Position {
        if let Some(journal) = &self.journal {
            self.position = journal.record(change);
        }
        self.position
    }

    /// As [`Recorder::record`], for changes that survive together or not at all.
    pub(crate) fn record_all(&mut self, changes: &[Change<'_>]) -> Position {
        if let (Some(journal), false) = (&self.journal, changes.is_empty()) {
            self.position = journal.record_all(changes);
        }
        self.position
    }

    /// Takes a lease down, which nobody waits for. It is let go where the journal has no room for
    /// it: leases are granted and end for ever, and must not fill up what is left for verdicts.
    pub(crate) fn note_lease(&self, lease: Change<'_>) {
        if let Some(journal) = &self.journal
            && journal.admit("lease", LEASE_BYTES, false).is_ok()
        {
            journal.record(lease);
        }
    }

    /// Where the last change stands that others may see only when it is safe.
    pub(crate) const fn position(&self) -> Position {
        self.position
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("position", &self.position).finish_non_exhaustive()
    }
}

/// What a lease takes in a journal, about.
const LEASE_BYTES: usize = 64;
