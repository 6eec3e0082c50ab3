//! The signal that ends a run: with a moment to react, or at once.

use tokio_util::sync::CancellationToken;

/// A signal, shared by its clones, that ends the process group of every run that holds it.
///
/// It is no request to drain: whoever wants a run to finish its work waits for it instead.
#[derive(Clone, Debug, Default)]
pub struct StopSignal {
    /// Given by both ways to stop.
    ended: CancellationToken,
    killed: CancellationToken,
}

impl StopSignal {
    /// Creates a signal that nobody has given yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a signal that is given together with this one, and can also be given alone.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { ended: self.ended.child_token(), killed: self.killed.child_token() }
    }

    /// Ends the process groups of all runs that hold this signal: `SIGTERM` now, and `SIGKILL`
    /// after their grace or [`END_GRACE_MAX`](crate::END_GRACE_MAX), whichever is shorter. They
    /// report `Killed`.
    pub fn end(&self) {
        self.ended.cancel();
    }

    /// Kills the process groups of all runs that hold this signal; they report `Killed`.
    pub fn kill_now(&self) {
        self.killed.cancel();
        self.ended.cancel();
    }

    /// Tells whether the signal has been given, in either way.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Waits until the signal is given, in either way. Cancel safe.
    pub async fn given(&self) {
        self.ended.cancelled().await;
    }

    /// Waits until all is to be killed. Cancel safe.
    pub(crate) async fn killed(&self) {
        self.killed.cancelled().await;
    }
}
