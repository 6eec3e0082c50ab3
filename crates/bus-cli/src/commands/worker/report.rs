//! What a worker says of its tasks: a line for each end, and a count when it stops.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bus_core::TaskEvent;
use serde_json::json;
use tokio::{sync::Notify, time::timeout};

use crate::{args::Global, error::CliError, print as out};

/// Counts how tasks ended, and tells it.
pub(super) struct Report {
    is_json: bool,
    completed: AtomicU64,
    retried: AtomicU64,
    dead_lettered: AtomicU64,
    released: AtomicU64,
    ended: Notify,
    /// The first failure to write to stdout.
    unwritten: Mutex<Option<CliError>>,
}

impl Report {
    pub(super) fn new(global: &Global) -> Self {
        Self {
            is_json: global.json,
            completed: AtomicU64::new(0),
            retried: AtomicU64::new(0),
            dead_lettered: AtomicU64::new(0),
            released: AtomicU64::new(0),
            ended: Notify::new(),
            unwritten: Mutex::new(None),
        }
    }

    /// Tells where HTTP is answered.
    pub(super) fn listens(&self, http: &str) -> Result<(), CliError> {
        if self.is_json {
            return out::json(&json!({ "event": "listening", "http": http }));
        }
        out::remark(&format!("metrics at {http}/metrics"));
        Ok(())
    }

    /// Notes the end of a delivery.
    pub(super) fn note(&self, event: TaskEvent) {
        let (name, count) = match &event {
            TaskEvent::Completed { .. } => ("completed", Some(&self.completed)),
            TaskEvent::Retried { .. } => ("retried", Some(&self.retried)),
            TaskEvent::DeadLettered { .. } => ("dead-lettered", Some(&self.dead_lettered)),
            TaskEvent::Released { .. } => ("released", Some(&self.released)),
            TaskEvent::Unsettled { .. } => ("unsettled", None),
        };
        if let Some(count) = count {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let (task, attempt, why) = match event {
            TaskEvent::Completed { task_id, attempt } => (task_id, Some(attempt), None),
            TaskEvent::Retried { task_id, attempt, reason, .. } => {
                (task_id, Some(attempt), Some(reason))
            }
            TaskEvent::DeadLettered { task_id, attempts, reason } => {
                (task_id, Some(attempts), Some(reason))
            }
            TaskEvent::Released { task_id, reason } => (task_id, None, Some(reason.to_owned())),
            TaskEvent::Unsettled { task_id, error } => (task_id, None, Some(error.to_string())),
        };
        self.tell(name, &task, attempt, why.as_deref());
        self.ended.notify_one();
    }

    fn tell(&self, name: &str, task: &str, attempt: Option<u32>, why: Option<&str>) {
        if self.is_json {
            let line = json!({ "event": name, "task": task, "attempt": attempt, "reason": why });
            if let Err(error) = out::json(&line) {
                let mut first = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert(error);
            }
        } else {
            let why = why.map_or_else(String::new, |why| format!(": {}", out::harmless(why)));
            out::remark(&format!("{name} {task}{why}"));
        }
    }

    /// Waits until another task ends, but not longer than `limit`.
    pub(super) async fn changed(&self, limit: Duration) {
        // Either of the two is a reason to look.
        let _told = timeout(limit, self.ended.notified()).await;
    }

    /// How many were given up.
    pub(super) fn dead_lettered(&self) -> u64 {
        self.dead_lettered.load(Ordering::Relaxed)
    }

    /// Tells the counts.
    pub(super) fn finish(&self) -> Result<(), CliError> {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (completed, retried) = (count(&self.completed), count(&self.retried));
        let (dead, released) = (self.dead_lettered(), count(&self.released));
        if self.is_json {
            out::json(&json!({
                "event": "stopped",
                "completed": completed,
                "retried": retried,
                "dead_lettered": dead,
                "released": released,
            }))?;
        } else {
            let completed = out::counted(completed, "task", "tasks");
            let retries = out::counted(retried, "retry", "retries");
            out::remark(&format!(
                "stopped: {completed} completed, {retries}, {dead} dead-lettered, {released} handed \
                 back"
            ));
        }
        let first = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner).take();
        first.map_or(Ok(()), Err)
    }
}
