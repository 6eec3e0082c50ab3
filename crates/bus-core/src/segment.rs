//! A short run of frames that does not change, and is read in place by many.
//!
//! Engines that keep one log for many subscribers hand these out: a reader takes hold of a whole
//! run at once, so that reading a frame touches no memory that other readers write.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::{Frame, SharedFrame};

/// Frames that stand together. Clones are the same frames.
#[derive(Debug, Clone)]
pub struct Segment(Arc<Vec<SegmentFrame>>);

/// A frame of a [`Segment`], or on its way into one.
#[derive(Debug, Clone)]
pub enum SegmentFrame {
    /// The segment holds the frame itself, which saves an allocation.
    Here(Frame),
    /// Others hold the frame as well.
    Shared(Arc<Frame>),
}

/// The frames of a segment that one reader takes, one after the other.
#[derive(Debug)]
pub struct SegmentRun {
    segment: Segment,
    next: usize,
    end: usize,
    tally: Arc<Tally>,
    /// Counted for this reader alone: a count that all readers share would cost more than the rest.
    hold: Option<Arc<Segment>>,
}

/// How many frames a reader took; written by the reader alone, read by whoever counts.
#[derive(Debug, Default)]
pub struct Tally {
    taken: AtomicU64,
    /// Keeps the counts of two readers on different cache lines.
    _apart: [u64; 5],
}

impl Segment {
    /// How many frames there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no frame.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The frame at a place of this segment.
    #[inline]
    #[expect(clippy::expect_used, reason = "runs, the only ones to ask, end with the segment")]
    pub(crate) fn at(&self, at: usize) -> &Frame {
        self.0.get(at).expect("a run ends with its segment").frame()
    }
}

impl From<Vec<SegmentFrame>> for Segment {
    /// The frames as they stand: none is copied.
    fn from(frames: Vec<SegmentFrame>) -> Self {
        Self(Arc::new(frames))
    }
}

impl SegmentFrame {
    /// The frame, wherever it is.
    #[must_use]
    #[inline]
    pub fn frame(&self) -> &Frame {
        match self {
            Self::Here(frame) => frame,
            Self::Shared(frame) => frame,
        }
    }

    /// The frame as one that can be shared.
    #[must_use]
    pub fn into_shared(self) -> Arc<Frame> {
        match self {
            Self::Here(frame) => Arc::new(frame),
            Self::Shared(frame) => frame,
        }
    }
}

impl SegmentRun {
    /// The frames from the place `from` up to, not including, `to` or the end of the segment; each
    /// that is taken counts in `tally`.
    #[must_use]
    pub fn new(segment: Segment, from: usize, to: usize, tally: Arc<Tally>) -> Self {
        let end = to.min(segment.len());
        Self { segment, next: from, end, tally, hold: None }
    }

    /// How many frames are left.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.end.saturating_sub(self.next)
    }

    /// Whether no frame is left.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.next >= self.end
    }

    /// Takes the next frame, to be kept.
    #[inline]
    pub fn take(&mut self) -> Option<SharedFrame> {
        if let Some(frame) = self.take_middle() {
            return Some(frame);
        }
        let at = self.step()?;
        let hold = self.hold.take().unwrap_or_else(|| Arc::new(self.segment.clone()));
        if !self.is_empty() {
            self.hold = Some(Arc::clone(&hold));
        }
        Some(SharedFrame::placed(hold, at))
    }

    /// As [`take`](Self::take), but neither the first nor the last frame: what is left is little.
    #[inline]
    pub(crate) fn take_middle(&mut self) -> Option<SharedFrame> {
        let hold = self.hold.as_ref()?;
        let at = self.next;
        if at + 1 >= self.end {
            return None;
        }
        self.next = at + 1;
        self.tally.count();
        Some(SharedFrame::placed(Arc::clone(hold), at))
    }

    /// Takes the next frame, to be read in place: cheaper than [`take`](Self::take).
    #[inline]
    pub fn read(&mut self) -> Option<&Frame> {
        let at = self.step()?;
        Some(self.segment.at(at))
    }

    /// The frames that are left, none of them taken by this.
    pub(crate) fn frames(&self) -> impl Iterator<Item = &Frame> {
        (self.next..self.end).map(|at| self.segment.at(at))
    }

    #[inline]
    fn step(&mut self) -> Option<usize> {
        let at = self.next;
        if at >= self.end {
            return None;
        }
        self.next = at + 1;
        self.tally.count();
        Some(at)
    }
}

impl Tally {
    /// How many frames were taken so far.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }

    #[inline]
    fn count(&self) {
        // One reader only, so nothing comes between; an addition in one step would cost more.
        self.taken.store(self.taken.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use bus_subjects::Subject;

    use super::*;
    use crate::FrameId;

    fn frame(id: &str) -> Frame {
        Frame::new(Subject::parse("a.b").unwrap(), FrameId::parse(id).unwrap(), id.to_owned())
    }

    fn segment(ids: &[&str]) -> Segment {
        let shared = |id: &&str| SegmentFrame::Shared(Arc::new(frame(id)));
        let here = |id: &&str| SegmentFrame::Here(frame(id));
        let frames = ids.iter().take(1).map(shared).chain(ids.iter().skip(1).map(here));
        frames.collect::<Vec<_>>().into()
    }

    #[test]
    fn a_run_is_taken_in_order_and_counted() {
        let tally = Arc::new(Tally::default());
        let mut run = SegmentRun::new(segment(&["1", "2", "3", "4"]), 1, 4, Arc::clone(&tally));
        let kept = run.take().unwrap();
        assert_eq!(run.read().unwrap().id.as_str(), "3");
        let last = run.take().unwrap();
        assert_eq!((kept.id.as_str(), last.id.as_str()), ("2", "4"));
        assert_eq!((run.len(), run.take(), run.read()), (0, None, None));
        assert_eq!(tally.taken(), 3);
    }

    #[test]
    fn a_run_ends_with_its_segment() {
        let mut run = SegmentRun::new(segment(&["1"]), 0, 9, Arc::default());
        assert_eq!((run.len(), run.take().is_some(), run.take()), (1, true, None));
        let mut beyond = SegmentRun::new(segment(&["1"]), 5, 9, Arc::default());
        assert_eq!((beyond.len(), beyond.take(), beyond.read()), (0, None, None));
    }

    #[test]
    fn a_frame_outlives_its_run_and_its_segment() {
        let mut run = SegmentRun::new(segment(&["1", "2"]), 0, 2, Arc::default());
        let (first, second) = (run.take().unwrap(), run.take().unwrap());
        drop(run);
        assert_eq!((first.into_frame(), second.into_frame()), (frame("1"), frame("2")));
    }
}
