//! Who appends to a stream now and who waits for it, without any I/O.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bus_core::{Frame, Receipt, Result, StreamSpec};
use bus_subjects::StreamName;
use tokio::sync::{Notify, oneshot};

/// The lines of all streams.
#[derive(Default)]
pub(super) struct Lines(Mutex<HashMap<StreamName, Arc<Line>>>);

/// Those who append to one stream: a few go alone, the others gather until a group of them goes.
pub(super) struct Line {
    /// The stream.
    pub(super) stream: StreamName,
    /// Whether its subjects have a bound of their own.
    is_bounded: bool,
    state: Mutex<State>,
    /// As many wait as were [wanted](Line::gathers).
    gathered: Notify,
}

/// What becomes of who enters a line.
pub(super) enum Entered {
    /// Goes at once, and must [leave](Line::leave).
    Alone(Frame),
    /// Waits for its answer, and [gives its place up](Line::give_up) when it does so no longer.
    Waits(u64, oneshot::Receiver<Result<Receipt>>),
}

/// One who waits.
pub(super) struct Waiting {
    place: u64,
    /// What is to be stored.
    pub(super) frame: Frame,
    answer: oneshot::Sender<Result<Receipt>>,
}

#[derive(Default)]
struct State {
    /// How many go alone now.
    alone: usize,
    /// Whether somebody sends groups.
    is_served: bool,
    /// In the order of their places.
    waiting: VecDeque<Waiting>,
    place_next: u64,
    /// How many the service would like to wait; none when it does not care.
    wanted: Option<usize>,
}

impl Lines {
    /// The line of the stream `spec`.
    pub(super) fn of(&self, spec: &StreamSpec) -> Arc<Line> {
        let stream = &spec.name;
        let is_bounded = has_bounded_subjects(spec);
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A stream made anew after it was deleted may have other bounds.
        if let Some(line) = lines.get(stream).filter(|line| line.is_bounded == is_bounded) {
            return Arc::clone(line);
        }
        let line = Arc::new(Line {
            stream: stream.clone(),
            is_bounded,
            state: Mutex::default(),
            gathered: Notify::new(),
        });
        lines.insert(stream.clone(), Arc::clone(&line));
        line
    }
}

impl Line {
    /// Goes alone while few do and nobody waits, else waits for a group.
    pub(super) fn enter(&self, frame: Frame) -> Entered {
        let mut state = self.lock();
        if state.alone < ALONE_MAX && !state.is_served && state.waiting.is_empty() {
            state.alone += 1;
            return Entered::Alone(frame);
        }
        let (answer, answered) = oneshot::channel();
        let place = state.place_next;
        state.place_next += 1;
        state.waiting.push_back(Waiting { place, frame, answer });
        if state.wanted.is_some_and(|wanted| state.waiting.len() >= wanted) {
            state.wanted = None;
            self.gathered.notify_one();
        }
        Entered::Waits(place, answered)
    }

    /// Ends a turn alone; `true` when the caller must see to it that the others are served.
    #[must_use]
    pub(super) fn leave(&self) -> bool {
        let mut state = self.lock();
        state.alone = state.alone.saturating_sub(1);
        let needs_service = !state.is_served && !state.waiting.is_empty();
        state.is_served |= needs_service;
        needs_service
    }

    /// Gives up a place: what was not sent yet never is.
    pub(super) fn give_up(&self, place: u64) {
        let mut state = self.lock();
        if let Ok(at) = state.waiting.binary_search_by_key(&place, |one| one.place) {
            state.waiting.remove(at);
        }
    }

    /// Waits until `count` wait. Dropped: nothing is lost, it just does not know.
    pub(super) async fn gathers(&self, count: usize) {
        {
            let mut state = self.lock();
            if state.waiting.len() >= count {
                return;
            }
            state.wanted = Some(count);
        }
        self.gathered.notified().await;
    }

    /// The next ones to be sent together; none when nobody waits, and then nobody is served.
    pub(super) fn next_group(&self) -> Option<Vec<Waiting>> {
        let mut state = self.lock();
        if state.waiting.is_empty() {
            state.is_served = false;
            return None;
        }
        let mut group: Vec<Waiting> = Vec::new();
        let (mut bytes, mut ids, mut subjects) = (0, HashSet::new(), HashSet::new());
        while let Some(next) = state.waiting.front() {
            let next_bytes = next.frame.bytes();
            let is_large = next_bytes > LARGE_BYTES;
            bytes += next_bytes;
            // A batch that holds an id twice is refused: the second copy goes with the next one.
            let fits = group.len() < Frame::BATCH_MAX
                && bytes <= GROUP_BYTES_MAX
                && !is_large
                && !ids.contains(&next.frame.id)
                && !subjects.contains(&next.frame.subject);
            if !group.is_empty() && !fits {
                break;
            }
            ids.insert(next.frame.id.clone());
            if self.is_bounded {
                subjects.insert(next.frame.subject.clone());
            }
            group.extend(state.waiting.pop_front());
            if is_large {
                break;
            }
        }
        Some(group)
    }

    /// Nobody serves any more: who waits is told that it will never be.
    pub(super) fn abandon(&self) {
        let mut state = self.lock();
        state.is_served = false;
        state.waiting.clear();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a subject can be full before its stream is. Measured on 2.15.1: of a batch with several
/// messages of a subject that has room for some of them, the server now and then stores a part and
/// answers nothing. One message of each such subject is told apart rightly.
pub(super) fn has_bounded_subjects(spec: &StreamSpec) -> bool {
    spec.messages_per_subject_max < spec.messages_max
}

impl Waiting {
    /// Tells what became of it, if anybody still wants to know.
    pub(super) fn tell(self, answer: Result<Receipt>) {
        let _gone = self.answer.send(answer);
    }
}

/// What a server that syncs every write takes at most, or nearly so, when it gets them one by one.
const ALONE_MAX: usize = 16;
/// Frames beyond it gain nothing by company.
const LARGE_BYTES: usize = 128 << 10;
/// The server keeps a batch in its memory until it is whole.
const GROUP_BYTES_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests;
