//! A bounded cache of opening keys with the clock rule: a look-up needs no exclusive access.
//!
//! Strangers choose key ids, so the cache must not grow with them; a miss costs one derivation.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::seal::OpenKey;

/// At most `keys_max` opening keys; those not asked for lately go first.
pub(crate) struct OpenKeyCache {
    places: HashMap<Box<str>, usize>,
    slots: Vec<Slot>,
    hand: usize,
    keys_max: usize,
}

impl OpenKeyCache {
    pub(crate) fn new(keys_max: usize) -> Self {
        Self { places: HashMap::new(), slots: Vec::new(), hand: 0, keys_max: keys_max.max(1) }
    }

    pub(crate) fn get(&self, key_id: &str) -> Option<Arc<OpenKey>> {
        let slot = self.slots.get(*self.places.get(key_id)?)?;
        slot.is_used.store(true, Ordering::Relaxed);
        Some(Arc::clone(&slot.key))
    }

    /// Keeps `key`, or returns the one that another thread put in first.
    pub(crate) fn insert(&mut self, key: Arc<OpenKey>) -> Arc<OpenKey> {
        if let Some(found) = self.get(key.key_id()) {
            return found;
        }
        let slot = Slot { key: Arc::clone(&key), is_used: AtomicBool::new(false) };
        let place = if self.slots.len() < self.keys_max {
            self.slots.push(slot);
            self.slots.len() - 1
        } else {
            let place = self.victim();
            if let Some(old) = self.slots.get_mut(place) {
                self.places.remove(old.key.key_id());
                *old = slot;
            }
            place
        };
        self.places.insert(key.key_id().into(), place);
        key
    }

    /// Forgets every key that `is_gone` names.
    pub(crate) fn remove_if(&mut self, is_gone: impl Fn(&str) -> bool) {
        self.slots.retain(|slot| !is_gone(slot.key.key_id()));
        self.hand = 0;
        self.places = self
            .slots
            .iter()
            .enumerate()
            .map(|(place, slot)| (slot.key.key_id().into(), place))
            .collect();
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Moves the hand to the first key not used since it last passed; two rounds always find one.
    fn victim(&mut self) -> usize {
        for _ in 0..2 * self.slots.len() {
            let place = self.hand;
            self.hand = (self.hand + 1) % self.slots.len();
            let is_idle =
                self.slots.get(place).is_some_and(|s| !s.is_used.swap(false, Ordering::Relaxed));
            if is_idle {
                return place;
            }
        }
        self.hand
    }
}

struct Slot {
    key: Arc<OpenKey>,
    is_used: AtomicBool,
}

#[cfg(test)]
mod tests;
