//! Verdicts and extensions: confirmed by the server, or refused.

use std::{collections::HashSet, sync::Arc, time::Duration};

use async_nats::{HeaderMap, StatusCode};
use bus_core::{Answer, BoxFuture, Error, ErrorKind, Result, Retention, Settle, Verdict};
use bus_subjects::StreamName;
use bytes::Bytes;
use futures_util::{StreamExt, future::join_all};
use tokio::time::Instant;

use super::{
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

    /// Acknowledges tasks at once, and answers for each in their order.
    async fn acknowledge_all(&self, origins: Vec<String>) -> Vec<Result<()>> {
        let mut answers: Vec<Option<Result<()>>> = origins.iter().map(|_| None).collect();
        if let Err(error) = self.ask_all(&origins, &mut answers).await {
            for answer in answers.iter_mut().filter(|answer| answer.is_none()) {
                let same = Error::new(error.kind(), SETTLE, error.detail().to_owned());
                // Whatever was sent may have been done.
                let same = same.at(&self.spec.name);
                let is_lost = same.kind() == ErrorKind::LeaseLost;
                *answer = Some(Err(if is_lost { same } else { same.unknown() }));
            }
        }
        let lost = || Err(self.lease_lost(SETTLE));
        answers.into_iter().map(|answer| answer.unwrap_or_else(lost)).collect()
    }

    async fn ask_all(&self, origins: &[String], answers: &mut [Option<Result<()>>]) -> Result<()> {
        let Some(first) = origins.first() else { return Ok(()) };
        let connection = self.api.connection();
        let (inbox, mark) = (connection.new_inbox(), connection.violation_mark());
        let pattern = format!("{inbox}.*");
        let mut coming = connection.subscribe(SETTLE, pattern.clone()).await?;
        for (at, origin) in origins.iter().enumerate() {
            let (reply, word) = (format!("{inbox}.{at}"), Bytes::from_static(ACK.as_bytes()));
            connection.publish(SETTLE, origin.clone(), Some(reply), None, word).await?;
        }
        let (mut missing, mut is_unheard) = (answers.len(), false);
        let all = async {
            while missing > 0 {
                let Some(answer) = coming.next().await else { return false };
                let at = answer.subject.rsplit('.').next().and_then(|text| text.parse().ok());
                let Some(place) = at.and_then(|at: usize| answers.get_mut(at)) else { continue };
                is_unheard |= answer.status == Some(StatusCode::NO_RESPONDERS);
                if answer.status.is_none() {
                    *place = Some(Ok(()));
                }
                missing -= 1;
            }
            true
        };
        if connection.answer_on(SETTLE, mark, (first, &pattern), all).await? {
            return if is_unheard { Err(self.unheard(SETTLE).await) } else { Ok(()) };
        }
        let why = "the connection ended before all answers came";
        Err(Error::new(ErrorKind::Unavailable, SETTLE, why).unknown())
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

    /// Tells the server what became of a delivery; it answers when that is done.
    pub(super) async fn acknowledge(
        &self,
        op: &'static str,
        origin: &str,
        word: &str,
    ) -> Result<()> {
        let body = Bytes::copy_from_slice(word.as_bytes());
        let asked = self.api.connection().request(op, origin.to_owned(), None, body).await;
        match asked {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NoRecipient => Err(self.unheard(op).await),
            Err(error) => Err(error),
        }
    }

    /// Why nobody heard an acknowledgement: the consumer is gone, and the lease with it, or nobody
    /// leads it at the moment.
    async fn unheard(&self, op: &'static str) -> Error {
        match self.consumers.joined(&self.spec).await {
            Ok(made) if made == self.made => {
                let why = "nobody leads the consumer at the moment";
                Error::new(ErrorKind::Unavailable, op, why).at(&self.spec.name)
            }
            Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Conflict) => {
                Error::new(ErrorKind::Unavailable, op, "nobody hears it").because(error)
            }
            _ => self.lease_lost(op),
        }
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

    /// The server does not give out again what stands on the board. When this is lost it does,
    /// and what comes is recognised.
    pub(super) async fn keep_from_server(&self, origin: &str) {
        let word = Bytes::from_static(KEEP.as_bytes());
        let connection = self.api.connection();
        let sent = connection.publish("keep", origin.to_owned(), None, None::<HeaderMap>, word);
        if let Err(error) = sent.await {
            tracing::debug!(%error, "the server may give out again what is on the board");
        }
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
const ACK: &str = "+ACK";
const PROGRESS: &str = "+WPI";
/// An hour in nanoseconds: until then the board alone decides when it comes again. What is still
/// there then is recognised and kept for another hour, and what is on no board is found.
pub(super) const KEEP: &str = "-NAK {\"delay\": 3600000000000}";
const NO_MESSAGE: u32 = 10_037;
/// How often a step is tried that others come in between of.
const TRIES: u32 = 5;

/// How long a lease lasts for those that wait for its end.
pub(super) fn board_lease(lease: Duration) -> Duration {
    lease.saturating_add(MARGIN)
}
