//! The memory for frame ids: which were stored within the window, and where.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use bus_core::FrameId;
use bus_envelope::Timestamp;

/// Ids that were stored not longer than a window ago.
///
/// Bounded twice: by the window, and by a number of ids. At that bound the oldest id is forgotten
/// before its window ends, because refusing new work to remember old work would be worse.
#[derive(Debug)]
pub(crate) struct Dedupe {
    window: Duration,
    ids_max: usize,
    seqs: HashMap<FrameId, u64>,
    order: VecDeque<(Timestamp, FrameId)>,
}

impl Dedupe {
    /// Ids remembered at least, however few messages the stream may hold.
    pub(crate) const IDS_MIN: u64 = 65_536;

    /// A memory of `window` for a stream of at most `messages_max` messages.
    pub(crate) fn new(window: Duration, messages_max: u64) -> Self {
        let ids_max = usize::try_from(messages_max.max(Self::IDS_MIN)).unwrap_or(usize::MAX);
        Self { window, ids_max, seqs: HashMap::new(), order: VecDeque::new() }
    }

    /// Where `id` was stored within the window.
    pub(crate) fn find(&mut self, id: &FrameId, now: Timestamp) -> Option<u64> {
        self.expire(now);
        self.seqs.get(id).copied()
    }

    /// Remembers that `id` was stored at `seq` now; it must not be remembered yet.
    pub(crate) fn remember(&mut self, id: &FrameId, seq: u64, now: Timestamp) {
        if self.window.is_zero() {
            return;
        }
        while self.order.len() >= self.ids_max {
            self.forget_oldest();
        }
        self.seqs.insert(id.clone(), seq);
        self.order.push_back((now, id.clone()));
    }

    fn expire(&mut self, now: Timestamp) {
        while self.order.front().is_some_and(|(time, _)| time.plus(self.window) <= now) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, id)) = self.order.pop_front() {
            self.seqs.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u64) -> FrameId {
        FrameId::parse(&format!("id-{n}")).unwrap()
    }

    #[test]
    fn at_the_bound_the_oldest_id_is_forgotten_first() {
        let now = Timestamp::from_unix_ns(0);
        let mut dedupe = Dedupe::new(Duration::from_secs(600), 1);
        for n in 0..=Dedupe::IDS_MIN {
            dedupe.remember(&id(n), n + 1, now);
        }
        assert_eq!(dedupe.find(&id(0), now), None);
        assert_eq!(dedupe.find(&id(1), now), Some(2));
        assert_eq!(dedupe.order.len() as u64, Dedupe::IDS_MIN);
        assert_eq!(dedupe.seqs.len() as u64, Dedupe::IDS_MIN);
    }

    #[test]
    fn an_id_is_forgotten_when_its_window_ends() {
        let start = Timestamp::from_unix_ns(0);
        let mut dedupe = Dedupe::new(Duration::from_secs(10), 1);
        dedupe.remember(&id(1), 1, start);
        assert_eq!(dedupe.find(&id(1), start.plus(Duration::from_millis(9_999))), Some(1));
        assert_eq!(dedupe.find(&id(1), start.plus(Duration::from_secs(10))), None);
        assert!(dedupe.seqs.is_empty());
    }
}
