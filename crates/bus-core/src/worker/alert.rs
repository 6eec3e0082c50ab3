//! Tells whoever listens that a task was given up, or could not be.

use std::time::Duration;

use bus_envelope::Draft;
use bus_subjects::{Address, SessionId};
use tokio::time::timeout;

use super::Worker;
use crate::{Alert, Error, GivenUp, LetterAlert, LetterFailedAlert, Opened, Result, Seq};

impl Worker {
    /// The dead letter of `task` is stored, at `letter` when it was this worker that stored it.
    pub(super) async fn alert_of_letter(
        &self,
        task: &str,
        opened: Option<&Opened>,
        verdict: &GivenUp,
        letter: Option<Seq>,
    ) {
        let alert = LetterAlert {
            letter: letter.map(|seq| seq.0),
            task: task.to_owned(),
            kind: verdict.cause,
            attempts: verdict.attempts,
            queue: self.spec.role.to_string(),
        };
        self.alert(opened, &Alert::DeadLetter(alert)).await;
    }

    /// The dead letter of `task` could not be stored.
    pub(super) async fn alert_of_failure(
        &self,
        task: &str,
        opened: Option<&Opened>,
        verdict: &GivenUp,
        error: &Error,
    ) {
        let alert = LetterFailedAlert {
            task: task.to_owned(),
            kind: verdict.cause,
            error_kind: error.kind().as_str().to_owned(),
            queue: self.spec.role.to_string(),
        };
        self.alert(opened, &Alert::DeadLetterFailed(alert)).await;
    }

    /// Best effort: what has to be known later stands in the letter, and no task waits for this.
    async fn alert(&self, opened: Option<&Opened>, alert: &Alert) {
        let sent = timeout(WITHIN, self.send_alert(opened, alert)).await;
        if let Ok(Err(error)) = sent {
            tracing::warn!(%error, alert = alert.event_type(), "an alert was not sent");
        } else if sent.is_err() {
            tracing::warn!(alert = alert.event_type(), "an alert was not sent in time");
        }
    }

    async fn send_alert(&self, opened: Option<&Opened>, alert: &Alert) -> Result<()> {
        let session = self.session_of(opened)?;
        let workspace = self.endpoint.workspace().clone();
        let subject = Address::Alert { workspace, session: session.clone() }.subject();
        let mut draft = Draft::new(subject, alert.event_type(), alert.to_json()?)
            .content_type("application/json")
            .session(session);
        if let Some(opened) = opened {
            draft = draft.cause(opened.hash).trace(opened.envelope.trace.clone());
        }
        self.endpoint.publish(draft).await.map(drop)
    }

    /// The worker's own session, else that of the task; a worker that has none speaks as its queue.
    fn session_of(&self, opened: Option<&Opened>) -> Result<SessionId> {
        let of_task = || opened.and_then(|opened| opened.envelope.lineage.session.clone());
        match self.endpoint.session().cloned().or_else(of_task) {
            Some(session) => Ok(session),
            None => Ok(SessionId::parse(self.spec.role.as_str())?),
        }
    }
}

/// How long an alert may take: a machine that is busy takes a second or two for it, and a bus that
/// does not take it by then has other troubles.
const WITHIN: Duration = Duration::from_secs(5);
