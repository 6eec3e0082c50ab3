//! What a broken engine hands out: subscriptions, replays and deliveries with the fault in them.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use bus_core::{
    Answer, BoxFuture, Deliveries, Delivery, Error, ErrorKind, FeedItem, Replay, Result, Settle,
    Stored, Subscription, Verdict, settle_each,
};
use bus_subjects::StreamName;
use futures_core::Stream;
use tokio::sync::Mutex;

use crate::fault::Fault;

/// The engine's side of a delivery, with the fault.
struct BrokenSettle {
    stream: StreamName,
    delivery: Mutex<Option<Delivery>>,
    fault: Fault,
}

impl BrokenSettle {
    fn wrap(delivery: Delivery, fault: Fault) -> Delivery {
        let (stream, frame) = (delivery.stream().clone(), delivery.frame.clone());
        let place = (delivery.seq, delivery.stored);
        let attempt = if fault == Fault::CountsNoAttempts { 1 } else { delivery.attempt };
        let run = (attempt, delivery.lease);
        let settle = Self { stream, delivery: Mutex::new(Some(delivery)), fault };
        Delivery::new(frame, place, run, (Arc::new(settle), 0))
    }

    /// A second delivery of the same message, whose verdicts go nowhere.
    fn copy(delivery: &Delivery, fault: Fault) -> Delivery {
        let (stream, frame) = (delivery.stream().clone(), delivery.frame.clone());
        let (place, run) = ((delivery.seq, delivery.stored), (delivery.attempt, delivery.lease));
        let settle = Self { stream, delivery: Mutex::new(None), fault };
        Delivery::new(frame, place, run, (Arc::new(settle), 0))
    }

    /// What becomes of the engine's own answer.
    fn answer(&self, answer: Result<()>) -> Result<()> {
        match answer {
            Err(error)
                if error.kind() == ErrorKind::LeaseLost
                    && self.fault == Fault::AcceptsLateVerdicts =>
            {
                Ok(())
            }
            answer => answer,
        }
    }
}

impl Settle for BrokenSettle {
    fn stream(&self) -> &StreamName {
        &self.stream
    }

    fn settle(&self, _: u64, verdict: Verdict) -> Answer<'_, ()> {
        Answer::later(async move {
            let verdict = match (verdict, self.fault) {
                (Verdict::Release { after }, Fault::CountsReleases) => Verdict::Retry { after },
                (Verdict::Retry { .. }, Fault::RetriesAtOnce) => {
                    Verdict::Retry { after: Duration::ZERO }
                }
                (_, Fault::LosesVerdicts) => return Ok(()),
                (verdict, _) => verdict,
            };
            match self.delivery.lock().await.take() {
                Some(delivery) => self.answer(delivery.settle(verdict).await),
                None => Ok(()),
            }
        })
    }

    fn settle_all(&self, verdicts: Vec<(u64, Verdict)>) -> BoxFuture<'_, Vec<Result<()>>> {
        Box::pin(settle_each(self, verdicts))
    }

    fn extend(&self, _: u64) -> Answer<'_, ()> {
        Answer::later(async move {
            if self.fault == Fault::ExtendsNothing {
                return Ok(());
            }
            match self.delivery.lock().await.as_ref() {
                Some(delivery) => self.answer(delivery.extend().await),
                None => Ok(()),
            }
        })
    }
}

/// A replay with something in front of it.
pub(crate) struct Then {
    pub(crate) first: Option<Result<Stored>>,
    pub(crate) rest: Replay,
}

impl Stream for Then {
    type Item = Result<Stored>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(first)),
            None => pin!(self.rest.next()).poll(cx),
        }
    }
}

/// A stream whose items pass through a function.
pub(crate) struct Mapped<S, F>(pub(crate) S, pub(crate) F);

pub(crate) enum Step<T> {
    Yield(T),
    Skip,
    End,
}

impl<S, F> Stream for Mapped<S, F>
where
    S: Stream + Unpin,
    F: FnMut(S::Item) -> Step<S::Item> + Unpin,
{
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        loop {
            let Some(item) = ready!(Pin::new(&mut self.0).poll_next(cx)) else {
                return Poll::Ready(None);
            };
            match (self.1)(item) {
                Step::Yield(item) => return Poll::Ready(Some(item)),
                Step::End => return Poll::Ready(None),
                Step::Skip => {}
            }
        }
    }
}

/// Deliveries whose engine's side has the fault.
pub(crate) struct Claims {
    pub(crate) deliveries: Deliveries,
    pub(crate) fault: Fault,
    /// What nobody has asked for yet.
    pub(crate) ahead: Option<Delivery>,
}

impl Stream for Claims {
    type Item = Result<Delivery>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let fault = self.fault;
        if let Some(ahead) = self.ahead.take() {
            return Poll::Ready(Some(Ok(ahead)));
        }
        let next = ready!(Pin::new(&mut self.deliveries).poll_next(cx));
        self.ahead = match (&next, fault) {
            (Some(Ok(delivery)), Fault::HandsOutTwice) => Some(BrokenSettle::copy(delivery, fault)),
            (Some(Ok(_)), Fault::ClaimsAhead) => {
                match pin!(self.deliveries.next()).poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(Some(Ok(delivery))) => Some(BrokenSettle::wrap(delivery, fault)),
                    _ => None,
                }
            }
            _ => None,
        };
        let is_gone = |error: &Error| error.kind() == ErrorKind::NotFound;
        if fault == Fault::KeepsMembersWaiting && matches!(&next, Some(Err(e)) if is_gone(e)) {
            return Poll::Pending;
        }
        Poll::Ready(next.map(|item| item.map(|delivery| BrokenSettle::wrap(delivery, fault))))
    }
}

/// A subscription that asks its engine only when it is first polled.
pub(crate) enum Late {
    Asking(BoxFuture<'static, Result<Subscription>>),
    Hearing(Subscription),
}

impl Stream for Late {
    type Item = FeedItem;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<FeedItem>> {
        loop {
            match &mut *self {
                Self::Hearing(subscription) => return Pin::new(subscription).poll_next(cx),
                Self::Asking(asking) => match ready!(asking.as_mut().poll(cx)) {
                    Ok(subscription) => *self = Self::Hearing(subscription),
                    Err(_) => return Poll::Ready(None),
                },
            }
        }
    }
}
