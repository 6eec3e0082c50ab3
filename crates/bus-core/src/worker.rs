//! One worker of a queue: claims tasks one by one and sees each to its end.

mod attempt;
mod lease;
mod settle;

use std::time::Duration;

use bus_subjects::{Address, ConsumerName, Filter, RoleName};
use tokio_util::sync::CancellationToken;

use crate::{
    ConsumerSpec, Delivery, Endpoint, Error, ErrorKind, Failure, Opened, Result, RetryPolicy,
    Verdict, planes,
};

/// Claims the tasks of one queue and runs a [`Handler`] on them.
///
/// At-least-once: a handler may see a task again when a lease ran out or an answer was lost; the
/// task's id and attempt tell. The order of things: claim mark, handler, and then either the
/// handler's own receipt before the acknowledgement, or the dead letter stored and confirmed
/// before the task is removed.
#[derive(Debug)]
pub struct Worker {
    endpoint: Endpoint,
    spec: WorkerSpec,
}

/// What a worker serves and how it treats failures.
#[derive(Debug, Clone)]
pub struct WorkerSpec {
    /// The role whose queue it serves.
    pub role: RoleName,
    /// How long a claim lasts unless extended; extended every third of it. 30 s by default. Less
    /// than a tenth before its end by this process's own clock no verdict is given any more.
    pub lease: Duration,
    /// How often and how soon a failed task is tried again.
    pub retry: RetryPolicy,
}

/// Does the work of one task.
pub trait Handler: Send + Sync {
    /// Works on `job`. Returning `Ok` acknowledges the task; a panic counts as a failure.
    ///
    /// Dropped when the lease is lost or the worker is stopped at once, after `job.cancel` was
    /// signalled and a moment to react has passed. What it finishes within that moment after a
    /// stop counts; a failure by then does not, and the task goes back. After a lost lease nothing
    /// counts.
    fn handle(&self, job: Job<'_>) -> impl Future<Output = Result<Handled, Failure>> + Send;
}

/// One attempt at a task.
#[derive(Debug)]
pub struct Job<'a> {
    /// The task, checked and opened.
    pub message: &'a Opened,
    /// Which attempt this is, the first being 1.
    pub attempt: u32,
    /// The worker's own endpoint: for events and the receipt.
    pub endpoint: &'a Endpoint,
    /// Signalled when the result will no longer be taken: stop working.
    pub cancel: CancellationToken,
}

/// A handler's word that the task is done and its receipt, if any, stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Handled;

/// How a worker is stopped.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    /// Claim nothing more, finish what runs, then end.
    pub drain: CancellationToken,
    /// End now: running handlers are cancelled and their tasks handed back.
    pub now: CancellationToken,
}

/// What became of one delivery.
#[derive(Debug)]
pub enum TaskEvent {
    /// The task is done and removed.
    Completed {
        /// The task's id.
        task_id: String,
        /// The attempt that did it.
        attempt: u32,
    },
    /// The attempt failed; the task rests and is tried again.
    Retried {
        /// The task's id.
        task_id: String,
        /// The attempt that failed.
        attempt: u32,
        /// How long it rests.
        after: Duration,
        /// Why it failed.
        reason: String,
    },
    /// The task was given up; its dead letter is stored.
    DeadLettered {
        /// The task's id.
        task_id: String,
        /// How many attempts were made.
        attempts: u32,
        /// Why it was given up.
        reason: String,
    },
    /// The task was handed back without using up an attempt.
    Released {
        /// The task's id.
        task_id: String,
        /// Why.
        reason: &'static str,
    },
    /// The verdict did not take effect; the engine will deliver the task again.
    Unsettled {
        /// The task's id.
        task_id: String,
        /// What went wrong.
        error: Error,
    },
}

impl WorkerSpec {
    /// The longest lease: a day. A worker that vanished is missed no later.
    pub const LEASE_MAX: Duration = Duration::from_secs(24 * 3600);

    /// A worker of `role` with the defaults.
    #[must_use]
    pub fn new(role: RoleName) -> Self {
        Self { role, lease: Duration::from_secs(30), retry: RetryPolicy::default() }
    }
}

impl Worker {
    /// A worker that acts as `endpoint`.
    #[must_use]
    pub fn new(endpoint: Endpoint, spec: WorkerSpec) -> Self {
        Self { endpoint, spec }
    }

    /// Works until `stop` says otherwise or the bus is closed, and reports every delivery's end.
    ///
    /// Not cancel safe in the sense that a dropped call leaves its delivery to the lease; nothing
    /// is lost.
    ///
    /// # Errors
    /// `Denied` and `NotFound` when the queue cannot be joined; `Denied` also when the agent's
    /// certificate ends meanwhile; `Unavailable` when claiming fails.
    pub async fn run<H: Handler>(
        &self,
        handler: &H,
        stop: &Stop,
        mut report: impl FnMut(TaskEvent) + Send,
    ) -> Result<()> {
        let mut deliveries = self.endpoint.consume(self.consumer()?).await?;
        loop {
            let delivery = tokio::select! {
                biased;
                () = stop.now.cancelled() => return Ok(()),
                () = stop.drain.cancelled() => return Ok(()),
                delivery = deliveries.next() => delivery,
            };
            match delivery {
                None => return Ok(()),
                Some(Err(error)) => return Err(error),
                Some(Ok(delivery)) => {
                    if let Err(error) = self.endpoint.check_certificate("claim") {
                        // Best effort: else the lease runs out.
                        let release = Verdict::Release { after: Duration::ZERO };
                        let _released = delivery.settle(release).await;
                        return Err(error);
                    }
                    report(self.deliver(delivery, handler, stop).await);
                }
            }
        }
    }

    /// The competing consumer that all workers of this role share.
    fn consumer(&self) -> Result<ConsumerSpec> {
        let workspace = self.endpoint.workspace().clone();
        let role = self.spec.role.clone();
        let name = ConsumerName::parse(&format!("worker_{role}"))?;
        let stream = planes::work_stream(&workspace)?;
        let subject = Address::Task { workspace, role }.subject();
        let lease = self.spec.lease;
        if lease.is_zero() || lease > WorkerSpec::LEASE_MAX {
            let detail = format!("lease is {lease:?}: expected more than zero and at most a day");
            return Err(Error::new(ErrorKind::Invalid, "worker", detail));
        }
        Ok(ConsumerSpec { stream, name, filter: Filter::from(&subject), lease })
    }

    async fn deliver<H: Handler>(&self, delivery: Delivery, handler: &H, stop: &Stop) -> TaskEvent {
        match self.endpoint.open(&delivery.frame) {
            Ok(opened) => self.attempt(delivery, &opened, handler, stop).await,
            Err(error) => self.unreadable(delivery, &error).await,
        }
    }
}
