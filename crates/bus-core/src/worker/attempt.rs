//! One attempt: claim mark, handler under a lease that is kept alive, and the decision after it.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures_util::FutureExt;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::{Handled, Handler, Job, Stop, TaskEvent, Worker, lease::Lease, settle::Redelivery};
use crate::{Delivery, Failure, Opened};

/// How long a cancelled handler may take to react before its future is dropped.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// How a handler's run ended.
enum Ended {
    /// It returned or panicked while the lease was held.
    Returned(Result<Handled, Failure>),
    /// The lease was lost meanwhile; the result is not settled with it.
    LeaseLost {
        error: crate::Error,
        /// Whether the handler said that the work is done all the same.
        is_done: bool,
    },
}

impl Worker {
    pub(super) async fn attempt<H: Handler>(
        &self,
        delivery: Delivery,
        opened: &Opened,
        handler: &H,
        stop: &Stop,
    ) -> TaskEvent {
        let (attempt, claimed) = (delivery.attempt, Instant::now());
        match self.redelivery(&delivery, &opened.envelope.id).await {
            Redelivery::Try => {}
            Redelivery::Done => return self.complete(delivery, opened).await,
            Redelivery::GivenUp(verdict) => {
                return self.give_up_untried(delivery, opened, verdict).await;
            }
        }
        let mark = self.mark(attempt);
        if let Err(error) = self.endpoint.mark_claim(&opened.envelope.id, &mark).await {
            return self.unmarked(delivery, opened, error).await;
        }
        match self.run_handler(&delivery, claimed, opened, handler, stop).await {
            Ended::LeaseLost { error, is_done } => {
                let task_id = opened.envelope.id.clone();
                if is_done {
                    self.mark_done(attempt, &task_id).await;
                }
                TaskEvent::Unsettled { task_id, error }
            }
            Ended::Returned(Ok(Handled)) => self.complete(delivery, opened).await,
            Ended::Returned(Err(failure)) => self.fail(delivery, opened, failure).await,
        }
    }

    /// Runs the handler and keeps the lease alive beside it.
    async fn run_handler<H: Handler>(
        &self,
        delivery: &Delivery,
        claimed: Instant,
        opened: &Opened,
        handler: &H,
        stop: &Stop,
    ) -> Ended {
        let cancel = CancellationToken::new();
        let job = Job {
            message: opened,
            attempt: delivery.attempt,
            endpoint: &self.endpoint,
            cancel: cancel.clone(),
        };
        // Called within, so that a panic before there is a future is caught as well.
        let work = AssertUnwindSafe(async move { handler.handle(job).await }).catch_unwind();
        let lease = Lease::new(delivery, claimed);
        let lost = lease.keep();
        tokio::pin!(work, lost);
        let ended = tokio::select! {
            biased;
            result = &mut work => Ended::Returned(flatten(result)),
            error = &mut lost => {
                cancel.cancel();
                let late = timeout(CANCEL_GRACE, &mut work).await;
                let is_done = late.is_ok_and(|result| flatten(result).is_ok());
                return Ended::LeaseLost { error, is_done };
            }
            () = stop.now.cancelled() => {
                cancel.cancel();
                tokio::select! {
                    biased;
                    // It was told to stop, but what it finished in time counts.
                    // A failure by then is the stop's doing and uses up no attempt.
                    finished = timeout(CANCEL_GRACE, &mut work) => {
                        let result = finished.map_or(Err(Failure::Interrupted), flatten);
                        Ended::Returned(result.map_err(|_| Failure::Interrupted))
                    }
                    error = &mut lost => return Ended::LeaseLost { error, is_done: false },
                }
            }
        };
        match ended {
            Ended::Returned(result) if lease.may_be_over() => {
                Ended::LeaseLost { error: lease.over(), is_done: result.is_ok() }
            }
            ended => ended,
        }
    }
}

/// A panic is a failure like another; its text is the reason.
fn flatten(
    result: Result<Result<Handled, Failure>, Box<dyn std::any::Any + Send>>,
) -> Result<Handled, Failure> {
    result.unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no text");
        Err(Failure::Failed { reason: format!("handler panicked: {text}") })
    })
}
