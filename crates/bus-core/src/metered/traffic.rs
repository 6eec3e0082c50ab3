//! What went over an engine, counted for each workspace.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use bus_subjects::{Filter, Subject, WorkspaceId};

/// The counts behind a [`Metered`](super::Metered) engine, one set for each workspace.
///
/// A workspace is what the third level of a `vak.` subject names. Frames of no workspace, such as
/// answers, and those of workspaces beyond [`Traffic::WORKSPACES_MAX`] are one more set.
#[derive(Debug, Default)]
pub struct Traffic {
    by_name: RwLock<BTreeMap<WorkspaceId, Arc<Counts>>>,
    elsewhere: Arc<Counts>,
}

/// What went over the engine for one workspace, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkspaceTraffic {
    /// The workspace; `None`: frames of none.
    pub workspace: Option<WorkspaceId>,
    /// Frames that the engine took: published or stored. A repeat that stored nothing is none.
    pub published: u64,
    /// Bytes of headers and bodies of those.
    pub published_bytes: u64,
    /// Frames handed to subscribers and workers; one that several hear counts for each.
    pub received: u64,
    /// Bytes of headers and bodies of those.
    pub received_bytes: u64,
    /// Live frames that subscribers were told they missed.
    pub missed: u64,
}

/// The counters of one workspace.
#[derive(Debug, Default)]
pub(super) struct Counts {
    published: AtomicU64,
    published_bytes: AtomicU64,
    received: AtomicU64,
    received_bytes: AtomicU64,
    missed: AtomicU64,
}

impl Traffic {
    /// How many workspaces are counted apart.
    pub const WORKSPACES_MAX: usize = 256;

    /// The counts as they are now, by name; those of no workspace last, when there are any.
    #[must_use]
    pub fn report(&self) -> Vec<WorkspaceTraffic> {
        let by_name = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> =
            by_name.iter().map(|(name, counts)| counts.report(Some(name.clone()))).collect();
        let elsewhere = self.elsewhere.report(None);
        if elsewhere != WorkspaceTraffic::default() {
            all.push(elsewhere);
        }
        all
    }

    /// The counts that a frame on `subject` belongs to.
    pub(super) fn of(&self, subject: &Subject) -> Arc<Counts> {
        self.named(subject.as_str()).unwrap_or_else(|| Arc::clone(&self.elsewhere))
    }

    /// The counts that all frames of `filter` belong to; none when it may hear several workspaces.
    pub(super) fn of_all(&self, filter: &Filter) -> Option<Arc<Counts>> {
        self.named(filter.as_str())
    }

    /// The counts of frames of no workspace.
    pub(super) fn elsewhere(&self) -> &Counts {
        &self.elsewhere
    }

    fn named(&self, text: &str) -> Option<Arc<Counts>> {
        let mut levels = text.split('.');
        let name = levels.next().filter(|root| *root == "vak").and_then(|_| levels.nth(1))?;
        // A wildcard is no name.
        let name = WorkspaceId::parse(name).ok()?;
        let known = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(counts) = known.get(&name) {
            return Some(Arc::clone(counts));
        }
        drop(known);
        let mut known = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= Self::WORKSPACES_MAX && !known.contains_key(&name) {
            return None;
        }
        Some(Arc::clone(known.entry(name).or_default()))
    }
}

impl Counts {
    pub(super) fn published(&self, bytes: usize) {
        self.published.fetch_add(1, Ordering::Relaxed);
        self.published_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn received(&self, bytes: usize) {
        self.received.fetch_add(1, Ordering::Relaxed);
        self.received_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn missed(&self, frames: u64) {
        self.missed.fetch_add(frames, Ordering::Relaxed);
    }

    fn report(&self, workspace: Option<WorkspaceId>) -> WorkspaceTraffic {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WorkspaceTraffic {
            workspace,
            published: read(&self.published),
            published_bytes: read(&self.published_bytes),
            received: read(&self.received),
            received_bytes: read(&self.received_bytes),
            missed: read(&self.missed),
        }
    }
}
