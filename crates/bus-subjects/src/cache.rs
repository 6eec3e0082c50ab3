//! Answers about subjects that were asked before.

use std::hash::{BuildHasher, RandomState};

use crate::{Subject, table::hash_text};

/// A bounded memory for what was found for a subject, cut by a generation number.
///
/// Every slot names the generation its answer was found in, so a table that changes cuts all
/// answers at once by counting on ([`crate::SubjectTable::generation`]). Two subjects that share
/// a slot take it from each other; nothing else is ever thrown out, and nothing grows.
///
/// ```
/// use bus_subjects::{Filter, Subject, SubjectCache, SubjectTable};
///
/// let mut table = SubjectTable::new();
/// table.insert(Filter::parse("vak.work.*.coder.task")?, "coder");
/// let mut cache = SubjectCache::new(1024);
/// let subject = Subject::parse("vak.work.acme.coder.task")?;
/// if cache.get(&subject, table.generation()).is_none() {
///     cache.keep(&subject, table.generation(), table.matches(&subject).len());
/// }
/// assert_eq!(cache.get(&subject, table.generation()), Some(&1));
/// table.insert(Filter::all(), "everything");
/// assert_eq!(cache.get(&subject, table.generation()), None);
/// # Ok::<(), bus_subjects::SubjectError>(())
/// ```
#[derive(Debug)]
pub struct SubjectCache<V> {
    slots: Box<[Option<Slot<V>>]>,
    seed: u64,
}

#[derive(Debug)]
struct Slot<V> {
    generation: u64,
    subject: Subject,
    answer: V,
}

impl<V> SubjectCache<V> {
    /// A memory of at least `subjects` slots: a power of two, all allocated at once.
    #[must_use]
    pub fn new(subjects: usize) -> Self {
        let count = subjects.max(1).next_power_of_two();
        // A seed of its own, so that nobody can choose subjects that share a slot.
        let seed = RandomState::new().hash_one(count);
        Self { slots: (0..count).map(|_| None).collect(), seed }
    }

    /// What was kept for `subject` in this very `generation`.
    #[must_use]
    pub fn get(&self, subject: &Subject, generation: u64) -> Option<&V> {
        let slot = self.slots.get(self.place(subject))?.as_ref()?;
        (slot.generation == generation && slot.subject == *subject).then_some(&slot.answer)
    }

    /// Keeps `answer` as what was found for `subject` in `generation`.
    pub fn keep(&mut self, subject: &Subject, generation: u64, answer: V) {
        let place = self.place(subject);
        if let Some(slot) = self.slots.get_mut(place) {
            *slot = Some(Slot { generation, subject: subject.clone(), answer });
        }
    }

    fn place(&self, subject: &Subject) -> usize {
        hash_text(self.seed, subject.as_str()) as usize & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(number: usize) -> Subject {
        Subject::parse(&format!("vak.work.w1.role{number}.task")).unwrap()
    }

    #[test]
    fn an_answer_is_found_for_its_own_subject_only() {
        let mut cache = SubjectCache::new(1);
        cache.keep(&subject(1), 7, "one");
        assert_eq!(cache.get(&subject(1), 7), Some(&"one"));
        assert_eq!(cache.get(&subject(2), 7), None);
    }

    #[test]
    fn an_answer_of_another_generation_is_no_answer() {
        let mut cache = SubjectCache::new(16);
        cache.keep(&subject(1), 7, "old");
        assert_eq!(cache.get(&subject(1), 8), None);
        assert_eq!(cache.get(&subject(1), 6), None);
    }

    #[test]
    fn it_never_grows_beyond_its_slots() {
        let mut cache = SubjectCache::new(60);
        for number in 0..1_000 {
            cache.keep(&subject(number), 1, number);
        }
        let kept = (0..1_000).filter(|n| cache.get(&subject(*n), 1).is_some()).count();
        assert!(kept <= 64 && kept > 32, "{kept} answers are kept");
    }
}
