//! The live plane: one table match, then a push into the queue of each subscription.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use bus_core::{Error, ErrorKind, Frame, Result};
use bus_subjects::{Filter, SubjectTable};

use crate::{
    Limits, LiveStats,
    core::{FeedCounts, FeedQueue, Popped},
};

/// Every live subscription of one broker.
#[derive(Debug)]
pub(crate) struct Live {
    limits: Limits,
    subscriptions: RwLock<Subscriptions>,
    /// How many subscriptions there are, so that a bus nobody listens to pays for no look-up.
    count: AtomicUsize,
    published: AtomicU64,
}

#[derive(Debug, Default)]
struct Subscriptions {
    table: SubjectTable<Arc<Feed>>,
    feeds: HashMap<u64, Member>,
    last_id: u64,
    /// What the subscriptions that ended since had counted.
    ended: FeedCounts,
}

#[derive(Debug)]
struct Member {
    key: bus_subjects::TableKey,
    feed: Arc<Feed>,
    connection: u64,
}

/// The queue of one subscription with the task that waits for it.
#[derive(Debug)]
pub(crate) struct Feed(Mutex<FeedState>);

#[derive(Debug)]
struct FeedState {
    queue: FeedQueue,
    waker: Option<Waker>,
    open: bool,
}

impl Live {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            subscriptions: RwLock::default(),
            count: AtomicUsize::new(0),
            published: AtomicU64::new(0),
        }
    }

    /// Hands `frame` to every subscription that matches, and returns how many heard it.
    pub(crate) fn publish(&self, frame: Frame) -> usize {
        self.published.fetch_add(1, Ordering::Relaxed);
        self.hand_out(frame)
    }

    /// Whether there is any subscription.
    pub(crate) fn is_heard(&self) -> bool {
        // Acquire: a subscription that was there before this call must be seen by it.
        self.count.load(Ordering::Acquire) > 0
    }

    /// As `publish`, for a frame that somebody else counts.
    pub(crate) fn hand_out(&self, frame: Frame) -> usize {
        if !self.is_heard() {
            return 0;
        }
        let frame = Arc::new(frame);
        let mut heard = 0;
        let mut wakers = Vec::new();
        {
            let subscriptions = self.subscriptions.read().unwrap_or_else(PoisonError::into_inner);
            subscriptions.table.for_each_match(&frame.subject, |feed| {
                let mut state = feed.lock();
                if state.open {
                    state.queue.push(Arc::clone(&frame));
                    wakers.extend(state.waker.take());
                    heard += 1;
                }
            });
        }
        // Outside the locks: a waker may run anything, the drop of a subscription included.
        wakers.into_iter().for_each(Waker::wake);
        heard
    }

    /// Adds a subscription for `connection` and returns its id and queue.
    pub(crate) fn add(
        &self,
        filter: Filter,
        queue: FeedQueue,
        connection: u64,
    ) -> Result<(u64, Arc<Feed>)> {
        let state = FeedState { queue, waker: None, open: true };
        let feed = Arc::new(Feed(Mutex::new(state)));
        let mut subscriptions = self.write();
        let subscriptions_max = self.limits.subscriptions_max;
        if subscriptions.feeds.len() >= subscriptions_max {
            let why = format!("{subscriptions_max} subscriptions are held already");
            return Err(Error::new(ErrorKind::Full, "subscribe", why).at(filter));
        }
        let key = subscriptions.table.insert(filter, Arc::clone(&feed));
        subscriptions.last_id += 1;
        let id = subscriptions.last_id;
        let member = Member { key, feed: Arc::clone(&feed), connection };
        subscriptions.feeds.insert(id, member);
        self.count.fetch_add(1, Ordering::Release);
        Ok((id, feed))
    }

    /// Ends the subscription `id`; what it did not take counts as dropped.
    pub(crate) fn remove(&self, id: u64) {
        let mut subscriptions = self.write();
        let Some(Member { key, feed, .. }) = subscriptions.feeds.remove(&id) else { return };
        subscriptions.table.remove(key);
        self.count.fetch_sub(1, Ordering::Release);
        let mut state = feed.lock();
        state.open = false;
        let mut counts = state.queue.counts();
        counts.dropped += state.queue.len() as u64;
        subscriptions.ended.add(counts);
    }

    /// Lets the subscriptions of `connection` end after what they hold.
    pub(crate) fn close(&self, connection: u64) {
        let mut wakers = Vec::new();
        {
            let subscriptions = self.subscriptions.read().unwrap_or_else(PoisonError::into_inner);
            for member in subscriptions.feeds.values() {
                if member.connection == connection {
                    let mut state = member.feed.lock();
                    state.open = false;
                    wakers.extend(state.waker.take());
                }
            }
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn stats(&self) -> LiveStats {
        let subscriptions = self.subscriptions.read().unwrap_or_else(PoisonError::into_inner);
        let mut counts = subscriptions.ended;
        let mut waiting = 0;
        for member in subscriptions.feeds.values() {
            let state = member.feed.lock();
            counts.add(state.queue.counts());
            waiting += state.queue.len() as u64;
        }
        LiveStats {
            published: self.published.load(Ordering::Relaxed),
            offered: counts.offered,
            delivered: counts.delivered,
            dropped: counts.dropped,
            superseded: counts.superseded,
            waiting,
            subscriptions: subscriptions.feeds.len() as u64,
        }
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Subscriptions> {
        self.subscriptions.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Feed {
    /// The next item; `None` once the subscription was closed and everything was taken.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Option<Popped>> {
        let mut state = self.lock();
        if let Some(item) = state.queue.pop() {
            return Poll::Ready(Some(item));
        }
        if !state.open {
            return Poll::Ready(None);
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, FeedState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
