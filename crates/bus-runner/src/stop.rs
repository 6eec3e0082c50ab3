//! The signal that ends a run at once.

use tokio_util::sync::CancellationToken;

/// A signal, shared by its clones, that kills the process group of every run that holds it.
///
/// It is no request to drain: whoever wants a run to finish its work waits for it instead.
#[derive(Clone, Debug, Default)]
pub struct StopSignal {
    token: CancellationToken,
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
        Self { token: self.token.child_token() }
    }

    /// Kills the process groups of all runs that hold this signal; they report `Killed`.
    pub fn kill_now(&self) {
        self.token.cancel();
    }

    /// Tells whether the signal has been given.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Waits until the signal is given. Cancel safe.
    pub async fn given(&self) {
        self.token.cancelled().await;
    }
}
