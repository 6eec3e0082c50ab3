//! The log of one filter: written once for all its subscribers, each of which is a cursor in it.
//!
//! Appending costs the same whoever lags: how much a cursor missed is found out when it reads.
//! What was appended last is closed into a small segment when somebody comes to read it, and a
//! reader takes a run of one segment at a time.

use std::{collections::VecDeque, num::NonZeroUsize, sync::Arc};

use bus_core::{Segment, SegmentFrame, SegmentRun};

use super::{
    FeedCounts,
    feed_cursor::{Cursor, Rest},
    feed_heard::{Extreme, Heard},
};

/// The frames of one filter that some subscriber may still read.
///
/// For each cursor, at any time, `offered = delivered + dropped + waiting`.
#[derive(Debug, Default)]
pub struct FeedLog {
    /// How many frames were appended so far; the next one has this number.
    head: u64,
    segments: VecDeque<Kept>,
    /// The frames after the last segment.
    tail: Tail,
    cursors: Vec<Option<Cursor>>,
    free: Vec<usize>,
    /// Cursors that hear what is appended, and their places: at the head, or before the first frame
    /// that is kept. All others stand in a segment or in the tail, which count them.
    open: usize,
    at_head: usize,
    lost: usize,
    /// The largest and the smallest capacity of an open cursor, and how many have it.
    capacity_max: Extreme,
    capacity_min: Extreme,
    /// How many frames were left the last time that all cursors were looked at, or since.
    left: u64,
}

/// Names one cursor of a log, until it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CursorKey(usize);

/// What a cursor finds when it reads.
#[derive(Debug)]
pub enum Read {
    /// At least one frame, for the reader to take; none of them is dropped any more.
    Run(SegmentRun),
    /// This many frames are missing here.
    Gap(u64),
    /// Nothing yet.
    Nothing,
    /// Nothing any more: the cursor was closed and has read everything.
    End,
}

/// A segment in its place in the log.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    /// The number of its first frame.
    base: u64,
    /// How many open cursors stand in it.
    readers: usize,
    pub(super) segment: Segment,
}

#[derive(Debug, Default)]
struct Tail {
    frames: Vec<SegmentFrame>,
    /// As many as the last segment had: so much room is made at the first frame.
    frames_expected: usize,
    bytes: usize,
    readers: usize,
}

impl FeedLog {
    /// A log without subscribers, which keeps nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a subscriber of `owner` that hears what is appended from now on; at most `capacity`
    /// frames wait for it.
    pub fn join(&mut self, owner: u64, capacity: NonZeroUsize) -> CursorKey {
        let cursor = Cursor {
            owner,
            capacity: capacity.get() as u64,
            start: self.head,
            at: self.head,
            missed: 0,
            tally: Arc::default(),
            rest: None,
        };
        self.open += 1;
        self.at_head += 1;
        self.count_capacity(cursor.capacity);
        let index = self.free.pop().unwrap_or(self.cursors.len());
        match self.cursors.get_mut(index) {
            Some(slot) => *slot = Some(cursor),
            None => self.cursors.push(Some(cursor)),
        }
        CursorKey(index)
    }

    /// Appends `frame`, which stays with the caller when nobody hears it; `unused` gets the
    /// segments that nobody reads any more, to be dropped where no lock is held.
    pub fn push(
        &mut self,
        frame: &mut Option<SegmentFrame>,
        unused: &mut impl Extend<Segment>,
    ) -> Heard {
        if self.open == 0 || frame.is_none() {
            return Heard::NOBODY;
        }
        self.tail.push(frame);
        // Whoever had read everything stands before this frame now.
        self.tail.readers += std::mem::take(&mut self.at_head);
        self.head += 1;
        if self.tail.frames.len() >= FRAMES_MAX || self.tail.bytes >= BYTES_MAX {
            self.close_tail(unused);
        }
        Heard { by: self.open, capacity_min: self.capacity_min.value }
    }

    /// What the cursor reads next, and moves it on by as much.
    pub fn read(&mut self, key: CursorKey, unused: &mut impl Extend<Segment>) -> Read {
        let Some(Some(cursor)) = self.cursors.get(key.0) else { return Read::End };
        if cursor.at >= self.head - self.tail.frames.len() as u64 {
            self.close_tail(unused);
        }
        let Some(Some(cursor)) = self.cursors.get_mut(key.0) else { return Read::End };
        let (end, segments) = match &cursor.rest {
            Some(rest) => (rest.end, &rest.segments),
            None => (self.head, &self.segments),
        };
        let (from, missed) = (cursor.at, cursor.overrun(end));
        if cursor.at == end {
            return if cursor.rest.is_some() { Read::End } else { Read::Nothing };
        }
        let read = if missed > 0 {
            cursor.missed += missed;
            cursor.at += missed;
            Read::Gap(missed)
        } else {
            let Some(kept) = locate(segments, from).and_then(|index| segments.get(index)) else {
                return Read::Nothing;
            };
            let first = (from - kept.base) as usize;
            let to = kept.segment.len().min(first + cursor.run_max());
            cursor.at += (to - first) as u64;
            let tally = Arc::clone(&cursor.tally);
            Read::Run(SegmentRun::new(kept.segment.clone(), first, to, tally))
        };
        cursor.free_rest(unused);
        let (to, open) = (cursor.at, cursor.rest.is_none());
        if open {
            self.leave_place(from);
            self.take_place(to);
            self.free_passed(unused);
        }
        read
    }

    /// Whether nothing is left to read for the cursor at the moment.
    #[must_use]
    pub fn has_read_all(&self, key: CursorKey) -> bool {
        let cursor = self.cursors.get(key.0).and_then(Option::as_ref);
        cursor.is_none_or(|cursor| cursor.at == cursor.end(self.head))
    }

    /// Lets the cursors of `owner` end after what they hold; says whether there were any.
    pub fn close(&mut self, owner: u64, unused: &mut impl Extend<Segment>) -> bool {
        self.close_tail(unused);
        let mut closed = false;
        for index in 0..self.cursors.len() {
            let Some(Some(cursor)) = self.cursors.get_mut(index) else { continue };
            if cursor.owner != owner || cursor.rest.is_some() {
                continue;
            }
            closed = true;
            let (at, capacity) = (cursor.at, cursor.capacity);
            let oldest = at.max(self.head.saturating_sub(capacity));
            let held = locate(&self.segments, oldest).unwrap_or(self.segments.len());
            let segments = self.segments.range(held..).cloned().collect();
            cursor.rest = Some(Box::new(Rest { end: self.head, segments }));
            self.part(at, capacity, unused);
        }
        closed
    }

    /// Ends a cursor; what it did not take counts as dropped.
    pub fn leave(&mut self, key: CursorKey, unused: &mut impl Extend<Segment>) -> FeedCounts {
        let Some(slot) = self.cursors.get_mut(key.0) else { return FeedCounts::default() };
        let Some(mut cursor) = slot.take() else { return FeedCounts::default() };
        self.free.push(key.0);
        let end = cursor.end(self.head);
        let mut counts = cursor.counts(end);
        counts.dropped = counts.offered - counts.delivered;
        match cursor.rest.take() {
            Some(rest) => unused.extend(rest.segments.into_iter().map(|k| k.segment)),
            None => self.part(cursor.at, cursor.capacity, unused),
        }
        counts
    }

    /// What became of the frames that were offered to all cursors, and how many of them wait.
    #[must_use]
    pub fn counts(&self) -> (FeedCounts, u64) {
        let (mut sum, mut waiting) = (FeedCounts::default(), 0);
        for cursor in self.cursors.iter().flatten() {
            let counts = cursor.counts(cursor.end(self.head));
            waiting += counts.offered - counts.delivered - counts.dropped;
            sum.add(counts);
        }
        (sum, waiting)
    }

    /// How many cursors there are, closed ones included.
    #[must_use]
    pub fn cursors(&self) -> usize {
        self.cursors.len() - self.free.len()
    }

    /// How many frames are kept, whether they were read or not.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.segments.iter().map(|kept| kept.segment.len()).sum::<usize>() + self.tail.frames.len()
    }

    /// Makes a segment of what was appended since the last one, and drops those that lie behind the
    /// capacity of every cursor.
    fn close_tail(&mut self, unused: &mut impl Extend<Segment>) {
        let frames = self.tail.frames.len();
        if frames > 0 {
            self.segments.push_back(Kept {
                base: self.head - frames as u64,
                readers: std::mem::take(&mut self.tail.readers),
                segment: std::mem::take(&mut self.tail.frames).into(),
            });
            (self.tail.frames_expected, self.tail.bytes) = (frames, 0);
            self.drop_before(self.head.saturating_sub(self.capacity_max.value), unused);
            self.drop_unneeded(unused);
        }
    }

    /// Drops the segments that lie behind the capacities of those who did not pass them: one that
    /// wants few frames and never reads must not keep as many as another may have waiting.
    ///
    /// It looks at every cursor, so it waits until twice as much is kept as was left before.
    fn drop_unneeded(&mut self, unused: &mut impl Extend<Segment>) {
        let kept = |log: &Self| log.segments.front().map_or(0, |front| log.head - front.base);
        self.left = self.left.min(kept(self));
        if kept(self) < LOOK_MIN.max(self.left.saturating_mul(2)) {
            return;
        }
        let open = self.cursors.iter().flatten().filter(|cursor| cursor.rest.is_none());
        let oldest = open.map(|cursor| cursor.oldest(self.head)).min();
        self.drop_before(oldest.unwrap_or(self.head), unused);
        self.left = kept(self);
    }

    /// An open cursor that stood before frame `at` hears no more.
    fn part(&mut self, at: u64, capacity: u64, unused: &mut impl Extend<Segment>) {
        self.close_tail(unused);
        self.open -= 1;
        self.leave_place(at);
        let left_max = self.capacity_max.remove(capacity);
        if left_max || self.capacity_min.remove(capacity) {
            let open = self.cursors.iter().flatten().filter(|cursor| cursor.rest.is_none());
            let capacities: Vec<u64> = open.map(|cursor| cursor.capacity).collect();
            (self.capacity_max, self.capacity_min) = (Extreme::default(), Extreme::default());
            capacities.into_iter().for_each(|capacity| self.count_capacity(capacity));
            self.drop_before(self.head.saturating_sub(self.capacity_max.value), unused);
        }
        self.free_passed(unused);
    }

    fn count_capacity(&mut self, capacity: u64) {
        self.capacity_max.add(capacity, |new, old| new > old);
        self.capacity_min.add(capacity, |new, old| new < old);
    }

    fn leave_place(&mut self, at: u64) {
        *self.standing(at) -= 1;
    }

    fn take_place(&mut self, at: u64) {
        *self.standing(at) += 1;
    }

    /// How many cursors stand where one that reads frame `at` next does.
    fn standing(&mut self, at: u64) -> &mut usize {
        if at == self.head {
            return &mut self.at_head;
        }
        if at >= self.head - self.tail.frames.len() as u64 {
            return &mut self.tail.readers;
        }
        match locate(&self.segments, at).and_then(|index| self.segments.get_mut(index)) {
            Some(kept) => &mut kept.readers,
            None => &mut self.lost,
        }
    }

    /// Drops the segments that lie before frame `oldest`, whoever stands there.
    fn drop_before(&mut self, oldest: u64, unused: &mut impl Extend<Segment>) {
        while let Some(front) = self.segments.front()
            && front.end() <= oldest
        {
            self.lost += front.readers;
            unused.extend(self.segments.pop_front().map(|kept| kept.segment));
        }
    }

    /// Drops the segments that every cursor has passed.
    fn free_passed(&mut self, unused: &mut impl Extend<Segment>) {
        // One that is lost will go on at its capacity before the head, so all of that stays.
        while self.lost == 0
            && let Some(front) = self.segments.front()
            && front.readers == 0
        {
            unused.extend(self.segments.pop_front().map(|kept| kept.segment));
        }
    }
}

impl Tail {
    /// Takes `frame` straight to its place: every other move of it would cost as much as the rest.
    #[inline]
    fn push(&mut self, frame: &mut Option<SegmentFrame>) {
        if self.frames.is_empty() {
            self.frames.reserve_exact(self.frames_expected);
        }
        self.bytes += frame.as_ref().map_or(0, |frame| frame.frame().bytes());
        self.frames.extend(frame.take());
    }
}

impl Kept {
    pub(super) fn end(&self) -> u64 {
        self.base + self.segment.len() as u64
    }
}

/// The segment that holds the frame with the number `at`.
fn locate(segments: &VecDeque<Kept>, at: u64) -> Option<usize> {
    let index = match segments.back() {
        // Most often the last one: readers that keep up stand there.
        Some(tail) if tail.base <= at => segments.len() - 1,
        _ => segments.partition_point(|kept| kept.base <= at).checked_sub(1)?,
    };
    segments.get(index).is_some_and(|kept| at < kept.end()).then_some(index)
}

/// The most frames of a segment: enough that one count for all of them is cheap.
pub(super) const FRAMES_MAX: usize = 32;

/// With fewer frames than this nobody looks whether all of them are needed.
const LOOK_MIN: u64 = 1024;

/// A segment with so many bytes takes no more, so that one frame that is kept for long keeps
/// little else.
const BYTES_MAX: usize = 64 << 10;
