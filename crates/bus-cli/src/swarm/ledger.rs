//! What became of the tasks, as the workers report it.

use std::sync::{Mutex, MutexGuard};

use bus_core::TaskEvent;
use tokio::sync::Notify;

/// The count of a run; shared by all workers.
pub(super) struct Ledger {
    tasks: usize,
    state: Mutex<State>,
    settled: Notify,
}

/// The count at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct State {
    pub(super) completed: usize,
    pub(super) retries: usize,
    pub(super) dead: Vec<Dead>,
    pub(super) interrupted: bool,
    /// What went wrong besides the tasks themselves.
    pub(super) troubles: Vec<String>,
}

impl State {
    /// How many tasks are completed or given up.
    pub(super) fn settled(&self) -> usize {
        self.completed + self.dead.len()
    }
}

/// A task that was given up.
#[derive(Debug, Clone)]
pub(super) struct Dead {
    /// Its id.
    pub(super) task: String,
    pub(super) attempts: u32,
    pub(super) reason: String,
}

/// How many troubles are kept word for word.
const TROUBLES_MAX: usize = 100;

impl Ledger {
    pub(super) fn new(tasks: usize) -> Self {
        Self { tasks, state: Mutex::default(), settled: Notify::new() }
    }

    /// How many tasks there are in all.
    pub(super) fn tasks(&self) -> usize {
        self.tasks
    }

    /// Notes the end of a delivery.
    pub(super) fn note(&self, event: TaskEvent) {
        let mut state = self.lock();
        match event {
            TaskEvent::Completed { .. } => state.completed += 1,
            TaskEvent::Retried { .. } => state.retries += 1,
            TaskEvent::DeadLettered { task_id, attempts, reason } => {
                state.dead.push(Dead { task: task_id, attempts, reason });
            }
            TaskEvent::Released { task_id, reason } => {
                tracing::info!(task = %task_id, reason, "task handed back");
            }
            TaskEvent::Unsettled { task_id, error } => {
                // The engine delivers it again: a later event settles it.
                tracing::warn!(task = %task_id, %error, "the verdict did not take effect");
            }
        }
        let done = state.settled() >= self.tasks;
        drop(state);
        if done {
            self.settled.notify_one();
        }
    }

    /// Notes that something besides a task went wrong.
    pub(super) fn fail(&self, trouble: String) {
        tracing::error!("{trouble}");
        let mut state = self.lock();
        if state.troubles.len() < TROUBLES_MAX {
            state.troubles.push(trouble);
        }
    }

    /// Notes that the user stopped the run.
    pub(super) fn interrupt(&self) {
        self.lock().interrupted = true;
    }

    /// Whether every task is completed or given up.
    pub(super) fn is_settled(&self) -> bool {
        self.lock().settled() >= self.tasks
    }

    /// Waits until every task is completed or given up; at once when there is none.
    pub(super) async fn settled(&self) {
        loop {
            if self.is_settled() {
                return;
            }
            self.settled.notified().await;
        }
    }

    /// The count now.
    pub(super) fn state(&self) -> State {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poison| poison.into_inner())
    }
}
