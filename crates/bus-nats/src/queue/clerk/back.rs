//! What was claimed and is not handed out: back to the board, or to the server.

use bus_core::Result;
use tokio::time::Instant;

use super::{
    super::{ack::AGAIN, board::Standing, record::Stands},
    Clerk, Duration, Entry, OP,
};

impl Clerk {
    /// A claimed task whose frame is not found: a copy of the board may be behind, so it rests a
    /// little and keeps its key and attempt. When the frame stays away the server gives it again.
    pub(super) async fn do_without(
        &mut self,
        (entry, before): (&Entry, &Entry),
        revision: u64,
    ) -> Result<()> {
        let now = Instant::now();
        if self.frameless.len() >= FRAMELESS_MAX {
            self.frameless.clear();
        }
        let since = *self.frameless.entry(entry.seq).or_insert(now);
        if self.desk.api.has_copies() && now.duration_since(since) < FRAME_WITHIN {
            let rested = as_left(before).released(FRAME_REST, self.desk.now());
            return self.write_back(rested, revision).await;
        }
        self.frameless.remove(&entry.seq);
        tracing::warn!(seq = entry.seq, "a task on the board has no frame: the server gives it");
        self.desk.clear_entry(OP, entry, revision).await?;
        self.desk.tell_server(&entry.origin, AGAIN).await;
        // A placed one comes by the consumer of those.
        self.next_fetch = self.next_fetch.min(now + AGAIN_AFTER);
        Ok(())
    }

    /// Gives an entry back as it stood before it was claimed.
    pub(super) async fn unclaim(&self, before: &Entry, revision: u64) -> Result<()> {
        self.write_back(as_left(before), revision).await
    }

    async fn write_back(&self, entry: Entry, revision: u64) -> Result<()> {
        let written = self.desk.board.write_entry(OP, &entry, revision).await?;
        if let Some(revision) = written {
            self.desk.state().put(revision, entry);
        }
        Ok(())
    }

    /// Somebody else changed an entry: learns how it stands.
    pub(super) async fn read_again(&self, entry: &Entry, known: u64) -> Result<()> {
        let of = self.desk.board.entry(OP, entry.key.as_ref(), entry.seq).await?;
        match of {
            (revision, Stands::OnBoard(entry)) => self.desk.state().put(revision, entry),
            // A record that is wholly gone has no revision.
            (revision, Stands::Nowhere | Stands::Discarded) => {
                self.desk.state().remove(revision.max(known), entry.seq);
            }
        }
        Ok(())
    }
}

/// An entry as it stood before it was claimed: one whose lease ran out under somebody else stands
/// as that left it.
fn as_left(before: &Entry) -> Entry {
    match &before.standing {
        Standing::Held(hold) => before.clone().delivered_again(before.attempt + 1, hold.until),
        Standing::Waits { .. } | Standing::Done { .. } => before.clone(),
    }
}

/// How long the frame of a task may stay away where a copy of the board may be behind.
const FRAME_WITHIN: Duration = Duration::from_secs(5);
/// How long a task rests until its frame is looked for again.
const FRAME_REST: Duration = Duration::from_millis(250);
/// When the server has given again what it was told to.
const AGAIN_AFTER: Duration = Duration::from_millis(1_100);
/// How many tasks without a frame are remembered.
const FRAMELESS_MAX: usize = 1024;
