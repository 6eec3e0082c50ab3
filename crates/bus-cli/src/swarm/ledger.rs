//! What became of the tasks, as the workers report it.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard},
};

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
    /// The ids of both: the end of one task may be told twice, by who brought it about and by the
    /// bus.
    ended: HashSet<String>,
    /// The ids of tasks whose worker does not know whether its verdict took effect.
    doubtful: HashSet<String>,
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
            TaskEvent::Completed { task_id, .. } => {
                if state.ended.insert(task_id) {
                    state.completed += 1;
                }
            }
            TaskEvent::Retried { .. } => state.retries += 1,
            TaskEvent::DeadLettered { task_id, attempts, reason } => {
                if state.ended.insert(task_id.clone()) {
                    state.dead.push(Dead { task: task_id, attempts, reason });
                }
            }
            TaskEvent::Released { task_id, reason } => {
                tracing::info!(task = %task_id, reason, "task handed back");
            }
            TaskEvent::Unsettled { task_id, error } => {
                // If it did not, the engine delivers it again, and a later event settles it.
                tracing::warn!(task = %task_id, %error, "the verdict may not have taken effect");
                state.doubtful.insert(task_id);
            }
        }
        let done = state.settled() >= self.tasks;
        drop(state);
        if done {
            self.settled.notify_one();
        }
    }

    /// The tasks whose end is in doubt.
    pub(super) fn doubtful(&self) -> Vec<String> {
        let state = self.lock();
        state.doubtful.difference(&state.ended).cloned().collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_task_is_in_doubt_until_it_is_told() {
        let ledger = Ledger::new(1);
        let error = bus_core::Error::new(bus_core::ErrorKind::Timeout, "settle", "no answer");
        ledger.note(TaskEvent::Unsettled { task_id: "a".to_owned(), error });
        assert_eq!(ledger.doubtful(), ["a"]);
        ledger.note(TaskEvent::Completed { task_id: "a".to_owned(), attempt: 1 });
        assert!(ledger.doubtful().is_empty());
    }

    #[test]
    fn the_end_of_a_task_counts_once_whoever_tells_it() {
        let ledger = Ledger::new(2);
        let done = |task: &str| TaskEvent::Completed { task_id: task.to_owned(), attempt: 1 };
        let (task_id, reason) = ("a".to_owned(), "gone".to_owned());
        ledger.note(done("a"));
        ledger.note(done("a"));
        ledger.note(TaskEvent::DeadLettered { task_id, attempts: 1, reason });
        assert_eq!(ledger.state().settled(), 1);
        ledger.note(done("b"));
        assert!(ledger.is_settled());
    }
}
