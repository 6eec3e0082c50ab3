//! The lease of one delivery as its worker sees it: kept alive, and known to be over in time.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep_until, timeout_at};

use crate::{
    Delivery, Error, ErrorKind, Result, Verdict,
    endpoint::{self, Seen},
};

/// A delivery and its lease by the worker's own clock, which stands nearer to the work than the
/// engine's answers.
pub(super) struct Lease {
    /// What is held.
    pub delivery: Delivery,
    /// When the engine began to count at the latest.
    since: Mutex<Instant>,
    /// The span of the work on it, where somebody records that.
    pub seen: Option<Arc<Seen>>,
}

impl Lease {
    /// The lease of a delivery that was claimed at `claimed`.
    pub(super) fn new(delivery: Delivery, claimed: Instant) -> Self {
        Self { delivery, since: Mutex::new(claimed), seen: None }
    }

    /// Extends the lease every third of it, and returns when it is lost: refused, or not extended
    /// in time. An answer that does not come is asked for again while there is time.
    pub(super) async fn keep(&self) -> Error {
        let rhythm = (self.delivery.lease / 3).max(Duration::from_millis(1));
        let mut next = self.since() + rhythm;
        loop {
            sleep_until(next).await;
            let asked = Instant::now();
            match timeout_at(self.safe_until(), self.delivery.extend()).await {
                Ok(Ok(())) => {
                    self.renew(asked);
                    next = asked + rhythm;
                }
                Ok(Err(error)) if may_pass(&error) && !self.may_be_over() => {
                    next = Instant::now() + rhythm / 8;
                }
                Ok(Err(error)) => return error,
                Err(_elapsed) => return self.over(),
            }
        }
    }

    /// Does `work` to its end and keeps the lease alive beside it, as long as that can be done.
    pub(super) async fn beside<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return done,
            _lost = self.keep() => {}
        }
        work.await
    }

    /// Ends the delivery with `verdict`.
    ///
    /// # Errors
    /// `LeaseLost` when the lease may be over, and then the engine is not even asked; those of
    /// [`Delivery::settle`].
    pub(super) async fn settle(self, verdict: Verdict) -> Result<()> {
        if self.may_be_over() {
            return Err(self.over());
        }
        endpoint::settle(self.seen.as_deref(), self.delivery, verdict).await
    }

    /// Whether the task may be somebody else's by now, so that no verdict may be given any more.
    pub(super) fn may_be_over(&self) -> bool {
        Instant::now() >= self.safe_until()
    }

    /// What a worker says that gives no verdict any more.
    pub(super) fn over(&self) -> Error {
        let detail = "the lease may be over: it could not be extended in time";
        Error::new(ErrorKind::LeaseLost, "extend", detail).at(&self.delivery.frame.subject)
    }

    /// Until when nobody else can have the task: a tenth of the lease is the margin for clocks that
    /// run apart and answers under way.
    fn safe_until(&self) -> Instant {
        self.since() + (self.delivery.lease - self.delivery.lease / 10)
    }

    fn since(&self) -> Instant {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts from the question, not from the answer: that is when the engine began at the latest.
    fn renew(&self, asked: Instant) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = asked;
    }
}

/// Whether the same question may be answered otherwise a moment later.
fn may_pass(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout)
}
