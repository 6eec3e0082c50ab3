//! One subscriber's place in a log: what it was offered, took and missed.

use std::{collections::VecDeque, sync::Arc};

use bus_core::{Segment, Tally};

use super::{
    FeedCounts,
    feed_log::{FRAMES_MAX, Kept},
};

#[derive(Debug)]
pub(super) struct Cursor {
    pub(super) owner: u64,
    pub(super) capacity: u64,
    /// The number of the first frame it could hear.
    pub(super) start: u64,
    /// The number of the next frame that it does not have in hand.
    pub(super) at: u64,
    /// How many frames it was told it missed.
    pub(super) missed: u64,
    pub(super) tally: Arc<Tally>,
    /// What it may still read; only once it is closed.
    pub(super) rest: Option<Box<Rest>>,
}

/// The frames of a cursor that hears no more: they are kept apart from the log, which goes on.
#[derive(Debug)]
pub(super) struct Rest {
    pub(super) end: u64,
    pub(super) segments: VecDeque<Kept>,
}

impl Cursor {
    /// How many frames before `end` no longer wait, though the reader does not know yet.
    pub(super) fn overrun(&self, end: u64) -> u64 {
        (end - self.at).saturating_sub(self.capacity)
    }

    /// The number of the first frame that it may still read, when `end` are there.
    pub(super) fn oldest(&self, end: u64) -> u64 {
        self.at + self.overrun(end)
    }

    /// The number after the last frame that it may read.
    pub(super) fn end(&self, head: u64) -> u64 {
        self.rest.as_ref().map_or(head, |rest| rest.end)
    }

    pub(super) fn counts(&self, end: u64) -> FeedCounts {
        FeedCounts {
            offered: end - self.start,
            delivered: self.tally.taken(),
            dropped: self.missed + self.overrun(end),
            superseded: 0,
        }
    }

    /// Drops what a closed one has read: its reader may keep it for long after the end.
    pub(super) fn free_rest(&mut self, unused: &mut impl Extend<Segment>) {
        let Some(rest) = &mut self.rest else { return };
        while rest.segments.front().is_some_and(|kept| kept.end() <= self.at) {
            unused.extend(rest.segments.pop_front().map(|kept| kept.segment));
        }
    }

    /// How many frames it reads at a time: few for a small capacity, because what it has taken no
    /// longer counts as waiting when others overrun it.
    pub(super) fn run_max(&self) -> usize {
        (self.capacity / 8).clamp(1, FRAMES_MAX as u64) as usize
    }
}
