//! What an engine supplies to be held to the suite.

use std::{sync::Arc, time::Duration};

use bus_core::{BoxFuture, Engine, Promises, Result};

/// One engine under test, made anew for every case.
///
/// It is made outside of any runtime; connections belong into [`Harness::connect`]. Cases that
/// share a server keep apart by their workspace names, so a harness may hold an `Arc` of one.
pub trait Harness: Send + Sync + 'static {
    /// The engine's name, as reports and `conformance.lock` show it.
    fn name(&self) -> &'static str;

    /// What the engine promises; a case beyond it does not apply and says why.
    fn promises(&self) -> Promises;

    /// Opens a connection for `who`; all connections of one harness reach the same broker.
    ///
    /// # Errors
    /// Whatever keeps the engine from answering: the case fails with it, it is never skipped.
    fn connect<'a>(&'a self, who: &'a str) -> BoxFuture<'a, Result<Arc<dyn Engine>>>;

    /// Stops the broker and starts it again on what it stored; connections are made anew.
    ///
    /// Asked only of engines whose appends survive the process.
    ///
    /// # Errors
    /// Whatever keeps the broker from coming back; `Unsupported` is a failure as well.
    fn restart(&self) -> BoxFuture<'_, Result<()>>;

    /// Whether time stands still unless [`Harness::elapse`] moves it: the case then runs on a
    /// single thread under tokio's stopped clock.
    fn virtual_time(&self) -> bool;

    /// Lets `by` pass: [`advance`] under virtual time, [`wait_out`] otherwise.
    fn elapse(&self, by: Duration) -> BoxFuture<'_, ()>;
}

/// Moves tokio's stopped clock on by `by` and lets everything that became due run.
///
/// # Panics
/// When the clock of the current runtime is not stopped.
pub async fn advance(by: Duration) {
    tokio::time::advance(by).await;
    yield_often().await;
}

/// Lets `by` pass on an engine with a clock of its own.
pub async fn wait_out(by: Duration) {
    tokio::time::sleep(by).await;
}

/// Gives every other task of a single-threaded runtime the time to come to rest.
pub(crate) async fn yield_often() {
    const YIELDS: usize = 64;
    for _ in 0..YIELDS {
        tokio::task::yield_now().await;
    }
}
