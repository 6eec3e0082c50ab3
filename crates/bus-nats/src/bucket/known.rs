//! Revisions known to be of values, so that a write on one need not ask first.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use bus_core::Revision;

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

const SUBJECTS_MAX: usize = 4_096;

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
}
