//! The board as it is stored: each record read by its own subject, written by compare-and-set.

use std::time::Duration;

use async_nats::HeaderMap;
use bus_core::{ErrorKind, Frame, OrderKey, Result};
use bus_envelope::Timestamp;
use bytes::Bytes;

use super::{
    board::{BoardPlace, Entry, Fetch, KeyTurn},
    follow::{Follower, Wanted},
    make::declare,
    record::{
        DISCARDED, GONE_FOR, Stands, last_word, read_pause, read_state, warn_unread, write_pause,
    },
};
use crate::{
    api::{Api, ApiFailure, GetRequest, PubAck, RawStored, new_stream_pauses},
    codec::{decode_held, encode_held, get as get_header, set},
    permissions::Layout,
    profile::Profile,
};

/// The part of the board that belongs to one consumer.
#[derive(Clone)]
pub(super) struct Board {
    pub(super) place: BoardPlace,
    api: Api,
    profile: Profile,
}

impl Board {
    pub(super) fn new(place: BoardPlace, api: Api, profile: Profile) -> Self {
        Self { place, api, profile }
    }

    /// Follows all records but the frames; makes the board where there is none. Returns also how
    /// many there are now.
    pub(super) async fn follow(&self, op: &'static str) -> Result<(Follower, u64)> {
        let wanted = Wanted { filter: self.place.records(), is_bare: false };
        let mut pauses = new_stream_pauses();
        loop {
            match Follower::open(&self.api, op, &wanted).await {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    declare(&self.api, self.profile, op).await?;
                    match pauses.next() {
                        Some(pause) => tokio::time::sleep(pause).await,
                        None => return Err(error),
                    }
                }
                opened => return opened,
            }
        }
    }

    /// How an entry stands, and its revision.
    pub(super) async fn entry(
        &self,
        op: &'static str,
        key: Option<&OrderKey>,
        seq: u64,
    ) -> Result<(u64, Stands)> {
        let Some(raw) = self.last(op, self.place.state(key, seq)).await? else {
            return Ok((0, Stands::Nowhere));
        };
        Ok((raw.seq, read_state(&raw.subject, &raw.body)))
    }

    /// How the task stands whose state is kept under `subject`.
    pub(super) async fn stands_at(&self, op: &'static str, subject: &str) -> Result<Stands> {
        let found = self.last(op, subject.to_owned()).await?;
        Ok(found.map_or(Stands::Nowhere, |raw| read_state(&raw.subject, &raw.body)))
    }

    /// The frame of an entry; `None` when there is none that can be read.
    pub(super) async fn frame(&self, op: &'static str, seq: u64) -> Result<Option<Frame>> {
        let mut pauses = new_stream_pauses().take(BEHIND_TRIES);
        loop {
            let found = self.last(op, self.place.frame(seq)).await?;
            if let Some(raw) = found.filter(|raw| get_header(&raw.headers, TTL).is_none()) {
                let read = decode_held(&raw.headers, raw.body);
                return Ok(read.inspect_err(|error| warn_unread(&raw.subject, error)).ok());
            }
            // It was stored before its entry, but the copy that answers may be behind.
            match pauses.next().filter(|_| self.api.has_copies()) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Ok(None),
            }
        }
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
        // One that nobody can read is nobody's: whoever is next takes it over.
        let turn = KeyTurn::from_json(&raw.body);
        Ok((raw.seq, turn.inspect_err(|error| warn_unread(&raw.subject, error)).ok()))
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

    /// Writes an entry that is not on the board with its frame, when `expected` is still its
    /// revision: both at once, the frame before the state that needs it.
    pub(super) async fn write_both(
        &self,
        op: &'static str,
        (entry, frame): (&Entry, &Frame),
        expected: u64,
    ) -> Result<Option<u64>> {
        let (headers, body) = encode_held(frame)?;
        let kept = self.publish(op, self.place.frame(entry.seq), headers, body);
        // In this order: the first one is sent first.
        let (kept, written) = tokio::join!(kept, self.write_entry(op, entry, expected));
        match (kept, written) {
            (Ok(_), written) => written,
            (Err(failure), Ok(Some(revision))) => {
                // A state without its frame is of no use.
                self.remove_entry(op, (entry.key.as_ref(), entry.seq), revision).await?;
                Err(failure.into_error(op, BOARD))
            }
            (Err(failure), _) => Err(failure.into_error(op, BOARD)),
        }
    }

    /// Takes an entry off the board; `None` when `expected` is not its revision any more.
    pub(super) async fn remove_entry(
        &self,
        op: &'static str,
        (key, seq): (Option<&OrderKey>, u64),
        expected: u64,
    ) -> Result<Option<u64>> {
        self.write(op, self.place.state(key, seq), Vec::new(), Some(expected)).await
    }

    /// Takes an entry that is done off the board, with its frame. Nobody waits for it: what is left
    /// is found by whoever follows.
    pub(super) async fn forget(&self, entry: &Entry, revision: u64) {
        let at = self.place.state(entry.key.as_ref(), entry.seq);
        let state = (at, Some(revision), last_word(entry));
        let none: (&[u8], _) = (&[], GONE_FOR);
        let frame = (self.place.frame(entry.seq), None, none);
        for (subject, expected, (body, ttl)) in [state, frame] {
            let sent = async {
                let (headers, body) = (headers_of(expected, Some(ttl))?, Bytes::from_static(body));
                let connection = self.api.connection();
                connection.publish(FORGET, subject, None, Some(headers), body).await
            };
            if let Err(error) = sent.await {
                tracing::debug!(%error, "a record is left behind");
            }
        }
    }

    /// Says of a task that it was taken out of its stream: whoever has it is done with it, and
    /// nobody puts it on the board again for `at_least`.
    pub(super) async fn write_discarded(
        &self,
        op: &'static str,
        subject: &str,
        at_least: Duration,
    ) -> Result<()> {
        let ttl = at_least.as_secs().saturating_add(DISCARDED_FOR).to_string();
        let headers = headers_of(None, Some(&ttl))?;
        let body = Bytes::from_static(DISCARDED);
        let written = self.publish(op, subject.to_owned(), headers, body).await;
        written.map(drop).map_err(|failure| failure.into_error(op, BOARD))
    }

    /// Takes a record off the board, whatever it holds.
    pub(super) async fn clear(
        &self,
        op: &'static str,
        subject: String,
        expected: Option<u64>,
    ) -> Result<()> {
        self.write(op, subject, Vec::new(), expected).await.map(drop)
    }

    /// Says who fetches placed messages from now on when `expected` is still the revision.
    pub(super) async fn write_fetch(
        &self,
        op: &'static str,
        fetch: &Fetch,
        expected: u64,
    ) -> Result<Option<u64>> {
        self.write(op, self.place.fetch(), fetch.to_json()?, Some(expected)).await
    }

    /// Says that nobody fetches, when `expected` is still the revision. Nobody waits for it.
    pub(super) async fn free_fetch(&self, expected: u64) -> Result<()> {
        let (subject, headers) = (self.place.fetch(), headers_of(Some(expected), None)?);
        let body = Fetch::nobody().to_json()?.into();
        self.api.connection().publish(FORGET, subject, None, Some(headers), body).await
    }

    /// Gives the turn of a key to a message when `expected` is still its revision.
    pub(super) async fn take_turn(
        &self,
        op: &'static str,
        (key, seq): (&OrderKey, u64),
        expected: u64,
    ) -> Result<Option<u64>> {
        let turn = KeyTurn { holder: seq }.to_json()?;
        let headers = headers_of(Some(expected), Some(TURN_FOR))?;
        self.write_with(op, self.place.turn(key), (headers, turn)).await
    }

    /// Tells all members until when nothing is handed out.
    pub(super) async fn write_pause(
        &self,
        op: &'static str,
        until: Option<Timestamp>,
    ) -> Result<()> {
        let body = until.map(|until| write_pause(op, until)).transpose()?;
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
        let headers = headers_of(expected, body.is_empty().then_some(GONE_FOR))?;
        self.write_with(op, subject, (headers, body)).await
    }

    async fn write_with(
        &self,
        op: &'static str,
        subject: String,
        (headers, body): (HeaderMap, Vec<u8>),
    ) -> Result<Option<u64>> {
        match self.publish(op, subject, headers, body.into()).await {
            Ok(ack) => Ok(Some(ack.seq)),
            Err(failure) if failure.is_stale() => Ok(None),
            Err(failure) => Err(failure.into_error(op, BOARD)),
        }
    }
    async fn publish(
        &self,
        op: &'static str,
        subject: String,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<PubAck, ApiFailure> {
        let mut pauses = new_stream_pauses();
        loop {
            match self.api.publish(op, &subject, headers.clone(), body.clone()).await {
                // The first record of all makes the board.
                Err(ApiFailure::Bus(error)) if error.kind() == ErrorKind::NotFound => {
                    declare(&self.api, self.profile, op).await?;
                    match pauses.next() {
                        Some(pause) => tokio::time::sleep(pause).await,
                        None => return Err(ApiFailure::Bus(error)),
                    }
                }
                written => return written,
            }
        }
    }
}

fn headers_of(expected: Option<u64>, ttl: Option<&str>) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    if let Some(expected) = expected {
        set(&mut headers, EXPECTED, &expected.to_string())?;
    }
    if let Some(ttl) = ttl {
        set(&mut headers, TTL, ttl)?;
    }
    Ok(headers)
}

/// Direct gets; of the board, which may not be there yet, nothing then.
pub(super) async fn get(
    api: &Api,
    op: &'static str,
    stream: &str,
    wanted: &GetRequest,
) -> Result<Vec<RawStored>> {
    let got = match stream {
        BOARD => api.get_if_made(op, stream, wanted).await,
        _ => api.get(op, stream, wanted).await,
    };
    got.map_err(|failure| failure.into_error(op, stream))
}

/// The stream of all boards.
pub(super) const BOARD: &str = Layout::BOARD;
const EXPECTED: &str = "Nats-Expected-Last-Subject-Sequence";
const TTL: &str = "Nats-TTL";
/// How long a turn can be seen, in seconds: longer than any claim takes.
const TURN_FOR: &str = "60";
const FORGET: &str = "settle";
/// How much longer than a lease that stands there, in seconds.
const DISCARDED_FOR: u64 = 3600;
/// How often a copy that may be behind is asked again, 42 ms in all.
const BEHIND_TRIES: usize = 5;
