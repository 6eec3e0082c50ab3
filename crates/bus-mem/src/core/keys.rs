//! Order keys of one consumer: who of each key may run, and who stands behind.

use std::collections::{BTreeMap, HashMap};

use bus_core::OrderKey;
use foldhash::fast::RandomState;

use super::waiting::Waiting;

/// One turn a key; a key without messages takes no room.
#[derive(Debug, Default)]
pub(crate) struct OrderKeys {
    turns: HashMap<OrderKey, Turn, RandomState>,
    behind: usize,
}

/// Whether a message may stand in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It is the one of its key.
    InLine,
    /// Another one of its key is before it.
    Behind,
    /// It was appended before this one, which stands in line and must step behind it.
    InPlaceOf(u64),
}

#[derive(Debug)]
struct Turn {
    holder: u64,
    /// It was handed out; from then on it holds its key until it leaves.
    started: bool,
    behind: BTreeMap<u64, Waiting>,
}

impl OrderKeys {
    /// The message at `seq` is ready as far as time goes.
    pub(crate) fn arrive(&mut self, key: &OrderKey, seq: u64) -> Arrival {
        let Some(turn) = self.turns.get_mut(key) else {
            let turn = Turn { holder: seq, started: false, behind: BTreeMap::new() };
            self.turns.insert(key.clone(), turn);
            return Arrival::InLine;
        };
        if turn.holder == seq {
            return Arrival::InLine;
        }
        if turn.started || turn.holder < seq {
            return Arrival::Behind;
        }
        Arrival::InPlaceOf(std::mem::replace(&mut turn.holder, seq))
    }

    /// Keeps a message until its turn comes.
    pub(crate) fn put_behind(&mut self, key: &OrderKey, seq: u64, waiting: Waiting) {
        if let Some(turn) = self.turns.get_mut(key) {
            turn.behind.insert(seq, waiting);
            self.behind += 1;
        }
    }

    /// The message that holds `key` is handed out.
    pub(crate) fn start(&mut self, key: &OrderKey) {
        if let Some(turn) = self.turns.get_mut(key) {
            turn.started = true;
        }
    }

    /// A message is gone; returns the one whose turn it is now when that held the key.
    pub(crate) fn leave(&mut self, key: &OrderKey, seq: u64) -> Option<(u64, Waiting)> {
        let turn = self.turns.get_mut(key).filter(|turn| turn.holder == seq)?;
        let Some(next) = turn.behind.pop_first() else {
            self.turns.remove(key);
            return None;
        };
        self.behind -= 1;
        turn.holder = next.0;
        turn.started = false;
        Some(next)
    }

    /// Takes out a message that stands behind another.
    pub(crate) fn remove_behind(&mut self, key: &OrderKey, seq: u64) {
        if let Some(turn) = self.turns.get_mut(key)
            && turn.behind.remove(&seq).is_some()
        {
            self.behind -= 1;
        }
    }

    /// A message that stands behind another.
    pub(crate) fn get_behind(&self, key: &OrderKey, seq: u64) -> Option<&Waiting> {
        self.turns.get(key)?.behind.get(&seq)
    }

    /// Whether the message at `seq` holds `key` because it was handed out.
    pub(crate) fn is_started(&self, key: &OrderKey, seq: u64) -> bool {
        self.turns.get(key).is_some_and(|turn| turn.started && turn.holder == seq)
    }

    /// How many messages stand behind another of their key.
    pub(crate) const fn behind(&self) -> usize {
        self.behind
    }
}
