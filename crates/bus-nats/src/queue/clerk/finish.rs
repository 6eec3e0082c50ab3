//! What was done for good, and whose member went before the server knew of it.

use bus_core::Result;
use futures_util::future::join_all;
use tokio::time::Instant;

use super::{super::ack::ACK, Clerk, Entry, FINISH_AFTER, OP};

impl Clerk {
    /// Tells the server of tasks that were done a while ago and are still on the board: of some of
    /// them, as members wait meanwhile.
    pub(super) async fn finish_done(&mut self) {
        if self.next_finish > Instant::now() {
            return;
        }
        let now = self.desk.now();
        let unfinished = {
            let state = self.desk.state();
            if state.end.is_some() {
                return;
            }
            // Nobody else is at what was done so long ago.
            state.view.unfinished(AT_ONCE, |done| done.plus(FINISH_AFTER) <= now)
        };
        let finished = join_all(unfinished.iter().map(|one| self.finish(one))).await;
        if finished.iter().any(Result::is_err) {
            self.next_finish = Instant::now() + FINISH_AFTER;
        }
    }

    async fn finish(&self, (revision, entry): &(u64, Entry)) -> Result<()> {
        if let Err(error) = self.desk.acknowledge(OP, &entry.origin, ACK).await {
            tracing::debug!(%error, seq = entry.seq, "the server is told later that it is done");
            return Err(error);
        }
        self.desk.board.forget(entry, *revision).await;
        self.desk.state().remove(*revision, entry.seq);
        Ok(())
    }
}

/// How many are told of at once; the next turn goes on with the others.
const AT_ONCE: usize = 32;
