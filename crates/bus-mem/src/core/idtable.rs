//! A table from marks to numbers that only grow, made for memories that forget in order.
//!
//! A place is one cache line of eight entries. Looking an id up and remembering it touch that
//! line and no other, and forgetting touches nothing: an entry is dead as soon as its number is no
//! longer among those that are remembered. Few places run over; what does goes into a small table.

use hashbrown::HashTable;

/// Numbers by mark. Several may share a mark.
#[derive(Debug, Default)]
pub(crate) struct IdTable {
    /// Many small parts, because one large one would now and then stop everybody while it grows.
    parts: Vec<Vec<Place>>,
    over: HashTable<Entry>,
}

/// The numbers that are remembered: `count` of them from `first` on, around the end of 32 bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Remembered {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// What stands for an id in the table: 31 bits of a hash, and a 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark(u32);

#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct Place([Entry; WAYS]);

/// All zero when it was never used: no mark is.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    mark: u32,
    number: u32,
}

impl IdTable {
    /// A number under `mark` for which `is_it` holds.
    pub(crate) fn find(&self, mark: Mark, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let part = self.parts.get(mark.part())?;
        let place = part.get(mark.place(part.len()))?;
        let is_it = |entry: &Entry| entry.mark == mark.0 && is_it(entry.number);
        let found = place.0.iter().find(|entry| is_it(entry));
        let found = match found {
            None if !self.over.is_empty() => self.over.find(mark.hash(), is_it),
            found => found,
        };
        found.map(|entry| entry.number)
    }

    /// Notes `number` under `mark`, in place of the number for which `is_it` holds if there is
    /// one. `remembered` are the numbers before it.
    pub(crate) fn insert(
        &mut self,
        mark: Mark,
        number: u32,
        remembered: Remembered,
        is_it: impl Fn(u32) -> bool,
    ) {
        self.make_room(mark, remembered);
        let entry = Entry { mark: mark.0, number };
        let is_it = |entry: &Entry| entry.mark == mark.0 && is_it(entry.number);
        if !self.over.is_empty()
            && let Ok(mut old) = self.over.find_entry(mark.hash(), is_it)
        {
            *old.get_mut() = entry;
            return;
        }
        if !self.put(entry, remembered, is_it) {
            self.over.insert_unique(mark.hash(), entry, |entry| Mark(entry.mark).hash());
        }
    }

    /// `number` is not remembered any more.
    pub(crate) fn forget(&mut self, mark: Mark, number: u32) {
        if !self.over.is_empty()
            && let Ok(entry) = self.over.find_entry(mark.hash(), |entry| entry.number == number)
        {
            entry.remove();
        }
    }

    /// Nothing is remembered any more.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Writes an entry into its place; false when that is full.
    fn put(
        &mut self,
        entry: Entry,
        remembered: Remembered,
        is_it: impl Fn(&Entry) -> bool,
    ) -> bool {
        let mark = Mark(entry.mark);
        let Some(part) = self.parts.get_mut(mark.part()) else { return false };
        let at = mark.place(part.len());
        let Some(Place(entries)) = part.get_mut(at) else { return false };
        let is_free = |old: &Entry| old.mark == 0 || !remembered.has(old.number);
        let at = entries.iter().position(is_it).or_else(|| entries.iter().position(is_free));
        match at.and_then(|at| entries.get_mut(at)) {
            Some(free) => *free = entry,
            None => return false,
        }
        true
    }

    /// Makes the part of `mark` as large as the number of ids asks for.
    fn make_room(&mut self, mark: Mark, remembered: Remembered) {
        if self.parts.is_empty() {
            self.parts.resize_with(PARTS, Vec::new);
        }
        let wanted = (remembered.count as usize / PARTS / FILLED + 1).next_power_of_two();
        let Some(part) = self.parts.get_mut(mark.part()).filter(|part| part.len() < wanted) else {
            return;
        };
        let old = std::mem::replace(part, vec![Place::default(); wanted]);
        let alive = |entry: &&Entry| entry.mark != 0 && remembered.has(entry.number);
        for entry in old.iter().flat_map(|place| place.0.iter()).filter(alive) {
            if !self.put(*entry, remembered, |_| false) {
                let hash = Mark(entry.mark).hash();
                self.over.insert_unique(hash, *entry, |entry| Mark(entry.mark).hash());
            }
        }
    }

    /// How many entries are alive.
    #[cfg(test)]
    pub(crate) fn len(&self, remembered: Remembered) -> usize {
        let placed = self.parts.iter().flatten().flat_map(|place| place.0.iter());
        let alive = placed.filter(|entry| entry.mark != 0 && remembered.has(entry.number));
        alive.count() + self.over.len()
    }
}

impl Remembered {
    const fn has(self, number: u32) -> bool {
        number.wrapping_sub(self.first) < self.count
    }
}

impl Mark {
    /// The mark of a hash.
    pub(crate) const fn of(hash: u64) -> Self {
        Self((hash >> 32) as u32 | 1)
    }

    const fn part(self) -> usize {
        (self.0 >> 1) as usize % PARTS
    }

    /// Which of `places`, a power of two.
    const fn place(self, places: usize) -> usize {
        ((self.0 >> 1) as usize / PARTS) & places.wrapping_sub(1)
    }

    /// A hash for the table of what ran over, which takes its tags from the high bits.
    const fn hash(self) -> u64 {
        let bits = self.0 as u64;
        (bits >> 1) | (bits << 32)
    }
}

const WAYS: usize = 8;

/// Entries of a place that are in use on average when a part grows: a place runs over rarely.
const FILLED: usize = 4;

/// A power of two.
const PARTS: usize = 64;
