//! What became of an outbox record, as its courier writes it down.

use std::time::Duration;

use bus_envelope::{EventHash, Timestamp};
use bus_subjects::{AgentId, BucketKey, BucketName, StreamName, WorkspaceId};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{Delivery, Engine, Error, ErrorKind, FrameId, Put, Result, Seq};

/// A record of an outbox and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxRecord {
    /// Its id.
    pub id: FrameId,
    /// The agent whose outbox it stands in, or stood.
    pub agent: AgentId,
    /// Where it goes; `None` when it could not be read.
    pub subject: Option<String>,
    /// Its position in the stream of outboxes.
    pub seq: Seq,
    /// When it was stored there.
    pub since: Timestamp,
    /// What became of it.
    pub state: RecordState,
}

/// What became of an outbox record; kept for [`RecordState::KEPT`] after it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordState {
    /// The hub has stored it.
    AtHub {
        /// The hub's stream.
        stream: StreamName,
        /// Its position there.
        seq: Seq,
        /// When the hub's word came.
        at: Timestamp,
        /// Whether the hub knew the id already, as after an answer that was lost.
        is_duplicate: bool,
    },
    /// It is not carried; a dead letter at home holds it.
    Refused {
        /// Why.
        reason: String,
        /// When.
        at: Timestamp,
    },
    /// It was tried, and is tried again: the same bytes under the same id.
    Again {
        /// Why the last try did not do.
        why: String,
        /// How often it was tried.
        tries: u32,
        /// When it was last.
        at: Timestamp,
    },
}

impl RecordState {
    /// How long a state is kept after it was written: seven days.
    pub const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

    /// The longest reason kept, in bytes.
    pub const REASON_BYTES_MAX: usize = 1024;
}

impl OutboxRecord {
    /// The record behind a delivery of its stream, in `state`.
    pub(crate) fn of(
        delivery: &Delivery,
        agent: AgentId,
        subject: Option<String>,
        state: RecordState,
    ) -> Self {
        let (id, seq, since) = (delivery.frame.id.clone(), delivery.seq, delivery.stored);
        Self { id, agent, subject, seq, since, state }
    }

    /// Writes the state down, in place of an older one.
    pub(crate) async fn write(&self, home: &dyn Engine, workspace: &WorkspaceId) -> Result<()> {
        let put = Put::new(self.to_json()?).ttl(RecordState::KEPT);
        let key = key(&self.agent, &self.id)?;
        home.put(BucketName::outbox(workspace), key, put).await.map(drop)
    }

    /// What is known of the record `id` of `agent`; a damaged state is none.
    pub(crate) async fn find(
        home: &dyn Engine,
        workspace: &WorkspaceId,
        agent: &AgentId,
        id: &FrameId,
    ) -> Result<Option<Self>> {
        let entry = home.get(BucketName::outbox(workspace), key(agent, id)?).await?;
        Ok(entry.and_then(|entry| Self::read(&entry.value)))
    }

    /// Reads a state; `None` when it is damaged.
    pub(crate) fn read(value: &Bytes) -> Option<Self> {
        let Wire { id, agent, subject, seq, since, state } = serde_json::from_slice(value).ok()?;
        let time = |text: &str| Timestamp::parse(text).ok();
        let state = match state {
            WireState::AtHub { stream, seq, at, is_duplicate } => RecordState::AtHub {
                stream: StreamName::parse(&stream).ok()?,
                seq: Seq(seq),
                at: time(&at)?,
                is_duplicate,
            },
            WireState::Refused { reason, at } => RecordState::Refused { reason, at: time(&at)? },
            WireState::Again { why, tries, at } => {
                RecordState::Again { why, tries, at: time(&at)? }
            }
        };
        let (id, agent) = (FrameId::parse(&id).ok()?, AgentId::parse(&agent).ok()?);
        Some(Self { id, agent, subject, seq: Seq(seq), since: time(&since)?, state })
    }

    fn to_json(&self) -> Result<Vec<u8>> {
        let state = match &self.state {
            RecordState::AtHub { stream, seq, at, is_duplicate } => WireState::AtHub {
                stream: stream.to_string(),
                seq: seq.0,
                at: at.to_string(),
                is_duplicate: *is_duplicate,
            },
            RecordState::Refused { reason, at } => {
                WireState::Refused { reason: cut(reason), at: at.to_string() }
            }
            RecordState::Again { why, tries, at } => {
                WireState::Again { why: cut(why), tries: *tries, at: at.to_string() }
            }
        };
        let wire = Wire {
            id: self.id.to_string(),
            agent: self.agent.to_string(),
            subject: self.subject.clone(),
            seq: self.seq.0,
            since: self.since.to_string(),
            state,
        };
        serde_json::to_vec(&wire).map_err(|error| {
            Error::new(ErrorKind::Invalid, "outbox", "a state cannot be written as JSON")
                .because(error)
        })
    }
}

/// A state as it is written down.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    id: String,
    agent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    seq: u64,
    since: String,
    state: WireState,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum WireState {
    AtHub {
        stream: String,
        seq: u64,
        at: String,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_duplicate: bool,
    },
    Refused {
        reason: String,
        at: String,
    },
    Again {
        why: String,
        tries: u32,
        at: String,
    },
}

/// Where the state of a record stands. Ids know more characters than keys do, and two agents may
/// use the same one.
fn key(agent: &AgentId, id: &FrameId) -> Result<BucketKey> {
    let hash = EventHash::of(format!("vak-bus/outbox/v1:{agent}:{id}").as_bytes());
    Ok(BucketKey::parse(&hash.to_string())?)
}

fn cut(text: &str) -> String {
    text.get(..text.floor_char_boundary(RecordState::REASON_BYTES_MAX)).unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(state: RecordState) -> OutboxRecord {
        OutboxRecord {
            id: FrameId::parse("t-1").unwrap(),
            agent: AgentId::parse("boss").unwrap(),
            subject: Some("vak.work.w1.coder.task".to_owned()),
            seq: Seq(7),
            since: Timestamp::from_unix_ns(0),
            state,
        }
    }

    #[test]
    fn a_state_is_read_back_as_it_was_written() {
        let at = Timestamp::from_unix_ns(1_780_000_000_000_000_000);
        let stream = StreamName::parse("VAK_WORK_w1").unwrap();
        for state in [
            RecordState::AtHub { stream: stream.clone(), seq: Seq(3), at, is_duplicate: false },
            RecordState::AtHub { stream, seq: Seq(3), at, is_duplicate: true },
            RecordState::Refused { reason: "no".to_owned(), at },
            RecordState::Again { why: "away".to_owned(), tries: 2, at },
        ] {
            let written = record(state);
            let json = Bytes::from(written.to_json().unwrap());
            assert_eq!(OutboxRecord::read(&json), Some(written));
        }
    }

    #[test]
    fn a_state_is_written_as_specified() {
        let at = Timestamp::from_unix_ns(1_780_000_000_000_000_000);
        let state = RecordState::Again { why: "away".to_owned(), tries: 2, at };
        assert_eq!(
            String::from_utf8(record(state).to_json().unwrap()).unwrap(),
            "{\"id\":\"t-1\",\"agent\":\"boss\",\"subject\":\"vak.work.w1.coder.task\",\"seq\":7,\
             \"since\":\"1970-01-01T00:00:00.000000000Z\",\"state\":{\"again\":{\"why\":\"away\",\
             \"tries\":2,\"at\":\"2026-05-28T20:26:40.000000000Z\"}}}"
        );
    }

    #[test]
    fn a_damaged_state_is_none() {
        for json in ["", "{}", "[]", "{\"id\":\"t-1\"}"] {
            assert_eq!(OutboxRecord::read(&Bytes::from(json)), None, "{json}");
        }
    }

    #[test]
    fn two_agents_with_one_id_have_two_states() {
        let id = FrameId::parse("t-1").unwrap();
        let of = |agent: &str| key(&AgentId::parse(agent).unwrap(), &id).unwrap();
        assert_ne!(of("a"), of("b"));
    }

    #[test]
    fn a_long_reason_is_cut_at_a_character() {
        let reason = "ü".repeat(RecordState::REASON_BYTES_MAX);
        assert_eq!(cut(&reason).len(), RecordState::REASON_BYTES_MAX);
        assert_eq!(cut("short"), "short");
    }
}
