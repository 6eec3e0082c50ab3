//! The queue of a subscription that keeps not every frame: the newest of each subject, or one.
//!
//! Subscriptions that want every frame share a [`FeedLog`](super::FeedLog) instead.

use std::{
    collections::{BTreeMap, HashMap},
    num::NonZeroUsize,
    sync::Arc,
};

use bus_core::Frame;
use bus_subjects::Subject;

/// Frames that wait for one subscriber, and the number of those that no longer do.
///
/// At any time `offered = delivered + dropped + superseded + waiting`.
#[derive(Debug)]
pub struct FeedQueue {
    waiting: Waiting,
    missed: u64,
    counts: FeedCounts,
}

/// What became of the frames offered to a subscription; only ever grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FeedCounts {
    /// Frames that matched.
    pub offered: u64,
    /// Frames that the subscriber took.
    pub delivered: u64,
    /// Frames that had to go because the subscriber was too slow, or ended before it took them.
    pub dropped: u64,
    /// Frames that a newer one of the same subject replaced.
    pub superseded: u64,
}

/// What a subscriber takes from its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Popped {
    /// A frame.
    Frame(Arc<Frame>),
    /// This many frames are missing here.
    Gap(u64),
}

#[derive(Debug)]
enum Waiting {
    Latest { frames: BTreeMap<u64, Arc<Frame>>, places: HashMap<Subject, u64>, subjects: usize },
    First { frame: Option<Arc<Frame>>, open: bool },
}

impl FeedQueue {
    /// An empty queue that keeps the newest frame of each subject, and of `subjects` at most;
    /// nothing is allocated before the first frame.
    #[must_use]
    pub fn latest(subjects: NonZeroUsize) -> Self {
        Self::with(Waiting::Latest {
            frames: BTreeMap::new(),
            places: HashMap::new(),
            subjects: subjects.get(),
        })
    }

    /// A queue that takes one frame and drops all others in silence, as an asker wants it.
    #[must_use]
    pub fn first_only() -> Self {
        Self::with(Waiting::First { frame: None, open: true })
    }

    /// Takes `frame` in and gives back the one that has to go for it, which is counted.
    pub fn push(&mut self, frame: Arc<Frame>) -> Option<Arc<Frame>> {
        self.counts.offered += 1;
        // Frames are numbered as they are offered: the smallest number is the oldest frame.
        let number = self.counts.offered;
        match &mut self.waiting {
            Waiting::Latest { frames, places, subjects } => {
                let mut gone = None;
                if let Some(place) = places.get_mut(&frame.subject) {
                    gone = frames.remove(place);
                    *place = number;
                    self.counts.superseded += 1;
                } else {
                    if frames.len() >= *subjects
                        && let Some((_, oldest)) = frames.pop_first()
                    {
                        places.remove(&oldest.subject);
                        self.counts.dropped += 1;
                        self.missed += 1;
                        gone = Some(oldest);
                    }
                    places.insert(frame.subject.clone(), number);
                }
                frames.insert(number, frame);
                gone
            }
            Waiting::First { frame: first, open } => {
                if std::mem::take(open) {
                    first.replace(frame)
                } else {
                    self.counts.dropped += 1;
                    Some(frame)
                }
            }
        }
    }

    /// Takes the next item: first the gap, when there is one, then the oldest frame.
    pub fn pop(&mut self) -> Option<Popped> {
        if self.missed > 0 {
            return Some(Popped::Gap(std::mem::take(&mut self.missed)));
        }
        let frame = match &mut self.waiting {
            Waiting::Latest { frames, places, .. } => {
                let oldest = frames.pop_first().map(|(_, frame)| frame);
                if let Some(frame) = &oldest {
                    places.remove(&frame.subject);
                }
                oldest
            }
            Waiting::First { frame, .. } => frame.take(),
        }?;
        self.counts.delivered += 1;
        Some(Popped::Frame(frame))
    }

    /// Takes out everything that waits, uncounted, because nobody will.
    #[must_use]
    pub fn take_all(&mut self) -> Vec<Arc<Frame>> {
        match &mut self.waiting {
            Waiting::Latest { frames, places, .. } => {
                places.clear();
                std::mem::take(frames).into_values().collect()
            }
            Waiting::First { frame, .. } => frame.take().into_iter().collect(),
        }
    }

    /// How many frames wait.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.waiting {
            Waiting::Latest { frames, .. } => frames.len(),
            Waiting::First { frame, .. } => usize::from(frame.is_some()),
        }
    }

    /// Whether no frame waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What became of the frames offered so far.
    #[must_use]
    pub const fn counts(&self) -> FeedCounts {
        self.counts
    }

    const fn with(waiting: Waiting) -> Self {
        let counts = FeedCounts { offered: 0, delivered: 0, dropped: 0, superseded: 0 };
        Self { waiting, missed: 0, counts }
    }
}

impl FeedCounts {
    /// Adds the counts of another subscription.
    pub fn add(&mut self, other: Self) {
        self.offered += other.offered;
        self.delivered += other.delivered;
        self.dropped += other.dropped;
        self.superseded += other.superseded;
    }
}
