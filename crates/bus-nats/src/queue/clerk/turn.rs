//! The messages of one key, one after the other.

use bus_core::Result;

use super::{
    super::board::{KeyTurn, Turn},
    Clerk, Entry, OP,
};
use crate::codec::key_token;

impl Clerk {
    /// Takes the turn of an entry's key; false when another message comes first.
    ///
    /// Every message of the key that was stored before this one is on the board by now: they are
    /// fetched by one engine at a time, which puts them there in their order.
    pub(super) async fn take_turn(&mut self, entry: &Entry) -> Result<bool> {
        let Some(key) = &entry.key else { return Ok(true) };
        let (mut revision, mut turn) = self.desk.state().view.turn(&key_token(key));
        for _ in 0..TRIES {
            if self.is_behind(entry, turn) {
                return Ok(false);
            }
            let own = self.desk.board.take_turn(OP, (key, entry.seq), revision).await?;
            if let Some(own) = own {
                return Ok(self.hear_up_to(own).await? && self.has_turn(entry));
            }
            // Somebody else's, which was not heard yet, or one that is gone by now.
            (revision, turn) = self.desk.board.turn(OP, key).await?;
            if !self.hear_up_to(revision).await? {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Whether the turn is this entry's, and it comes first, by all that was heard.
    pub(super) fn has_turn(&self, entry: &Entry) -> bool {
        let Some(key) = &entry.key else { return true };
        let (_, turn) = self.desk.state().view.turn(&key_token(key));
        turn.is_some_and(|turn| turn.holder == entry.seq) && !self.is_behind(entry, turn)
    }

    fn is_behind(&self, entry: &Entry, turn: Option<KeyTurn>) -> bool {
        let Some(key) = &entry.key else { return false };
        let now = self.desk.now();
        let entries = self.desk.state().view.entries_of(key);
        matches!(Turn::decide(turn, &entries, entry.seq, now), Turn::Behind(_))
    }
}

/// How often the turn of a key is looked at for one claim.
const TRIES: u32 = 4;
