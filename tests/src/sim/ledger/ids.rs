//! Which frame ids a stream must know again.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use bus_core::FrameId;
use bus_envelope::Timestamp;

/// The ids of one stream within its window.
#[derive(Debug)]
pub(super) struct Ids {
    window: Duration,
    known: BTreeMap<FrameId, u64>,
    order: VecDeque<(Timestamp, FrameId)>,
}

impl Ids {
    pub(super) fn new(window: Duration) -> Self {
        Self { window, known: BTreeMap::new(), order: VecDeque::new() }
    }

    pub(super) fn find(&mut self, id: &FrameId, now: Timestamp) -> Option<u64> {
        while let Some((stored, _)) = self.order.front()
            && stored.plus(self.window) <= now
            && let Some((_, forgotten)) = self.order.pop_front()
        {
            self.known.remove(&forgotten);
        }
        self.known.get(id).copied()
    }

    pub(super) fn remember(&mut self, id: &FrameId, seq: u64, now: Timestamp) {
        self.known.insert(id.clone(), seq);
        self.order.push_back((now, id.clone()));
    }
}
