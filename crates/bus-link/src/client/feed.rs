//! What a subscription has heard and its subscriber did not take yet.

use std::{
    collections::{BTreeMap, HashMap},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use bus_core::{FeedItem, Frame, Overflow, Result, packed::unpack_frame};
use bus_subjects::Subject;
use bytes::Bytes;
use futures_core::Stream;

use crate::{client::link::Shared, task::Task, wire::Item};

/// A bounded queue of frames; what does not fit goes, the oldest first, and is counted.
pub(crate) struct Feed(Mutex<State>);

struct State {
    overflow: Overflow,
    waiting: BTreeMap<u64, Waiting>,
    /// How many of those that wait are frames.
    frames: usize,
    /// Where the frame of a subject waits, when only the newest does.
    places: HashMap<Subject, u64>,
    last_place: u64,
    /// What went before the first that waits.
    missed: u64,
    has_ended: bool,
    waker: Option<Waker>,
}

enum Waiting {
    Frame(Arc<Frame>),
    Gap(u64),
}

/// The subscriber's side of a feed.
pub(crate) struct Subscriber {
    pub(crate) feed: Arc<Feed>,
    /// Subscribes again when the connection broke.
    pub(crate) _keeper: Task,
    /// The client lives as long as its streams.
    pub(crate) _shared: Arc<Shared>,
}

impl Feed {
    pub(crate) fn new(overflow: Overflow) -> Self {
        Self(Mutex::new(State {
            overflow,
            waiting: BTreeMap::new(),
            frames: 0,
            places: HashMap::new(),
            last_place: 0,
            missed: 0,
            has_ended: false,
            waker: None,
        }))
    }

    /// Takes in what the server has sent.
    ///
    /// # Errors
    /// `Corrupt` when it is no frame.
    pub(crate) fn take_in(&self, item: Item, parts: &[Bytes]) -> Result<()> {
        let frames = match item {
            Item::Frames => parts.iter().map(unpack_frame).collect::<Result<Vec<_>>>()?,
            Item::Gap(missed) => {
                self.miss(missed);
                return Ok(());
            }
            _ => return Ok(()),
        };
        self.change(|state| frames.into_iter().for_each(|frame| state.push(frame)));
        Ok(())
    }

    /// Frames are missing here. Where nobody can know how many, it is at least one.
    pub(crate) fn miss(&self, missed: u64) {
        self.change(|state| {
            if state.waiting.is_empty() {
                state.missed = state.missed.saturating_add(missed);
                return;
            }
            if let Some(mut last) = state.waiting.last_entry()
                && let Waiting::Gap(before) = last.get_mut()
            {
                *before = before.saturating_add(missed);
                return;
            }
            state.put(Waiting::Gap(missed));
        });
    }

    /// Nothing more will come.
    pub(crate) fn end(&self) {
        self.change(|state| state.has_ended = true);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, frame: Frame) {
        let max = match self.overflow {
            Overflow::DropOldest { capacity } => capacity.get(),
            Overflow::Latest { subjects } => {
                let subject = frame.subject.clone();
                let place = self.last_place + 1;
                if let Some(older) = self.places.insert(subject, place) {
                    self.waiting.remove(&older);
                    self.frames -= 1;
                }
                subjects.get()
            }
        };
        self.put(Waiting::Frame(Arc::new(frame)));
        self.frames += 1;
        while self.frames > max
            && let Some((_, oldest)) = self.waiting.pop_first()
        {
            match oldest {
                Waiting::Gap(missed) => self.missed = self.missed.saturating_add(missed),
                Waiting::Frame(frame) => {
                    self.gone(&frame);
                    self.missed = self.missed.saturating_add(1);
                }
            }
        }
    }

    fn put(&mut self, waiting: Waiting) {
        self.last_place += 1;
        self.waiting.insert(self.last_place, waiting);
    }

    fn gone(&mut self, frame: &Frame) {
        self.frames -= 1;
        if matches!(self.overflow, Overflow::Latest { .. }) {
            self.places.remove(&frame.subject);
        }
    }

    fn pop(&mut self) -> Option<FeedItem> {
        // Gaps that meet here are one.
        while let Some(first) = self.waiting.first_entry()
            && let Waiting::Gap(missed) = first.get()
        {
            self.missed = self.missed.saturating_add(*missed);
            first.remove();
        }
        if self.missed > 0 {
            return Some(FeedItem::Gap { missed: std::mem::take(&mut self.missed) });
        }
        match self.waiting.pop_first() {
            Some((_, Waiting::Frame(frame))) => {
                self.gone(&frame);
                Some(FeedItem::Frame(frame.into()))
            }
            _ => None,
        }
    }
}

impl Stream for Subscriber {
    type Item = FeedItem;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<FeedItem>> {
        let budget = std::task::ready!(tokio::task::coop::poll_proceed(cx));
        let mut state = self.feed.lock();
        if let Some(item) = state.pop() {
            budget.made_progress();
            return Poll::Ready(Some(item));
        }
        if state.has_ended {
            return Poll::Ready(None);
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}
