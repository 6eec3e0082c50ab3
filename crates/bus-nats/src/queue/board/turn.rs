//! Whose turn it is among the messages of one key.
//!
//! Two members may each try another message of a key at the same time, so the state of one entry
//! does not decide. A claim of a message with a key goes in four steps. The server tells of all
//! records in the order in which they were stored, so whoever has heard of its own one knows all
//! before it:
//!
//! 1. take the turn by compare-and-set, unless [`Turn::Behind`] says no;
//! 2. wait until that is heard, and decide again;
//! 3. claim the entry by compare-and-set;
//! 4. wait until that is heard, and when the turn is another's by then, write the entry back as it
//!    was before it was claimed and hand nothing out.
//!
//! A turn taken by a member that went away before step 3 keeps nobody out: whoever is first by
//! the rules takes it over, and step 4 stops the one that comes late. After that step the entry
//! alone holds the key, so a turn goes by itself a minute after it was taken.

use bus_core::{Error, ErrorKind, Result};
use bus_envelope::Timestamp;
use serde::{Deserialize, Serialize};

use super::entry::Entry;

/// Who has the turn of a key; a key without messages in work has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyTurn {
    /// The position of the message.
    pub(crate) holder: u64,
}

/// Whether a message may be handed out as far as its key goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It has the turn.
    Own,
    /// It may take the turn.
    Free,
    /// The message at this position comes before it.
    Behind(u64),
}

impl Turn {
    /// Decides for the message at `seq`, where `entries` are those of its key on the board that
    /// are still to be done.
    pub(crate) fn decide(
        turn: Option<KeyTurn>,
        entries: &[Entry],
        seq: u64,
        now: Timestamp,
    ) -> Self {
        match first_of_key(entries, now) {
            Some(first) if first != seq => Self::Behind(first),
            _ if turn.is_some_and(|turn| turn.holder == seq) => Self::Own,
            _ => Self::Free,
        }
    }
}

impl KeyTurn {
    /// The turn as it is stored.
    ///
    /// # Errors
    /// `Invalid` when it cannot be written.
    pub(crate) fn to_json(self) -> Result<Vec<u8>> {
        let form = TurnForm { v: VERSION, holder: self.holder };
        serde_json::to_vec(&form).map_err(|error| {
            let why = "a turn cannot be written as JSON";
            Error::new(ErrorKind::Invalid, "write board", why).because(error)
        })
    }

    /// Reads a stored turn.
    ///
    /// # Errors
    /// `Corrupt` when it is none.
    pub(crate) fn from_json(json: &[u8]) -> Result<Self> {
        let corrupt = || Error::new(ErrorKind::Corrupt, "read board", "a turn cannot be read");
        let form: TurnForm =
            serde_json::from_slice(json).map_err(|error| corrupt().because(error))?;
        if form.v != VERSION || form.holder == 0 {
            return Err(corrupt());
        }
        Ok(Self { holder: form.holder })
    }
}

/// The one message of a key that may be handed out, now or when its rest or lease ends: what was
/// handed out before holds the key; else the first one whose time has come.
fn first_of_key(entries: &[Entry], now: Timestamp) -> Option<u64> {
    let started = entries.iter().filter(|entry| entry.is_started).map(|entry| entry.seq).min();
    let due = entries.iter().filter(|entry| entry.due().since <= now).map(|entry| entry.seq);
    started.or_else(|| due.min())
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TurnForm {
    v: u8,
    holder: u64,
}

const VERSION: u8 = 1;

#[cfg(test)]
mod tests;
