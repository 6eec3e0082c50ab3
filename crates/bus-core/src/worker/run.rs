//! The loop of a worker: claim while there is room, run what was claimed, stop when told.

use std::time::Duration;

use bus_subjects::{Address, ConsumerName, Filter};
use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::time::Instant;

use super::{
    Handler, Stop, TaskEvent, Worker, WorkerSpec, attempt::Around, company::Company, lease::Lease,
};
use crate::{
    ConsumerSpec, Deliveries, Delivery, Error, ErrorKind, Operation, Result, TaskOutcome,
    endpoint::Seen, planes,
};

/// What the loop goes on with.
enum Step {
    Ended(TaskEvent),
    Claimed(Option<Result<Delivery>>),
    /// It is told to claim nothing more.
    Told,
    /// What still runs has had its time.
    Overdue,
}

impl Worker {
    /// Works until `stop` says otherwise or the bus is closed, and reports every delivery's end.
    ///
    /// When claiming fails, what was claimed before is still seen to its end.
    ///
    /// Not cancel safe in the sense that a dropped call leaves its deliveries to their leases;
    /// nothing is lost.
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
        let (halt, company) = (stop.now.child_token(), Company::default());
        let around = Around { halt: &halt, company: &company };
        let mut running = FuturesUnordered::new();
        // `None` once nothing more is to be claimed.
        let (mut claims, mut result) = (Some(&mut deliveries), Ok(()));
        let overdue = self.overdue(stop);
        tokio::pin!(overdue);
        while claims.is_some() || !running.is_empty() {
            let has_room = running.len() < self.spec.concurrency.get() && company.is_open();
            let step = tokio::select! {
                biased;
                () = told(stop), if claims.is_some() => Step::Told,
                () = &mut overdue, if claims.is_none() && !halt.is_cancelled() => Step::Overdue,
                Some(event) = running.next() => Step::Ended(event),
                claimed = claim(&mut claims), if has_room => Step::Claimed(claimed),
            };
            match step {
                Step::Ended(event) => {
                    self.note(&event);
                    report(event);
                }
                Step::Claimed(Some(Ok(delivery))) => {
                    let lease = Lease::new(delivery, Instant::now());
                    let checked = self.endpoint.check_certificate("claim");
                    running.push(self.deliver(lease, checked.is_ok(), handler, &around));
                    if let Err(error) = checked {
                        (claims, result) = (None, Err(error));
                    }
                }
                Step::Claimed(Some(Err(error))) => (claims, result) = (None, Err(error)),
                Step::Claimed(None) | Step::Told => claims = None,
                Step::Overdue => halt.cancel(),
            }
        }
        result
    }

    /// Counts how a delivery ended; a dead letter was counted by its cause when it was confirmed.
    fn note(&self, event: &TaskEvent) {
        let outcome = match event {
            TaskEvent::Completed { .. } => TaskOutcome::Completed,
            TaskEvent::Retried { .. } => TaskOutcome::Retried,
            TaskEvent::Released { .. } => TaskOutcome::Released,
            TaskEvent::Unsettled { error, .. } if error.kind() == ErrorKind::LeaseLost => {
                TaskOutcome::LeaseLost
            }
            TaskEvent::Unsettled { .. } => TaskOutcome::Unsettled,
            TaskEvent::DeadLettered { .. } => return,
        };
        self.endpoint.metrics().ended(outcome);
    }

    /// Returns when what runs after a drain has had its time.
    async fn overdue(&self, stop: &Stop) {
        stop.drain.cancelled().await;
        match self.spec.drain_max {
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
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

    /// Sees one delivery to its end; only hands it back when this agent may not work any more.
    async fn deliver<H: Handler>(
        &self,
        mut lease: Lease,
        may_work: bool,
        handler: &H,
        around: &Around<'_>,
    ) -> TaskEvent {
        if !may_work {
            let task_id = lease.delivery.frame.id.to_string();
            let reason = "the worker's certificate is not valid";
            return self.release(lease, task_id, reason, Duration::ZERO).await;
        }
        match self.endpoint.open(&lease.delivery.frame) {
            Ok(mut opened) => {
                let attempt = Some(lease.delivery.attempt);
                let seen = Seen::begin(&self.endpoint, &mut opened, Operation::Process, attempt);
                lease.seen.clone_from(&seen);
                let event = self.attempt(lease, &opened, handler, around).await;
                if let Some(seen) = seen {
                    seen.end_task(&event);
                }
                event
            }
            Err(error) => self.unreadable(lease, &error).await,
        }
    }
}

/// Returns when a worker is to claim nothing more.
async fn told(stop: &Stop) {
    tokio::select! {
        () = stop.drain.cancelled() => {}
        () = stop.now.cancelled() => {}
    }
}

/// The next delivery; never, when nothing is to be claimed.
async fn claim(claims: &mut Option<&mut Deliveries>) -> Option<Result<Delivery>> {
    match claims {
        Some(deliveries) => deliveries.next().await,
        None => std::future::pending().await,
    }
}
