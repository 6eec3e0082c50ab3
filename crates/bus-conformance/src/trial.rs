//! Runs one case on its own thread, runtime and harness, within a limit of real time.

use std::{
    any::Any,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use tokio::runtime::{Builder, Runtime};

use crate::{
    CaseOutcome, CaseReport, Harness,
    case::Case,
    check::{CaseResult, Failure},
    context::Context,
};

/// A case together with the harness it is asked of.
pub(crate) struct Trial {
    /// The title of its area.
    pub(crate) area: &'static str,
    pub(crate) case: &'static Case,
    /// Its position in the suite, which makes its workspace name unique.
    pub(crate) number: usize,
    pub(crate) harness: Arc<dyn Harness>,
}

impl Trial {
    /// Runs the case; no answer within `limit` of real time is a failure.
    ///
    /// A case that hangs keeps its thread until the process ends.
    pub(crate) fn run(self, limit: Duration) -> CaseReport {
        let (engine, area, case) = (self.harness.name(), self.area, self.case);
        let (promises, virtual_time) = (self.harness.promises(), self.harness.virtual_time());
        let outcome = match case.excuse(&promises, virtual_time) {
            Some(reason) => CaseOutcome::NotApplicable { reason: reason.to_owned() },
            None => match self.run_on_a_thread(limit) {
                Ok(()) => CaseOutcome::Passed,
                Err(failure) => CaseOutcome::Failed { reason: failure.into_reason() },
            },
        };
        CaseReport { engine, area, case: case.name, outcome }
    }

    fn run_on_a_thread(self, limit: Duration) -> CaseResult {
        let (sender, receiver) = mpsc::sync_channel(1);
        let work = move || {
            let result = runtime(self.harness.as_ref()).and_then(|runtime| {
                let result = runtime.block_on(self.run_here());
                runtime.shutdown_background();
                result
            });
            // Nobody listens any more when the limit has passed.
            let _ignored = sender.send(result);
        };
        let thread = thread::Builder::new()
            .spawn(work)
            .map_err(|error| Failure::new(format!("no thread for the case: {error}")))?;
        match receiver.recv_timeout(limit) {
            Ok(result) => result,
            Err(mpsc::RecvTimeoutError::Timeout) => Err(Failure::new("no answer in time")),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(Failure::new(match thread.join() {
                Ok(()) => "the case ended without a result".to_owned(),
                Err(panic) => format!("panicked: {}", panic_text(panic.as_ref())),
            })),
        }
    }

    async fn run_here(self) -> CaseResult {
        let context = Context::open(self.harness, self.number).await?;
        (self.case.run)(&context).await
    }
}

pub(crate) fn runtime(harness: &dyn Harness) -> CaseResult<Runtime> {
    let built = if harness.virtual_time() {
        Builder::new_current_thread().enable_all().start_paused(true).build()
    } else {
        Builder::new_multi_thread().worker_threads(2).enable_all().build()
    };
    built.map_err(|error| Failure::new(format!("no runtime for the case: {error}")))
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without words")
}
