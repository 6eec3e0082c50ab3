//! Verdicts and extensions: confirmed by the server, or refused.

use std::{sync::Arc, time::Duration};

use bus_core::{Answer, BoxFuture, Error, ErrorKind, Frame, Result, Retention, Settle, Verdict};
use bus_subjects::StreamName;
use futures_util::future::join_all;
use tokio::time::Instant;

use super::{
    ack::{ACK, PROGRESS},
    board::Entry,
    consumer::MARGIN,
    desk::{Claim, Desk, End, Hold, Step, Way, lease_from},
    record::Stands,
};

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
        let (now, count) = (Instant::now(), taken.len());
        let (mut done, mut others) = (Vec::new(), Vec::new());
        for (at, (hold, verdict)) in taken.into_iter().enumerate() {
            match (hold, verdict) {
                (Ok(hold), Verdict::Ack) if hold.is_plain(now) => done.push((at, hold)),
                other => others.push((at, other)),
            }
        }
        if done.len() == 1 {
            others.extend(done.drain(..).map(|(at, hold)| (at, (Ok(hold), Verdict::Ack))));
        }
        let origins: Vec<&str> = done.iter().map(|(_, hold)| hold.origin.as_str()).collect();
        let ending = others.into_iter().map(async |(at, (hold, verdict))| match hold {
            Ok(hold) => (at, self.end_hold(hold, verdict).await),
            Err(error) => (at, Err(error)),
        });
        let (acknowledged, ended) = tokio::join!(self.acknowledge_all(&origins), join_all(ending));
        let gone = acknowledged.iter().zip(&done).filter(|(acknowledged, _)| acknowledged.is_ok());
        self.until_gone(gone.map(|(_, (_, hold))| hold.seq)).await;
        let mut answers: Vec<_> = (0..count).map(|_| None).collect();
        let places = done.iter().map(|&(at, _)| at);
        for (at, answer) in places.zip(acknowledged).chain(ended) {
            if let Some(place) = answers.get_mut(at) {
                *place = Some(answer);
            }
        }
        let missing = || Err(self.lease_lost(SETTLE));
        answers.into_iter().map(|answer| answer.unwrap_or_else(missing)).collect()
    }

    async fn end_hold(&self, hold: Arc<Hold>, verdict: Verdict) -> Result<()> {
        let mut step = hold.step.lock().await;
        if step.deadline <= Instant::now() {
            self.lapse(&hold, &step).await;
            return Err(self.lease_lost(SETTLE));
        }
        match (&mut step.way, verdict) {
            (Way::Plain(_), Verdict::Ack) => self.leave((&hold.origin, hold.seq), ACK).await,
            (Way::Plain(_), Verdict::Reject { reason }) => {
                self.leave((&hold.origin, hold.seq), &term(&reason)).await
            }
            (Way::Plain(frame), Verdict::Retry { after }) => {
                let fresh = Entry::fresh((hold.seq, hold.stored), hold.origin.clone(), None);
                self.give_back((fresh.failed(after, self.now()), frame)).await
            }
            (Way::Plain(frame), Verdict::Release { after }) => {
                let fresh = Entry::fresh((hold.seq, hold.stored), hold.origin.clone(), None);
                self.give_back((fresh.released(after, self.now()), frame)).await
            }
            (Way::Board(claim), Verdict::Ack) => self.leave_board(claim, ACK).await,
            (Way::Board(claim), Verdict::Reject { reason }) => {
                self.leave_board(claim, &term(&reason)).await
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
            Way::Plain(_) => self.acknowledge(EXTEND, &hold.origin, PROGRESS).await?,
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

    /// A message leaves for good.
    async fn leave(&self, (origin, seq): (&str, u64), word: &str) -> Result<()> {
        self.acknowledge(SETTLE, origin, word).await?;
        self.until_gone([seq]).await;
        Ok(())
    }

    /// What is settled is gone, for whoever looks and for the bound of the stream.
    async fn until_gone(&self, seqs: impl IntoIterator<Item = u64>) {
        // Who reads no stream by position cannot look either.
        let may_look = self.profile.replicas() > 1 && self.api.keeps_itself();
        if may_look && self.stream.retention == Retention::WorkQueue {
            self.api.until_gone(SETTLE, self.spec.stream.as_str(), seqs).await;
        }
    }

    /// Puts a message on the board that its member gives back.
    async fn give_back(&self, (entry, frame): (Entry, &Frame)) -> Result<()> {
        let written = self.put_on_board(SETTLE, (&entry, frame)).await?;
        if written.is_none() {
            return Err(self.lease_lost(SETTLE));
        }
        self.keep_from_server(&entry.origin).await;
        self.wake.notify_one();
        Ok(())
    }

    /// Puts a message on the board that is not there yet; `None` when it is, and then it is known
    /// how it stands, and when it is over: an operator discarded it, or somebody did it.
    pub(super) async fn put_on_board(
        &self,
        op: &'static str,
        (entry, frame): (&Entry, &Frame),
    ) -> Result<Option<u64>> {
        let mut expected = 0;
        for _ in 0..TRIES {
            let written = self.board.write_both(op, (entry, frame), expected).await?;
            if let Some(revision) = written {
                self.state().put(revision, entry.clone());
                return Ok(Some(revision));
            }
            let (revision, stands) = self.board.entry(op, entry.key.as_ref(), entry.seq).await?;
            match stands {
                Stands::OnBoard(there) => {
                    self.state().put(revision, there);
                    return Ok(None);
                }
                Stands::Discarded => {
                    self.state().remove(revision, entry.seq);
                    // It was written a moment ago, before the state that is refused.
                    self.board.clear(op, self.board.place.frame(entry.seq), None).await?;
                    return Ok(None);
                }
                // What stands there is what was left of an earlier time, for a second.
                Stands::Nowhere => expected = revision,
            }
        }
        let why = "the place on the board changes at every try";
        Err(Error::new(ErrorKind::Unavailable, op, why).at(&self.spec.name))
    }

    /// Takes an entry off the board that is of no use there.
    pub(super) async fn clear_entry(
        &self,
        op: &'static str,
        entry: &Entry,
        revision: u64,
    ) -> Result<()> {
        let of = (entry.key.as_ref(), entry.seq);
        if let Some(removed) = self.board.remove_entry(op, of, revision).await? {
            self.state().remove(removed, entry.seq);
        }
        Ok(())
    }

    /// A message of the board leaves for good. The board has the first word: from then on nobody
    /// gets it again, and whoever finds it there tells the server of it, should this end here.
    async fn leave_board(&self, claim: &Claim, word: &str) -> Result<()> {
        let Claim { entry, revision, .. } = claim;
        let done = entry.clone().done(self.now());
        let revision = self.change_entry(SETTLE, (entry, done), *revision).await?;
        self.leave((&entry.origin, entry.seq), word).await.map_err(Error::unknown)?;
        self.board.forget(entry, revision).await;
        self.state().remove(revision, entry.seq);
        self.wake.notify_one();
        Ok(())
    }

    /// The revision of an entry that is still in the hands of the claim of `known`: an earlier
    /// step of it whose answer was lost may have been done.
    async fn revision_of(&self, op: &'static str, known: &Entry) -> Result<Option<u64>> {
        let (revision, stands) = self.board.entry(op, known.key.as_ref(), known.seq).await?;
        let is_own = matches!(stands, Stands::OnBoard(there) if there.is_of_claim(known));
        Ok(is_own.then_some(revision))
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
    ///
    /// Once the server has given it out again it is somebody else's, who may be done with it.
    pub(super) async fn lapse(&self, hold: &Hold, step: &Step) {
        let Way::Plain(frame) = &step.way else { return };
        if step.deadline + MARGIN <= Instant::now() {
            return;
        }
        if self.state().end == Some(End::Gone) {
            // Another consumer has its messages now.
            return;
        }
        let fresh = Entry::fresh((hold.seq, hold.stored), hold.origin.clone(), None);
        let entry = fresh.delivered_again(2, self.now());
        let lapsed = async {
            self.put_on_board(LAPSE, (&entry, frame)).await?;
            self.keep_from_server(&hold.origin).await;
            Ok::<_, Error>(())
        };
        if let Err(error) = lapsed.await {
            // The server gives it out again by itself, a little later.
            tracing::debug!(%error, seq = hold.seq, "a lease is over, which the board is not told");
        }
        self.wake.notify_one();
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
/// How often a step is tried that others come in between of.
const TRIES: u32 = 5;

/// How long a lease lasts for those that wait for its end.
pub(super) fn board_lease(lease: Duration) -> Duration {
    lease.saturating_add(MARGIN)
}
