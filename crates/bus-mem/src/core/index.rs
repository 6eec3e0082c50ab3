//! What a stream knows about each subject: how many messages it holds and which is the last.

use std::collections::{HashMap, VecDeque};

use bus_subjects::{Filter, Subject};
use foldhash::fast::RandomState;

use super::window::Window;

/// Positions by subject. A subject without messages takes no room, but for the first few.
#[derive(Debug)]
pub(crate) struct SubjectIndex {
    places: HashMap<Subject, u64, RandomState>,
    positions: Window<Positions>,
}

/// Where a subject stands in the index, as long as it has messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SubjectPlace(u64);

/// Positions in order; those of removed messages stay as long as they lie between two others.
#[derive(Debug, Default)]
struct Positions {
    seqs: VecDeque<u64>,
    count: u64,
}

impl Default for SubjectIndex {
    fn default() -> Self {
        Self { places: HashMap::default(), positions: Window::starting_at(0) }
    }
}

impl SubjectIndex {
    /// How many messages are stored under `subject`.
    pub(crate) fn count(&self, subject: &Subject) -> u64 {
        self.get(subject).map_or(0, |positions| positions.count)
    }

    /// The position of the first message stored under `subject`; 0 when there is none.
    pub(crate) fn first(&self, subject: &Subject) -> u64 {
        self.get(subject).and_then(|positions| positions.seqs.front().copied()).unwrap_or(0)
    }

    /// The position of the last message stored under `subject`; 0 when there is none.
    pub(crate) fn last(&self, subject: &Subject) -> u64 {
        self.get(subject).and_then(|positions| positions.seqs.back().copied()).unwrap_or(0)
    }

    /// How many messages are stored under `filter`, and the position of the first one: past
    /// the end when there is none.
    pub(crate) fn count_matching(&self, filter: &Filter) -> (u64, u64) {
        let (mut count, mut first) = (0, u64::MAX);
        let places = self.places.iter().filter(|(subject, _)| filter.matches(subject));
        for positions in places.filter_map(|(_, &place)| self.positions.get(place)) {
            count += positions.count;
            first = positions.seqs.front().map_or(first, |&mine| first.min(mine));
        }
        (count, first)
    }

    /// The positions under `subject` from `seq` on; some may be of removed messages.
    pub(crate) fn from(&self, subject: &Subject, seq: u64) -> impl Iterator<Item = u64> + '_ {
        let positions = self.get(subject).map(|positions| &positions.seqs);
        positions.into_iter().flat_map(move |seqs| {
            let start = seqs.partition_point(|&at| at < seq);
            seqs.range(start..).copied()
        })
    }

    /// Notes that the newest message lies under `subject` at `seq`; returns what removes it.
    pub(crate) fn push(&mut self, subject: &Subject, seq: u64) -> SubjectPlace {
        let place = match self.places.get(subject) {
            Some(&place) => place,
            None => self.add(subject),
        };
        if let Some(positions) = self.positions.get_mut(place) {
            positions.seqs.push_back(seq);
            positions.count += 1;
        }
        SubjectPlace(place)
    }

    /// Notes that the message at `seq` went, which lay under `subject`, at `place`; `is_stored`
    /// tells which are left.
    #[inline]
    pub(crate) fn remove(
        &mut self,
        (subject, SubjectPlace(place)): (&Subject, SubjectPlace),
        seq: u64,
        is_stored: impl Fn(u64) -> bool,
    ) {
        // A queue that runs empty between any two tasks would make its entry anew for each.
        let keep = self.places.len() <= KEPT;
        let Some(positions) = self.positions.get_mut(place) else { return };
        positions.count = positions.count.saturating_sub(1);
        if positions.count == 0 {
            positions.seqs.clear();
            positions.seqs.shrink_to(SLACK as usize);
            if !keep && self.places.remove(subject).is_some() {
                self.positions.take(place);
            }
            return;
        }
        let seqs = &mut positions.seqs;
        if seqs.front() == Some(&seq) && seqs.len() as u64 == positions.count + 1 {
            // The first of a queue without holes, as with most work.
            seqs.pop_front();
            return;
        }
        while seqs.front().is_some_and(|&seq| !is_stored(seq)) {
            seqs.pop_front();
        }
        while seqs.back().is_some_and(|&seq| !is_stored(seq)) {
            seqs.pop_back();
        }
        if seqs.len() as u64 > positions.count.saturating_mul(2).saturating_add(SLACK) {
            seqs.retain(|&seq| is_stored(seq));
        }
    }

    fn get(&self, subject: &Subject) -> Option<&Positions> {
        self.positions.get(*self.places.get(subject)?)
    }

    fn add(&mut self, subject: &Subject) -> u64 {
        let place = self.positions.push(Positions::default());
        self.places.insert(subject.clone(), place);
        place
    }
}

/// The one subject of a filter without wildcards.
pub(crate) fn literal(filter: &Filter) -> Option<Subject> {
    if filter.is_literal() { Subject::parse(filter.as_str()).ok() } else { None }
}

/// Positions of removed messages that are never worth a clean-up.
const SLACK: u64 = 32;

/// Up to this many subjects, those without messages keep their entry.
const KEPT: usize = 64;
