//! What the chores of a daemon have done so far, for its metrics.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bus_envelope::Timestamp;
use bus_gateway::{ApprovalsReading, AuditReading, ChoreCounts, HookReading, LettersReading};
use bus_subjects::WorkspaceId;

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    hooks: Mutex<BTreeMap<&'static str, Arc<HookCounts>>>,
    audit: Mutex<BTreeMap<WorkspaceId, AuditCount>>,
    letters: Mutex<BTreeMap<(WorkspaceId, &'static str), u64>>,
    approvals: Mutex<BTreeMap<WorkspaceId, (u64, Option<Timestamp>)>>,
}

/// What became of what a hook was to hear.
#[derive(Debug, Default)]
pub(crate) struct HookCounts {
    heard: AtomicU64,
    given_up: AtomicU64,
    failures: AtomicU64,
}

#[derive(Debug, Default)]
struct AuditCount {
    written: u64,
    failures: u64,
    /// Since when the log lacks something.
    behind: Option<Timestamp>,
}

impl HookCounts {
    pub(crate) fn heard(&self) {
        self.heard.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn gave_up(&self) {
        self.given_up.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// As it is shown.
    pub(crate) fn reading(&self, hook: &'static str) -> HookReading {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        HookReading {
            hook,
            heard: of(&self.heard),
            given_up: of(&self.given_up),
            failures: of(&self.failures),
        }
    }
}

impl Counts {
    /// Those of one hook, which are shown from then on.
    pub(crate) fn hook(&self, name: &'static str) -> Arc<HookCounts> {
        Arc::clone(lock(&self.hooks).entry(name).or_default())
    }

    /// Notes a look of the audit log that began at `began`: how many records it wrote, and whether
    /// it went well to its end.
    pub(crate) fn audited(
        &self,
        workspace: &WorkspaceId,
        wrote: u64,
        is_well: bool,
        began: Timestamp,
    ) {
        let mut audit = lock(&self.audit);
        let count = audit.entry(workspace.clone()).or_default();
        count.written = count.written.saturating_add(wrote);
        if is_well {
            count.behind = None;
        } else {
            count.failures = count.failures.saturating_add(1);
            count.behind.get_or_insert(began);
        }
    }

    /// Notes dead letters that came, by why the tasks were given up.
    pub(crate) fn letter(&self, workspace: &WorkspaceId, reason: &'static str) {
        let mut letters = lock(&self.letters);
        let count = letters.entry((workspace.clone(), reason)).or_default();
        *count = count.saturating_add(1);
    }

    /// Notes how many approvals wait now, and since when the oldest does.
    pub(crate) fn approvals(&self, workspace: &WorkspaceId, count: u64, oldest: Option<Timestamp>) {
        lock(&self.approvals).insert(workspace.clone(), (count, oldest));
    }

    /// Forgets how many wait where they cannot be counted: no figure is better than an old one.
    pub(crate) fn no_approvals(&self, workspace: &WorkspaceId) {
        lock(&self.approvals).remove(workspace);
    }

    /// Forgets the workspaces that are not served any more.
    pub(crate) fn keep(&self, is_served: impl Fn(&WorkspaceId) -> bool) {
        lock(&self.audit).retain(|workspace, _| is_served(workspace));
        lock(&self.letters).retain(|(workspace, _), _| is_served(workspace));
        lock(&self.approvals).retain(|workspace, _| is_served(workspace));
    }

    /// All of it, as it is shown at `now`.
    pub(crate) fn reading(&self, now: Timestamp) -> ChoreCounts {
        let hooks = lock(&self.hooks);
        let hooks = hooks.iter().map(|(name, counts)| counts.reading(name)).collect();
        let logs = lock(&self.audit);
        let audit = logs.iter().map(|(workspace, count)| AuditReading {
            workspace: workspace.clone(),
            written: count.written,
            failures: count.failures,
            behind: count.behind.map_or(Duration::ZERO, |since| now.since(since)),
        });
        let came = lock(&self.letters);
        let letters = came.iter().map(|((workspace, reason), count)| LettersReading {
            workspace: workspace.clone(),
            reason,
            count: *count,
        });
        let waiting = lock(&self.approvals);
        let approvals = waiting.iter().map(|(workspace, (waiting, oldest))| ApprovalsReading {
            workspace: workspace.clone(),
            waiting: *waiting,
            oldest: oldest.map(|since| now.since(since)),
        });
        ChoreCounts {
            audit: audit.collect(),
            hooks,
            letters: letters.collect(),
            approvals: approvals.collect(),
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_count_as_written_when_the_look_failed_behind_them_and_it_is_behind_since_it_began() {
        let (counts, name) = (Counts::default(), WorkspaceId::parse("w1").unwrap());
        let at = |seconds: i128| Timestamp::from_unix_ns(seconds * 1_000_000_000);
        counts.audited(&name, 3, false, at(10));
        counts.audited(&name, 2, false, at(20));
        let read = |now| counts.reading(now).audit.remove(0);
        let now = read(at(30));
        assert_eq!((now.written, now.failures), (5, 2));
        assert_eq!(now.behind, Duration::from_secs(20));
        counts.audited(&name, 0, true, at(40));
        assert_eq!(read(at(50)).behind, Duration::ZERO);
    }

    #[test]
    fn what_cannot_be_counted_any_more_is_not_shown() {
        let (counts, name) = (Counts::default(), WorkspaceId::parse("w1").unwrap());
        counts.approvals(&name, 4, None);
        counts.no_approvals(&name);
        assert!(counts.reading(Timestamp::from_unix_ns(0)).approvals.is_empty());
    }
}
