//! What subscribers and readers hold: streams in which loss is an item, never silence.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bus_envelope::Timestamp;
use futures_core::Stream;

use crate::{Frame, Result, Segment, SegmentRun, Seq};

/// Live frames of one subscription.
///
/// Dropping it ends the subscription.
#[must_use = "a dropped subscription hears nothing"]
pub struct Subscription {
    engine: Pin<Box<dyn Stream<Item = FeedBatch> + Send>>,
    run: Option<SegmentRun>,
    /// An item that the engine gave and the subscriber did not take yet.
    item: Option<FeedItem>,
    /// The frame that the subscriber reads in place.
    read: Option<SharedFrame>,
}

/// What an engine gives a subscription at a time.
#[derive(Debug)]
pub enum FeedBatch {
    /// Frames that stand together in the engine's log.
    Run(SegmentRun),
    /// One item.
    Item(FeedItem),
}

/// As [`FeedItem`], read in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedRef<'a> {
    /// A frame.
    Frame(&'a Frame),
    /// The subscriber was too slow, as in [`FeedItem::Gap`].
    Gap {
        /// How many frames are missing at this place; at least 1.
        missed: u64,
    },
}

/// What a subscription yields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedItem {
    /// A frame, shared with the other subscribers that hear it.
    Frame(SharedFrame),
    /// The subscriber was too slow: this many frames were dropped here, the oldest first.
    Gap {
        /// How many frames are missing at this place; at least 1.
        missed: u64,
    },
}

/// A frame that several subscribers read in place.
///
/// It may keep frames that were published near it in memory, at most 32 and at most 64 KiB beside
/// the largest of them: who keeps frames for long takes them by
/// [`into_frame`](SharedFrame::into_frame).
#[derive(Clone)]
pub struct SharedFrame(Source);

/// Where the shared frame is.
#[derive(Clone)]
enum Source {
    Own(Arc<Frame>),
    Placed { segment: Arc<Segment>, at: usize },
}

/// Stored messages, read in order.
#[must_use = "a replay reads nothing until it is polled"]
pub struct Replay(Pin<Box<dyn Stream<Item = Result<Stored>> + Send>>);

/// A message as its stream keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The frame.
    pub frame: Frame,
    /// Its position.
    pub seq: Seq,
    /// When the engine stored it.
    pub time: Timestamp,
}

impl SharedFrame {
    /// The frame by itself; copied when others still read it.
    #[must_use]
    pub fn into_frame(self) -> Frame {
        match self.0 {
            Source::Own(frame) => Arc::unwrap_or_clone(frame),
            Source::Placed { segment, at } => segment.at(at).clone(),
        }
    }

    /// The frame at a filled place of a segment.
    #[inline]
    pub(crate) fn placed(segment: Arc<Segment>, at: usize) -> Self {
        Self(Source::Placed { segment, at })
    }
}

impl std::ops::Deref for SharedFrame {
    type Target = Frame;

    #[inline]
    fn deref(&self) -> &Frame {
        match &self.0 {
            Source::Own(frame) => frame,
            Source::Placed { segment, at } => segment.at(*at),
        }
    }
}

impl PartialEq for SharedFrame {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for SharedFrame {}

impl std::fmt::Debug for SharedFrame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SharedFrame").field(&**self).finish()
    }
}

impl From<Frame> for SharedFrame {
    fn from(frame: Frame) -> Self {
        Self(Source::Own(Arc::new(frame)))
    }
}

impl From<Arc<Frame>> for SharedFrame {
    fn from(frame: Arc<Frame>) -> Self {
        Self(Source::Own(frame))
    }
}

impl Subscription {
    /// Wraps an engine's stream of single items.
    pub fn new(stream: impl Stream<Item = FeedItem> + Send + 'static) -> Self {
        Self::of_batches(Items(Box::pin(stream)))
    }

    /// Wraps an engine's stream of whole runs, which is quicker for both sides.
    ///
    /// A run costs the engine one call, however many frames it has: an engine that lets its
    /// subscribers give way to other tasks counts the frames of a run.
    pub fn of_batches(stream: impl Stream<Item = FeedBatch> + Send + 'static) -> Self {
        Self { engine: Box::pin(stream), run: None, item: None, read: None }
    }

    /// The next item; `None` when the bus was closed. Cancel safe.
    ///
    /// An engine may let other tasks run before it looks, so a single poll may find nothing
    /// although a frame waits: to be awaited, not tried.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "there is no other word for it in streams")]
    pub fn next(&mut self) -> Next<'_> {
        Next(self)
    }

    /// The next item, to be read in place: quicker than [`next`](Self::next) where frames are not
    /// kept. `None` when the bus was closed. Cancel safe.
    #[inline]
    pub fn next_ref(&mut self) -> NextRef<'_> {
        NextRef(Some(self))
    }

    /// The engine's next batch as it gives it, for a step between the two: for a subscription of
    /// which no item was read.
    pub(crate) fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Option<FeedBatch>> {
        self.engine.as_mut().poll_next(cx)
    }

    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Option<FeedItem>> {
        loop {
            if let Some(run) = &mut self.run {
                let frame = run.take();
                if run.is_empty() {
                    self.run = None;
                }
                if let Some(frame) = frame {
                    return Poll::Ready(Some(FeedItem::Frame(frame)));
                }
            }
            if ready!(self.poll_engine(cx)).is_none() {
                return Poll::Ready(None);
            }
            if let Some(item) = self.item.take() {
                return Poll::Ready(Some(item));
            }
        }
    }

    #[inline]
    fn item_at_hand(&mut self) -> Option<FeedRef<'_>> {
        if let Some(run) = &mut self.run {
            return run.read().map(FeedRef::Frame);
        }
        match self.item.take()? {
            FeedItem::Frame(frame) => Some(FeedRef::Frame(self.read.insert(frame))),
            FeedItem::Gap { missed } => Some(FeedRef::Gap { missed }),
        }
    }

    /// Has a run or an item at hand when it is ready; `None` when there will be no more.
    fn poll_engine(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        while self.item.is_none() && self.run.is_none() {
            match ready!(self.engine.as_mut().poll_next(cx)) {
                None => return Poll::Ready(None),
                Some(FeedBatch::Item(item)) => self.item = Some(item),
                Some(FeedBatch::Run(run)) => self.run = Some(run).filter(|run| !run.is_empty()),
            }
        }
        Poll::Ready(Some(()))
    }
}

impl Stream for Subscription {
    type Item = FeedItem;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<FeedItem>> {
        self.poll_item(cx)
    }
}

/// The next item of a [`Subscription`].
///
/// A type of its own, because what an async function does is never inlined, and the item would go
/// through memory twice.
#[derive(Debug)]
#[must_use = "nothing is read until it is awaited"]
pub struct Next<'a>(&'a mut Subscription);

/// The next item of a [`Subscription`], read in place.
#[derive(Debug)]
#[must_use = "nothing is read until it is awaited"]
pub struct NextRef<'a>(Option<&'a mut Subscription>);

impl Future for Next<'_> {
    type Output = Option<FeedItem>;

    // Always: else the item is written to memory here and read again where it is awaited, which
    // costs more than all the rest of it.
    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<FeedItem>> {
        match self.0.run.as_mut().and_then(SegmentRun::take_middle) {
            Some(frame) => Poll::Ready(Some(FeedItem::Frame(frame))),
            None => self.0.poll_item(cx),
        }
    }
}

impl<'a> Future for NextRef<'a> {
    type Output = Option<FeedRef<'a>>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<FeedRef<'a>>> {
        let Some(subscription) = self.0.as_deref_mut() else { return Poll::Ready(None) };
        if subscription.run.as_ref().is_none_or(SegmentRun::is_empty) {
            (subscription.run, subscription.read) = (None, None);
            if ready!(subscription.poll_engine(cx)).is_none() {
                return Poll::Ready(None);
            }
        }
        // Ready now: the item is borrowed for as long as the subscription was.
        Poll::Ready(self.0.take().and_then(Subscription::item_at_hand))
    }
}

/// A stream of items as batches of one.
struct Items<S>(Pin<Box<S>>);

impl<S: Stream<Item = FeedItem>> Stream for Items<S> {
    type Item = FeedBatch;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<FeedBatch>> {
        self.0.as_mut().poll_next(cx).map(|item| item.map(FeedBatch::Item))
    }
}

impl Replay {
    /// Wraps an engine's stream.
    pub fn new(stream: impl Stream<Item = Result<Stored>> + Send + 'static) -> Self {
        Self(Box::pin(stream))
    }

    /// The next message; `None` after the last one. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Stored>> {
        std::future::poll_fn(|cx| self.0.as_mut().poll_next(cx)).await
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Subscription")
    }
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Replay")
    }
}
