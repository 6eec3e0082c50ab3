//! The messages of one key, one after the other.

use bus_core::{OrderKey, Result, Retention};
use bus_envelope::Timestamp;

use super::{
    super::{board::Turn, store::get},
    Clerk, Entry, OP, placed_patterns,
};
use crate::{api::GetRequest, codec::key_token};

impl Clerk {
    /// Takes the turn of an entry's key; false when another message comes first.
    pub(super) async fn take_turn(&self, entry: &Entry) -> Result<bool> {
        let Some(key) = &entry.key else { return Ok(true) };
        for _ in 0..TRIES {
            let (turn, entries) =
                tokio::join!(self.desk.board.turn(OP, key), self.desk.board.entries_of(OP, key));
            let ((revision, turn), entries) = (turn?, entries?);
            {
                let mut state = self.desk.state();
                for (revision, entry) in &entries {
                    state.put(*revision, entry.clone());
                }
            }
            let others: Vec<_> = entries.iter().map(|(_, entry)| entry.clone()).collect();
            let now: Timestamp = self.desk.now();
            match Turn::decide(turn, &others, entry.seq, now) {
                Turn::Own => {
                    let known: Vec<u64> = others.iter().map(|entry| entry.seq).collect();
                    return Ok(!self.has_unknown_before(key, entry.seq, &known).await?);
                }
                // Taken, it is looked at again: an earlier one may have become due meanwhile.
                Turn::Free => {
                    let of = (key, entry.seq);
                    if self.desk.board.take_turn(OP, of, revision).await?.is_none() {
                        return Ok(false);
                    }
                }
                Turn::Behind(first) => {
                    let ahead = entries.iter().find(|(_, entry)| entry.seq == first);
                    let Some((revision, ahead)) = ahead else { return Ok(false) };
                    if self.desk.is_stored(OP, first).await? {
                        return Ok(false);
                    }
                    self.desk.clear_entry(OP, ahead, *revision).await?;
                }
            }
        }
        Ok(false)
    }

    /// Whether the stream holds a message of a key before `seq` that is not on the board: somebody
    /// fetched it and did not write it there yet. Kept streams hold those that are done as well.
    async fn has_unknown_before(&self, key: &OrderKey, seq: u64, known: &[u64]) -> Result<bool> {
        if self.desk.stream.retention != Retention::WorkQueue {
            return Ok(false);
        }
        let token = key_token(key);
        for pattern in placed_patterns(&self.desk.spec, &self.desk.stream) {
            let pattern = pattern.replacen("*.*", &format!("*.{token}"), 1);
            let mut from = 1;
            while from < seq {
                let wanted = GetRequest {
                    seq: Some(from),
                    next_by_subj: Some(pattern.clone()),
                    ..GetRequest::default()
                };
                let stream = self.desk.spec.stream.as_str();
                let found = get(&self.desk.api, OP, stream, &wanted).await?.into_iter().next();
                let Some(found) = found.filter(|found| found.seq < seq) else { break };
                if !known.contains(&found.seq) {
                    return Ok(true);
                }
                from = found.seq + 1;
            }
        }
        Ok(false)
    }
}

/// How often the turn of a key is looked at for one claim.
const TRIES: u32 = 8;
