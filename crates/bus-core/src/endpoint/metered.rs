//! Deliveries whose waiting and settling is measured.

use std::{
    num::NonZeroUsize,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bus_subjects::StreamName;
use futures_core::Stream;

use super::Endpoint;
use crate::{Answer, BoxFuture, Claiming, Deliveries, Delivery, Result, Settle, Step, Verdict};

/// The same deliveries; how long each waited and its verdict took goes into the metrics of
/// `endpoint`.
pub(super) fn deliveries(endpoint: &Endpoint, inner: Deliveries) -> Deliveries {
    Deliveries::of_claims(Metered { inner, endpoint: endpoint.clone(), last: None })
}

struct Metered {
    inner: Deliveries,
    endpoint: Endpoint,
    /// The engine's side of the last delivery and what measures it: mostly all have the same.
    last: Option<(Arc<dyn Settle>, Arc<MeteredSettle>)>,
}

impl Metered {
    fn measure(&mut self, delivery: Delivery) -> Delivery {
        // A later attempt did not wait since the message was stored.
        if delivery.attempt == 1 {
            let waited = self.endpoint.clock().now().since(delivery.stored);
            self.endpoint.metrics().took(Step::Claim, waited);
        }
        let Self { endpoint, last, .. } = self;
        delivery.settled_through(|inner| {
            if let Some((of, measures)) = last
                && Arc::ptr_eq(of, &inner)
            {
                return Arc::<MeteredSettle>::clone(measures);
            }
            let endpoint = endpoint.clone();
            let measures = Arc::new(MeteredSettle { inner: Arc::clone(&inner), endpoint });
            *last = Some((inner, Arc::clone(&measures)));
            measures
        })
    }
}

impl Stream for Metered {
    type Item = Result<Delivery>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(Pin::new(&mut self.inner).poll_next(cx));
        Poll::Ready(next.map(|next| next.map(|delivery| self.measure(delivery))))
    }
}

impl Claiming for Metered {
    fn poll_many(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        max: NonZeroUsize,
    ) -> Poll<Option<Result<Vec<Delivery>>>> {
        let next = ready!(Pin::new(&mut self.inner).poll_many(cx, max));
        let measured = |claimed: Vec<Delivery>| {
            claimed.into_iter().map(|delivery| self.measure(delivery)).collect()
        };
        Poll::Ready(next.map(|next| next.map(measured)))
    }

    fn give_up(mut self: Pin<&mut Self>) {
        Pin::new(&mut self.inner).give_up();
    }
}

struct MeteredSettle {
    inner: Arc<dyn Settle>,
    endpoint: Endpoint,
}

impl Settle for MeteredSettle {
    fn stream(&self) -> &StreamName {
        self.inner.stream()
    }

    fn settle(&self, token: u64, verdict: Verdict) -> Answer<'_, ()> {
        Answer::later(async move {
            let started = self.endpoint.clock().now();
            let settled = self.inner.settle(token, verdict).await;
            if settled.is_ok() {
                let took = self.endpoint.clock().now().since(started);
                self.endpoint.metrics().took(Step::Settle, took);
            }
            settled
        })
    }

    fn settle_all(&self, verdicts: Vec<(u64, Verdict)>) -> BoxFuture<'_, Vec<Result<()>>> {
        Box::pin(async move {
            let started = self.endpoint.clock().now();
            let settled = self.inner.settle_all(verdicts).await;
            // Each of them waited for all.
            let took = self.endpoint.clock().now().since(started);
            for _ in settled.iter().filter(|settled| settled.is_ok()) {
                self.endpoint.metrics().took(Step::Settle, took);
            }
            settled
        })
    }

    fn extend(&self, token: u64) -> Answer<'_, ()> {
        self.inner.extend(token)
    }
}
