//! The signals by which a user or the system ends a run.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C, SIGTERM, and the hang-up of a terminal. From its making on none is missed.
pub(super) struct Signals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
    hangup: Option<Signal>,
}

impl Signals {
    /// Begins to listen. A signal that cannot be listened for keeps its usual effect.
    pub(super) fn new() -> Self {
        let hears_hangup = std::fs::read_to_string("/proc/self/status")
            .is_ok_and(|status| !ignores(&status, SignalKind::hangup()));
        Self {
            interrupt: signal(SignalKind::interrupt()).ok(),
            terminate: signal(SignalKind::terminate()).ok(),
            // `nohup` had it ignored: listening would undo that.
            hangup: hears_hangup.then(|| signal(SignalKind::hangup()).ok()).flatten(),
        }
    }

    /// Waits for the next one. Cancel safe.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            () = received(&mut self.interrupt) => {}
            () = received(&mut self.terminate) => {}
            () = received(&mut self.hangup) => {}
        }
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

/// Whether the mask of ignored signals in a process's `status` file holds `kind`.
fn ignores(status: &str, kind: SignalKind) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    let bit = u32::try_from(kind.as_raw_value() - 1).ok().and_then(|n| 1_u64.checked_shl(n));
    mask.zip(bit).is_some_and(|(mask, bit)| mask & bit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_signal_is_told_from_the_others() {
        let status = "Name:\tvakbus\nSigBlk:\tffffffffffffffff\nSigIgn:\t0000000000001001\n";
        assert!(ignores(status, SignalKind::hangup()) && ignores(status, SignalKind::pipe()));
        assert!(!ignores(status, SignalKind::interrupt()));
    }
}
