//! The newest figures of every running command, whatever order its records arrive in (C30).

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use bus_envelope::MessageEnvelope;
use bus_subjects::{AgentId, SessionId};
use uuid::Uuid;

use crate::events::TelemetryRecord;

/// Holds the newest record of each attempt that was heard of lately.
///
/// Newer is what its sender numbered higher, never what arrived later. An entry goes when nothing
/// newer came for [`WINDOW_AGE_MAX`], and beyond [`WINDOW_ENTRIES_MAX`] the one that was quiet for
/// longest. What arrives after that counts as new.
#[derive(Debug, Default)]
pub struct TelemetryWindow {
    entries: HashMap<TelemetryKey, Entry>,
    /// The entries by when they were heard of, oldest first.
    order: BTreeMap<u64, TelemetryKey>,
    heard_count: u64,
}

/// One attempt of one task, at one agent in one of its lives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TelemetryKey {
    /// The agent that runs the command.
    pub agent: AgentId,
    /// The life of the agent: numbers begin again in each.
    pub incarnation: Uuid,
    /// The session that its figures were told in.
    pub session: Option<SessionId>,
    /// The task.
    pub task: String,
    /// Which attempt of it.
    pub attempt: u32,
}

/// What is known of one attempt.
#[derive(Clone, Copy, Debug)]
pub struct HeardRecord<'a> {
    /// Which attempt.
    pub key: &'a TelemetryKey,
    /// Its newest record.
    pub record: &'a TelemetryRecord,
    /// When that came, in the caller's monotonic time.
    pub at: Instant,
}

impl TelemetryKey {
    /// Returns what a record of this message is about.
    #[must_use]
    pub fn new(envelope: &MessageEnvelope, record: &TelemetryRecord) -> Self {
        Self {
            agent: envelope.lineage.agent.clone(),
            incarnation: envelope.lineage.incarnation,
            session: envelope.lineage.session.clone(),
            task: record.task.clone(),
            attempt: record.attempt,
        }
    }
}

#[derive(Debug)]
struct Entry {
    seq: u64,
    record: TelemetryRecord,
    heard: u64,
    at: Instant,
}

impl TelemetryWindow {
    /// Creates an empty window.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a record; `seq` is its message's number in its sender's life (`seq_num`), `now` the
    /// caller's monotonic time. False when the window has that number or a higher one already.
    pub fn hear(
        &mut self,
        key: TelemetryKey,
        seq: u64,
        record: TelemetryRecord,
        now: Instant,
    ) -> bool {
        if let Some(entry) = self.entries.get(&key) {
            if entry.seq >= seq {
                return false;
            }
            self.order.remove(&entry.heard);
        }
        self.heard_count += 1;
        self.order.insert(self.heard_count, key.clone());
        self.entries.insert(key, Entry { seq, record, heard: self.heard_count, at: now });
        if self.entries.len() > WINDOW_ENTRIES_MAX
            && let Some((_heard, oldest)) = self.order.pop_first()
        {
            self.entries.remove(&oldest);
        }
        true
    }

    /// Drops what was quiet for too long at `now`.
    pub fn expire(&mut self, now: Instant) {
        while let Some((heard, key)) = self.order.first_key_value() {
            let at = self.entries.get(key).map(|entry| entry.at);
            if at.is_some_and(|at| now.saturating_duration_since(at) < WINDOW_AGE_MAX) {
                return;
            }
            let heard = *heard;
            if let Some(key) = self.order.remove(&heard) {
                self.entries.remove(&key);
            }
        }
    }

    /// Returns the newest record of an attempt.
    #[must_use]
    pub fn get(&self, key: &TelemetryKey) -> Option<&TelemetryRecord> {
        self.entries.get(key).map(|entry| &entry.record)
    }

    /// Returns all of them, the one that was quiet for longest first.
    pub fn records(&self) -> impl Iterator<Item = (&TelemetryKey, &TelemetryRecord)> {
        self.heard().map(|heard| (heard.key, heard.record))
    }

    /// As [`TelemetryWindow::records`], with when each was heard.
    pub fn heard(&self) -> impl Iterator<Item = HeardRecord<'_>> {
        self.order.values().filter_map(|key| {
            let entry = self.entries.get(key)?;
            Some(HeardRecord { key, record: &entry.record, at: entry.at })
        })
    }
}

/// How long an entry stays without anything newer.
pub const WINDOW_AGE_MAX: Duration = Duration::from_secs(10);

/// How many attempts are shown at most.
pub const WINDOW_ENTRIES_MAX: usize = 4_096;

#[cfg(test)]
mod tests;
