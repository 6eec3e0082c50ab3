//! Reads a stream up to where it ended when the reading began.

use std::{
    collections::VecDeque,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
};

use bus_core::{Result, Seq, Stored};
use bus_subjects::Filter;
use futures_core::Stream;
use tokio::task::coop::consume_budget;

use crate::{
    core::{Message, StreamKey},
    durable::Durable,
};

/// A reader; it takes the lock once for many messages and goes on after the bus was closed.
pub(crate) struct Reader {
    durable: Arc<Durable>,
    stream: StreamKey,
    filter: Filter,
    /// Where to go on; `None` at the end.
    next: Option<Seq>,
    until: Seq,
    read: VecDeque<Message>,
}

impl Reader {
    pub(crate) fn new(
        durable: Arc<Durable>,
        stream: StreamKey,
        filter: Filter,
        (from, until): (Seq, Seq),
    ) -> Self {
        Self { durable, stream, filter, next: Some(from), until, read: VecDeque::new() }
    }

    /// Reads the next batch; false when there is none. What does not match is passed over.
    fn refill(&mut self) -> bool {
        let Some(next) = self.next else { return false };
        let locked = self.durable.lock();
        let range = (next, self.until);
        let broker = &locked.state.broker;
        self.next = broker.read(self.stream, &self.filter, range, LOOKS_MAX, &mut self.read);
        true
    }
}

impl Stream for Reader {
    type Item = Result<Stored>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        ready!(pin!(consume_budget()).poll(cx));
        if self.read.is_empty() && self.refill() && self.read.is_empty() && self.next.is_some() {
            // Nothing of this batch matches: others get their turn, then the next batch.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(self.read.pop_front().map(|message| Ok(message.into())))
    }
}

/// Messages looked at under one lock.
const LOOKS_MAX: usize = 64;
