//! Revisions known to be of values, so that a write on one need not ask first; and those of this
//! connection's own writes, so that a copy which is behind is known by them.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bus_core::Revision;
use tokio::time::Instant;

/// The last revision of a value that this connection saw under each subject.
///
/// A revision is one write for ever: what was a value at it is never the mark of an end.
#[derive(Debug, Default)]
pub(super) struct KnownValues(Mutex<HashMap<String, Revision>>);

impl KnownValues {
    /// A value stands or stood under `subject` at `revision`.
    pub(super) fn note(&self, subject: &str, revision: Revision) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = known.get_mut(subject) {
            *last = revision;
            return;
        }
        // Those in use come back by themselves.
        if known.len() >= SUBJECTS_MAX {
            known.clear();
        }
        known.insert(subject.to_owned(), revision);
    }

    /// Whether `revision` is known to be of a value under `subject`.
    pub(super) fn has(&self, subject: &str, revision: Revision) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(subject) == Some(&revision)
    }
}

/// What this connection wrote a short time ago.
#[derive(Debug, Default)]
pub(super) struct OwnWrites(Mutex<HashMap<String, (Revision, Instant)>>);

impl OwnWrites {
    /// Something was written under `subject` at `revision`: a value, or the mark of an end.
    pub(super) fn note(&self, subject: &str, revision: Revision) {
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if own.len() >= SUBJECTS_MAX {
            own.retain(|_, (_, at)| now.duration_since(*at) < BEHIND_MAX);
        }
        // So many at once: some are read as others read them.
        if own.len() >= SUBJECTS_MAX {
            own.clear();
        }
        let last = own.entry(subject.to_owned()).or_insert((revision, now));
        *last = (revision.max(last.0), now);
    }

    /// Whether a copy that shows `revision` under `subject`, 0 for nothing, lacks a write of ours.
    /// Later on what is gone may have come to its end.
    pub(super) fn is_behind(&self, subject: &str, revision: u64) -> bool {
        let own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = own.get(subject).filter(|(_, at)| at.elapsed() < BEHIND_MAX);
        last.is_some_and(|(last, _)| last.0 > revision)
    }
}

const SUBJECTS_MAX: usize = 4_096;
/// How long a copy may be behind and be waited for.
const BEHIND_MAX: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_revision_of_its_own_subject_is_known() {
        let known = KnownValues::default();
        known.note("a", Revision(3));
        known.note("a", Revision(5));
        for (subject, revision, expected) in [("a", 5, true), ("a", 3, false), ("b", 5, false)] {
            assert_eq!(known.has(subject, Revision(revision)), expected, "{subject} {revision}");
        }
    }

    #[test]
    fn what_is_known_is_bounded() {
        let known = KnownValues::default();
        for n in 0..=SUBJECTS_MAX as u64 {
            known.note(&n.to_string(), Revision(n));
        }
        assert!(!known.has("0", Revision(0)), "it was forgotten");
        assert!(known.has(&SUBJECTS_MAX.to_string(), Revision(SUBJECTS_MAX as u64)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_copy_is_behind_while_it_lacks_what_was_written_a_moment_ago() {
        let own = OwnWrites::default();
        own.note("a", Revision(5));
        let behind = |revision| own.is_behind("a", revision);
        assert_eq!([0, 4, 5, 6].map(behind), [true, true, false, false]);
        assert!(!own.is_behind("b", 0));
        tokio::time::advance(BEHIND_MAX).await;
        assert!(!own.is_behind("a", 0), "it may have ended since");
    }
}
