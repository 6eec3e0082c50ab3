//! One attempt: claim mark, handler under a lease that is kept alive, and the decision after it.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures_util::FutureExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Handled, Handler, Job, Stop, TaskEvent, Worker};
use crate::{Delivery, Failure, Opened, claims::ClaimMark};

/// How long a cancelled handler may take to react before its future is dropped.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// How a handler's run ended.
enum Ended {
    /// It returned or panicked while the lease was held.
    Returned(Result<Handled, Failure>),
    /// The lease was lost meanwhile; the result does not count.
    LeaseLost(crate::Error),
}

impl Worker {
    pub(super) async fn attempt<H: Handler>(
        &self,
        delivery: Delivery,
        opened: &Opened,
        handler: &H,
        stop: &Stop,
    ) -> TaskEvent {
        let attempt = delivery.attempt;
        if let Some(verdict) = self.not_to_be_tried(&delivery, &opened.envelope.id).await {
            return self.give_up_untried(delivery, opened, verdict).await;
        }
        let mark = ClaimMark {
            attempt,
            worker: self.endpoint.agent().to_string(),
            claimed: self.endpoint.clock().now().to_string(),
            given_up: None,
        };
        if let Err(error) = self.endpoint.mark_claim(&opened.envelope.id, &mark).await {
            return self.unmarked(delivery, opened, error).await;
        }
        match self.run_handler(&delivery, opened, handler, stop).await {
            Ended::LeaseLost(error) => {
                let task_id = opened.envelope.id.clone();
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
        tokio::pin!(work);
        let rhythm = (delivery.lease / 3).max(Duration::from_millis(1));
        let mut extend_at = Instant::now() + rhythm;
        loop {
            tokio::select! {
                biased;
                result = &mut work => return Ended::Returned(flatten(result)),
                () = stop.now.cancelled() => {
                    cancel.cancel();
                    // Whatever it still says, the task goes back: the worker was told to stop.
                    let finished = tokio::time::timeout(CANCEL_GRACE, &mut work).await;
                    return Ended::Returned(match finished {
                        Ok(result) => flatten(result),
                        Err(_) => Err(Failure::Interrupted),
                    });
                }
                () = tokio::time::sleep_until(extend_at) => {
                    if let Err(error) = delivery.extend().await {
                        cancel.cancel();
                        let _late = tokio::time::timeout(CANCEL_GRACE, &mut work).await;
                        return Ended::LeaseLost(error);
                    }
                    extend_at = Instant::now() + rhythm;
                }
            }
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
