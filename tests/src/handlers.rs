//! What the workers of a story do with their tasks.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use bus_core::{BoxFuture, Failure, Handled, Handler, Job};
use tokio_util::sync::CancellationToken;

/// A handler that does what its script says, attempt by attempt; then it succeeds.
pub struct Scripted(Mutex<VecDeque<Result<(), Failure>>>);

/// A handler that is a function of what it is told about its task.
pub struct Doing<F>(pub F);

/// A run of a [`Doing`] handler.
pub type Ran = BoxFuture<'static, Result<Handled, Failure>>;

/// What a [`Doing`] handler is told.
#[derive(Debug, Clone)]
pub struct Told {
    /// The task's id.
    pub id: String,
    /// Its payload as text.
    pub text: String,
    /// The attempt, the first being 1.
    pub attempt: u32,
    /// Signalled when the result will no longer be taken.
    pub cancel: CancellationToken,
}

impl Scripted {
    /// Fails `times` times, then succeeds.
    #[must_use]
    pub fn failing(times: usize) -> Self {
        let failure = Failure::Failed { reason: "it broke".to_owned() };
        Self(Mutex::new(std::iter::repeat_n(Err(failure), times).collect()))
    }

    /// Succeeds the first time, then fails nearly for ever.
    #[must_use]
    pub fn succeeding_once() -> Self {
        let script = Self::failing(1000);
        script.0.lock().unwrap_or_else(PoisonError::into_inner).push_front(Ok(()));
        script
    }
}

impl Handler for Scripted {
    async fn handle(&self, _job: Job<'_>) -> Result<Handled, Failure> {
        let mut script = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        script.pop_front().unwrap_or(Ok(())).map(|()| Handled)
    }
}

impl<F> Handler for Doing<F>
where
    F: Fn(Told) -> Ran + Send + Sync,
{
    async fn handle(&self, job: Job<'_>) -> Result<Handled, Failure> {
        let text = String::from_utf8_lossy(&job.message.payload).into_owned();
        let (id, cancel) = (job.message.envelope.id.clone(), job.cancel.clone());
        (self.0)(Told { id, text, attempt: job.attempt, cancel }).await
    }
}
