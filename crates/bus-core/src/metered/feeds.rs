//! Subscriptions and members whose frames are counted as they are handed out.

use std::{
    num::NonZeroUsize,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_core::Stream;

use super::traffic::{Counts, Traffic};
use crate::{Claiming, Deliveries, Delivery, FeedBatch, FeedItem, Frame, Result, Subscription};

/// Where the frames of one filter are counted.
pub(super) struct Tap {
    traffic: Arc<Traffic>,
    /// Known when the filter is for one workspace.
    counts: Option<Arc<Counts>>,
}

impl Tap {
    pub(super) fn new(traffic: &Arc<Traffic>, filter: &bus_subjects::Filter) -> Self {
        Self { traffic: Arc::clone(traffic), counts: traffic.of_all(filter) }
    }

    /// The subscription with its frames counted, whole runs at a time.
    pub(super) fn subscription(self, inner: Subscription) -> Subscription {
        Subscription::of_batches(Heard { inner, tap: self })
    }

    /// The member with its deliveries counted.
    pub(super) fn deliveries(self, inner: Deliveries) -> Deliveries {
        Deliveries::of_claims(Claimed { inner, tap: self })
    }

    fn note(&self, frame: &Frame) {
        match &self.counts {
            Some(counts) => counts.received(frame.bytes()),
            None => self.traffic.of(&frame.subject).received(frame.bytes()),
        }
    }

    fn missed(&self, frames: u64) {
        match &self.counts {
            Some(counts) => counts.missed(frames),
            None => self.traffic.elsewhere().missed(frames),
        }
    }
}

struct Heard {
    inner: Subscription,
    tap: Tap,
}

impl Stream for Heard {
    type Item = FeedBatch;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<FeedBatch>> {
        let batch = ready!(self.inner.poll_batch(cx));
        match &batch {
            Some(FeedBatch::Run(run)) => run.frames().for_each(|frame| self.tap.note(frame)),
            Some(FeedBatch::Item(FeedItem::Frame(frame))) => self.tap.note(frame),
            Some(FeedBatch::Item(FeedItem::Gap { missed })) => self.tap.missed(*missed),
            None => {}
        }
        Poll::Ready(batch)
    }
}

struct Claimed {
    inner: Deliveries,
    tap: Tap,
}

impl Stream for Claimed {
    type Item = Result<Delivery>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(Pin::new(&mut self.inner).poll_next(cx));
        if let Some(Ok(delivery)) = &next {
            self.tap.note(&delivery.frame);
        }
        Poll::Ready(next)
    }
}

impl Claiming for Claimed {
    fn poll_many(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        max: NonZeroUsize,
    ) -> Poll<Option<Result<Vec<Delivery>>>> {
        let next = ready!(Pin::new(&mut self.inner).poll_many(cx, max));
        if let Some(Ok(claimed)) = &next {
            claimed.iter().for_each(|delivery| self.tap.note(&delivery.frame));
        }
        Poll::Ready(next)
    }

    fn give_up(mut self: Pin<&mut Self>) {
        Pin::new(&mut self.inner).give_up();
    }
}
