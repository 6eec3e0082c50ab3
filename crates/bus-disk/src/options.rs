//! How a data directory is opened.

use std::{path::PathBuf, sync::Arc, time::Duration};

use bus_core::{Clock, Durability, SystemClock};
use bus_mem::Limits;

use crate::Progress;

/// What [`DiskBus::open`](crate::DiskBus::open) needs to know.
#[derive(Clone)]
pub struct DiskOptions {
    /// The data directory; it is made, for its owner alone, when it is not there.
    pub dir: PathBuf,
    /// When an answer is given; [`Sync::Always`] by default.
    pub sync: Sync,
    /// How much the bus holds; those of an embedded bus by default.
    pub limits: Limits,
    /// Where the time comes from; the machine's clock by default. It must run as tokio's does.
    pub clock: Arc<dyn Clock>,
    /// Called now and then while the directory is read; does nothing by default.
    pub progress: Arc<dyn Fn(Progress) + Send + std::marker::Sync>,
}

/// When a change counts as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sync {
    /// When it survives a power cut: one sync for all that wait. Receipts say
    /// [`Durability::Synced`].
    #[default]
    Always,
    /// When it survives the end of the process; a power cut takes what was stored in about the
    /// last so much time. Receipts say [`Durability::Written`].
    Interval(Duration),
}

impl DiskOptions {
    /// The defaults for `dir`.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            sync: Sync::default(),
            limits: Limits::default(),
            clock: Arc::new(SystemClock::new()),
            progress: Arc::new(|_| {}),
        }
    }
}

impl Sync {
    /// What a stored message survives.
    #[must_use]
    pub const fn durability(self) -> Durability {
        match self {
            Self::Always => Durability::Synced,
            Self::Interval(_) => Durability::Written,
        }
    }
}

impl std::fmt::Debug for DiskOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut options = f.debug_struct("DiskOptions");
        options.field("dir", &self.dir).field("sync", &self.sync).field("limits", &self.limits);
        options.finish_non_exhaustive()
    }
}
