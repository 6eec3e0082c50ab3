//! One member of a consumer, and the deliveries it holds.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bus_core::{BoxFuture, Delivery, Result, Settle, Verdict};
use bus_subjects::StreamName;
use futures_core::Stream;
use tokio::task::coop::consume_budget;

use crate::{
    bus::Connection,
    core::{Claim, ConsumerKey},
};

/// A member that claims when it is polled, and only then.
pub(crate) struct Member {
    connection: Arc<Connection>,
    stream: StreamName,
    lease: Duration,
    key: ConsumerKey,
    /// Its place among those who wait.
    ticket: Option<u64>,
}

impl Member {
    pub(crate) fn new(
        connection: Arc<Connection>,
        stream: StreamName,
        lease: Duration,
        key: ConsumerKey,
    ) -> Self {
        Self { connection, stream, lease, key, ticket: None }
    }

    /// The next claim. It counts as claimed when this is `Ready`, which nothing can cancel.
    fn poll_claim(&mut self, cx: &Context<'_>) -> Poll<Option<Claim>> {
        let mut locked = self.connection.durable().lock();
        // Under the lock: `close` sets the mark first and then wakes those it finds here.
        if self.connection.is_closed() {
            drop(locked);
            self.leave();
            return Poll::Ready(None);
        }
        let now = locked.now;
        let claim = locked.state.broker.claim(self.key, now);
        let ticket = self.ticket.take();
        if let Some(waiters) = locked.waiters(self.key) {
            match (&claim, ticket) {
                (None, ticket) => self.ticket = Some(waiters.wait(ticket, cx)),
                (Some(_), Some(ticket)) => waiters.leave(ticket),
                (Some(_), None) => {}
            }
        }
        locked.look_after(self.key);
        locked.finish();
        claim.map_or(Poll::Pending, |claim| Poll::Ready(Some(claim)))
    }

    /// Gives up the place among those who wait; a call that came for it goes to the next one.
    fn leave(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let mut locked = self.connection.durable().lock();
            if let Some(waiters) = locked.waiters(self.key) {
                waiters.leave(ticket);
            }
            locked.look_after(self.key);
            locked.finish();
        }
    }
}

impl Stream for Member {
    type Item = Result<Delivery>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        ready!(pin!(consume_budget()).poll(cx));
        let Some(claim) = ready!(self.poll_claim(cx)) else { return Poll::Ready(None) };
        let held =
            Held { connection: Arc::clone(&self.connection), key: self.key, token: claim.token };
        let message = Arc::unwrap_or_clone(claim.message);
        let stream = self.stream.clone();
        let delivery = Delivery::new(stream, message, claim.attempt, self.lease, Box::new(held));
        Poll::Ready(Some(Ok(delivery)))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The engine's side of one delivery. Its token fits one lease only, so a late verdict finds none.
struct Held {
    connection: Arc<Connection>,
    key: ConsumerKey,
    token: u64,
}

impl Settle for Held {
    fn settle(&self, verdict: Verdict) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.connection.check_open("settle")?;
            if let Verdict::Reject { reason } = &verdict {
                tracing::debug!(consumer = ?self.key, reason, "delivery rejected");
            }
            let mut locked = self.connection.durable().lock();
            let now = locked.now;
            let settled = locked.state.broker.settle(self.key, self.token, &verdict, now);
            locked.look_after(self.key);
            locked.finish();
            settled
        })
    }

    fn extend(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.connection.check_open("extend")?;
            let mut locked = self.connection.durable().lock();
            let now = locked.now;
            let extended = locked.state.broker.extend(self.key, self.token, now);
            locked.look_after(self.key);
            locked.finish();
            extended.map(drop)
        })
    }
}
