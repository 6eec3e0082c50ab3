//! The subjects of the board: one for the state of each entry and one for its frame, one for the
//! turn of each key, and two for each consumer.
//!
//! ```text
//! vakq.<stream>.<consumer>.<making>.<key or _>.<position>.state   an entry's JSON
//! vakq.<stream>.<consumer>.<making>.<key>.turn                    whose turn it is in a key
//! vakq.<stream>.<consumer>.<making>._.pause                       until when to wait
//! vakq.<stream>.<consumer>.<making>._.fetch                       who fetches placed messages
//! vakq.<stream>.<consumer>.frame.<making>.<position>              an entry's frame
//! ```
//!
//! Everything but the frames is followed by each engine that works for the consumer, by one filter
//! that no frame matches: a frame is read by whoever claims its entry.
//!
//! A consumer that is removed and made again has another making: what somebody writes late for
//! the earlier one is nobody's.
//!

use bus_core::{Error, ErrorKind, OrderKey, Result};
use bus_subjects::{ConsumerName, StreamName};

use crate::codec::key_token;

/// The part of the board that belongs to one consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BoardPlace {
    /// `<stream>.<consumer>.`
    owner: String,
    made: String,
    /// `<stream>.<consumer>.<making>.`
    middle: String,
}

/// What a subject of the board is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BoardPart<'a> {
    /// The state of the entry at this position.
    State(u64),
    /// The turn of a key, which is the level that stands for it.
    Turn(&'a str),
    /// The pause of the consumer.
    Pause,
    /// Who fetches placed messages.
    Fetch,
}

impl BoardPlace {
    pub(crate) fn new(stream: &StreamName, consumer: &ConsumerName, made: &str) -> Self {
        // None of them has dots.
        let owner = format!("{stream}.{consumer}.");
        let middle = format!("{owner}{made}.");
        Self { owner, made: made.to_owned(), middle }
    }

    /// Where the state of an entry is kept.
    pub(crate) fn state(&self, key: Option<&OrderKey>, seq: u64) -> String {
        self.state_at(&token(key), seq)
    }

    /// The same by the level that stands for its key.
    pub(crate) fn state_at(&self, key: &str, seq: u64) -> String {
        format!("{KEPT}{}{key}.{seq}.{STATE}", self.middle)
    }

    /// Where the turn of a key is kept.
    pub(crate) fn turn(&self, key: &OrderKey) -> String {
        format!("{KEPT}{}{}.{TURN}", self.middle, key_token(key))
    }

    /// Where the pause of the consumer is kept.
    pub(crate) fn pause(&self) -> String {
        format!("{KEPT}{}{NO_KEY}.{PAUSE}", self.middle)
    }

    /// Where it is kept who fetches placed messages.
    pub(crate) fn fetch(&self) -> String {
        format!("{KEPT}{}{NO_KEY}.{FETCH}", self.middle)
    }

    /// Where the frame of an entry is kept.
    pub(crate) fn frame(&self, seq: u64) -> String {
        format!("{KEPT}{}{FRAME}.{}.{seq}", self.owner, self.made)
    }

    /// Everything of this making but the frames.
    pub(crate) fn records(&self) -> String {
        format!("{KEPT}{}>", self.middle)
    }

    /// The states of one message, or of all, of every consumer of a stream.
    pub(crate) fn all_states(stream: &StreamName, seq: Option<u64>) -> String {
        match seq {
            Some(seq) => format!("{KEPT}{stream}.*.*.*.{seq}.{STATE}"),
            None => format!("{KEPT}{stream}.*.*.*.*.{STATE}"),
        }
    }

    /// Everything of every making of this consumer.
    pub(crate) fn all(&self) -> String {
        format!("{KEPT}{}>", self.owner)
    }

    /// The stream, the consumer and the making that a kept subject belongs to.
    pub(crate) fn owner(subject: &str) -> Option<(&str, &str, &str)> {
        let mut levels = subject.strip_prefix(KEPT)?.split('.');
        Some((levels.next()?, levels.next()?, levels.next()?))
    }

    /// The making and the position of a frame of this consumer.
    pub(crate) fn frame_of<'a>(&self, subject: &'a str) -> Option<(&'a str, u64)> {
        let rest = subject.strip_prefix(KEPT)?.strip_prefix(self.owner.as_str())?;
        let (made, seq) = rest.strip_prefix(FRAME)?.strip_prefix('.')?.split_once('.')?;
        Some((made, seq.parse().ok()?))
    }

    /// Whether `made` is this making of the consumer.
    pub(crate) fn is_made(&self, made: &str) -> bool {
        self.made == made
    }

    /// What a subject of this making is about.
    ///
    /// # Errors
    /// `Corrupt` when it is none.
    pub(crate) fn part<'a>(&self, subject: &'a str) -> Result<BoardPart<'a>> {
        let corrupt =
            || Error::new(ErrorKind::Corrupt, "read board", "is no subject of it").at(subject);
        let rest = subject.strip_prefix(KEPT);
        let rest = rest.and_then(|rest| rest.strip_prefix(self.middle.as_str()));
        let mut levels = rest.ok_or_else(corrupt)?.split('.');
        let part = match (levels.next(), levels.next(), levels.next(), levels.next()) {
            (Some(key), Some(TURN), None, None) => Some(BoardPart::Turn(key)),
            (Some(_), Some(seq), Some(STATE), None) => seq.parse().ok().map(BoardPart::State),
            (Some(NO_KEY), Some(PAUSE), None, None) => Some(BoardPart::Pause),
            (Some(NO_KEY), Some(FETCH), None, None) => Some(BoardPart::Fetch),
            _ => None,
        };
        part.ok_or_else(corrupt)
    }
}

fn token(key: Option<&OrderKey>) -> String {
    key.map_or_else(|| NO_KEY.to_owned(), key_token)
}

/// Before the subjects that the board keeps.
const KEPT: &str = "vakq.";
/// Where no key stands.
const NO_KEY: &str = "_";
const STATE: &str = "state";
const PAUSE: &str = "pause";
const TURN: &str = "turn";
const FETCH: &str = "fetch";
/// In the place of a making, which is longer.
const FRAME: &str = "frame";

#[cfg(test)]
mod tests;
