//! A message handed to one worker for a time, and the one verdict that ends it.

use std::{pin::Pin, time::Duration};

use bus_envelope::Timestamp;
use bus_subjects::StreamName;
use futures_core::Stream;

use crate::{BoxFuture, Frame, Result, Seq, Stored};

/// A message under a lease.
///
/// Dropping it without a verdict lets the lease run out: that counts as a failed attempt.
#[must_use = "a delivery that is not settled is delivered again after its lease"]
pub struct Delivery {
    /// The frame as it was appended.
    pub frame: Frame,
    /// The stream it came from.
    pub stream: StreamName,
    /// Its position there.
    pub seq: Seq,
    /// When the engine stored it.
    pub stored: Timestamp,
    /// Which attempt this is, the first being 1; hand-backs are not counted.
    pub attempt: u32,
    /// How long the lease lasts from now, unless extended.
    pub lease: Duration,
    settle: Box<dyn Settle>,
}

/// The engine's side of a delivery.
pub trait Settle: Send + Sync {
    /// Ends the delivery; returns once the engine has confirmed it
    /// (`a_settled_task_is_gone`).
    ///
    /// # Errors
    /// `LeaseLost` when the lease ran out first (`a_late_settle_is_refused`); `Closed`;
    /// `Timeout` and `Unavailable` with outcome unknown.
    fn settle(&self, verdict: Verdict) -> BoxFuture<'_, Result<()>>;

    /// Starts the lease anew (`an_extended_lease_is_not_redelivered`).
    ///
    /// # Errors
    /// As [`Settle::settle`].
    fn extend(&self) -> BoxFuture<'_, Result<()>>;
}

/// How a delivery ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Done: remove it.
    Ack,
    /// Failed: deliver it again after a delay; counts as an attempt.
    Retry {
        /// How long it rests; other messages pass it by.
        after: Duration,
    },
    /// Handed back untouched: deliver it again; not counted as an attempt
    /// (`a_release_is_not_counted`).
    Release {
        /// How long it rests; zero: it is first in line at once.
        after: Duration,
    },
    /// Given up: remove it. The caller has stored its dead letter before.
    Reject {
        /// Why, for the engine's log.
        reason: String,
    },
}

/// Deliveries of one member of a consumer.
///
/// A message is claimed when [`Deliveries::next`] returns it, not before; dropping this leaves the
/// consumer and its position in place.
#[must_use = "a member that is not polled claims nothing"]
pub struct Deliveries(Pin<Box<dyn Stream<Item = Result<Delivery>> + Send>>);

impl Deliveries {
    /// Wraps an engine's stream.
    pub fn new(stream: impl Stream<Item = Result<Delivery>> + Send + 'static) -> Self {
        Self(Box::pin(stream))
    }

    /// Waits for the next message and claims it; `None` when the bus was closed.
    ///
    /// Cancel safe: a dropped call claims nothing.
    pub async fn next(&mut self) -> Option<Result<Delivery>> {
        std::future::poll_fn(|cx| self.0.as_mut().poll_next(cx)).await
    }
}

impl Delivery {
    /// Joins a message stored in `stream` with the engine's side of its delivery.
    pub fn new(
        stream: StreamName,
        message: Stored,
        attempt: u32,
        lease: Duration,
        settle: Box<dyn Settle>,
    ) -> Self {
        let Stored { frame, seq, time } = message;
        Self { frame, stream, seq, stored: time, attempt, lease, settle }
    }

    /// Ends the delivery with `verdict`.
    ///
    /// # Errors
    /// `LeaseLost`, `Closed`; `Timeout` and `Unavailable` with outcome unknown.
    pub async fn settle(self, verdict: Verdict) -> Result<()> {
        self.settle.settle(verdict).await
    }

    /// Starts the lease anew.
    ///
    /// # Errors
    /// As [`Delivery::settle`].
    pub async fn extend(&self) -> Result<()> {
        self.settle.extend().await
    }
}

impl std::fmt::Debug for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delivery")
            .field("subject", &self.frame.subject)
            .field("id", &self.frame.id)
            .field("seq", &self.seq)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Deliveries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Deliveries")
    }
}
