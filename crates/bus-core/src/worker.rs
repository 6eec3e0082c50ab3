//! One worker of a queue: claims tasks while it has room and sees each to its end.

mod alert;
mod attempt;
mod company;
mod lease;
mod rate;
mod run;
mod settle;

use std::{num::NonZeroUsize, time::Duration};

use bus_envelope::EventHash;
use bus_subjects::RoleName;
use tokio_util::sync::CancellationToken;

pub use self::rate::{Permit, RateKey, RateLimit, RateLimiter};
use crate::{Endpoint, Error, Failure, Opened, RetryPolicy};

/// Claims the tasks of one queue and runs a [`Handler`] on them.
///
/// At-least-once: a handler may see a task again when a lease ran out or an answer was lost; the
/// task's id and attempt tell. The order of things: claim mark, handler, and then either the
/// handler's own receipt before the acknowledgement, or the dead letter stored and confirmed
/// before the task is removed.
///
/// It runs up to [`WorkerSpec::concurrency`] handlers at once, all of them within the one future of
/// [`Worker::run`]: they take turns wherever one awaits. A handler that computes for long without
/// awaiting holds up its neighbours and the extension of their leases, so it has to hand that part
/// to a thread or task of its own. A task whose last attempt ended without a verdict, as when its
/// worker died, runs alone: it may be the one that took the others down with it.
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
    /// How many tasks it works on at once; 1 by default. It claims a task only when it has room
    /// for it, so what it cannot work on yet is left to others.
    pub concurrency: NonZeroUsize,
    /// How long what runs may go on after a drain began; then it is stopped and handed back, as
    /// by [`Stop::now`]. By default as long as it takes.
    pub drain_max: Option<Duration>,
    /// How many tasks of one key it may begin in a time; no limit by default. A task over the limit
    /// is handed back until its turn, which uses up no attempt and holds up no other key.
    pub rate: Option<RateLimiter>,
    /// Whether it hears that a task was cancelled, before it begins and while it runs; off by
    /// default. It costs a watch for each attempt. Without it, the cancelling of a task counts when
    /// somebody gets the task who hears it.
    pub hears_cancels: bool,
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
    /// The task, checked and opened. What is sent on its account names its trace, so that it
    /// stands below this attempt where somebody records traces.
    pub message: &'a Opened,
    /// Which attempt this is, the first being 1.
    pub attempt: u32,
    /// The worker's own endpoint: for events and the receipt.
    pub endpoint: &'a Endpoint,
    /// Signalled when the result will no longer be taken: stop working.
    pub cancel: CancellationToken,
}

impl Job<'_> {
    /// The key under which other systems should know the step `step` of this task, so that they do
    /// it once: the same in every attempt and after a redrive, another for every other task and
    /// step. 64 hexadecimal digits.
    ///
    /// A task may be tried again although an earlier attempt did all of it: that is what
    /// at-least-once means. What must not happen twice outside of the bus (a payment, a mail) has
    /// to be told apart there, by this key.
    #[must_use]
    pub fn idempotency_key(&self, step: &str) -> String {
        EventHash::of(format!("vak-bus/step/v1:{}:{step}", self.message.hash).as_bytes())
            .to_string()
    }
}

/// A handler's word that the task is done and its receipt, if any, stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Handled;

/// How a worker is stopped.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    /// Claim nothing more, finish what runs (within [`WorkerSpec::drain_max`]), then end.
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
        Self {
            role,
            lease: Duration::from_secs(30),
            retry: RetryPolicy::default(),
            concurrency: NonZeroUsize::MIN,
            drain_max: None,
            rate: None,
            hears_cancels: false,
        }
    }
}

impl Worker {
    /// A worker that acts as `endpoint`.
    #[must_use]
    pub fn new(endpoint: Endpoint, spec: WorkerSpec) -> Self {
        Self { endpoint, spec }
    }
}
