//! A message handed to one worker for a time, and the one verdict that ends it.

use std::{
    num::NonZeroUsize,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bus_envelope::Timestamp;
use bus_subjects::StreamName;
use futures_core::Stream;

use crate::{Answer, BoxFuture, Result, Seq, SharedFrame};

/// A message under a lease.
///
/// Dropping it without a verdict lets the lease run out: that counts as a failed attempt.
#[must_use = "a delivery that is not settled is delivered again after its lease"]
pub struct Delivery {
    /// The frame as it was appended, shared with the engine that keeps it.
    pub frame: SharedFrame,
    /// Its position there.
    pub seq: Seq,
    /// When the engine stored it.
    pub stored: Timestamp,
    /// Which attempt this is, the first being 1; hand-backs are not counted.
    pub attempt: u32,
    /// How long the lease lasts from now, unless extended.
    pub lease: Duration,
    settle: Arc<dyn Settle>,
    token: u64,
}

/// The engine's side of deliveries: of one, or of all that a member gets.
///
/// A token says which of them is meant; its meaning is the engine's own.
pub trait Settle: Send + Sync {
    /// The stream the deliveries came from.
    fn stream(&self) -> &StreamName;

    /// Ends the delivery of `token`; answers once the engine has confirmed it
    /// (`a_settled_task_is_gone`).
    ///
    /// # Errors
    /// `LeaseLost` when the lease ran out first (`a_late_settle_is_refused`); `Closed`;
    /// `Timeout` and `Unavailable` with outcome unknown.
    fn settle(&self, token: u64, verdict: Verdict) -> Answer<'_, ()>;

    /// Ends several deliveries in their order, and answers for each as [`Settle::settle`] does. One
    /// that is refused stops none of the others. Engines without a shorter way use
    /// [`settle_each`].
    fn settle_all(&self, verdicts: Vec<(u64, Verdict)>) -> BoxFuture<'_, Vec<Result<()>>>;

    /// Starts the lease of `token` anew (`an_extended_lease_is_not_redelivered`).
    ///
    /// # Errors
    /// As [`Settle::settle`].
    fn extend(&self, token: u64) -> Answer<'_, ()>;
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
pub struct Deliveries(Pin<Box<dyn Claiming>>);

/// A member that claims messages when it is polled, one or several at a time.
pub trait Claiming: Stream<Item = Result<Delivery>> + Send {
    /// Claims what is ready, `max` messages at most and at least one: as `poll_next`, but several
    /// at once. Never claims any when it answers anything but `Ready`.
    fn poll_many(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        max: NonZeroUsize,
    ) -> Poll<Option<Result<Vec<Delivery>>>>;

    /// The call that polled last was dropped before it was answered: nothing is claimed for it any
    /// more, and a wake-up that was meant for it goes to another member.
    fn give_up(self: Pin<&mut Self>);
}

impl Deliveries {
    /// Wraps an engine's stream, which claims one message at a time.
    pub fn new(stream: impl Stream<Item = Result<Delivery>> + Send + 'static) -> Self {
        Self(Box::pin(OneByOne(Box::pin(stream))))
    }

    /// Wraps an engine's member.
    pub fn of_claims(member: impl Claiming + 'static) -> Self {
        Self(Box::pin(member))
    }

    /// Waits for the next message and claims it; `None` when the bus was closed, or after the one
    /// error of kind `NotFound` that tells that the consumer was removed.
    ///
    /// Cancel safe: a dropped call claims nothing.
    pub async fn next(&mut self) -> Option<Result<Delivery>> {
        let mut call = Call { member: self, waits: false };
        std::future::poll_fn(move |cx| call.poll(|member| member.poll_next(cx))).await
    }

    /// Waits until a message is there and claims what is ready then, `max` messages at most; else
    /// as [`Deliveries::next`]. An engine that claims one at a time answers with one.
    ///
    /// Cancel safe: a dropped call claims nothing.
    pub async fn next_many(&mut self, max: NonZeroUsize) -> Option<Result<Vec<Delivery>>> {
        let mut call = Call { member: self, waits: false };
        std::future::poll_fn(move |cx| call.poll(|member| member.poll_many(cx, max))).await
    }
}

/// A call that waits for a delivery; its end is told to the member when it comes too early.
struct Call<'a> {
    member: &'a mut Deliveries,
    waits: bool,
}

impl Call<'_> {
    #[inline]
    fn poll<T>(&mut self, poll: impl FnOnce(Pin<&mut dyn Claiming>) -> Poll<T>) -> Poll<T> {
        let polled = poll(self.member.0.as_mut());
        self.waits = polled.is_pending();
        polled
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.waits {
            self.member.0.as_mut().give_up();
        }
    }
}

impl Delivery {
    /// Joins a message stored at a position and time with the engine's side of its delivery, where
    /// `token` names it.
    pub fn new(
        frame: impl Into<SharedFrame>,
        (seq, stored): (Seq, Timestamp),
        (attempt, lease): (u32, Duration),
        (settle, token): (Arc<dyn Settle>, u64),
    ) -> Self {
        Self { frame: frame.into(), seq, stored, attempt, lease, settle, token }
    }

    /// The stream it came from.
    #[must_use]
    pub fn stream(&self) -> &StreamName {
        self.settle.stream()
    }

    /// The engine's side of it and the token that names it there, for an engine that passes the
    /// delivery on.
    #[must_use]
    pub fn settler(&self) -> (Arc<dyn Settle>, u64) {
        (Arc::clone(&self.settle), self.token)
    }

    /// The same delivery, with a step between it and the engine's side.
    pub(crate) fn settled_through(
        self,
        step: impl FnOnce(Arc<dyn Settle>) -> Arc<dyn Settle>,
    ) -> Self {
        Self { settle: step(self.settle), ..self }
    }

    /// Ends the delivery with `verdict`.
    ///
    /// # Errors
    /// `LeaseLost`, `Closed`; `Timeout` and `Unavailable` with outcome unknown.
    #[inline]
    pub fn settle(self, verdict: Verdict) -> impl Future<Output = Result<()>> + Send {
        // Only what is needed goes into the future, which is moved to where it is awaited. The
        // frame is: where this is the last to hold it, it is dropped here and under no lock.
        let Self { frame, settle, token, .. } = self;
        async move {
            let _held = &frame;
            settle.settle(token, verdict).await
        }
    }

    /// Starts the lease anew.
    ///
    /// # Errors
    /// As [`Delivery::settle`].
    pub async fn extend(&self) -> Result<()> {
        self.settle.extend(self.token).await
    }
}

/// Ends deliveries in their order, those of one member in one call to its engine, and says of each
/// what [`Delivery::settle`] would. One that is refused stops none of the others.
///
/// When it is dropped, each is settled or not, and the leases of those that are not run out.
pub async fn settle_all(verdicts: Vec<(Delivery, Verdict)>) -> Vec<Result<()>> {
    let mut answers = Vec::with_capacity(verdicts.len());
    let mut rest = verdicts.into_iter().peekable();
    while let Some((delivery, verdict)) = rest.next() {
        let mut run = vec![(delivery.token, verdict)];
        let is_same =
            |(other, _): &(Delivery, Verdict)| Arc::ptr_eq(&other.settle, &delivery.settle);
        while let Some((other, verdict)) = rest.next_if(is_same) {
            run.push((other.token, verdict));
        }
        answers.extend(delivery.settle.settle_all(run).await);
    }
    answers
}

/// Ends several deliveries one after the other, for engines that have no shorter way.
pub async fn settle_each(settle: &dyn Settle, verdicts: Vec<(u64, Verdict)>) -> Vec<Result<()>> {
    let mut answers = Vec::with_capacity(verdicts.len());
    for (token, verdict) in verdicts {
        answers.push(settle.settle(token, verdict).await);
    }
    answers
}

/// A stream that claims one message at a time.
struct OneByOne<S>(Pin<Box<S>>);

impl<S: Stream<Item = Result<Delivery>>> Stream for OneByOne<S> {
    type Item = Result<Delivery>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(cx)
    }
}

impl<S: Stream<Item = Result<Delivery>> + Send> Claiming for OneByOne<S> {
    fn poll_many(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        _: NonZeroUsize,
    ) -> Poll<Option<Result<Vec<Delivery>>>> {
        self.poll_next(cx).map(|next| next.map(|one| one.map(|delivery| vec![delivery])))
    }

    fn give_up(self: Pin<&mut Self>) {}
}

impl Claiming for Deliveries {
    fn poll_many(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        max: NonZeroUsize,
    ) -> Poll<Option<Result<Vec<Delivery>>>> {
        self.0.as_mut().poll_many(cx, max)
    }

    fn give_up(mut self: Pin<&mut Self>) {
        self.0.as_mut().give_up();
    }
}

impl Stream for Deliveries {
    type Item = Result<Delivery>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(cx)
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
