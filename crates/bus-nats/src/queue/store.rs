//! The board as it is stored: read by pages, written by compare-and-set.

use async_nats::HeaderMap;
use bus_core::{Error, ErrorKind, OrderKey, Result};
use bus_envelope::Timestamp;
use bus_subjects::{ConsumerName, StreamName};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    board::{BoardPlace, Entry, KeyTurn},
    consumer::PLACED_MARK,
    pull::Place,
};
use crate::{
    api::{Api, ApiFailure, GetRequest, RawStored, new_stream_pauses},
    codec::set,
    profile::Profile,
};

/// The part of the board that belongs to one consumer.
#[derive(Clone)]
pub(super) struct Board {
    pub(super) place: BoardPlace,
    api: Api,
    profile: Profile,
}

/// Until when a consumer hands out nothing, as it is stored.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PauseForm {
    v: u8,
    until: i128,
}

impl Board {
    pub(super) fn new(place: BoardPlace, api: Api, profile: Profile) -> Self {
        Self { place, api, profile }
    }

    /// Every entry of the consumer, with its revision.
    pub(super) async fn entries(&self, op: &'static str) -> Result<Vec<(u64, Entry)>> {
        entries(&self.api, op, self.place.states()).await
    }

    /// Every entry of one key, with its revision.
    pub(super) async fn entries_of(
        &self,
        op: &'static str,
        key: &OrderKey,
    ) -> Result<Vec<(u64, Entry)>> {
        entries(&self.api, op, self.place.states_of(key)).await
    }

    /// The state of one entry: its revision, and `None` when it is gone.
    pub(super) async fn entry(
        &self,
        op: &'static str,
        key: Option<&OrderKey>,
        seq: u64,
    ) -> Result<(u64, Option<Entry>)> {
        let Some(raw) = self.last(op, self.place.state(key, seq)).await? else {
            return Ok((0, None));
        };
        Ok((raw.seq, read_entry(&raw)))
    }

    /// Whose turn it is in a key, with the revision of that; 0 and none when it is nobody's.
    pub(super) async fn turn(
        &self,
        op: &'static str,
        key: &OrderKey,
    ) -> Result<(u64, Option<KeyTurn>)> {
        let Some(raw) = self.last(op, self.place.turn(key)).await? else { return Ok((0, None)) };
        if raw.body.is_empty() {
            return Ok((raw.seq, None));
        }
        Ok((raw.seq, Some(KeyTurn::from_json(&raw.body)?)))
    }

    /// Until when nothing is handed out.
    pub(super) async fn pause(&self, op: &'static str) -> Result<Option<Timestamp>> {
        let raw = self.last(op, self.place.pause()).await?;
        Ok(raw.and_then(|raw| read_pause(&raw.body)))
    }

    /// Writes the state of an entry when `expected` is still its revision, and returns the new
    /// one; `None` when it is not.
    pub(super) async fn write_entry(
        &self,
        op: &'static str,
        entry: &Entry,
        expected: u64,
    ) -> Result<Option<u64>> {
        let subject = self.place.state(entry.key.as_ref(), entry.seq);
        self.write(op, subject, entry.to_json()?, Some(expected)).await
    }

    /// Takes an entry off the board; `None` when `expected` is not its revision any more.
    pub(super) async fn remove_entry(
        &self,
        op: &'static str,
        (key, seq): (Option<&OrderKey>, u64),
        expected: Option<u64>,
    ) -> Result<Option<u64>> {
        self.write(op, self.place.state(key, seq), Vec::new(), expected).await
    }

    /// Gives the turn of a key to a message when `expected` is still its revision.
    pub(super) async fn take_turn(
        &self,
        op: &'static str,
        (key, seq): (&OrderKey, u64),
        expected: u64,
    ) -> Result<Option<u64>> {
        let turn = KeyTurn { holder: seq }.to_json()?;
        self.write(op, self.place.turn(key), turn, Some(expected)).await
    }

    /// Gives the turn of a key back when the message at `seq` has it.
    pub(super) async fn end_turn(
        &self,
        op: &'static str,
        (key, seq): (&OrderKey, u64),
    ) -> Result<()> {
        let (revision, turn) = self.turn(op, key).await?;
        if turn.is_some_and(|turn| turn.holder == seq) {
            self.write(op, self.place.turn(key), Vec::new(), Some(revision)).await?;
        }
        Ok(())
    }

    /// Tells all members until when nothing is handed out.
    pub(super) async fn write_pause(
        &self,
        op: &'static str,
        until: Option<Timestamp>,
    ) -> Result<()> {
        let form = until.map(|until| PauseForm { v: VERSION, until: until.unix_ns() });
        let body = form.map(|form| serde_json::to_vec(&form)).transpose().map_err(|error| {
            Error::new(ErrorKind::Invalid, op, "cannot be written as JSON").because(error)
        })?;
        self.write(op, self.place.pause(), body.unwrap_or_default(), None).await?;
        Ok(())
    }

    async fn last(&self, op: &'static str, subject: String) -> Result<Option<RawStored>> {
        let wanted = GetRequest { last_by_subj: Some(subject), ..GetRequest::default() };
        Ok(get(&self.api, op, BOARD, &wanted).await?.into_iter().next())
    }

    /// Stores a record; an empty one says that there is none any more, and goes by itself.
    async fn write(
        &self,
        op: &'static str,
        subject: String,
        body: Vec<u8>,
        expected: Option<u64>,
    ) -> Result<Option<u64>> {
        let mut headers = HeaderMap::new();
        if let Some(expected) = expected {
            set(&mut headers, EXPECTED, &expected.to_string())?;
        }
        if body.is_empty() {
            set(&mut headers, TTL, GONE_FOR)?;
        }
        let body = Bytes::from(body);
        let publish = || self.api.publish(op, subject.clone(), headers.clone(), body.clone());
        let mut pauses = new_stream_pauses();
        let written = loop {
            match publish().await {
                // The first record of all makes the board.
                Err(ApiFailure::Bus(error)) if error.kind() == ErrorKind::NotFound => {
                    self.declare(op).await?;
                    match pauses.next() {
                        Some(pause) => tokio::time::sleep(pause).await,
                        None => break Err(ApiFailure::Bus(error)),
                    }
                }
                written => break written,
            }
        };
        match written {
            Ok(ack) => Ok(Some(ack.seq)),
            Err(failure) if failure.is_stale() => Ok(None),
            Err(failure) => Err(failure.into_error(op, BOARD)),
        }
    }

    async fn declare(&self, op: &'static str) -> Result<()> {
        let config = json!({
            "name": BOARD,
            "subjects": ["vakq.>"],
            "retention": "limits",
            "storage": "file",
            "discard": "old",
            "max_msgs_per_subject": 1,
            "num_replicas": self.profile.replicas(),
            "allow_direct": true,
            "allow_msg_ttl": true,
            "republish": { "src": "vakq.>", "dest": "vakqr.>" },
        });
        let asked = self.api.call::<Value>(op, &format!("STREAM.CREATE.{BOARD}"), &config).await;
        asked.map(drop).map_err(|failure| failure.into_error(op, BOARD))
    }
}

/// Clears everything of every making of a consumer.
pub(super) async fn clear(
    api: &Api,
    op: &'static str,
    (stream, name): (&StreamName, &ConsumerName),
) -> Result<()> {
    let body = json!({ "filter": BoardPlace::all_of(stream, name) });
    let asked = api.call::<Value>(op, &format!("STREAM.PURGE.{BOARD}"), &body).await;
    match asked.map_err(|failure| failure.into_error(op, BOARD)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

async fn entries(api: &Api, op: &'static str, filter: String) -> Result<Vec<(u64, Entry)>> {
    let found = read_entries(api, op, filter).await?;
    Ok(found.into_iter().map(|(_, revision, entry)| (revision, entry)).collect())
}

/// The entries of several consumers under `filter`, with their subjects and revisions.
pub(super) async fn read_entries(
    api: &Api,
    op: &'static str,
    filter: String,
) -> Result<Vec<(String, u64, Entry)>> {
    let mut entries = Vec::new();
    let mut from = 1;
    loop {
        let wanted = GetRequest {
            seq: Some(from),
            next_by_subj: Some(filter.clone()),
            batch: Some(PAGE),
            ..GetRequest::default()
        };
        let page = get(api, op, BOARD, &wanted).await?;
        let Some(last) = page.last() else { return Ok(entries) };
        from = last.seq + 1;
        entries.extend(page.into_iter().filter_map(|raw| {
            let entry = read_entry(&raw)?;
            Some((raw.subject, raw.seq, entry))
        }));
    }
}

/// Direct gets; of the board, which may not be there yet, nothing then.
pub(super) async fn get(
    api: &Api,
    op: &'static str,
    stream: &str,
    wanted: &GetRequest,
) -> Result<Vec<RawStored>> {
    match api.get(op, stream, wanted).await.map_err(|failure| failure.into_error(op, stream)) {
        Err(error) if error.kind() == ErrorKind::NotFound && stream == BOARD => Ok(Vec::new()),
        got => got,
    }
}

/// The entry in a record; `None` for one that is gone, and for what no engine wrote.
pub(super) fn read_entry(raw: &RawStored) -> Option<Entry> {
    read_state(&raw.subject, &raw.body)
}

/// As [`read_entry`], of a record that the server tells of.
pub(super) fn read_state(subject: &str, body: &[u8]) -> Option<Entry> {
    if body.is_empty() {
        return None;
    }
    let read = Entry::from_json(body);
    let why = match read {
        Ok(entry) if belongs(subject, &entry) => return Some(entry),
        Ok(_) => "it is about another task".to_owned(),
        Err(error) => error.to_string(),
    };
    tracing::warn!(subject, why, "a record on the board is left alone");
    None
}

/// Whether an entry says about itself what its subject says: nothing is acknowledged but the task
/// that it stands for, whoever wrote it.
fn belongs(subject: &str, entry: &Entry) -> bool {
    let Some((stream, name, making)) = BoardPlace::owner(subject) else { return false };
    let (Ok(stream_name), Ok(consumer)) = (StreamName::parse(stream), ConsumerName::parse(name))
    else {
        return false;
    };
    let place = BoardPlace::new(&stream_name, &consumer, making);
    let is_there = place.state(entry.key.as_ref(), entry.seq) == subject;
    let is_own =
        |(of, by): (&str, &str)| of == stream && by.strip_suffix(PLACED_MARK).unwrap_or(by) == name;
    let origin = Place::read(&entry.origin).filter(|origin| origin.seq == entry.seq);
    is_there && origin.is_some() && Place::of(&entry.origin).is_some_and(is_own)
}

/// The time in a pause record; `None` when it was lifted.
pub(super) fn read_pause(body: &[u8]) -> Option<Timestamp> {
    let form: PauseForm = serde_json::from_slice(body).ok()?;
    (form.v == VERSION).then(|| Timestamp::from_unix_ns(form.until))
}

/// The stream of all boards.
pub(super) const BOARD: &str = "VAK_BOARD";
const EXPECTED: &str = "Nats-Expected-Last-Subject-Sequence";
const TTL: &str = "Nats-TTL";
/// How long it can be seen that a record is gone, in seconds.
const GONE_FOR: &str = "1";
const PAGE: usize = 500;
const VERSION: u8 = 1;
