//! Messages that were not tried yet, by priority: ten queues of positions, mostly one in use.

use std::collections::{HashSet, VecDeque};

use bus_core::Priority;
use foldhash::fast::RandomState;

/// Positions in the order they were stored, lane by lane.
///
/// A message that is discarded leaves its position behind until its turn comes, because taking
/// it out of a long queue would move all that stand behind it.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    normal: VecDeque<u64>,
    /// By level; the one of [`Priority::NORMAL`] stays empty.
    others: Option<Box<[VecDeque<u64>; LEVELS]>>,
    discarded: HashSet<u64, RandomState>,
}

impl Lanes {
    /// Takes in the message at `seq`, which must be newer than all before.
    pub(crate) fn push(&mut self, seq: u64, level: Priority) {
        let lane = if level == Priority::NORMAL {
            &mut self.normal
        } else {
            let others = self.others.get_or_insert_default();
            match others.get_mut(usize::from(level.level())) {
                Some(lane) => lane,
                None => &mut self.normal,
            }
        };
        debug_assert!(lane.back().is_none_or(|&last| last < seq), "a lane is in order");
        lane.push_back(seq);
    }

    /// The messages that wait in one lane, from a position on.
    pub(crate) fn from(&self, level: u8, seq: u64) -> impl Iterator<Item = u64> + '_ {
        let is_normal = level == Priority::NORMAL.level();
        let other = self.others.as_ref().and_then(|others| others.get(usize::from(level)));
        let lane = if is_normal { Some(&self.normal) } else { other };
        lane.into_iter().flat_map(move |lane| {
            let skip = lane.partition_point(|&waits| waits < seq);
            lane.range(skip..).copied().filter(|seq| !self.discarded.contains(seq))
        })
    }

    /// How many messages wait here.
    pub(crate) fn len(&self) -> usize {
        let others = self.others.iter().flat_map(|others| others.iter());
        let all = self.normal.len() + others.map(VecDeque::len).sum::<usize>();
        all - self.discarded.len()
    }

    /// Whether at least one message waits here.
    pub(crate) fn is_empty(&self) -> bool {
        self.heads().next().is_none()
    }

    /// The first message of each lane that has one.
    pub(crate) fn heads(&self) -> impl Iterator<Item = (u64, Priority)> + '_ {
        let normal = self.normal.front().map(|&seq| (seq, Priority::NORMAL));
        let others = self.others.iter().flat_map(|others| (0..).zip(others.iter()));
        let others = others.filter_map(|(level, lane)| {
            // There are as many lanes as levels.
            Some((*lane.front()?, Priority::new(level).unwrap_or_default()))
        });
        normal.into_iter().chain(others)
    }

    /// The first message when only one lane may have any.
    pub(crate) fn single(&self) -> Option<Option<u64>> {
        self.others.is_none().then(|| self.normal.front().copied())
    }

    /// Takes the first message of a lane out.
    pub(crate) fn pop(&mut self, level: Priority) {
        if let Some(lane) = self.lane_mut(level) {
            lane.pop_front();
        }
        if !self.discarded.is_empty() {
            self.skip_discarded(level);
        }
    }

    /// Takes a message out wherever it stands; false when it does not wait here.
    pub(crate) fn discard(&mut self, seq: u64, level: Priority) -> bool {
        let waits = self.lane_mut(level).is_some_and(|lane| lane.binary_search(&seq).is_ok());
        if waits && self.discarded.insert(seq) {
            self.skip_discarded(level);
            return true;
        }
        false
    }

    fn skip_discarded(&mut self, level: Priority) {
        let discarded = &mut self.discarded;
        let lane = match &mut self.others {
            Some(others) if level != Priority::NORMAL => others.get_mut(usize::from(level.level())),
            _ => Some(&mut self.normal),
        };
        let Some(lane) = lane else { return };
        while lane.front().is_some_and(|seq| discarded.remove(seq)) {
            lane.pop_front();
        }
    }

    fn lane_mut(&mut self, level: Priority) -> Option<&mut VecDeque<u64>> {
        if level == Priority::NORMAL {
            return Some(&mut self.normal);
        }
        self.others.as_mut()?.get_mut(usize::from(level.level()))
    }
}

const LEVELS: usize = Priority::HIGHEST.level() as usize + 1;
