//! What one engine knows of the board of one consumer, and which entry it should try first.
//!
//! A view is filled by looks (all states at once) and by what the server tells of changes. It may
//! lag behind: a claim that it proposes is decided by compare-and-set. Its size is bounded by the
//! consumer's bound on what JetStream has handed out and was not told about.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bus_core::{OrderKey, Rank};
use bus_envelope::Timestamp;

use super::{entry::Entry, turn::KeyTurn};

/// The entries of one consumer as far as they are known.
///
/// Every entry is in one place: in `later` until its rest, schedule or lease ends; from then on in
/// `ready`, or, when another one of its key comes first, only in the line of its key.
#[derive(Debug, Default)]
pub(crate) struct View {
    entries: BTreeMap<u64, Known>,
    /// Entries that were removed here before the server told of it, by the revision of that: news
    /// that are older do not bring them back.
    removed: HashMap<u64, u64>,
    later: BTreeSet<(Timestamp, u64)>,
    ready: BTreeMap<Rank, u64>,
    lines: HashMap<OrderKey, Line>,
    /// All that are still to be done and have a key.
    keyed: HashMap<OrderKey, BTreeSet<u64>>,
    /// Those that are done for good, of which the server may not know yet.
    done: BTreeSet<(Timestamp, u64)>,
    /// Whose turn it is, by the level that stands for a key.
    turns: HashMap<String, (u64, KeyTurn)>,
}

/// The entry to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pick {
    /// The state that was known, to make the next one of.
    pub(crate) entry: Entry,
    /// Its revision, to compare with.
    pub(crate) revision: u64,
    /// Its place, to be compared with that of a plain message.
    pub(crate) rank: Rank,
}

#[derive(Debug)]
struct Known {
    entry: Entry,
    revision: u64,
}

/// The messages of one key.
#[derive(Debug, Default)]
struct Line {
    /// Those that were handed out before: the first of them holds the key.
    started: BTreeSet<u64>,
    /// Those whose time has come.
    due: BTreeSet<u64>,
    /// The one that stands among those that are ready.
    in_line: Option<(Rank, u64)>,
}

impl View {
    /// An entry has this state since `revision`: one's own step, or one that was read. Older news
    /// than what is known change nothing.
    pub(crate) fn put(&mut self, revision: u64, entry: Entry) {
        let seq = entry.seq;
        if self.removed.get(&seq).is_some_and(|&removed| removed >= revision)
            || self.entries.get(&seq).is_some_and(|known| known.revision >= revision)
        {
            return;
        }
        self.removed.remove(&seq);
        let before = self.take_out(seq);
        self.line_up(before.as_ref());
        if let Some(at) = entry.done_at() {
            self.done.insert((at, seq));
            self.entries.insert(seq, Known { entry, revision });
            return;
        }
        self.later.insert((entry.due().since, seq));
        let key = entry.key.clone();
        if let Some(key) = key.clone().filter(|_| entry.is_started) {
            self.lines.entry(key).or_default().started.insert(seq);
        }
        if let Some(key) = key.clone() {
            self.keyed.entry(key).or_default().insert(seq);
        }
        self.entries.insert(seq, Known { entry, revision });
        self.line_up(key.as_ref());
    }

    /// An entry is gone since `revision`.
    pub(crate) fn remove(&mut self, revision: u64, seq: u64) {
        if self.entries.get(&seq).is_some_and(|known| known.revision > revision) {
            return;
        }
        let removed = self.removed.entry(seq).or_insert(revision);
        *removed = revision.max(*removed);
        let key = self.take_out(seq);
        self.line_up(key.as_ref());
    }

    /// A turn stands so since `revision`; older news change nothing.
    pub(crate) fn put_turn(&mut self, key: &str, revision: u64, turn: Option<KeyTurn>) {
        if self.turns.get(key).is_some_and(|&(known, _)| known > revision) {
            return;
        }
        if self.turns.len() >= TURNS_MAX {
            // Most went by themselves since. One that is not known is read when it is needed.
            self.turns.clear();
        }
        match turn {
            Some(turn) => drop(self.turns.insert(key.to_owned(), (revision, turn))),
            None => drop(self.turns.remove(key)),
        }
    }

    /// Whose turn it is, with the revision of that; 0 and none when it is nobody's.
    pub(crate) fn turn(&self, key: &str) -> (u64, Option<KeyTurn>) {
        self.turns.get(key).map_or((0, None), |&(revision, turn)| (revision, Some(turn)))
    }

    /// The entries of one key that are still to be done.
    pub(crate) fn entries_of(&self, key: &OrderKey) -> Vec<Entry> {
        let own = self.keyed.get(key).into_iter().flatten();
        own.filter_map(|seq| self.entries.get(seq)).map(|known| known.entry.clone()).collect()
    }

    /// The first of those that were done for good at a time that `is_due`, and are still here: so
    /// many at most.
    pub(crate) fn unfinished(
        &self,
        at_most: usize,
        is_due: impl Fn(Timestamp) -> bool,
    ) -> Vec<(u64, Entry)> {
        let due = self.done.iter().take_while(|&&(at, _)| is_due(at)).take(at_most);
        let known = due.filter_map(|(_, seq)| self.entries.get(seq));
        known.map(|Known { entry, revision }| (*revision, entry.clone())).collect()
    }

    /// When the first of them was done for good.
    pub(crate) fn first_done(&self) -> Option<Timestamp> {
        self.done.first().map(|&(at, _)| at)
    }

    /// Whether the message at `seq` is done for good.
    pub(crate) fn is_done(&self, seq: u64) -> bool {
        self.entries.get(&seq).is_some_and(|known| known.entry.done_at().is_some())
    }

    /// Everything up to `revision` was told by the server, in its order: no older news come.
    pub(crate) fn heard_up_to(&mut self, revision: u64) {
        self.removed.retain(|_, &mut removed| removed > revision);
    }

    /// All states there were at `revision`: what is not among them is gone, unless it is newer.
    /// The turns are told anew after it.
    pub(crate) fn look(&mut self, revision: u64, found: Vec<(u64, Entry)>) {
        self.turns.clear();
        let seqs: BTreeSet<u64> = found.iter().map(|(_, entry)| entry.seq).collect();
        for (found_revision, entry) in found {
            self.put(found_revision, entry);
        }
        let old = self.entries.iter().filter(|(_, known)| known.revision <= revision);
        let gone: Vec<u64> = old.map(|(&seq, _)| seq).filter(|seq| !seqs.contains(seq)).collect();
        for seq in gone {
            self.remove(revision, seq);
        }
    }

    /// The entry that stands before all others at `now`.
    pub(crate) fn first(&mut self, now: Timestamp) -> Option<Pick> {
        self.tick(now);
        let (&rank, seq) = self.ready.first_key_value()?;
        let Known { entry, revision } = self.entries.get(seq)?;
        Some(Pick { entry: entry.clone(), revision: *revision, rank })
    }

    /// When the next entry becomes ready by time alone, after `first` was asked.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.later.first().map(|&(due, _)| due)
    }

    /// Whether the message at `seq` is on the board: JetStream must not hand it out besides.
    pub(crate) fn has(&self, seq: u64) -> bool {
        self.entries.contains_key(&seq)
    }

    fn tick(&mut self, now: Timestamp) {
        while let Some((due, seq)) = self.later.pop_first() {
            if due > now {
                self.later.insert((due, seq));
                return;
            }
            let Some(known) = self.entries.get(&seq) else { continue };
            let Some(key) = known.entry.key.clone() else {
                self.ready.insert(known.entry.rank(), seq);
                continue;
            };
            self.lines.entry(key.clone()).or_default().due.insert(seq);
            self.line_up(Some(&key));
        }
    }

    /// Takes an entry out of all its places and returns its key, whose line is then to be put
    /// right.
    fn take_out(&mut self, seq: u64) -> Option<OrderKey> {
        let Known { entry, .. } = self.entries.remove(&seq)?;
        if let Some(at) = entry.done_at() {
            self.done.remove(&(at, seq));
            return None;
        }
        self.later.remove(&(entry.due().since, seq));
        let Some(key) = entry.key else {
            self.ready.remove(&entry.rank());
            return None;
        };
        if let Some(keyed) = self.keyed.get_mut(&key) {
            keyed.remove(&seq);
            if keyed.is_empty() {
                self.keyed.remove(&key);
            }
        }
        if let Some(line) = self.lines.get_mut(&key) {
            line.started.remove(&seq);
            line.due.remove(&seq);
            if let Some((rank, _)) = line.in_line.take_if(|(_, in_line)| *in_line == seq) {
                self.ready.remove(&rank);
            }
        }
        Some(key)
    }

    /// Lets the first message of a key stand among those that are ready, and no other.
    fn line_up(&mut self, key: Option<&OrderKey>) {
        let Some((key, line)) = key.and_then(|key| self.lines.get_key_value(key)) else { return };
        let first = match line.started.first() {
            Some(started) => line.due.get(started),
            None => line.due.first(),
        };
        let known = first.and_then(|seq| self.entries.get(seq));
        let in_line = known.map(|Known { entry, .. }| (entry.rank(), entry.seq));
        // A line that nobody is known to stand in takes no room; one that only rests or is
        // scheduled comes again by itself.
        let is_empty = line.started.is_empty() && line.due.is_empty();
        let key = key.clone();
        let before = match self.lines.get_mut(&key) {
            Some(line) => std::mem::replace(&mut line.in_line, in_line),
            None => None,
        };
        if let Some((rank, _)) = before {
            self.ready.remove(&rank);
        }
        if let Some((rank, seq)) = in_line {
            self.ready.insert(rank, seq);
        }
        if is_empty {
            self.lines.remove(&key);
        }
    }
}

/// How many turns are remembered.
const TURNS_MAX: usize = 4096;

#[cfg(test)]
mod tests;
