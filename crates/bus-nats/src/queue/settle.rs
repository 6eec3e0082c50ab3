//! Verdicts and extensions: confirmed by the server, or refused.

use std::{collections::HashSet, sync::Arc, time::Duration};

use bus_core::{Answer, BoxFuture, Error, ErrorKind, Result, Retention, Settle, Verdict};
use bus_subjects::StreamName;
use futures_util::future::join_all;
use tokio::time::Instant;

use super::{
    ack::{ACK, PROGRESS},
    board::Entry,
    consumer::MARGIN,
    desk::{Desk, End, Hold, Step, Way, lease_from},
};
use crate::api::GetRequest;

impl Settle for Desk {
    fn stream(&self) -> &StreamName {
        &self.spec.stream
    }

    fn settle(&self, token: u64, verdict: Verdict) -> Answer<'_, ()> {
        // Taken at once: what comes later on the same delivery finds nothing.
        let hold = self.take_hold(SETTLE, token);
        Answer::later(async move { self.end_hold(hold?, verdict).await })
    }

    fn settle_all(&self, verdicts: Vec<(u64, Verdict)>) -> BoxFuture<'_, Vec<Result<()>>> {
        let taken: Vec<_> = verdicts
            .into_iter()
            .map(|(token, verdict)| (self.take_hold(SETTLE, token), verdict))
            .collect();
        Box::pin(self.end_holds(taken))
    }

    fn extend(&self, token: u64) -> Answer<'_, ()> {
        Answer::later(async move {
            let hold = self.state().holds.get(&token).map(|(hold, _)| Arc::clone(hold));
            let Some(hold) = hold else {
                return Err(self.take_hold(EXTEND, token).err().unwrap_or_else(|| {
                    // It came back between the two looks, which nothing does.
                    self.lease_lost(EXTEND)
                }));
            };
            self.extend_hold(token, &hold).await
        })
    }
}

impl Desk {
    /// Plain tasks that are done are acknowledged together, all others each by itself.
    async fn end_holds(&self, taken: Vec<(Result<Arc<Hold>>, Verdict)>) -> Vec<Result<()>> {
        let now = Instant::now();
        let mut done = Vec::new();
        for (at, (hold, verdict)) in taken.iter().enumerate() {
            let (Ok(hold), Verdict::Ack) = (hold, verdict) else { continue };
            // One that is being extended at this moment waits for that.
            let Ok(step) = hold.step.try_lock() else { continue };
            if matches!(step.way, Way::Plain) && step.deadline > now {
                done.push((at, hold.origin.clone()));
            }
        }
        if done.len() < 2 {
            return join_all(
                taken.into_iter().map(async |(hold, verdict)| self.end_hold(hold?, verdict).await),
            )
            .await;
        }
        let (places, origins): (HashSet<usize>, Vec<String>) = done.into_iter().unzip();
        let others = taken.into_iter().enumerate().map(async |(at, (hold, verdict))| {
            if places.contains(&at) {
                return None;
            }
            Some(match hold {
                Ok(hold) => self.end_hold(hold, verdict).await,
                Err(error) => Err(error),
            })
        });
        let (done, others) = tokio::join!(self.acknowledge_all(origins), join_all(others));
        let mut done = done.into_iter();
        let missing = || Err(self.lease_lost(SETTLE));
        others
            .into_iter()
            .map(|other| other.or_else(|| done.next()).unwrap_or_else(missing))
            .collect()
    }

    async fn end_hold(&self, hold: Arc<Hold>, verdict: Verdict) -> Result<()> {
        let mut step = hold.step.lock().await;
        if step.deadline <= Instant::now() {
            self.lapse(&hold, &step.way).await;
            return Err(self.lease_lost(SETTLE));
        }
        match (&mut step.way, verdict) {
            (Way::Plain, Verdict::Ack) => self.acknowledge(SETTLE, &hold.origin, ACK).await,
            (Way::Plain, Verdict::Reject { reason }) => {
                self.acknowledge(SETTLE, &hold.origin, &term(&reason)).await
            }
            (Way::Plain, Verdict::Retry { after }) => {
                let fresh = Entry::fresh((hold.seq, hold.stored), hold.origin.clone(), None);
                self.give_back(fresh.failed(after, self.now())).await
            }
            (Way::Plain, Verdict::Release { after }) => {
                let fresh = Entry::fresh((hold.seq, hold.stored), hold.origin.clone(), None);
                self.give_back(fresh.released(after, self.now())).await
            }
            (Way::Board(claim), Verdict::Ack) => {
                self.leave_board(&claim.entry, claim.revision, ACK).await
            }
            (Way::Board(claim), Verdict::Reject { reason }) => {
                self.leave_board(&claim.entry, claim.revision, &term(&reason)).await
            }
            (Way::Board(claim), Verdict::Retry { after }) => {
                let next = claim.entry.clone().failed(after, self.now());
                self.change_entry(SETTLE, (&claim.entry, next), claim.revision).await.map(drop)
            }
            (Way::Board(claim), Verdict::Release { after }) => {
                let next = claim.entry.clone().released(after, self.now());
                self.change_entry(SETTLE, (&claim.entry, next), claim.revision).await.map(drop)
            }
        }
    }

    async fn extend_hold(&self, token: u64, hold: &Hold) -> Result<()> {
        let mut step = hold.step.lock().await;
        if step.deadline <= Instant::now() {
            return Err(self.lease_lost(EXTEND));
        }
        let Step { deadline, way } = &mut *step;
        let start = Instant::now();
        match way {
            Way::Plain => self.acknowledge(EXTEND, &hold.origin, PROGRESS).await?,
            Way::Board(claim) => {
                let next = claim.entry.extended(board_lease(self.spec.lease), self.now());
                let next = next.ok_or_else(|| self.lease_lost(EXTEND))?;
                let step = (&claim.entry, next.clone());
                claim.revision = self.change_entry(EXTEND, step, claim.revision).await?;
                claim.entry = next;
            }
        }
        let until = lease_from(start, self.spec.lease);
        *deadline = until;
        if !self.state().put_off(token, until) {
            return Err(self.lease_lost(EXTEND));
        }
        // The clerk may be asleep until the old one.
        self.wake.notify_one();
        Ok(())
    }

    /// Puts a message on the board that its member gives back.
    async fn give_back(&self, entry: Entry) -> Result<()> {
        let is_there = self.is_stored(SETTLE, entry.seq);
        let (is_there, written) = tokio::join!(is_there, self.put_on_board(SETTLE, &entry));
        let Some(revision) = written? else { return Err(self.lease_lost(SETTLE)) };
        if is_there? {
            self.keep_from_server(&entry.origin).await;
            self.wake.notify_one();
            return Ok(());
        }
        self.clear_entry(SETTLE, &entry, revision).await?;
        Err(self.lease_lost(SETTLE))
    }

    /// Puts a message on the board that is not there yet; `None` when it is, and then it is known
    /// how it stands.
    pub(super) async fn put_on_board(
        &self,
        op: &'static str,
        entry: &Entry,
    ) -> Result<Option<u64>> {
        let mut expected = 0;
        for _ in 0..TRIES {
            if let Some(revision) = self.board.write_entry(op, entry, expected).await? {
                self.state().put(revision, entry.clone());
                return Ok(Some(revision));
            }
            let (revision, there) = self.board.entry(op, entry.key.as_ref(), entry.seq).await?;
            if let Some(there) = there {
                self.state().put(revision, there);
                return Ok(None);
            }
            // What stands there is what was left of an earlier time, for a second.
            expected = revision;
        }
        let why = "the place on the board changes at every try";
        Err(Error::new(ErrorKind::Unavailable, op, why).at(&self.spec.name))
    }

    /// Takes an entry off the board whose message is no more.
    pub(super) async fn clear_entry(
        &self,
        op: &'static str,
        entry: &Entry,
        revision: u64,
    ) -> Result<()> {
        let of = (entry.key.as_ref(), entry.seq);
        if let Some(removed) = self.board.remove_entry(op, of, Some(revision)).await? {
            self.state().remove(removed, entry.seq);
        }
        Ok(())
    }

    /// A message of the board leaves for good. The server's word comes first: an entry without a
    /// message is found and cleared, a message without an entry would stay for ever.
    async fn leave_board(&self, entry: &Entry, revision: u64, word: &str) -> Result<()> {
        self.acknowledge(SETTLE, &entry.origin, word).await?;
        let key = entry.key.as_ref();
        let removed = self.remove_own(entry, revision).await;
        match (removed, self.stream.retention) {
            (Ok(()), _) => {}
            // The task is gone: whoever claims its entry finds that out.
            (Err(error), Retention::WorkQueue) => {
                tracing::debug!(%error, "an entry is left behind");
            }
            // It would be handed out again.
            (Err(error), Retention::Kept | Retention::AppendOnly) => return Err(error.unknown()),
        }
        if let Some(key) = key {
            // Only tidiness: a turn whose message is gone keeps nobody out.
            if let Err(error) = self.board.end_turn(SETTLE, (key, entry.seq)).await {
                tracing::debug!(%error, "a turn is left behind");
            }
        }
        self.wake.notify_one();
        Ok(())
    }

    async fn remove_own(&self, entry: &Entry, mut expected: u64) -> Result<()> {
        let of = (entry.key.as_ref(), entry.seq);
        for _ in 0..TRIES {
            if let Some(removed) = self.board.remove_entry(SETTLE, of, Some(expected)).await? {
                self.state().remove(removed, entry.seq);
                return Ok(());
            }
            match self.revision_of(SETTLE, entry).await? {
                Some(revision) => expected = revision,
                // Somebody else put it right.
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// The revision of an entry that is still in the hands of the claim of `known`: an earlier
    /// step of it whose answer was lost may have been done.
    async fn revision_of(&self, op: &'static str, known: &Entry) -> Result<Option<u64>> {
        let (revision, there) = self.board.entry(op, known.key.as_ref(), known.seq).await?;
        Ok(there.filter(|there| there.is_of_claim(known)).map(|_| revision))
    }

    /// Writes the next state of an entry that this member holds as `known`.
    async fn change_entry(
        &self,
        op: &'static str,
        (known, next): (&Entry, Entry),
        mut expected: u64,
    ) -> Result<u64> {
        for _ in 0..TRIES {
            if let Some(revision) = self.board.write_entry(op, &next, expected).await? {
                self.state().put(revision, next);
                self.wake.notify_one();
                return Ok(revision);
            }
            let own = self.revision_of(op, known).await?;
            expected = own.ok_or_else(|| self.lease_lost(op))?;
        }
        Err(self.lease_lost(op))
    }

    /// A lease is over: what came by the server's consumer waits on the board from now on.
    pub(super) async fn lapse(&self, hold: &Hold, way: &Way) {
        let Way::Plain = way else { return };
        if self.state().end == Some(End::Gone) {
            // Another consumer has its messages now.
            return;
        }
        let fresh = Entry::fresh((hold.seq, hold.stored), hold.origin.clone(), None);
        let entry = fresh.delivered_again(2, self.now());
        let lapsed = async {
            if !self.is_stored(LAPSE, hold.seq).await? {
                return Ok(());
            }
            self.put_on_board(LAPSE, &entry).await?;
            self.keep_from_server(&hold.origin).await;
            Ok::<_, Error>(())
        };
        if let Err(error) = lapsed.await {
            // The server gives it out again by itself, a little later.
            tracing::debug!(%error, seq = hold.seq, "a lease is over, which the board is not told");
        }
        self.wake.notify_one();
    }

    /// Whether the message at `seq` is still in the stream, by the word of whoever leads it: a
    /// copy may be behind, and what is not there is cleared.
    pub(super) async fn is_stored(&self, op: &'static str, seq: u64) -> Result<bool> {
        let wanted = GetRequest { seq: Some(seq), ..GetRequest::default() };
        let verb = format!("STREAM.MSG.GET.{}", self.spec.stream);
        match self.api.call::<serde_json::Value>(op, &verb, &wanted).await {
            Ok(_) => Ok(true),
            Err(failure) if failure.err_code() == Some(NO_MESSAGE) => Ok(false),
            Err(failure) => Err(failure.into_error(op, &self.spec.stream)),
        }
    }
}

/// The word that ends a delivery for good. The server shows the reason in one line.
fn term(reason: &str) -> String {
    const REASON_MAX: usize = 256;
    let line = reason.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    format!("+TERM {}", line.take(REASON_MAX).collect::<String>())
}

const SETTLE: &str = "settle";
const EXTEND: &str = "extend";
const LAPSE: &str = "lapse";
const NO_MESSAGE: u32 = 10_037;
/// How often a step is tried that others come in between of.
const TRIES: u32 = 5;

/// How long a lease lasts for those that wait for its end.
pub(super) fn board_lease(lease: Duration) -> Duration {
    lease.saturating_add(MARGIN)
}
