//! A command's memory and processor time as live events, every half second and at the end.

use bus_core::Job;
use bus_subjects::{Address, SessionId, Subject};
use serde::Serialize;
use tokio::{
    sync::oneshot,
    time::{Instant, MissedTickBehavior},
};

use super::{TELEMETRY, TELEMETRY_INTERVAL, about, live};
use crate::{Probe, Usage};

/// Publishes the figures of one run on the session's telemetry subject.
pub(super) struct Figures<'a> {
    job: &'a Job<'a>,
    session: &'a SessionId,
    subject: Subject,
}

/// One telemetry record (JSON). Children are not included while the command runs; the final
/// record's times include the children that it waited for.
#[derive(Debug, Serialize)]
struct Record<'a> {
    task: &'a str,
    /// Whether the command has ended and this is its last record.
    last: bool,
    rss_bytes: Option<u64>,
    cpu_ms: u64,
    /// Processor seconds a second; null: no rate yet.
    cpu_rate: Option<f64>,
    /// What `cpu_rate` was measured over.
    interval_ms: u64,
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
                self.publish(Record {
                    task: &self.job.message.envelope.id,
                    last: false,
                    rss_bytes: Some(sample.rss_bytes),
                    cpu_ms: millis(sample.cpu_time),
                    cpu_rate: sample.cpu_rate,
                    interval_ms: millis(sample.interval),
                })
                .await;
            }
        }
        std::future::pending::<()>().await;
    }

    /// Publishes what the command has used in all.
    pub(super) async fn last(&self, usage: &Usage) {
        let cpu = usage.cpu_user.saturating_add(usage.cpu_system);
        self.publish(Record {
            task: &self.job.message.envelope.id,
            last: true,
            rss_bytes: usage.peak_rss_bytes,
            cpu_ms: millis(cpu),
            cpu_rate: None,
            interval_ms: 0,
        })
        .await;
    }

    async fn publish(&self, record: Record<'_>) {
        let Ok(json) = serde_json::to_vec(&record) else { return };
        let draft = about(self.job, self.session, self.subject.clone(), TELEMETRY, json)
            .content_type("application/json");
        // Live figures are best effort: the run and its receipt do not depend on them.
        if let Err(error) = self.job.endpoint.publish(draft).await {
            tracing::warn!(task = record.task, %error, "figures were not published");
        }
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
