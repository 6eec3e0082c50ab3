//! Tasks that a client holds: each with a worker of its own that keeps the engine's lease alive.
//!
//! A claim is a [`Worker`] that takes one task and ends with it, so marks, retries, dead letters
//! and receipts are those of every worker. The client's own lease is shorter than the process: a
//! client that says nothing for that long has failed, though this process lives.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bus_core::{
    Endpoint, Failure, Handled, Handler, Job, Outcome, RetryPolicy, Stop, TaskEvent, Worker,
    WorkerSpec,
};
use bus_subjects::RoleName;
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep_until},
};
use tokio_util::task::TaskTracker;

use crate::{
    answer::{Answer, Refused},
    data,
    done::{self, Output},
};

/// How the worker of each claim works.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub endpoint: Endpoint,
    pub lease: Duration,
    pub retry: RetryPolicy,
}

/// The tasks that are held now.
#[derive(Debug)]
pub(crate) struct Claims {
    terms: Terms,
    held: Arc<Mutex<HashMap<String, Held>>>,
    workers: TaskTracker,
    stop: Stop,
}

/// A held task, as the calls of its client see it.
#[derive(Debug)]
struct Held {
    verdict: oneshot::Sender<Said>,
    until: watch::Sender<Instant>,
    ended: oneshot::Receiver<Ended>,
}

/// What a client says of its task.
#[derive(Debug)]
pub(crate) enum Said {
    /// Done, with this.
    Done(Output),
    /// Not done.
    Failed { reason: String, reject: bool },
}

/// What became of it.
type Ended = Result<TaskEvent, bus_core::Error>;

/// A task on its way to the call that asked for one.
#[derive(Debug)]
struct Offer {
    lease: String,
    task: Value,
}

impl Claims {
    pub(crate) fn new(terms: Terms) -> Self {
        let stop = Stop::default();
        Self { terms, held: Arc::default(), workers: TaskTracker::new(), stop }
    }

    /// Takes the next task of `role`, waiting `wait` for one. A dropped call takes none.
    pub(crate) async fn claim(&self, role: RoleName, wait: Duration, lease: Duration) -> Answer {
        let (offers, mut offered) = mpsc::channel(1);
        let stop = Stop { now: self.stop.now.child_token(), ..Stop::default() };
        // Whatever ends this call before it has the task hands the task back.
        let unclaimed = stop.now.clone().drop_guard();
        let taking = Taking {
            offers,
            lease,
            held: Arc::clone(&self.held),
            drain: stop.drain.clone(),
            ended: Mutex::new(None),
        };
        let (failed, failure) = oneshot::channel();
        let worker = Worker::new(self.terms.endpoint.clone(), self.spec(role.clone()));
        self.workers.spawn(async move {
            let worked = worker.run(&taking, &stop, |event| taking.note(event)).await;
            if let Err(error) = worked {
                taking.end(Err(error), failed);
            }
        });
        // One that is there already is to be had without waiting, but not without asking.
        let until = Instant::now() + wait.max(AT_ONCE);
        let offer = tokio::select! {
            biased;
            offer = offered.recv() => offer,
            () = sleep_until(until) => None,
        };
        // It may have come at the last moment.
        offered.close();
        let offer = match offer {
            Some(offer) => Some(offer),
            None => offered.recv().await,
        };
        let Some(Offer { lease: id, task }) = offer else {
            drop(unclaimed);
            return match failure.await {
                Ok(error) => Err(error.into()),
                Err(_) => Ok(json!({ "task": null, "role": role.as_str() })),
            };
        };
        let _claimed = unclaimed.disarm();
        Ok(json!({
            "lease": id,
            "lease_seconds": lease.as_secs(),
            "role": role.as_str(),
            "task": task,
        }))
    }

    /// Gives the client `lease` from now on.
    pub(crate) fn extend(&self, id: &str, lease: Duration) -> Answer {
        let held = self.held();
        let entry = held.get(id).filter(|entry| !entry.verdict.is_closed()).ok_or_else(gone)?;
        entry.until.send_replace(Instant::now() + lease);
        Ok(json!({ "lease": id, "lease_seconds": lease.as_secs() }))
    }

    /// Ends a task, and says what that came to once it is stored.
    pub(crate) async fn settle(&self, id: &str, said: Said) -> Answer {
        let entry = self.held().remove(id).ok_or_else(gone)?;
        let was_done = matches!(said, Said::Done(_));
        entry.verdict.send(said).map_err(|_| gone())?;
        match entry.ended.await {
            Ok(Ok(event)) if was_done => completed(event),
            Ok(Ok(event)) => told(event),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(Refused {
                outcome: Outcome::Unknown,
                ..Refused::new("closed", "the worker of this task ended before its answer")
            }),
        }
    }

    /// Hands back everything that is held, and takes nothing more.
    pub(crate) async fn end(&self) {
        self.stop.now.cancel();
        self.workers.close();
        self.workers.wait().await;
    }

    fn spec(&self, role: RoleName) -> WorkerSpec {
        let mut spec = WorkerSpec::new(role);
        spec.lease = self.terms.lease;
        spec.retry = self.terms.retry;
        spec.hears_cancels = true;
        spec
    }

    fn held(&self) -> MutexGuard<'_, HashMap<String, Held>> {
        lock(&self.held)
    }
}

/// The handler of one claim: offers its task, and waits for the client's word.
struct Taking {
    offers: mpsc::Sender<Offer>,
    lease: Duration,
    held: Arc<Mutex<HashMap<String, Held>>>,
    drain: tokio_util::sync::CancellationToken,
    /// Where the end of the task is told.
    ended: Mutex<Option<oneshot::Sender<Ended>>>,
}

impl Handler for Taking {
    async fn handle(&self, job: Job<'_>) -> Result<Handled, Failure> {
        // One is enough.
        self.drain.cancel();
        let started = job.endpoint.clock().now();
        let id = job.endpoint.new_id().map_err(|_| Failure::Interrupted)?;
        let (verdict, said) = oneshot::channel();
        let (until, mut times) = watch::channel(Instant::now() + self.lease);
        let (ended, end) = oneshot::channel();
        *lock(&self.ended) = Some(ended);
        lock(&self.held).insert(id.clone(), Held { verdict, until, ended: end });
        let _forgotten = Forget { held: &self.held, id: &id };
        let mut task = data::message(job.message);
        if let Some(task) = task.as_object_mut() {
            task.insert("attempt".to_owned(), json!(job.attempt));
        }
        if self.offers.try_send(Offer { lease: id.clone(), task }).is_err() {
            return Err(Failure::Interrupted);
        }
        let said = tokio::select! {
            biased;
            // The call that asked may be gone between the offer and its taking.
            said = said => said.ok(),
            () = job.cancel.cancelled() => None,
            () = over(&mut times) => {
                let seconds = self.lease.as_secs();
                let reason = format!("the agent said nothing within its lease of {seconds} s");
                return Err(Failure::Failed { reason });
            }
        };
        match said {
            Some(Said::Done(output)) => done::keep(&job, output, started).await,
            Some(Said::Failed { reason, reject: true }) => Err(Failure::Hopeless { reason }),
            Some(Said::Failed { reason, reject: false }) => Err(Failure::Failed { reason }),
            None => Err(Failure::Interrupted),
        }
    }
}

impl Taking {
    fn note(&self, event: TaskEvent) {
        if let Some(ended) = lock(&self.ended).take() {
            // Nobody waits where the lease ran out.
            let _unheard = ended.send(Ok(event));
        }
    }

    /// A worker that could not go on: told to who settles, else to who claims.
    fn end(&self, error: Ended, claiming: oneshot::Sender<bus_core::Error>) {
        match (lock(&self.ended).take(), error) {
            (Some(ended), error) => drop(ended.send(error)),
            (None, Err(error)) => drop(claiming.send(error)),
            (None, Ok(_)) => {}
        }
    }
}

/// A lease is forgotten when its task ended, however that came.
struct Forget<'a> {
    held: &'a Mutex<HashMap<String, Held>>,
    id: &'a str,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        lock(self.held).remove(self.id);
    }
}

/// Returns when the client's time is over.
async fn over(times: &mut watch::Receiver<Instant>) {
    loop {
        let until = *times.borrow_and_update();
        tokio::select! {
            biased;
            changed = times.changed() => if changed.is_err() {
                // The verdict is on its way.
                std::future::pending::<()>().await;
            },
            () = sleep_until(until) => return,
        }
    }
}

/// What the end of a task is to who ended it.
fn told(event: TaskEvent) -> Answer {
    match event {
        TaskEvent::Completed { task_id, attempt } => {
            Ok(json!({ "task": task_id, "state": "completed", "attempt": attempt }))
        }
        TaskEvent::Retried { task_id, attempt, after, .. } => Ok(json!({
            "task": task_id,
            "state": "retried",
            "attempt": attempt,
            "after_ms": u64::try_from(after.as_millis()).unwrap_or(u64::MAX),
        })),
        TaskEvent::DeadLettered { task_id, attempts, .. } => {
            Ok(json!({ "task": task_id, "state": "dead-lettered", "attempts": attempts }))
        }
        TaskEvent::Released { task_id, reason } => {
            Ok(json!({ "task": task_id, "state": "released", "reason": reason }))
        }
        TaskEvent::Unsettled { error, .. } => Err(error.into()),
    }
}

/// What the end of a task is to who has done it: anything but completed is none.
fn completed(event: TaskEvent) -> Answer {
    let (what, reason) = match event {
        TaskEvent::Retried { reason, .. } => ("the task is tried again", reason),
        TaskEvent::DeadLettered { reason, .. } => ("the task is a dead letter", reason),
        TaskEvent::Released { reason, .. } => ("the task was handed back", reason.to_owned()),
        event @ (TaskEvent::Completed { .. } | TaskEvent::Unsettled { .. }) => return told(event),
    };
    Err(Refused::new("not-completed", format!("{what}: {reason}"))
        .unknown()
        .next("task_result says how it ends"))
}

fn gone() -> Refused {
    let reason = "no task is held under this lease: it was ended, its time was over, or the task \
                  was cancelled";
    Refused::new("lease-lost", reason).next("stop working on it; task_claim takes another one")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long a call that does not wait asks for a task.
const AT_ONCE: Duration = Duration::from_millis(500);
