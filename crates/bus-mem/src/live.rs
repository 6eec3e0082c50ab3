//! The live plane: one look-up by subject, then one append for each filter that matches.

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    sync::{
        Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicUsize, Ordering},
    },
};

use bus_core::{
    Clock, Error, ErrorKind, Frame, Result, SegmentFrame, planes::latest_value_filters,
};
use bus_subjects::{Filter, SubjectTable, TableKey};

use crate::{
    Limits, LiveStats,
    aftermath::Aftermath,
    channel::{Bed, Channel},
    core::{CursorKey, FeedCounts, FeedQueue, FeedSamples, Heard},
    feed::Feed,
    routes::{Routes, Target},
};

/// Every live subscription of one broker.
///
/// Locks are taken in this order: the samples, a place of the routes, the subscriptions, a channel
/// or feed. No two of one kind are held together.
pub(crate) struct Live {
    limits: Limits,
    clock: Arc<dyn Clock>,
    subscriptions: RwLock<Subscriptions>,
    /// How many subscriptions there are, so that storing looks no further when nobody hears.
    count: AtomicUsize,
    routes: Routes,
    sampled: Vec<Filter>,
    samples: Mutex<FeedSamples>,
}

#[derive(Debug, Default)]
struct Subscriptions {
    table: SubjectTable<Target>,
    channels: HashMap<Filter, (TableKey, Arc<Channel>)>,
    queues: HashMap<TableKey, Queue>,
    held: usize,
    /// What the subscriptions that ended since had counted.
    ended: FeedCounts,
}

#[derive(Debug)]
struct Queue {
    feed: Arc<Feed>,
    filter: Filter,
    connection: u64,
}

impl Live {
    pub(crate) fn new(limits: Limits, clock: Arc<dyn Clock>) -> Self {
        // They are constants, which a test of theirs reads.
        let sampled = latest_value_filters().unwrap_or_default();
        let mut subscriptions = Subscriptions::default();
        for filter in &sampled {
            subscriptions.table.insert(filter.clone(), Target::Sample);
        }
        Self {
            limits,
            clock,
            subscriptions: RwLock::new(subscriptions),
            count: AtomicUsize::new(0),
            routes: Routes::new(),
            sampled,
            samples: Mutex::default(),
        }
    }

    /// Hands `frame` to every subscription that matches; it stays with the caller when nobody hears
    /// it, and when others share it.
    #[inline]
    pub(crate) fn publish(&self, frame: &mut Option<SegmentFrame>) -> Heard {
        self.send(frame, true)
    }

    /// Whether there is any subscription.
    fn is_heard(&self) -> bool {
        // Acquire: a subscription that was there before this call must be seen by it.
        self.count.load(Ordering::Acquire) > 0
    }

    /// As `publish`, for a frame that was stored: it is not counted, and never a sample.
    pub(crate) fn hand_out(&self, frame: Arc<Frame>) {
        if self.is_heard() {
            self.send(&mut Some(SegmentFrame::Shared(frame)), false);
        }
    }

    /// Adds a subscription to every frame of `filter` for `connection`.
    pub(crate) fn join(
        &self,
        filter: Filter,
        capacity: NonZeroUsize,
        connection: u64,
    ) -> Result<(Arc<Channel>, CursorKey)> {
        let mut subscriptions = self.write();
        self.hold_one_more(&mut subscriptions, &filter)?;
        let known = subscriptions.channels.get(&filter).map(|(_, channel)| Arc::clone(channel));
        let channel = known.unwrap_or_else(|| {
            let channel = Arc::new(Channel::new(filter.clone()));
            let target = Target::Log(Arc::clone(&channel));
            let key = subscriptions.table.insert(filter.clone(), target);
            subscriptions.channels.insert(filter.clone(), (key, Arc::clone(&channel)));
            channel
        });
        // Under the lock, so that the channel cannot lose its last subscriber meanwhile.
        let cursor = channel.join(connection, capacity);
        drop(subscriptions);
        self.routes.cut(&filter);
        Ok((channel, cursor))
    }

    /// Adds a subscription with a queue of its own.
    pub(crate) fn add(
        &self,
        filter: Filter,
        queue: FeedQueue,
        connection: u64,
    ) -> Result<(TableKey, Arc<Feed>)> {
        let feed = Arc::new(Feed::new(queue));
        let mut subscriptions = self.write();
        self.hold_one_more(&mut subscriptions, &filter)?;
        let target = Target::Queue(Arc::clone(&feed));
        let key = subscriptions.table.insert(filter.clone(), target);
        let queue = Queue { feed: Arc::clone(&feed), filter: filter.clone(), connection };
        subscriptions.queues.insert(key, queue);
        drop(subscriptions);
        self.routes.cut(&filter);
        Ok((key, feed))
    }

    /// As [`add`](Self::add), for the newest frame of each subject, with the samples there are.
    pub(crate) fn add_latest(
        &self,
        filter: Filter,
        subjects: NonZeroUsize,
        connection: u64,
    ) -> Result<(TableKey, Arc<Feed>)> {
        let mut queue = FeedQueue::latest(subjects);
        if !self.sampled.iter().any(|sampled| sampled.overlaps(&filter)) {
            return self.add(filter, queue, connection);
        }
        // Samples are published under this lock as well: each is either there already or heard.
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        // Before anything is heard: what is stored meanwhile is newer, and comes without the lock.
        for sample in samples.matching(&filter, subjects.get(), self.clock.now()) {
            // None goes for it: they are of different subjects, and not too many.
            queue.push(sample);
        }
        self.add(filter, queue, connection)
    }

    /// Ends a subscription of `channel`; what it did not take counts as dropped.
    pub(crate) fn leave(&self, channel: &Channel, cursor: CursorKey, bed: Option<Bed>) {
        let mut aftermath = Aftermath::default();
        let mut subscriptions = self.write();
        let (counts, last) = channel.leave(cursor, bed, &mut aftermath);
        subscriptions.ended.add(counts);
        subscriptions.held -= 1;
        if last && let Some((key, _)) = subscriptions.channels.remove(channel.filter()) {
            subscriptions.table.remove(key);
        }
        drop(subscriptions);
        self.count.fetch_sub(1, Ordering::Release);
        if last {
            self.routes.cut(channel.filter());
        }
        aftermath.settle();
    }

    /// Ends the subscription with the queue `key`; what it did not take counts as dropped.
    pub(crate) fn remove(&self, key: TableKey) {
        let mut aftermath = Aftermath::default();
        let mut subscriptions = self.write();
        let Some(queue) = subscriptions.queues.remove(&key) else { return };
        subscriptions.table.remove(key);
        subscriptions.ended.add(queue.feed.end(&mut aftermath));
        subscriptions.held -= 1;
        drop(subscriptions);
        self.count.fetch_sub(1, Ordering::Release);
        self.routes.cut(&queue.filter);
        aftermath.settle();
    }

    /// Lets the subscriptions of `connection` end after what they hold.
    pub(crate) fn close(&self, connection: u64) {
        let mut aftermath = Aftermath::default();
        let subscriptions = self.read();
        for (_, channel) in subscriptions.channels.values() {
            channel.close(connection, &mut aftermath);
        }
        for queue in subscriptions.queues.values().filter(|q| q.connection == connection) {
            queue.feed.close(&mut aftermath);
        }
        drop(subscriptions);
        aftermath.settle();
    }

    pub(crate) fn stats(&self) -> LiveStats {
        let published = self.routes.published();
        let subscriptions = self.read();
        let (mut counts, mut waiting) = (subscriptions.ended, 0);
        let of_channels = subscriptions.channels.values().map(|(_, channel)| channel.counts());
        let of_queues = subscriptions.queues.values().map(|queue| queue.feed.counts());
        for (more, waits) in of_channels.chain(of_queues) {
            counts.add(more);
            waiting += waits;
        }
        LiveStats {
            published,
            offered: counts.offered,
            delivered: counts.delivered,
            dropped: counts.dropped,
            superseded: counts.superseded,
            waiting,
            subscriptions: subscriptions.held as u64,
        }
    }

    #[inline]
    fn send(&self, frame: &mut Option<SegmentFrame>, published: bool) -> Heard {
        let Some(subject) = frame.as_ref().map(|frame| &frame.frame().subject) else {
            return Heard::NOBODY;
        };
        let Some(mut route) = self.routes.place(subject) else { return Heard::NOBODY };
        if published {
            route.count();
        }
        let generation = self.routes.generation();
        if !route.leads(subject, generation) {
            route.lead(subject, generation, &self.read().table);
        }
        if published && route.is_sampled() {
            drop(route);
            return self.send_sample(frame);
        }
        let mut aftermath = Aftermath::default();
        let heard = route.hand_out(frame, &mut aftermath);
        drop(route);
        aftermath.settle();
        heard
    }

    /// Hands out `frame` and keeps it, as one step for those who subscribe meanwhile.
    fn send_sample(&self, frame: &mut Option<SegmentFrame>) -> Heard {
        let Some(frame) = frame.take().map(SegmentFrame::into_shared) else {
            return Heard::NOBODY;
        };
        let mut aftermath = Aftermath::default();
        let now = self.clock.now();
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let mut heard = Heard::NOBODY;
        self.read().table.for_each_match(&frame.subject, |target| {
            heard = heard.and(target.offer(&frame, &mut aftermath));
        });
        samples.keep(frame, now, &mut aftermath);
        drop(samples);
        aftermath.settle();
        heard
    }

    /// Makes room for one more subscription, within the limit.
    fn hold_one_more(&self, subscriptions: &mut Subscriptions, filter: &Filter) -> Result<()> {
        let subscriptions_max = self.limits.subscriptions_max;
        if subscriptions.held >= subscriptions_max {
            let why = format!("{subscriptions_max} subscriptions are held already");
            return Err(Error::new(ErrorKind::Full, "subscribe", why).at(filter.clone()));
        }
        subscriptions.held += 1;
        self.count.fetch_add(1, Ordering::Release);
        Ok(())
    }

    fn read(&self) -> RwLockReadGuard<'_, Subscriptions> {
        self.subscriptions.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Subscriptions> {
        self.subscriptions.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("subscriptions", &self.count).finish_non_exhaustive()
    }
}
