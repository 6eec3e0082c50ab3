//! The subscriber's end of a feed: messages become frames where they are taken.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use async_nats::Message;
use bus_core::{FeedBatch, FeedItem, Frame, Result, SegmentFrame, SegmentRun, Tally};
use bus_subjects::{Filter, Shown};
use futures_core::Stream;
use tokio::task::coop::{has_budget_remaining, poll_proceed};

use super::{backlog::Taken, feed::Feed, reader::Task};
use crate::codec;

/// What a subscription yields. Dropping it ends the subscription.
pub(super) struct Heard {
    feed: Arc<Feed>,
    filter: Filter,
    /// Whether samples are among what it hears.
    has_samples: bool,
    tally: Arc<Tally>,
    /// How many messages were none of this bus's.
    foreign: u64,
    _reader: Task,
}

impl Heard {
    pub(super) fn new(feed: Arc<Feed>, filter: Filter, has_samples: bool, reader: Task) -> Self {
        let tally = Arc::default();
        Self { feed, filter, has_samples, tally, foreign: 0, _reader: reader }
    }

    /// The frames of a run; `None` when there is none among its messages.
    fn frames(&mut self, run: Vec<Message>) -> Option<FeedBatch> {
        let frame = |message| self.frame(message).map(SegmentFrame::Here);
        let mut frames: Vec<_> = Vec::with_capacity(run.len());
        frames.extend(run.into_iter().filter_map(frame));
        if frames.len() > 1 {
            let count = frames.len();
            let run = SegmentRun::new(frames.into(), 0, count, Arc::clone(&self.tally));
            return Some(FeedBatch::Run(run));
        }
        let frame = frames.pop()?.into_shared();
        Some(FeedBatch::Item(FeedItem::Frame(frame.into())))
    }

    fn frame(&mut self, message: Message) -> Option<Frame> {
        let subject = message.subject.clone();
        let why = match decode(message, self.has_samples) {
            Ok(frame) if self.filter.matches(&frame.subject) => return Some(frame),
            Ok(_) => "the subscription does not hear its subject".to_owned(),
            Err(error) => error.to_string(),
        };
        self.foreign = self.foreign.saturating_add(1);
        let (subject, foreign) = (Shown(&subject), self.foreign);
        tracing::debug!(%subject, %why, foreign, "a message that is no frame is passed over");
        None
    }
}

impl Stream for Heard {
    type Item = FeedBatch;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<FeedBatch>> {
        let heard = &mut *self;
        // A subscriber that always finds something must still let its siblings run.
        let budget = ready!(poll_proceed(cx));
        let batch = loop {
            match ready!(heard.feed.poll_take(cx)) {
                None => break None,
                Some(Taken::Gap(missed)) => {
                    break Some(FeedBatch::Item(FeedItem::Gap { missed }));
                }
                Some(Taken::Run(run)) => {
                    if let Some(batch) = heard.frames(run) {
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

/// The frame that a message carries; `is_sample` when a stream may have kept it.
///
/// # Errors
/// `Corrupt` when it is none.
pub(super) fn decode(message: Message, is_sample: bool) -> Result<Frame> {
    let map = message.headers.unwrap_or_default();
    let mut reply = message.reply.as_deref();
    if is_sample && reply.is_none() {
        reply = codec::get(&map, REPLY);
    }
    codec::decode_live(&message.subject, reply, &map, message.payload)
}

/// Whether a message can be a live frame: with an id, not stored by an append, and none of the
/// server's own.
pub(super) fn is_live(message: &Message) -> bool {
    let Some(map) = &message.headers else { return false };
    !message.subject.starts_with('$') && codec::is_live(map)
}

/// The id of a live message.
pub(super) fn id(message: &Message) -> Option<&str> {
    codec::live_id(message.headers.as_ref()?)
}

/// The reply subject of a sample.
pub(super) const REPLY: &str = "vak-reply";

/// Of the 128 units that tokio gives a task between two yields, each stands for so many frames.
const FRAMES_PER_UNIT: usize = 4;
