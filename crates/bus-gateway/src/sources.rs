//! What the door shows, asked of the process that it belongs to.

use std::sync::Arc;

use bus_core::{BoxFuture, BusMetrics, Result, WorkspaceTraffic};
use bus_subjects::WorkspaceId;

use crate::Standing;

/// The process behind a [`Gateway`](crate::Gateway).
pub trait Sources: Send + Sync + 'static {
    /// What this process is; the same for as long as it lives.
    fn build(&self) -> Build;

    /// What it has counted so far; asks nobody.
    fn counts(&self) -> Counts;

    /// Asks the engine how its queues stand: a process whose engine answers is ready. Changes
    /// nothing. The gateway asks at most once a second and waits a second.
    ///
    /// # Errors
    /// Those of the engine. Only the kind is shown.
    fn ask(&self) -> BoxFuture<'_, Result<Standing>>;
}

/// What a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Build {
    /// Its version.
    pub version: &'static str,
    /// The name of its engine: `mem`, `disk`, `link` or `nats`.
    pub engine: &'static str,
}

/// What a process has counted. What it does not count is not shown, rather than shown as 0.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// What its engine carried, by workspace: for a process that serves one. What its own agents
    /// sent is in there, and not shown again.
    pub carried: Option<Vec<WorkspaceTraffic>>,
    /// What its own agents sent, received and did, and their workspace: for one that works.
    pub agents: Option<(WorkspaceId, Arc<BusMetrics>)>,
}
