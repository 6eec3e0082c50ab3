//! The open connections of one broker, so that all of them can be ended at once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use crate::bus::Connection;

/// The open connections by their numbers; none once the broker was ended.
pub(crate) struct Connections(Mutex<Option<HashMap<u64, Weak<Connection>>>>);

impl Connections {
    /// Those of a broker that begins.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Some(HashMap::new())))
    }

    /// Adds one; false when the broker was ended.
    pub(crate) fn add(&self, id: u64, connection: &Arc<Connection>) -> bool {
        let mut open = self.lock();
        let Some(open) = &mut *open else { return false };
        open.insert(id, Arc::downgrade(connection));
        true
    }

    /// One was closed.
    pub(crate) fn remove(&self, id: u64) {
        if let Some(open) = &mut *self.lock() {
            open.remove(&id);
        }
    }

    /// Takes all of them, and no more are added.
    pub(crate) fn end(&self) -> impl Iterator<Item = Arc<Connection>> + use<> {
        let open = self.lock().take().unwrap_or_default();
        open.into_values().filter_map(|connection| connection.upgrade())
    }

    fn lock(&self) -> MutexGuard<'_, Option<HashMap<u64, Weak<Connection>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
