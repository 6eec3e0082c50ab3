//! The signals by which a user or the system ends a run.

use std::time::Duration;

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use crate::{error::CliError, telemetry};

/// Ctrl-C, SIGTERM, and the hang-up of a terminal, and what they ask for. From its making on none
/// is missed.
pub(crate) struct Signals {
    /// Nothing more is shown, and nobody waits for a reader of the output.
    pub(super) hurry: CancellationToken,
    /// How many came while there was work to stop.
    count: u32,
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
    hangup: Option<Signal>,
}

/// What a signal asks of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// To finish what runs and start nothing more.
    Drain,
    /// To stop what runs.
    StopNow,
    /// Nothing: it is done.
    Nothing,
}

/// How long a reader of the output is waited for once somebody wants the run to end.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

impl Signals {
    /// Begins to listen. A signal that cannot be listened for keeps its usual effect.
    pub(crate) fn new() -> Self {
        telemetry::are_heard();
        let hears_hangup = std::fs::read_to_string("/proc/self/status")
            .is_ok_and(|status| !telemetry::ignores(&status, SignalKind::hangup()));
        Self {
            hurry: CancellationToken::new(),
            count: 0,
            interrupt: signal(SignalKind::interrupt()).ok(),
            terminate: signal(SignalKind::terminate()).ok(),
            // `nohup` had it ignored: listening would undo that.
            hangup: hears_hangup.then(|| signal(SignalKind::hangup()).ok()).flatten(),
        }
    }

    /// Waits for the next one and says what it asks for. Cancel safe.
    ///
    /// `is_done` says whether the tasks are done by then: there is nothing to stop any more, but
    /// the run may have to wait for a reader of its output that does not read.
    pub(crate) async fn next(&mut self, is_done: impl Fn() -> bool) -> Asked {
        self.received().await;
        self.count(is_done())
    }

    /// Waits for `beginning`, such as a server that does not answer; nothing when a signal comes
    /// first: whoever asks to end then has nothing to wait for. What was begun is dropped.
    ///
    /// # Errors
    /// Those of `beginning`.
    pub(crate) async fn unless_asked<T>(
        &mut self,
        beginning: impl Future<Output = Result<T, CliError>>,
    ) -> Result<Option<T>, CliError> {
        tokio::select! {
            biased;
            () = self.received() => Ok(None),
            begun = beginning => begun.map(Some),
        }
    }

    /// Does what is left when the tasks are done. A signal gives up the showing and lets the rest
    /// finish; a run that was interrupted before does not wait for the showing without end.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        loop {
            let is_impatient = self.count > 0 && !self.hurry.is_cancelled();
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = self.received() => self.hurry.cancel(),
                () = sleep(PATIENCE), if is_impatient => self.hurry.cancel(),
            }
        }
    }

    /// Returns when a reader of stdout was waited for long enough: a moment after a signal.
    pub(super) async fn patience(&mut self) {
        if self.count == 0 && !self.hurry.is_cancelled() {
            self.received().await;
        }
        sleep(PATIENCE).await;
    }

    fn count(&mut self, is_done: bool) -> Asked {
        if is_done {
            self.hurry.cancel();
            return Asked::Nothing;
        }
        self.count = self.count.saturating_add(1);
        if self.count == 1 {
            return Asked::Drain;
        }
        self.hurry.cancel();
        Asked::StopNow
    }

    async fn received(&mut self) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(done: &[bool]) -> (Vec<Asked>, bool) {
        let mut signals = Signals {
            hurry: CancellationToken::new(),
            count: 0,
            interrupt: None,
            terminate: None,
            hangup: None,
        };
        let asked = done.iter().map(|is_done| signals.count(*is_done)).collect();
        (asked, signals.hurry.is_cancelled())
    }

    #[test]
    fn the_first_signal_drains_and_the_second_stops() {
        assert_eq!(asked(&[false]), (vec![Asked::Drain], false));
        assert_eq!(asked(&[false, false]), (vec![Asked::Drain, Asked::StopNow], true));
    }

    #[test]
    fn a_signal_when_the_tasks_are_done_stops_nothing_and_gives_up_the_showing() {
        assert_eq!(asked(&[true, true]), (vec![Asked::Nothing; 2], true));
        assert_eq!(asked(&[false, true]), (vec![Asked::Drain, Asked::Nothing], true));
    }
}
