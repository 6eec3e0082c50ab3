//! What waits in outboxes, and what became of what has left them.

use std::{collections::HashMap, time::Duration};

use bus_envelope::Timestamp;
use bus_subjects::{Address, AddressKind, AgentId, BucketName, Filter};

use super::{Outbox, OutboxRecord, Record, RecordState};
use crate::{
    Error, ErrorKind, FrameId, KeyState, Replay, Result, Revision, Seq, Stored, WatchItem,
};

/// A record that waits in an outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Its id.
    pub id: FrameId,
    /// The agent whose outbox it stands in; `None` when its subject is no outbox's.
    pub agent: Option<AgentId>,
    /// Where it goes; `None` when it cannot be read.
    pub subject: Option<String>,
    /// Its position in the stream of outboxes: the order in which it is carried.
    pub seq: Seq,
    /// When it was stored.
    pub since: Timestamp,
    /// How often it was tried in vain, as far as that was written down.
    pub tries: u32,
    /// Why the last try did not do, if there was one.
    pub last_error: Option<String>,
}

/// How much an outbox holds, and what became of the rest within [`RecordState::KEPT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutboxCounts {
    /// Records that wait, or are under way.
    pub waiting: u64,
    /// The age of the oldest of them.
    pub oldest: Option<Duration>,
    /// Records that the hub has stored.
    pub at_hub: u64,
    /// Records that are not carried, without those that were sent again since and whose next copy
    /// was carried, refused or tried.
    pub refused: u64,
}

/// Records that wait, read one after the other as they are asked for, in their order.
#[must_use = "records are not read until they are asked for"]
pub struct WaitingRecords<'a> {
    outbox: &'a Outbox,
    stored: Replay,
    /// How often those that have been tried were, and why in vain, by their positions.
    tried: HashMap<Seq, (u32, String)>,
}

impl Outbox {
    /// What waits in the outbox of `agent`, or in all outboxes of the workspace.
    ///
    /// # Errors
    /// `Denied` to who may not read them; `NotFound` when the workspace has no outboxes here;
    /// `Closed`, `Unavailable`.
    pub async fn waiting(&self, agent: Option<&AgentId>) -> Result<WaitingRecords<'_>> {
        let filter = match agent.cloned() {
            Some(agent) => {
                let workspace = self.workspace.clone();
                Filter::from(&Address::Outbox { workspace, agent }.subject())
            }
            None => AddressKind::Outbox.filter(Some(&self.workspace)),
        };
        let stored = self.home.replay(self.stream()?, filter, Seq(1)).await?;
        // After the records: a state without its record is of no use.
        let mut tried = HashMap::new();
        for record in self.states().await? {
            if let RecordState::Again { why, tries, .. } = record.state {
                tried.insert(record.seq, (tries, why));
            }
        }
        Ok(WaitingRecords { outbox: self, stored, tried })
    }

    /// What became of the records of the workspace that were touched within
    /// [`RecordState::KEPT`], by whose outbox and age: those that wait untried are not among them.
    /// It holds as much as the bucket of states does.
    ///
    /// # Errors
    /// `Denied` to who may not read them; `Closed`, `Unavailable`.
    pub async fn states(&self) -> Result<Vec<OutboxRecord>> {
        let (bucket, all) = (BucketName::outbox(&self.workspace), Filter::parse("*")?);
        let mut watch = self.home.watch(bucket, all, Revision::START).await?;
        let mut known = HashMap::new();
        while let Some(item) = watch.next().await {
            match item? {
                WatchItem::Resync => known.clear(),
                WatchItem::Changed(change) => {
                    let record = match &change.state {
                        KeyState::Value(value) => OutboxRecord::read(value),
                        KeyState::Deleted | KeyState::Expired => None,
                    };
                    match record {
                        Some(record) => drop(known.insert(change.key, record)),
                        None => drop(known.remove(&change.key)),
                    }
                }
                WatchItem::Current => {
                    let mut records: Vec<OutboxRecord> = known.into_values().collect();
                    records.sort_by(|a, b| {
                        (&a.agent, a.since, a.seq).cmp(&(&b.agent, b.since, b.seq))
                    });
                    return Ok(records);
                }
            }
        }
        Err(Error::new(ErrorKind::Closed, "outbox", "the bus was closed"))
    }

    /// What became of this agent's record `id`; `None` while it was not touched, and after
    /// [`RecordState::KEPT`].
    ///
    /// # Errors
    /// As [`Outbox::states`].
    pub async fn state(&self, id: &FrameId) -> Result<Option<OutboxRecord>> {
        OutboxRecord::find(&*self.home, &self.workspace, &self.agent, id).await
    }

    /// How much waits in all outboxes of the workspace, and what became of the rest.
    ///
    /// # Errors
    /// As [`Outbox::waiting`].
    pub async fn counts(&self) -> Result<OutboxCounts> {
        let lag = self.home.lag(self.stream()?).await?;
        let waiting = lag.pending.saturating_add(lag.in_flight);
        let oldest = lag.oldest.filter(|_| waiting > 0);
        let mut counts = OutboxCounts { waiting, oldest, at_hub: 0, refused: 0 };
        let states = self.states().await?;
        let last = last_copies(&states);
        for record in &states {
            let (id, copy) = copy_of(record.id.as_str());
            match record.state {
                RecordState::AtHub { .. } => counts.at_hub += 1,
                RecordState::Refused { .. } if last.get(&(&record.agent, id)) == Some(&copy) => {
                    counts.refused += 1;
                }
                RecordState::Refused { .. } | RecordState::Again { .. } => {}
            }
        }
        Ok(counts)
    }
}

/// The number of the last copy of each record, by its author and first id.
fn last_copies(states: &[OutboxRecord]) -> HashMap<(&AgentId, &str), u32> {
    let mut last = HashMap::new();
    for record in states {
        let (id, copy) = copy_of(record.id.as_str());
        let known = last.entry((&record.agent, id)).or_insert(copy);
        *known = copy.max(*known);
    }
    last
}

/// The first id of a record, and which copy of it this is: a redrive is stored as `<id>.r<n>`.
fn copy_of(id: &str) -> (&str, u32) {
    let copy = id.rsplit_once(".r").and_then(|(first, copy)| Some((first, copy.parse().ok()?)));
    copy.unwrap_or((id, 0))
}

impl WaitingRecords<'_> {
    /// The next record; `None` at the end. Cancel safe.
    ///
    /// # Errors
    /// Those of [`crate::Bus::replay`].
    pub async fn next(&mut self) -> Option<Result<Waiting>> {
        let stored = self.stored.next().await?;
        Some(stored.map(|stored| self.of(&stored)))
    }

    fn of(&self, stored: &Stored) -> Waiting {
        let Stored { frame, seq, time } = stored;
        let agent = match Address::parse(&frame.subject) {
            Ok(Address::Outbox { agent, .. }) => Some(agent),
            _ => None,
        };
        let record = Record::unpack(&self.outbox.workspace, frame).ok();
        let (tries, last_error) = match self.tried.get(seq) {
            Some((tries, why)) => (*tries, Some(why.clone())),
            None => (0, None),
        };
        Waiting {
            id: frame.id.clone(),
            agent,
            subject: record.map(|record| record.frame.subject.to_string()),
            seq: *seq,
            since: *time,
            tries,
            last_error,
        }
    }
}

impl std::fmt::Debug for WaitingRecords<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaitingRecords").field("outbox", &self.outbox).finish_non_exhaustive()
    }
}
