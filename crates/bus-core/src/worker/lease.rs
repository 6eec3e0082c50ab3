//! The lease of one delivery as its worker sees it: kept alive, and known to be over in time.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout_at};

use crate::{Delivery, Error, ErrorKind};

/// A lease by the worker's own clock, which stands nearer to the work than the engine's answers.
pub(super) struct Lease<'a> {
    delivery: &'a Delivery,
    /// Until when nobody else can have the task, a margin already taken off.
    safe_until: Mutex<Instant>,
}

impl<'a> Lease<'a> {
    /// The lease of a delivery that was claimed at `claimed`.
    pub(super) fn new(delivery: &'a Delivery, claimed: Instant) -> Self {
        let safe_until = Mutex::new(safe_until(delivery, claimed));
        Self { delivery, safe_until }
    }

    /// Extends the lease every third of it, and returns when it is lost: refused, or not extended
    /// in time. An answer that does not come is asked for again while there is time.
    pub(super) async fn keep(&self) -> Error {
        let rhythm = (self.delivery.lease / 3).max(Duration::from_millis(1));
        let mut rest = rhythm;
        loop {
            sleep(rest).await;
            let asked = Instant::now();
            match timeout_at(self.safe_until(), self.delivery.extend()).await {
                Ok(Ok(())) => {
                    self.renew(asked);
                    rest = rhythm;
                }
                Ok(Err(error)) if may_pass(&error) && !self.may_be_over() => rest = rhythm / 8,
                Ok(Err(error)) => return error,
                Err(_elapsed) => return self.over(),
            }
        }
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

    fn safe_until(&self) -> Instant {
        *self.safe_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts from the question, not from the answer: that is when the engine began at the latest.
    fn renew(&self, asked: Instant) {
        let mut until = self.safe_until.lock().unwrap_or_else(PoisonError::into_inner);
        *until = safe_until(self.delivery, asked);
    }
}

/// A tenth of the lease is the margin for clocks that run apart and answers under way.
fn safe_until(delivery: &Delivery, from: Instant) -> Instant {
    from + delivery.lease - delivery.lease / 10
}

/// Whether the same question may be answered otherwise a moment later.
fn may_pass(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout)
}
