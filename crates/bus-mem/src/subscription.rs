//! What a subscriber or an asker holds of its queue; dropping it ends the subscription.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
};

use bus_core::{FeedItem, Frame, Overflow, Result};
use bus_subjects::Filter;
use futures_core::Stream;
use tokio::task::coop::consume_budget;

use crate::{
    core::{FeedQueue, Popped},
    live::{Feed, Live},
};

/// One end of a live subscription.
#[derive(Debug)]
pub(crate) struct FeedStream {
    live: Arc<Live>,
    feed: Arc<Feed>,
    id: u64,
}

impl FeedStream {
    /// Subscribes to `filter` for `connection`; in force when this returns.
    pub(crate) fn open(
        live: &Arc<Live>,
        filter: Filter,
        overflow: Overflow,
        connection: u64,
    ) -> Result<Self> {
        Self::with(live, filter, FeedQueue::new(overflow), connection)
    }

    /// Waits on `filter` for one frame.
    pub(crate) fn for_answer(live: &Arc<Live>, filter: Filter, connection: u64) -> Result<Self> {
        Self::with(live, filter, FeedQueue::first_only(), connection)
    }

    /// The next frame, gaps passed over; `None` when the bus was closed. Cancel safe.
    pub(crate) async fn next_frame(&mut self) -> Option<Frame> {
        loop {
            match std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await? {
                FeedItem::Frame(frame) => return Some(frame.into_frame()),
                FeedItem::Gap { .. } => {}
            }
        }
    }

    fn with(live: &Arc<Live>, filter: Filter, queue: FeedQueue, connection: u64) -> Result<Self> {
        let (id, feed) = live.add(filter, queue, connection)?;
        Ok(Self { live: Arc::clone(live), feed, id })
    }
}

impl Stream for FeedStream {
    type Item = FeedItem;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<FeedItem>> {
        // A subscriber that always finds something must still let its siblings run.
        ready!(pin!(consume_budget()).poll(cx));
        self.feed.poll(cx).map(|item| {
            item.map(|item| match item {
                Popped::Frame(frame) => FeedItem::Frame(frame.into()),
                Popped::Gap(missed) => FeedItem::Gap { missed },
            })
        })
    }
}

impl Drop for FeedStream {
    fn drop(&mut self) {
        self.live.remove(self.id);
    }
}
