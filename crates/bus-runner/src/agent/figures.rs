//! A command's memory and processor time as live events, every half second and at the end.

use bus_core::Job;
use bus_subjects::{Address, SessionId, Subject};
use tokio::{
    sync::oneshot,
    time::{Instant, MissedTickBehavior},
};

use super::{TELEMETRY_INTERVAL, about, live};
use crate::{Probe, TELEMETRY, TelemetryRecord, Usage};

/// Publishes the figures of one run on the session's telemetry subject.
pub(super) struct Figures<'a> {
    job: &'a Job<'a>,
    session: &'a SessionId,
    subject: Subject,
}

impl<'a> Figures<'a> {
    pub(super) fn new(job: &'a Job<'a>, session: &'a SessionId) -> Self {
        let (workspace, session_id) = live(job.endpoint, session);
        let subject = Address::Telemetry { workspace, session: session_id }.subject();
        Self { job, session, subject }
    }

    /// Looks at the process every half second from its start; never returns.
    pub(super) async fn watch(&self, started: oneshot::Receiver<Probe>) {
        if let Ok(mut probe) = started.await {
            let mut ticks =
                tokio::time::interval_at(Instant::now() + TELEMETRY_INTERVAL, TELEMETRY_INTERVAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                let now = ticks.tick().await;
                let Some(sample) = probe.sample(now.into_std()) else { break };
                self.publish(&TelemetryRecord::running(self.task(), self.job.attempt, &sample))
                    .await;
            }
        }
        std::future::pending::<()>().await;
    }

    /// Publishes what the command has used in all.
    pub(super) async fn last(&self, usage: &Usage) {
        self.publish(&TelemetryRecord::last(self.task(), self.job.attempt, usage)).await;
    }

    fn task(&self) -> &str {
        &self.job.message.envelope.id
    }

    async fn publish(&self, record: &TelemetryRecord) {
        let subject = self.subject.clone();
        let draft = about(self.job, self.session, subject, TELEMETRY, record.to_json())
            .content_type("application/json");
        // Live figures are best effort: the run and its receipt do not depend on them.
        if let Err(error) = self.job.endpoint.publish(draft).await {
            tracing::warn!(task = %record.task, %error, "figures were not published");
        }
    }
}
