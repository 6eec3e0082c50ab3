//! Reads a stream up to where it ended when the reading began.

use std::{
    collections::VecDeque,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
};

use bus_core::{Result, Seq, Stored};
use futures_core::Stream;
use tokio::task::coop::consume_budget;

use crate::{core::StreamKey, durable::Durable};

/// A reader; it takes the lock once for many messages and goes on after the bus was closed.
pub(crate) struct Reader {
    durable: Arc<Durable>,
    stream: StreamKey,
    next: Seq,
    until: Seq,
    read: VecDeque<Arc<Stored>>,
}

impl Reader {
    pub(crate) fn new(durable: Arc<Durable>, stream: StreamKey, next: Seq, until: Seq) -> Self {
        Self { durable, stream, next, until, read: VecDeque::new() }
    }

    fn refill(&mut self) {
        if self.next > self.until {
            return;
        }
        let locked = self.durable.lock();
        let range = (self.next, self.until);
        locked.state.broker.read(self.stream, range, BATCH, &mut self.read);
        drop(locked);
        self.next = match self.read.back() {
            Some(last) => Seq(last.seq.0 + 1),
            None => Seq(self.until.0 + 1),
        };
    }
}

impl Stream for Reader {
    type Item = Result<Stored>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        ready!(pin!(consume_budget()).poll(cx));
        if self.read.is_empty() {
            self.refill();
        }
        let stored = self.read.pop_front();
        Poll::Ready(stored.map(|stored| Ok(Arc::unwrap_or_clone(stored))))
    }
}

/// Messages read under one lock.
const BATCH: usize = 64;
