//! The signals that a daemon hears.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::telemetry;

/// What a signal asks of the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) enum Ask {
    /// To stop.
    Stop,
    /// To read again what may have changed.
    Reload,
}

/// SIGTERM and SIGINT, which stop, and SIGHUP, which reads again. From its making on none is
/// missed.
pub(in crate::commands) struct Asks {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
    hangup: Option<Signal>,
}

impl Asks {
    /// Begins to listen. A signal that cannot be listened for keeps its usual effect.
    pub(in crate::commands) fn new() -> Self {
        telemetry::are_heard();
        Self {
            interrupt: signal(SignalKind::interrupt()).ok(),
            terminate: signal(SignalKind::terminate()).ok(),
            hangup: signal(SignalKind::hangup()).ok(),
        }
    }

    /// Waits for the next one. Cancel safe.
    pub(in crate::commands) async fn next(&mut self) -> Ask {
        tokio::select! {
            () = received(&mut self.interrupt) => Ask::Stop,
            () = received(&mut self.terminate) => Ask::Stop,
            () = received(&mut self.hangup) => Ask::Reload,
        }
    }

    /// Waits for one that stops. Cancel safe.
    pub(in crate::commands) async fn stop(&mut self) {
        while self.next().await != Ask::Stop {}
    }
}

async fn received(signal: &mut Option<Signal>) {
    if let Some(signal) = signal
        && signal.recv().await.is_some()
    {
        return;
    }
    std::future::pending::<()>().await;
}
