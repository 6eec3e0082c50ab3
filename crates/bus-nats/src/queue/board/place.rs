//! The subjects of the board: one for the state of each entry, one for the turn of each key, and
//! one for the pause of each consumer.
//!
//! ```text
//! vakq.<stream>.<consumer>.<making>.<key or _>.<position>.state   an entry's JSON
//! vakq.<stream>.<consumer>.<making>.<key>.turn                    whose turn it is in a key
//! vakq.<stream>.<consumer>.<making>._.pause                       until when to wait
//! ```
//!
//! A consumer that is removed and made again has another making: what somebody writes late for
//! the earlier one is nobody's.
//!
//! The key stands before the position, so that one read finds all entries of a key: a view may
//! lag behind, and a message must not overtake one of its key that the view does not know.

use bus_core::{Error, ErrorKind, OrderKey, Result};
use bus_subjects::{ConsumerName, StreamName};

use crate::codec::key_token;

/// The part of the board that belongs to one consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BoardPlace {
    /// `<stream>.<consumer>.<making>.`
    middle: String,
}

/// What a subject of the board is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BoardPart {
    /// The state of the entry at this position.
    State(u64),
    /// The turn of a key.
    Turn,
    /// The pause of the consumer.
    Pause,
}

impl BoardPlace {
    pub(crate) fn new(stream: &StreamName, consumer: &ConsumerName, made: &str) -> Self {
        // None of them has dots.
        Self { middle: format!("{stream}.{consumer}.{made}.") }
    }

    /// Where the state of an entry is kept.
    pub(crate) fn state(&self, key: Option<&OrderKey>, seq: u64) -> String {
        format!("{KEPT}{}{}.{seq}.{STATE}", self.middle, token(key))
    }

    /// Where the turn of a key is kept.
    pub(crate) fn turn(&self, key: &OrderKey) -> String {
        format!("{KEPT}{}{}.{TURN}", self.middle, key_token(key))
    }

    /// Where the pause of the consumer is kept.
    pub(crate) fn pause(&self) -> String {
        format!("{KEPT}{}{NO_KEY}.{PAUSE}", self.middle)
    }

    /// The states of all entries.
    pub(crate) fn states(&self) -> String {
        format!("{KEPT}{}*.*.{STATE}", self.middle)
    }

    /// The states of all entries of one key.
    pub(crate) fn states_of(&self, key: &OrderKey) -> String {
        format!("{KEPT}{}{}.*.{STATE}", self.middle, key_token(key))
    }

    /// Everything of this consumer as the server tells of it when it changes.
    pub(crate) fn heard(&self) -> String {
        format!("{HEARD}{}>", self.middle)
    }

    /// The states of one message, or of all, of every consumer of a stream.
    pub(crate) fn all_states(stream: &StreamName, seq: Option<u64>) -> String {
        match seq {
            Some(seq) => format!("{KEPT}{stream}.*.*.*.{seq}.{STATE}"),
            None => format!("{KEPT}{stream}.*.*.*.*.{STATE}"),
        }
    }

    /// Everything of every making of a consumer, for when it is removed.
    pub(crate) fn all_of(stream: &StreamName, consumer: &ConsumerName) -> String {
        format!("{KEPT}{stream}.{consumer}.>")
    }

    /// The stream, the consumer and the making that a kept subject belongs to.
    pub(crate) fn owner(subject: &str) -> Option<(&str, &str, &str)> {
        let mut levels = subject.strip_prefix(KEPT)?.split('.');
        Some((levels.next()?, levels.next()?, levels.next()?))
    }

    /// What a kept or heard subject of this consumer is about.
    ///
    /// # Errors
    /// `Corrupt` when it is none.
    pub(crate) fn part(&self, subject: &str) -> Result<BoardPart> {
        let corrupt =
            || Error::new(ErrorKind::Corrupt, "read board", "is no subject of it").at(subject);
        let rest = subject.strip_prefix(KEPT).or_else(|| subject.strip_prefix(HEARD));
        let rest = rest.and_then(|rest| rest.strip_prefix(self.middle.as_str()));
        let mut levels = rest.ok_or_else(corrupt)?.split('.');
        let part = match (levels.next(), levels.next(), levels.next(), levels.next()) {
            (Some(_), Some(TURN), None, None) => Some(BoardPart::Turn),
            (Some(_), Some(seq), Some(STATE), None) => seq.parse().ok().map(BoardPart::State),
            (Some(NO_KEY), Some(PAUSE), None, None) => Some(BoardPart::Pause),
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
/// Before the subjects under which the server tells of what was kept.
const HEARD: &str = "vakqr.";
/// Where no key stands.
const NO_KEY: &str = "_";
const STATE: &str = "state";
const PAUSE: &str = "pause";
const TURN: &str = "turn";

#[cfg(test)]
mod tests;
