//! One attempt: claim mark, handler under a lease that is kept alive, and the decision after it.

use std::{
    panic::AssertUnwindSafe,
    pin::{Pin, pin},
    time::Duration,
};

use futures_util::FutureExt;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    Handled, Handler, Job, TaskEvent, Worker,
    company::{Company, Place},
    lease::Lease,
    settle::{PARKED, Redelivery},
};
use crate::{
    CancelMark, Deadline, Failure, GivenUp, GivenUpCause, Opened, cancels::CancelWatch,
    claims::Claimed,
};

/// How long a cancelled handler may take to react before its future is dropped.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// What an attempt shares with the others of its worker.
pub(super) struct Around<'a> {
    /// Signalled when they are to end now.
    pub halt: &'a CancellationToken,
    /// Who runs beside whom.
    pub company: &'a Company,
}

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
    /// It was cancelled, and did not end well within the moment that it had.
    Cancelled(CancelMark),
}

impl Worker {
    pub(super) async fn attempt<H: Handler>(
        &self,
        lease: Lease,
        opened: &Opened,
        handler: &H,
        around: &Around<'_>,
    ) -> TaskEvent {
        let (task_id, claimed) = (opened.envelope.id.clone(), Claimed::of(&lease.delivery));
        let attempt = lease.delivery.attempt;
        let is_suspect = match lease.beside(self.redelivery(&lease.delivery)).await {
            Ok(Redelivery::Try { is_suspect }) => is_suspect,
            Ok(Redelivery::Done) => return self.complete(lease, opened).await,
            Ok(Redelivery::GivenUp(verdict)) => {
                return self.give_up_untried(lease, opened, verdict).await;
            }
            Err(error) => return self.unmarked(lease, task_id, error).await,
        };
        if let Some(late) = self.too_late(&lease, opened) {
            return self.give_up_untried(lease, opened, late).await;
        }
        let Some(place) = around.company.join(is_suspect) else {
            let reason = "another task runs alone";
            return self.release(lease, task_id, reason, Duration::ZERO).await;
        };
        if let Some(after) = self.over_limit(&lease.delivery, opened) {
            return self.release(lease, task_id, "its rate limit is reached", after).await;
        }
        let mark = self.mark(&lease.delivery);
        let marked = match lease.beside(self.endpoint.mark_claim(&claimed, &mark)).await {
            Ok(revision) => revision,
            Err(error) => return self.unmarked(lease, task_id, error).await,
        };
        // After the mark: who cancels looks for marks of claims after leaving one of its own, so
        // that one of the two sees the other.
        let cancels = match lease.beside(self.cancels(&claimed)).await {
            Ok((cancels, None)) => cancels,
            Ok((_, Some(mark))) => {
                return self
                    .give_up_untried(
                        lease,
                        opened,
                        self.cancelled(&mark, attempt.saturating_sub(1)),
                    )
                    .await;
            }
            Err(error) => return self.unmarked(lease, task_id, error).await,
        };
        if lease.may_be_over() {
            // Somebody else may have begun already.
            return TaskEvent::Unsettled { task_id, error: lease.over() };
        }
        let signals = (around.halt, &place, cancels);
        let ran = self.run_handler(&lease, opened, handler, signals).await;
        drop(place);
        match ran {
            Ended::LeaseLost { error, is_done } => {
                if is_done {
                    self.mark_done(&claimed, mark).await;
                }
                TaskEvent::Unsettled { task_id, error }
            }
            Ended::Cancelled(mark) => {
                self.give_up_untried(lease, opened, self.cancelled(&mark, attempt)).await
            }
            Ended::Returned(Ok(Handled)) => self.complete(lease, opened).await,
            // Nobody asked for it, so it must not be first in line again at once.
            Ended::Returned(Err(Failure::Interrupted)) if !around.halt.is_cancelled() => {
                self.release(lease, task_id, "its handler handed it back", PARKED).await
            }
            Ended::Returned(Err(failure)) => self.fail(lease, opened, failure, marked).await,
        }
    }

    /// Runs the handler and keeps the lease alive beside it. Whatever panics in it is its own
    /// business: when it is called, when it runs, and when it is dropped half-way.
    async fn run_handler<H: Handler>(
        &self,
        lease: &Lease,
        opened: &Opened,
        handler: &H,
        (halt, place, mut cancels): (&CancellationToken, &Place<'_>, CancelWatch),
    ) -> Ended {
        let cancel = CancellationToken::new();
        let job = Job {
            message: opened,
            attempt: lease.delivery.attempt,
            endpoint: &self.endpoint,
            cancel: cancel.clone(),
        };
        let work = async move {
            tokio::select! {
                biased;
                () = halt.cancelled() => Err(Failure::Interrupted),
                () = place.ready() => handler.handle(job).await,
            }
        };
        let mut ended = None;
        let watched = AssertUnwindSafe(async {
            let mut work = pin!(AssertUnwindSafe(work).catch_unwind().map(flatten));
            ended = Some(watch(lease, work.as_mut(), (halt, &cancel, &mut cancels)).await);
        });
        if watched.catch_unwind().await.is_err() {
            tracing::warn!(task = %opened.envelope.id, "a handler panicked while it was dropped");
        }
        ended.unwrap_or(Ended::Returned(Err(Failure::Interrupted)))
    }
}

impl Worker {
    /// The verdict on a task whose deadline is over, or cannot be read.
    fn too_late(&self, lease: &Lease, opened: &Opened) -> Option<GivenUp> {
        let (reason, cause) = match Deadline::of(&opened.envelope) {
            Ok(None) => return None,
            Ok(Some(deadline)) if !deadline.is_over(self.endpoint.clock().now()) => return None,
            Ok(Some(Deadline(time))) => {
                (format!("its deadline {time} was over"), GivenUpCause::Expired)
            }
            Err(error) => (format!("refused before any attempt: {error}"), GivenUpCause::Refused),
        };
        let attempts = lease.delivery.attempt.saturating_sub(1);
        Some(GivenUp { attempts, worker: None, reason, cause })
    }

    /// Listens for the cancelling of a task, if this worker does that.
    async fn cancels(&self, claimed: &Claimed) -> crate::Result<(CancelWatch, Option<CancelMark>)> {
        match self.spec.hears_cancels {
            true => self.endpoint.watch_cancel(claimed).await,
            false => Ok((CancelWatch::deaf(), None)),
        }
    }

    /// The verdict on a task that was cancelled after so many attempts were begun.
    fn cancelled(&self, mark: &CancelMark, attempts: u32) -> GivenUp {
        let worker = (attempts > 0).then(|| self.endpoint.agent().to_string());
        GivenUp { attempts, worker, reason: mark.reason(), cause: GivenUpCause::Cancelled }
    }
}

/// Waits until the work has ended, or has to.
async fn watch(
    lease: &Lease,
    mut work: Pin<&mut impl Future<Output = Result<Handled, Failure>>>,
    (halt, cancel, cancels): (&CancellationToken, &CancellationToken, &mut CancelWatch),
) -> Ended {
    let mut lost = pin!(lease.keep());
    let result = tokio::select! {
        biased;
        result = &mut work => result,
        error = &mut lost => {
            cancel.cancel();
            let late = timeout(CANCEL_GRACE, work).await;
            return Ended::LeaseLost { error, is_done: late.is_ok_and(|result| result.is_ok()) };
        }
        mark = cancels.told() => {
            cancel.cancel();
            tokio::select! {
                biased;
                // What it finished in time counts: the work is done.
                finished = timeout(CANCEL_GRACE, work) => match finished {
                    Ok(Ok(Handled)) => Ok(Handled),
                    _ => return Ended::Cancelled(mark),
                },
                error = &mut lost => return Ended::LeaseLost { error, is_done: false },
            }
        }
        () = halt.cancelled() => {
            cancel.cancel();
            tokio::select! {
                biased;
                // It was told to stop, but what it finished in time counts.
                // A failure by then is the stop's doing and uses up no attempt.
                finished = timeout(CANCEL_GRACE, work) => {
                    finished.ok().and_then(Result::ok).ok_or(Failure::Interrupted)
                }
                error = &mut lost => return Ended::LeaseLost { error, is_done: false },
            }
        }
    };
    if lease.may_be_over() {
        return Ended::LeaseLost { error: lease.over(), is_done: result.is_ok() };
    }
    Ended::Returned(result)
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
