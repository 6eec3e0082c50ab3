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

use crate::{core::StreamKey, durable::Durable};

/// A reader; it takes the lock once for many messages and goes on after the bus was closed.
pub(crate) struct Reader {
    durable: Arc<Durable>,
    stream: StreamKey,
    filter: Filter,
    next: Seq,
    until: Seq,
    read: VecDeque<Arc<Stored>>,
}

impl Reader {
    pub(crate) fn new(
        durable: Arc<Durable>,
        stream: StreamKey,
        filter: Filter,
        (next, until): (Seq, Seq),
    ) -> Self {
        Self { durable, stream, filter, next, until, read: VecDeque::new() }
    }

    /// Reads the next batch; false when there is none. What does not match is passed over.
    fn refill(&mut self) -> bool {
        if self.next > self.until {
            return false;
        }
        let locked = self.durable.lock();
        let range = (self.next, self.until);
        locked.state.broker.read(self.stream, range, BATCH, &mut self.read);
        drop(locked);
        self.next = match self.read.back() {
            Some(last) => Seq(last.seq.0 + 1),
            None => Seq(self.until.0 + 1),
        };
        let filter = &self.filter;
        self.read.retain(|stored| filter.matches(&stored.frame.subject));
        true
    }
}

impl Stream for Reader {
    type Item = Result<Stored>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        ready!(pin!(consume_budget()).poll(cx));
        if self.read.is_empty() && self.refill() && self.read.is_empty() {
            // Nothing of this batch matches: the next one gets its turn, others too.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let stored = self.read.pop_front();
        Poll::Ready(stored.map(|stored| Ok(Arc::unwrap_or_clone(stored))))
    }
}

/// Messages read under one lock.
const BATCH: usize = 64;
