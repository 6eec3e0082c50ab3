//! What the door shows, asked of the process that it belongs to.

use std::{sync::Arc, time::Duration};

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
    /// What its chores did, and what they saw: for a daemon.
    pub chores: Option<ChoreCounts>,
}

/// What a daemon does beside serving.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChoreCounts {
    /// The audit logs of its workspaces.
    pub audit: Vec<AuditReading>,
    /// Its hooks.
    pub hooks: Vec<HookReading>,
    /// The dead letters that came since it began.
    pub letters: Vec<LettersReading>,
    /// The approvals that wait now.
    pub approvals: Vec<ApprovalsReading>,
}

/// The audit log of one workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditReading {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Records that were written.
    pub written: u64,
    /// Looks that failed.
    pub failures: u64,
    /// For how long the log has lacked something; zero when it does not.
    pub behind: Duration,
}

/// A hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HookReading {
    /// What it is for: one of a few words.
    pub hook: &'static str,
    /// What it heard of.
    pub heard: u64,
    /// What it did not hear of, however often it was told.
    pub given_up: u64,
    /// Calls that failed.
    pub failures: u64,
}

/// Dead letters of one workspace for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LettersReading {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Why the tasks were given up: one of a few words.
    pub reason: &'static str,
    /// How many.
    pub count: u64,
}

/// The approvals of one workspace that wait for an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalsReading {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// How many.
    pub waiting: u64,
    /// How long the oldest has waited; none when none waits.
    pub oldest: Option<Duration>,
}
