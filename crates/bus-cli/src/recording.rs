//! A session that is recorded beside the work of a command.

use std::sync::{Mutex, PoisonError};

use bus_core::{Endpoint, ErrorKind, Stop};
use bus_runner::{Recorded, Recorder, RecordingPolicy};
use bus_subjects::SessionId;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::{
    error::{CliError, Exit},
    print::counted,
    workspace::Part,
};

/// A recorder at work.
pub(crate) struct Recording {
    stop: Stop,
    running: Mutex<Option<JoinHandle<bus_core::Result<Recorded>>>>,
}

/// As whom a session is recorded.
pub(crate) const PART: Part = Part::Recorder;

impl Recording {
    /// Begins to record `session`.
    ///
    /// # Errors
    /// As [`start`].
    #[expect(
        clippy::disallowed_methods,
        reason = "the command line is one of the places that spawn"
    )]
    pub(crate) async fn begin(
        endpoint: Endpoint,
        session: &SessionId,
        policy: RecordingPolicy,
    ) -> Result<Self, CliError> {
        let recorder = start(endpoint, session, policy).await?;
        let stop = Stop::default();
        let (own, name) = (stop.clone(), session.clone());
        let running = tokio::spawn(async move {
            let recorded = recorder.run(&own).await;
            if let Err(error) = &recorded {
                tracing::error!(session = %name, %error, "the session is not recorded any more");
            }
            recorded
        });
        Ok(Self { stop, running: Mutex::new(Some(running)) })
    }

    /// Stores what came until now and ends; none when it has ended before. From `hurry` on nothing
    /// is waited for any more.
    ///
    /// # Errors
    /// What it ended with.
    pub(crate) async fn finish(
        &self,
        hurry: impl Future<Output = ()>,
    ) -> Result<Option<Recorded>, CliError> {
        self.stop.drain.cancel();
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut running) = running else { return Ok(None) };
        let ended = tokio::select! {
            biased;
            ended = &mut running => ended,
            () = hurry => {
                self.stop.now.cancel();
                running.await
            }
        };
        match ended {
            Ok(recorded) => recorded.map(Some).map_err(explained),
            Err(error) => Err(CliError::new(Exit::Failed, format!("the recorder broke: {error}"))),
        }
    }
}

/// Begins to hear a session as a recorder.
///
/// # Errors
/// When the agent may not, or the engine keeps no recordings; says what to do about it.
pub(crate) async fn start(
    endpoint: Endpoint,
    session: &SessionId,
    policy: RecordingPolicy,
) -> Result<Recorder, CliError> {
    Recorder::start(endpoint, session.clone(), policy).await.map_err(explained)
}

/// The failure to record, with what to do about it.
pub(crate) fn explained(error: bus_core::Error) -> CliError {
    let next = match error.kind() {
        ErrorKind::Denied => {
            "a recorder hears and keeps: vakbus agent add NAME --role observer --role keeper"
        }
        ErrorKind::NotFound => {
            "the bus keeps no recordings yet: start its daemon again, or have who runs the \
             servers do so (vakbus up)"
        }
        ErrorKind::Conflict => "leave the recording to it, or end it and start this one again",
        ErrorKind::Full => "make room: a smaller --max, or a larger engine",
        _ => return error.into(),
    };
    CliError::from(error).next(next)
}

/// What was recorded, for people.
pub(crate) fn told(recorded: &Recorded) -> String {
    let Recorded { events, missed, refused, batches, discarded } = *recorded;
    let mut line = format!(
        "recorded {} in {}, {missed} missed",
        counted(events, "event", "events"),
        counted(batches, "batch", "batches"),
    );
    if refused > 0 {
        line.push_str(&format!(", {refused} refused"));
    }
    if discarded > 0 {
        let old = counted(discarded, "old batch", "old batches");
        line.push_str(&format!("; {old} removed to keep the bound"));
    }
    line
}

/// What was recorded, for programs.
pub(crate) fn json(recorded: &Recorded) -> Value {
    let Recorded { events, missed, refused, batches, discarded } = *recorded;
    json!({
        "events": events,
        "missed": missed,
        "refused": refused,
        "batches": batches,
        "discarded": discarded,
    })
}

/// A number of bytes, for people.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes % (1 << 30) == 0 => format!("{} GiB", bytes >> 30),
        bytes if bytes % (1 << 20) == 0 => format!("{} MiB", bytes >> 20),
        bytes if bytes % (1 << 10) == 0 => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} bytes"),
    }
}
