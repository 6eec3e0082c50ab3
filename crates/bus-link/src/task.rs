//! Tasks of this engine, and those that end when their owner goes.

use tokio::task::JoinHandle;

/// A spawned task; dropping this aborts it.
#[derive(Debug)]
pub(crate) struct Task(JoinHandle<()>);

impl Task {
    /// Starts it.
    pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(start(work))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Starts what goes on by itself until it has ended.
#[expect(clippy::disallowed_methods, reason = "an engine starts the tasks of its connections")]
pub(crate) fn start<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    tokio::spawn(work)
}
