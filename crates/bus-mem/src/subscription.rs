//! What a subscriber or an asker holds of the live plane; dropping it ends the subscription.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bus_core::{FeedBatch, FeedItem, Frame, Overflow, Result, Subscription};
use bus_subjects::{Filter, TableKey};
use futures_core::Stream;
use tokio::task::coop::{has_budget_remaining, poll_proceed};

use crate::{
    aftermath::Aftermath,
    channel::{Bed, Channel},
    core::{CursorKey, FeedQueue, Popped, Read},
    feed::Feed,
    live::Live,
    patience::Patience,
};

/// One end of a live subscription.
#[derive(Debug)]
pub(crate) struct FeedStream {
    live: Arc<Live>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Log(LogReader),
    Queue(TableKey, Arc<Feed>),
}

/// A cursor in the log of a channel.
#[derive(Debug)]
struct LogReader {
    channel: Arc<Channel>,
    cursor: CursorKey,
    bed: Option<Bed>,
    patience: Patience,
}

impl FeedStream {
    /// Subscribes to `filter` for `connection`; in force when this returns.
    pub(crate) fn open(
        live: &Arc<Live>,
        filter: Filter,
        overflow: Overflow,
        connection: u64,
    ) -> Result<Self> {
        let source = match overflow {
            Overflow::DropOldest { capacity } => {
                let (channel, cursor) = live.join(filter, capacity, connection)?;
                let patience = Patience::new(capacity);
                Source::Log(LogReader { channel, cursor, bed: None, patience })
            }
            Overflow::Latest { subjects } => {
                let (key, feed) = live.add_latest(filter, subjects, connection)?;
                Source::Queue(key, feed)
            }
        };
        Ok(Self { live: Arc::clone(live), source })
    }

    /// Waits on `filter` for one frame.
    pub(crate) fn for_answer(live: &Arc<Live>, filter: Filter, connection: u64) -> Result<Self> {
        let (key, feed) = live.add(filter, FeedQueue::first_only(), connection)?;
        Ok(Self { live: Arc::clone(live), source: Source::Queue(key, feed) })
    }

    /// The next frame, gaps passed over; `None` when the bus was closed. Cancel safe.
    pub(crate) async fn first_frame(self) -> Option<Frame> {
        let mut subscription = Subscription::of_batches(self);
        loop {
            match subscription.next().await? {
                FeedItem::Frame(frame) => return Some(frame.into_frame()),
                FeedItem::Gap { .. } => {}
            }
        }
    }
}

impl Stream for FeedStream {
    type Item = FeedBatch;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<FeedBatch>> {
        // A subscriber that always finds something must still let its siblings run.
        let budget = ready!(poll_proceed(cx));
        let batch = ready!(match &mut self.source {
            Source::Log(reader) => reader.poll(cx),
            Source::Queue(_, feed) => feed.poll(cx).map(|item| item.map(batch_of)),
        });
        budget.made_progress();
        if let Some(FeedBatch::Run(run)) = &batch {
            // The rest of the budget of this task is for what it does with the frames.
            for _ in 0..run.len() / FRAMES_PER_UNIT {
                if has_budget_remaining()
                    && let Poll::Ready(budget) = poll_proceed(cx)
                {
                    budget.made_progress();
                }
            }
        }
        Poll::Ready(batch)
    }
}

impl LogReader {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<FeedBatch>> {
        ready!(self.patience.poll(cx));
        let mut aftermath = Aftermath::default();
        let (read, is_all) = self.channel.read(self.cursor, &mut self.bed, cx, &mut aftermath);
        aftermath.settle();
        match read {
            Read::Run(run) => {
                self.patience.found(run.len(), is_all);
                Poll::Ready(Some(FeedBatch::Run(run)))
            }
            Read::Gap(missed) => Poll::Ready(Some(FeedBatch::Item(FeedItem::Gap { missed }))),
            Read::Nothing => {
                self.patience.sleeps();
                Poll::Pending
            }
            Read::End => Poll::Ready(None),
        }
    }
}

impl Drop for FeedStream {
    fn drop(&mut self) {
        match &self.source {
            Source::Log(reader) => self.live.leave(&reader.channel, reader.cursor, reader.bed),
            Source::Queue(key, _) => self.live.remove(*key),
        }
    }
}

fn batch_of(popped: Popped) -> FeedBatch {
    FeedBatch::Item(match popped {
        Popped::Frame(frame) => FeedItem::Frame(frame.into()),
        Popped::Gap(missed) => FeedItem::Gap { missed },
    })
}

/// Of the 128 units that tokio gives a task between two yields, each stands for so many frames of a
/// run: reading one takes some twenty nanoseconds.
const FRAMES_PER_UNIT: usize = 4;
