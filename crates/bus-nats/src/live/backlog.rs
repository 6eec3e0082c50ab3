//! What a subscription has heard and its subscriber did not take yet, within its bound.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    num::NonZeroUsize,
};

use bus_core::{Frame, FrameId, Overflow};
use bus_subjects::Subject;
use bytes::Bytes;

/// Messages that wait, and how many are missing before them.
pub(super) struct Backlog {
    waiting: Waiting,
    /// The number of the last message that came.
    last: u64,
    /// How many went before the first that waits.
    missed: u64,
    /// After which messages the connection broke, the oldest first.
    breaks: VecDeque<u64>,
    /// Whether the last break is not over: what comes after it is not told before.
    is_broken: bool,
}

enum Waiting {
    /// Every message, numbered without a hole, up to a capacity.
    Every { messages: VecDeque<Frame>, capacity: usize },
    /// The newest message of each subject.
    Newest(Newest),
}

struct Newest {
    messages: BTreeMap<u64, Frame>,
    places: HashMap<Subject, u64>,
    subjects: usize,
    /// The ids of the samples whose subjects were not heard yet.
    samples: HashMap<Subject, FrameId>,
}

/// What a subscriber takes.
#[derive(Debug)]
pub(super) enum Taken {
    /// At least one message.
    Run(Vec<Frame>),
    /// So many are missing here.
    Gap(u64),
    /// Nothing now.
    Nothing,
}

impl Backlog {
    /// Nothing yet.
    pub(super) fn new(overflow: Overflow) -> Self {
        let waiting = match overflow {
            Overflow::DropOldest { capacity } => {
                Waiting::Every { messages: VecDeque::new(), capacity: capacity.get() }
            }
            Overflow::Latest { subjects } => Waiting::Newest(Newest::new(subjects)),
        };
        Self { waiting, last: FIRST, missed: 0, breaks: VecDeque::new(), is_broken: false }
    }

    /// Takes a message in; `gone` gets what has to go for it.
    pub(super) fn push(&mut self, mut frame: Frame, gone: &mut Vec<Frame>) {
        self.last += 1;
        match &mut self.waiting {
            Waiting::Every { messages, capacity } => {
                let is_apart = messages.back().is_none_or(|last| !is_behind(&frame, last));
                if messages.len() >= *capacity {
                    self.missed = self.missed.saturating_add(1);
                    gone.extend(messages.pop_front());
                }
                if messages.len() >= LOOSE_MAX && is_apart {
                    detach(&mut frame);
                }
                messages.push_back(frame);
            }
            Waiting::Newest(newest) => {
                let dropped = newest.push(self.last, frame, gone);
                self.missed = self.missed.saturating_add(u64::from(dropped));
            }
        }
    }

    /// Takes in what was published before, the oldest first: as much as there is room for, and
    /// nothing of the subjects that were heard already.
    pub(super) fn add_samples(&mut self, samples: Vec<Frame>) {
        if let Waiting::Newest(newest) = &mut self.waiting {
            newest.add_samples(samples);
        }
    }

    /// The connection broke here: nobody knows how many messages are missing.
    pub(super) fn note_break(&mut self) {
        self.note_loss();
        self.is_broken = true;
    }

    /// Messages are missing here, nobody knows how many.
    pub(super) fn note_loss(&mut self) {
        if self.breaks.back() != Some(&self.last) {
            self.breaks.push_back(self.last);
        }
        while self.breaks.len() > BREAKS_MAX {
            self.breaks.pop_front();
            self.missed = self.missed.saturating_add(1);
        }
    }

    /// The break is over: whatever is published from now on is heard.
    pub(super) fn note_mended(&mut self) {
        self.is_broken = false;
    }

    /// Takes what is next.
    pub(super) fn take(&mut self) -> Taken {
        let first = self.first();
        while let Some(place) = self.breaks.front()
            && *place < first
        {
            if self.is_broken && self.breaks.len() == 1 {
                return Taken::Nothing;
            }
            self.breaks.pop_front();
            self.missed = self.missed.saturating_add(1);
        }
        if self.missed > 0 {
            return Taken::Gap(std::mem::take(&mut self.missed));
        }
        let to = self.breaks.front().map_or(u64::MAX, |place| *place);
        let run = match &mut self.waiting {
            Waiting::Every { messages, capacity } => {
                take_run(messages, (*capacity / 8).clamp(1, RUN_MAX), to - first)
            }
            Waiting::Newest(newest) => newest.pop().into_iter().collect(),
        };
        if run.is_empty() { Taken::Nothing } else { Taken::Run(run) }
    }

    /// The number of the first that waits, or of the next to come.
    fn first(&self) -> u64 {
        match &self.waiting {
            Waiting::Every { messages, .. } => self.last + 1 - messages.len() as u64,
            Waiting::Newest(newest) => {
                newest.messages.first_key_value().map_or(self.last + 1, |(number, _)| *number)
            }
        }
    }
}

impl Newest {
    fn new(subjects: NonZeroUsize) -> Self {
        Self {
            messages: BTreeMap::new(),
            places: HashMap::new(),
            subjects: subjects.get(),
            samples: HashMap::new(),
        }
    }

    /// Says whether a message of another subject had to go.
    fn push(&mut self, number: u64, mut frame: Frame, gone: &mut Vec<Frame>) -> bool {
        if !self.samples.is_empty()
            && let Some(id) = self.samples.remove(&frame.subject)
            && frame.id == id
        {
            // Servers of a cluster may show a sample before it is heard.
            return false;
        }
        detach(&mut frame);
        match self.places.get_mut(&frame.subject) {
            Some(place) => {
                gone.extend(self.messages.remove(&std::mem::replace(place, number)));
            }
            None => {
                self.places.insert(frame.subject.clone(), number);
            }
        }
        self.messages.insert(number, frame);
        if self.messages.len() <= self.subjects {
            return false;
        }
        gone.extend(self.pop());
        true
    }

    fn add_samples(&mut self, samples: Vec<Frame>) {
        let mut number = FIRST;
        for sample in samples.into_iter().rev() {
            if self.messages.len() >= self.subjects {
                return;
            }
            if self.places.contains_key(&sample.subject) {
                continue;
            }
            self.places.insert(sample.subject.clone(), number);
            self.samples.insert(sample.subject.clone(), sample.id.clone());
            self.messages.insert(number, sample);
            number -= 1;
        }
    }

    fn pop(&mut self) -> Option<Frame> {
        let (_, oldest) = self.messages.pop_first()?;
        self.places.remove(&oldest.subject);
        Some(oldest)
    }
}

/// Takes up to `count_max` messages, and not beyond a break, which is behind `to_break` more than
/// the first.
fn take_run(messages: &mut VecDeque<Frame>, count_max: usize, to_break: u64) -> Vec<Frame> {
    let count_max =
        usize::try_from(to_break).map_or(count_max, |left| count_max.min(left.saturating_add(1)));
    let mut run = Vec::with_capacity(count_max.min(messages.len()));
    let mut bytes = 0;
    while run.len() < count_max
        && bytes < RUN_BYTES_MAX
        && let Some(frame) = messages.pop_front()
    {
        bytes += frame.body.len();
        run.push(frame);
    }
    if messages.is_empty() && messages.capacity() > IDLE_MAX {
        *messages = VecDeque::new();
    }
    run
}

/// Whether the body of `frame` stands in memory close behind that of `last`: then it holds on to
/// little that is not held anyway.
fn is_behind(frame: &Frame, last: &Frame) -> bool {
    let end = last.body.as_ptr().addr().wrapping_add(last.body.len());
    let between = frame.body.as_ptr().addr().wrapping_sub(end);
    between <= frame.body.len().saturating_add(BETWEEN_MAX)
}

/// Gives a small body memory of its own: else it holds on to everything that the client read
/// together with it.
fn detach(frame: &mut Frame) {
    if frame.body.len() <= DETACHED_BYTES_MAX {
        frame.body = Bytes::copy_from_slice(&frame.body);
    }
}

/// The number before that of the first message; samples are numbered downwards from here.
const FIRST: u64 = 1 << 32;
/// How many messages may hold on to what was read with them, which is up to 64 KiB for each.
const LOOSE_MAX: usize = 64;
/// How many bytes may stand between two messages beside as many as the second has: its subject.
const BETWEEN_MAX: usize = 256;
const DETACHED_BYTES_MAX: usize = 8 << 10;
/// How many messages, and about how many bytes, a subscriber takes at a time.
const RUN_MAX: usize = 32;
const RUN_BYTES_MAX: usize = 64 << 10;
/// For how many messages room is kept when none waits.
const IDLE_MAX: usize = 64;
/// How many breaks are told at their own place.
const BREAKS_MAX: usize = 64;

#[cfg(test)]
mod tests;
