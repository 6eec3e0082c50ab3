//! The commands at work, by what their runners say of them.

use std::time::{Duration, Instant};

use bus_core::{Incoming, Opened};
use bus_runner::{TELEMETRY, TelemetryKey, TelemetryRecord, TelemetryWindow};

use super::model::{AgentRow, ROWS_MAX, Rate};

/// What was heard of commands lately.
#[derive(Debug, Default)]
pub(crate) struct Agents {
    window: TelemetryWindow,
    /// Samples since they were counted last.
    samples: u64,
    rate: Rate,
    /// Samples that were lost on the way.
    missed: u64,
}

impl Agents {
    /// Takes what was heard at `now`.
    pub(crate) fn hear(&mut self, incoming: &Incoming, now: Instant) {
        match incoming {
            Incoming::Message(opened) => {
                self.samples = self.samples.saturating_add(1);
                self.sample(opened, now);
            }
            Incoming::Gap { missed } => self.missed = self.missed.saturating_add(*missed),
            Incoming::Refused(_) | Incoming::Checkpoint(_) => {}
        }
    }

    fn sample(&mut self, opened: &Opened, now: Instant) {
        let envelope = &opened.envelope;
        if envelope.event_type != TELEMETRY {
            return;
        }
        // What cannot be read is of a newer runner.
        let Ok(record) = TelemetryRecord::parse(&opened.payload) else { return };
        let key = TelemetryKey::new(envelope, &record);
        self.note(key, envelope.lineage.seq_num, record, now);
    }

    /// Takes a record; one that is older than what is known of its attempt changes nothing.
    pub(super) fn note(
        &mut self,
        key: TelemetryKey,
        seq: u64,
        record: TelemetryRecord,
        now: Instant,
    ) {
        let _is_news = self.window.hear(key, seq, record, now);
    }

    /// Counts the samples that came in the last `span`.
    pub(crate) fn count(&mut self, span: Duration) {
        self.rate.note(std::mem::take(&mut self.samples), span);
    }

    /// How many samples come, and how many were missed in all.
    pub(crate) fn heard(&self) -> (&Rate, u64) {
        (&self.rate, self.missed)
    }

    /// The commands at `now`, by agent and task; those that ended or were not heard of for a while
    /// are gone.
    pub(crate) fn rows(&mut self, now: Instant) -> Vec<AgentRow> {
        self.window.expire(now);
        let age = |at: Instant| now.saturating_duration_since(at);
        let heard = self.window.heard().filter(|heard| {
            // One that ended is not waited for.
            !heard.record.is_last || age(heard.at) < ENDED_FOR
        });
        let mut rows: Vec<AgentRow> = heard
            .map(|heard| AgentRow {
                agent: heard.key.agent.to_string(),
                life: heard.key.incarnation,
                session: heard.key.session.as_ref().map(ToString::to_string).unwrap_or_default(),
                task: heard.key.task.clone(),
                cpu: heard.record.cpu_rate,
                rss: heard.record.rss_bytes.or(heard.record.peak_rss_bytes),
                heard: age(heard.at),
                has_ended: heard.record.is_last,
            })
            .collect();
        rows.sort_by(|one, other| (&one.agent, &one.task).cmp(&(&other.agent, &other.task)));
        rows.truncate(ROWS_MAX);
        rows
    }
}

/// How long a command that ended is still shown.
const ENDED_FOR: Duration = Duration::from_secs(5);
