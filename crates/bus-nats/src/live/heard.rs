//! The subscriber's end of a feed.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bus_core::{FeedBatch, FeedItem, Frame, SegmentFrame, SegmentRun, Tally};
use futures_core::Stream;
use tokio::task::coop::{has_budget_remaining, poll_proceed};

use super::{backlog::Taken, intake::Intake, reader::Task};

/// What a subscription yields. Dropping it ends the subscription.
pub(super) struct Heard {
    intake: Arc<Intake>,
    tally: Arc<Tally>,
    _reader: Task,
}

impl Heard {
    pub(super) fn new(intake: Arc<Intake>, reader: Task) -> Self {
        Self { intake, tally: Arc::default(), _reader: reader }
    }

    /// A run of frames as they are handed out; `None` when there is none.
    fn batch(&self, mut run: Vec<Frame>) -> Option<FeedBatch> {
        if run.len() > 1 {
            let count = run.len();
            let frames: Vec<_> = run.into_iter().map(SegmentFrame::Here).collect();
            let run = SegmentRun::new(frames.into(), 0, count, Arc::clone(&self.tally));
            return Some(FeedBatch::Run(run));
        }
        let frame = SegmentFrame::Here(run.pop()?).into_shared();
        Some(FeedBatch::Item(FeedItem::Frame(frame.into())))
    }
}

impl Stream for Heard {
    type Item = FeedBatch;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<FeedBatch>> {
        let heard = &mut *self;
        // A subscriber that always finds something must still let its siblings run.
        let budget = ready!(poll_proceed(cx));
        let batch = loop {
            match ready!(heard.intake.feed().poll_take(cx)) {
                None => break None,
                Some(Taken::Gap(missed)) => {
                    break Some(FeedBatch::Item(FeedItem::Gap { missed }));
                }
                Some(Taken::Run(run)) => {
                    if let Some(batch) = heard.batch(run) {
                        break Some(batch);
                    }
                }
                Some(Taken::Nothing) => {}
            }
        };
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

/// Of the 128 units that tokio gives a task between two yields, each stands for so many frames.
const FRAMES_PER_UNIT: usize = 4;
