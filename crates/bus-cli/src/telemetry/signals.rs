//! The signals that would end the process while spans wait: heard here only where nobody else does.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Waker},
};

use bus_otel::Spans;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Whether the command itself hears signals and ends by them in its own way.
static ARE_HEARD: AtomicBool = AtomicBool::new(false);

/// Is told by whoever listens for the signals that end a process.
pub(crate) fn are_heard() {
    ARE_HEARD.store(true, Ordering::Relaxed);
}

/// Ctrl-C, SIGTERM and the hang-up of a terminal, but for those that the process was started to
/// ignore: listening would undo that.
pub(super) struct Deadly {
    heard: Vec<(SignalKind, Signal)>,
}

impl Deadly {
    /// Begins to listen. Without the system's word on what is ignored it listens for nothing.
    pub(super) fn listen() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").ok();
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let is_deadly =
            |kind: &SignalKind| status.as_ref().is_some_and(|status| !ignores(status, *kind));
        let heard = kinds
            .into_iter()
            .filter(is_deadly)
            .filter_map(|kind| Some((kind, signal(kind).ok()?)))
            .collect();
        Self { heard }
    }

    /// The next one that nobody else hears. Once the command is done nobody else does, and what
    /// the command has heard by then is not meant for here.
    pub(super) async fn next_until_done(&mut self, spans: &Spans) -> SignalKind {
        tokio::select! {
            biased;
            signal = self.next() => return signal,
            () = spans.closed() => {}
        }
        if ARE_HEARD.swap(false, Ordering::Relaxed) {
            // All listeners of a process get a signal at once: the command's are here as well.
            self.forget();
        }
        self.next().await
    }

    /// The next one that nobody else hears. Cancel safe.
    pub(super) async fn next(&mut self) -> SignalKind {
        loop {
            let kind = self.came().await;
            if !ARE_HEARD.load(Ordering::Relaxed) {
                return kind;
            }
        }
    }

    fn forget(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        for (_, signal) in &mut self.heard {
            while signal.poll_recv(&mut cx).is_ready() {}
        }
    }

    /// The next one, whoever else hears it.
    async fn came(&mut self) -> SignalKind {
        std::future::poll_fn(|cx| {
            for (kind, signal) in &mut self.heard {
                if let std::task::Poll::Ready(Some(())) = signal.poll_recv(cx) {
                    return std::task::Poll::Ready(*kind);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

/// Whether the mask of ignored signals in a process's `status` file holds `kind`.
pub(crate) fn ignores(status: &str, kind: SignalKind) -> bool {
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
