//! The filters of a table with their values, and the check that a filter really matches.

use super::TableKey;
use super::levels::Level;
use crate::{Filter, Subject};

/// One filter and its values.
pub(super) struct Terminal<T> {
    filter: Filter,
    shape: Shape,
    /// Another filter whose hashes are the same.
    next: Option<usize>,
    /// By serial number, which is the order of insertion.
    values: Vec<(u64, T)>,
}

/// Where the wildcards of a filter are, so that everything between is compared at once.
enum Shape {
    /// Nowhere.
    Literal,
    /// Stars at the levels of the set bits, and perhaps `>` at the end.
    Wild { stars: u64, tail: bool },
    /// A star beyond the 64th level.
    Deep,
}

/// Every filter of a table; an index stays the filter's as long as it has values.
pub(super) struct Terminals<T> {
    slots: Vec<Option<Terminal<T>>>,
    free: Vec<usize>,
}

impl<T> Terminal<T> {
    pub(super) fn filter(&self) -> &Filter {
        &self.filter
    }

    pub(super) fn next(&self) -> Option<usize> {
        self.next
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.values.iter().map(|(_, value)| value)
    }

    /// Whether the filter matches `subject`, whose levels are `levels`.
    pub(super) fn matches(&self, subject: &Subject, levels: &[Level]) -> bool {
        let (filter, text) = (self.filter.as_str().as_bytes(), subject.as_str().as_bytes());
        match self.shape {
            Shape::Literal => filter == text,
            Shape::Wild { stars, tail } => wild_matches(filter, stars, tail, text, levels),
            Shape::Deep => self.filter.matches(subject),
        }
    }
}

impl<T> Terminals<T> {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    pub(super) fn at(&self, index: usize) -> Option<&Terminal<T>> {
        self.slots.get(index)?.as_ref()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Terminal<T>> {
        self.slots.iter().flatten()
    }

    /// The index of `filter` in the chain that begins at `first`.
    pub(super) fn find(&self, first: usize, filter: &Filter) -> Option<usize> {
        let mut index = first;
        loop {
            let terminal = self.at(index)?;
            if terminal.filter == *filter {
                return Some(index);
            }
            index = terminal.next?;
        }
    }

    /// Adds a filter without values.
    pub(super) fn add(&mut self, filter: Filter) -> usize {
        let shape = Shape::of(&filter);
        let terminal = Terminal { filter, shape, next: None, values: Vec::with_capacity(1) };
        let index = self.free.pop().unwrap_or(self.slots.len());
        match self.slots.get_mut(index) {
            Some(slot) => *slot = Some(terminal),
            None => self.slots.push(Some(terminal)),
        }
        index
    }

    /// Lets `next` follow `index` in its chain.
    pub(super) fn chain(&mut self, index: usize, next: Option<usize>) {
        if let Some(Some(terminal)) = self.slots.get_mut(index) {
            terminal.next = next;
        }
    }

    pub(super) fn push(&mut self, index: usize, serial: u64, value: T) {
        if let Some(Some(terminal)) = self.slots.get_mut(index) {
            terminal.values.push((serial, value));
        }
    }

    pub(super) fn get(&self, key: TableKey) -> Option<&T> {
        let terminal = self.at(key.terminal)?;
        let at = terminal.values.binary_search_by_key(&key.serial, |(serial, _)| *serial).ok()?;
        terminal.values.get(at).map(|(_, value)| value)
    }

    /// Takes the value of `key`, and says which filter it leaves without values.
    pub(super) fn take(&mut self, key: TableKey) -> Option<(T, Option<Filter>)> {
        let terminal = self.slots.get_mut(key.terminal)?.as_mut()?;
        let at = terminal.values.binary_search_by_key(&key.serial, |(serial, _)| *serial).ok()?;
        let (_, value) = terminal.values.remove(at);
        let emptied = terminal.values.is_empty().then(|| terminal.filter.clone());
        Some((value, emptied))
    }

    /// Removes the filter at `index` from the chain at `first`; gives the first of the rest.
    pub(super) fn remove(&mut self, first: usize, index: usize) -> Option<usize> {
        let next = self.slots.get_mut(index)?.take()?.next;
        self.free.push(index);
        if first == index {
            return next;
        }
        let mut before = first;
        while let Some(terminal) = self.at(before) {
            match terminal.next {
                Some(after) if after == index => {
                    self.chain(before, next);
                    break;
                }
                Some(after) => before = after,
                None => break,
            }
        }
        Some(first)
    }
}

impl Shape {
    fn of(filter: &Filter) -> Self {
        let (mut stars, mut tail) = (0, false);
        for (at, level) in filter.as_str().split('.').enumerate() {
            match level {
                "*" if at < 64 => stars |= 1 << at,
                "*" => return Self::Deep,
                ">" => tail = true,
                _ => {}
            }
        }
        if stars == 0 && !tail { Self::Literal } else { Self::Wild { stars, tail } }
    }
}

/// Compares the runs between the wildcards, each in one go.
fn wild_matches(filter: &[u8], stars: u64, tail: bool, text: &[u8], levels: &[Level]) -> bool {
    let (mut stars, mut filter_at, mut text_at) = (stars, 0, 0);
    while stars != 0 {
        let star = stars.trailing_zeros() as usize;
        stars &= stars - 1;
        let Some(level) = levels.get(star) else {
            return false;
        };
        let Some(run) = text.get(text_at..level.start) else {
            return false;
        };
        if filter.get(filter_at..filter_at + run.len()) != Some(run) {
            return false;
        }
        // Beyond the star and its dot; one beyond the end when the star is the last level.
        filter_at += run.len() + 2;
        text_at = levels.get(star + 1).map_or(text.len() + 1, |next| next.start);
    }
    let (run, rest) = (filter.get(filter_at..), text.get(text_at..));
    if !tail {
        return run == rest;
    }
    match (run.and_then(|run| run.strip_suffix(b">")), rest) {
        // The run is empty or ends in a dot, and no subject ends there: a level follows.
        (Some(run), Some(rest)) => rest.starts_with(run),
        _ => false,
    }
}
