//! A table of filters: finds every filter that matches a subject.
//!
//! A filter is cut at its wildcards into runs of literal levels, and each run is one look-up by
//! hash: a filter without wildcards is found in one step whatever its depth, and the look-ups of
//! one node do not wait for each other. Hashes only propose; the text of the filter decides, so a
//! collision costs time and never a wrong match.

use crate::{Filter, Subject};

mod levels;
mod runs;
mod terminal;
mod tree;

use terminal::Terminals;
use tree::Tree;

/// Values by filter, looked up by subject.
///
/// Looking up does not depend on how many filters do not match, and does not allocate unless the
/// subject has more than 16 levels. Several values may share a filter.
pub struct SubjectTable<T> {
    tree: Tree,
    terminals: Terminals<T>,
    len: usize,
    generation: u64,
}

/// Names one value in a table; never used again for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableKey {
    terminal: usize,
    serial: u64,
}

impl<T> SubjectTable<T> {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self { tree: Tree::new(u64::MAX), terminals: Terminals::new(), len: 0, generation: 0 }
    }

    /// Adds `value` under `filter`, beside whatever stands there already.
    pub fn insert(&mut self, filter: Filter, value: T) -> TableKey {
        self.generation += 1;
        let serial = self.generation;
        let path = self.tree.path(&filter);
        let found = self.tree.terminal(&path, |first| self.terminals.find(first, &filter));
        let terminal = found.unwrap_or_else(|| {
            let terminal = self.terminals.add(filter);
            let next = self.tree.link(&path, terminal);
            self.terminals.chain(terminal, next);
            terminal
        });
        self.terminals.push(terminal, serial, value);
        self.len += 1;
        TableKey { terminal, serial }
    }

    /// Takes a value out; `None` when it is gone already.
    pub fn remove(&mut self, key: TableKey) -> Option<T> {
        let (value, emptied) = self.terminals.take(key)?;
        self.generation += 1;
        self.len -= 1;
        if let Some(filter) = emptied {
            let path = self.tree.path(&filter);
            let terminals = &mut self.terminals;
            self.tree.unlink(&path, |first| terminals.remove(first, key.terminal));
        }
        Some(value)
    }

    /// The value of `key`, unless it was removed.
    #[must_use]
    pub fn get(&self, key: TableKey) -> Option<&T> {
        self.terminals.get(key)
    }

    /// Calls `visit` with every value whose filter matches `subject`, each once.
    ///
    /// The values of one filter come in the order of their insertion; the order of the filters is
    /// unspecified but the same for tables of the same history.
    pub fn for_each_match(&self, subject: &Subject, mut visit: impl FnMut(&T)) {
        self.tree.visit(subject.as_str(), |first, levels| {
            let mut next = Some(first);
            while let Some(terminal) = next.and_then(|index| self.terminals.at(index)) {
                if terminal.matches(subject, levels) {
                    terminal.values().for_each(&mut visit);
                }
                next = terminal.next();
            }
        });
    }

    /// Every value whose filter matches `subject`, in the order of [`Self::for_each_match`].
    #[must_use]
    pub fn matches(&self, subject: &Subject) -> Vec<&T> {
        let mut found = Vec::new();
        self.tree.visit(subject.as_str(), |first, levels| {
            let mut next = Some(first);
            while let Some(terminal) = next.and_then(|index| self.terminals.at(index)) {
                if terminal.matches(subject, levels) {
                    found.extend(terminal.values());
                }
                next = terminal.next();
            }
        });
        found
    }

    /// Every filter with its values, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&Filter, &T)> {
        self.terminals
            .iter()
            .flat_map(|terminal| terminal.values().map(move |value| (terminal.filter(), value)))
    }

    /// How many values the table holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the table holds no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A number that changes with every insertion and removal, for callers that keep answers.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// A table whose hashes are cut to `run_mask`, to see what collisions do.
    #[cfg(test)]
    fn with_collisions(run_mask: u64) -> Self {
        Self { tree: Tree::new(run_mask), ..Self::new() }
    }
}

impl<T> Default for SubjectTable<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> std::fmt::Debug for SubjectTable<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let filters = self.terminals.iter().map(|terminal| (terminal.filter(), terminal.len()));
        f.debug_map().entries(filters).finish()
    }
}

/// A hash of a text; equal texts have equal hashes, which is all that may be relied on.
pub(crate) fn hash_text(seed: u64, text: &str) -> u64 {
    levels::hash(seed, text.as_bytes())
}

#[cfg(test)]
mod tests;
